"""Fine-tune a base model for a task, so that a comparison can explain it: as a command, and on first use as a source."""

import json
import logging
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, field, fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from omegaconf import DictConfig
from torch.utils.data import Sampler
from transformers import (
    EarlyStoppingCallback,
    EvalPrediction,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)
from transformers.trainer_pt_utils import get_length_grouped_indices

from benchmark import progress
from benchmark.errors import UserError
from benchmark.models.checkpoints import quiet_transformers, reads_images
from benchmark.models.weights import existing_source
from benchmark.randomness import generator
from benchmark.results.cache import atomic_path
from benchmark.results.digests import digest
from benchmark.results.locks import beside
from benchmark.settings.availability import needs
from benchmark.settings.declared import Above, AtLeast, Count, Natural, SettingError, Share, configurable
from benchmark.settings.making import make
from benchmark.training.cached import checkpoint_directory, discard, discard_foreign, is_whole, source_digest
from benchmark.training.cached import finish as finish_checkpoint
from benchmark.training.options import choice_loss, choices_right, options_of
from benchmark.training.prepared import Masks, config_for, prepare_images, prepare_texts
from benchmark.training.sources import Loading
from benchmark.types import Task

logger = logging.getLogger(__name__)


@configurable
class Recipe:
    """How to fine-tune.

    Attributes:
        epochs: passes over the training split, at most.
        batch_size: examples per step.
        learning_rate: AdamW's peak, between a linear warm-up over a tenth of the steps and a linear decay.
        max_length: tokens of an example; None for the model's window.
        freeze: blocks that stay as they are, and everything before them. Those of an image model read each image once, and
            training goes on from what they make of it. 0: all weights are trained.
        read_once: the frozen blocks of a text model read each text once, too, without dropout, and no epoch runs them; what
            they make of all texts is held in memory, 4 bytes × tokens × hidden size. Not with `mask_share`, as words are
            hidden anew in every batch.
        checks_per_epoch: how often validation accuracy is measured and a checkpoint written.
        patience: training stops after so many checks without a better accuracy.
        mask_share: in half of a batch's texts the mask token replaces a share of the tokens that is drawn from
            [0, mask_share]; 1 makes removals something that the model knows. The best checkpoint is then that with the
            highest accuracy on validation texts and on a masked copy of them, whose masks are drawn once.
        group_by_length: a batch holds texts of similar length, so that little of it is padding: of fifty batches, drawn
            anew in each epoch, the texts are sorted. Faster, and another order of examples.
        loss: `examples`: cross entropy of each example's class. `options`: of a multiple-choice task, cross entropy of the
            right option among all of its question (`benchmark.training.options.choice_loss`); a batch then holds whole
            questions, at least one, and validation accuracy is the share of questions whose right option has the
            largest probability of the second class.
        seed: of the classifier's first weights, of the order of examples and of what is masked.

    Source of the masks: Madsen et al. 2024 (faithfulness measurable models), whose program masks the first half of a batch;
    here a coin decides for every text.
    """

    epochs: Count = 3
    batch_size: Count = 16
    learning_rate: Annotated[float, Above(0)] = 2e-5
    max_length: Annotated[int, AtLeast(4)] | None = None
    freeze: Natural = 0
    checks_per_epoch: Count = 2
    patience: Count = 4
    mask_share: Share = 0.0
    read_once: bool = False
    group_by_length: bool = False
    loss: Literal["examples", "options"] = "examples"
    seed: Natural = 0

    def __post_init__(self) -> None:
        if self.read_once and (not self.freeze or self.mask_share):
            allowed = "true with freeze above 0 and mask_share=0, else false"
            raise SettingError("read_once", self.read_once, allowed)

    def used(self) -> dict[str, Any]:
        """The settings, without those that are not used and that records of earlier releases do not have."""
        names = ("freeze", "read_once", "mask_share", "group_by_length", "loss")
        later = {part.name: part.default for part in fields(Recipe) if part.name in names}
        return {name: value for name, value in asdict(self).items() if name not in later or value != later[name]}


@configurable
class FineTuned(Recipe, Loading):
    """A checkpoint fine-tuned for the task by `benchmark.training.finetune.finetune`, kept in the cache.

    Attributes:
        base: directory or hub id of an encoder or a classifier.
        task: from which it learns; None: the comparison's.

    Raises:
        UserError: accelerate is not installed; and what `finetune` raises.
    """

    learns_hidden: ClassVar[Literal[True]] = True

    base: str = field(kw_only=True)
    task: Task | None = None

    def resolve(self, task: Task) -> str:
        """Directory of the checkpoint for the comparison's task, or for its own; trains it where the cache has none."""
        recipe = Recipe(**{part.name: getattr(self, part.name) for part in fields(Recipe)})
        return finetuned_for(self.task or task, self.base, recipe)


def run_training(config: DictConfig) -> dict[str, Any]:
    """Fine-tune what a configuration of `conf/train.yaml` describes; returns the record of `finetune`.

    Raises:
        UserError: accelerate is not installed, which transformers' Trainer needs; the task has prompts for a language model;
            and what `finetune` raises.
    """
    needs("accelerate", "python -m benchmark.train")
    task: Task = make(config.task, Task)
    if any(example.candidates for example in task.split("train")[:1]):
        raise UserError(
            f"the task {task.name} asks for the next token, and what is trained here is a classifier; of language models "
            "model=tiny_lm alone is trained, by the comparison that first asks for it"
        )
    return finetune(task, str(config.model.path), Path(config.out), make(config.recipe))


def finetune(
    task: Task, base: str, out: Path, recipe: Recipe, finish: Callable[[Path], None] | None = None
) -> dict[str, Any]:
    """Fine-tune `base` for `task` and keep the weights with the best validation accuracy.

    `out` appears in one step when everything is finished: an ordinary checkpoint with the task's label names, its tokenizer
    or image processor, and `training.json`. Until then checkpoints lie in a hidden folder beside it, named by a digest of
    task, base and recipe. After a kill, the same call goes on from the last complete checkpoint. A finished `out` of the
    same call is returned as it is; of several equal calls at the same time one trains, and the others wait for it. Training
    is in float32, on the GPU where there is one.

    Args:
        task: gives the training and validation splits.
        base: directory or hub id of an encoder or a classifier, of texts or images; its classifier is replaced where it
            does not fit.
        out: where the checkpoint goes.
        recipe: how to train.
        finish: adds to the checkpoint, before it appears, what says that it is whole; nobody else may write it then.

    Returns:
        Content of `training.json`: validation accuracy, the step it was reached at, all steps, task, base and recipe.

    Raises:
        UserError: `out` holds something else or cannot be written, or the base or the task cannot be used.
    """
    about: dict[str, Any] = {
        "task": task.name,
        "fingerprint": task.fingerprint,
        "labels": list(task.labels),
        "base": base,
    }
    about["recipe"] = recipe.used()
    if out.exists():
        return _finished(out, about)
    source = existing_source(base)
    work = out.absolute().parent / f".{out.name}-training-{digest(about)[:12]}"
    lock = beside(out.absolute(), f"training of {out}")
    with _writable(out):
        lock.acquire(wait=True)
    try:
        return _finished(out, about) if out.exists() else _trained(task, source, out, work, recipe, about, finish)
    finally:
        lock.release()


def finetuned_for(task: Task, base: str, recipe: Recipe, *, told: bool = True) -> str:
    """Directory in the cache of a base that is fine-tuned for a task; trained where it is not there.

    Args:
        task: gives the training and validation splits.
        base: directory or hub id.
        recipe: how to train.
        told: whether accuracies are logged; of dozens of trainings they are not.
    """
    needs("accelerate", "model=finetuned")
    digest = source_digest(existing_source(base))
    covered = [1, task.fingerprint, list(task.labels), base, digest, {**recipe.used(), "freeze": recipe.freeze}]
    directory = checkpoint_directory("finetuned", covered)
    if not is_whole(directory):
        directory.parent.mkdir(parents=True, exist_ok=True)
        with beside(directory, "the fine-tuned model"):
            discard(directory, "the fine-tuned model")
        level = logger.level
        logger.setLevel(level if told else logging.WARNING)
        try:
            finetune(task, base, directory, recipe, finish_checkpoint)
        finally:
            logger.setLevel(level)
    return str(directory)


def _trained(
    task: Task,
    source: str,
    out: Path,
    work: Path,
    recipe: Recipe,
    about: dict[str, Any],
    finish: Callable[[Path], None] | None,
) -> dict[str, Any]:
    """Train, or go on where a kill ended it; the lock of `out` must be held."""
    with _writable(out):
        discard_foreign(work)
        work.mkdir(parents=True, exist_ok=True)
        work.chmod(work.stat().st_mode & ~0o022)
    with quiet_transformers():
        trainer, tokenizer = _trainer(task, source, work, recipe)
        _fit(trainer, _last_complete(work))
        with progress.step("measuring the best checkpoint's accuracy"):
            accuracies = _accuracies(trainer, recipe)
    accuracy = accuracies["validation"]
    record = {**about, "accuracy": accuracies, "best_step": trainer.state.best_global_step}
    record["steps"] = trainer.state.global_step
    with atomic_path(out, 0 if finish is None else 0o022) as temporary, quiet_transformers():
        trainer.model.save_pretrained(temporary)
        tokenizer.save_pretrained(temporary)
        (temporary / "training.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        if finish is not None:
            finish(temporary)
    shutil.rmtree(work, ignore_errors=True)
    logger.info("validation accuracy %.4f; use it with model=hf model.path=%s", accuracy, out)
    return record


@contextmanager
def _writable(out: Path) -> Iterator[None]:
    """UserError where nothing can be put beside `out`."""
    try:
        yield
    except OSError as error:
        raise UserError(f"out={out} cannot be written ({error.strerror}); choose another directory") from error


def _fit(trainer: Trainer, checkpoint: str | None) -> None:
    """All steps, or those behind a checkpoint."""
    args = trainer.args
    steps = int(args.num_train_epochs) * -(-len(trainer.train_dataset) // args.train_batch_size)
    done = 0 if checkpoint is None else int(checkpoint.rpartition("-")[2])
    with progress.step("fine-tuning", steps, done=done, unit="steps") as advance:
        trainer.add_callback(_TellSteps(advance))
        trainer.train(resume_from_checkpoint=checkpoint)


def _finished(out: Path, about: dict[str, Any]) -> dict[str, Any]:
    """The record of a directory that the same call made; UserError for anything else."""
    try:
        record: dict[str, Any] = json.loads((out / "training.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        record = {}
    if {name: record.get(name) for name in about} != about:
        raise UserError(f"out={out} exists and holds something else; choose another directory or remove it")
    logger.info("%s is finished already (validation accuracy %.4f)", out, record["accuracy"]["validation"])
    return record


def _last_complete(work: Path) -> str | None:
    """The newest checkpoint that was written to its end; later, half-written ones are removed."""
    numbered = {int(path.name.removeprefix("checkpoint-")): path for path in work.glob("checkpoint-*")}
    for _, checkpoint in sorted(numbered.items(), reverse=True):
        try:
            json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))  # the last file to be written
        except (OSError, ValueError):
            shutil.rmtree(checkpoint)
        else:
            logger.info("going on from %s", checkpoint.name)
            return str(checkpoint)
    return None


def _accuracies(trainer: Trainer, recipe: Recipe) -> dict[str, float]:
    """Of the best checkpoint on validation texts, and on those that are masked where some are."""
    if not recipe.mask_share:
        return {"validation": trainer.evaluate()["eval_accuracy"]}
    both, half = trainer.eval_dataset, len(trainer.eval_dataset) // 2
    parts = {"validation": both[:half], "masked validation": both[half:]}
    return {name: trainer.evaluate(part)["eval_accuracy"] for name, part in parts.items()}


def _length(item: Mapping[str, Any]) -> int:
    """Tokens of an encoded text."""
    return len(item["input_ids"])


def _together(items: Sequence[Any], options: int) -> list[Sequence[Any]]:
    """The items in groups of so many, one behind the other."""
    return [items[start : start + options] for start in range(0, len(items), options)]


class _Order(Sampler[int]):
    """The order of an epoch in which texts that belong together stay so; a resumed epoch has the order of the killed one.

    Args:
        lengths: tokens of each text.
        options: so many texts, one behind the other, stay together; 1 where each stands for itself.
        batch_size: texts in a batch, a multiple of `options`.
        by_length: whether a batch holds texts of similar length.
        seed: of the training.
    """

    def __init__(self, lengths: Sequence[int], options: int, batch_size: int, *, by_length: bool, seed: int) -> None:
        self.options, self.batch_size, self.by_length, self.seed = options, batch_size, by_length, seed
        self.lengths = [max(group) for group in _together(lengths, options)]
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Told by the trainer before each epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.lengths) * self.options

    def __iter__(self) -> Iterator[int]:
        seed = int(generator(self.seed, "order of texts", str(self.epoch)).integers(2**63))
        drawn = torch.Generator().manual_seed(seed)
        if self.by_length:
            order = get_length_grouped_indices(self.lengths, self.batch_size // self.options, generator=drawn)
        else:
            order = torch.randperm(len(self.lengths), generator=drawn).tolist()
        return iter([self.options * group + option for group in order for option in range(self.options)])


class _Trainer(Trainer):  # type: ignore[misc]  # untyped in transformers
    """Hides words of every batch, groups texts by length, and compares options of a question, where the recipe says so.

    Args:
        masks: how words are hidden; None: none are.
        recipe: of the training.
        options: so many texts, one behind the other, are the options of a question; 1 where each stands for itself.
        settings: of transformers' trainer.
    """

    def __init__(self, masks: Masks | None, recipe: Recipe, options: int, **settings: Any) -> None:
        super().__init__(**settings)
        self.masks, self.recipe, self.options = masks, recipe, options

    def training_step(self, model: Any, inputs: dict[str, Any], *more: Any, **others: Any) -> Any:
        """A step on the batch with words hidden; torch's generator draws, whose state a checkpoint keeps."""
        if self.masks is not None:
            inputs = {**inputs, "input_ids": self.masks.in_training(inputs["input_ids"])}
        return super().training_step(model, inputs, *more, **others)

    def compute_loss(self, model: Any, inputs: dict[str, Any], *more: Any, **others: Any) -> Any:
        """That of each text, or of the options of each question."""
        if self.options == 1:
            return super().compute_loss(model, inputs, *more, **others)
        outputs = model(**{name: value for name, value in inputs.items() if name != "labels"})
        loss = choice_loss(outputs.logits, inputs["labels"], self.options)
        return (loss, outputs) if others.get("return_outputs") else loss

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        """Transformers' own sampler by length draws from torch's generator, which a resumed epoch finds in another state."""
        if not self.recipe.group_by_length and self.options == 1:
            return super()._get_train_sampler(train_dataset)
        lengths = [_length(item) for item in self.train_dataset]
        batch_size = self.args.per_device_train_batch_size
        return _Order(lengths, self.options, batch_size, by_length=self.recipe.group_by_length, seed=self.recipe.seed)


def _trainer(task: Task, source: str, work: Path, recipe: Recipe) -> tuple[Trainer, Any]:
    """A trainer of the base with a classifier for the task's labels, and its tokenizer or image processor."""
    config = config_for(task, source)
    learned: Task = getattr(task, "learned_from", task)
    options = options_of(learned) if recipe.loss == "options" else 1
    if reads_images(config):
        _only_of_texts(recipe)
        prepared = prepare_images(learned, source, config, recipe.seed, recipe.freeze)
    else:
        texts = recipe.max_length, recipe.freeze, recipe.mask_share
        prepared = prepare_texts(learned, source, config, recipe.seed, *texts, once=recipe.read_once)
    validation = prepared.validation
    if recipe.group_by_length:
        validation = _by_length(validation, options)
    if prepared.masks is not None:
        validation = [*validation, *prepared.masks.held_out(validation, recipe.seed)]
    arguments = _arguments(work, recipe, len(prepared.train), options)
    kept = reads_images(config) or recipe.read_once
    arguments.remove_unused_columns = not kept  # what goes on from kept states takes other inputs
    trainer = _Trainer(
        prepared.masks,
        recipe,
        options,
        model=prepared.model,
        args=arguments,
        train_dataset=prepared.train,
        eval_dataset=validation,
        data_collator=prepared.collate,
        compute_metrics=partial(_accuracy, options=options),
        callbacks=[EarlyStoppingCallback(recipe.patience), _LogAccuracy()],
    )
    trainer.remove_callback(PrinterCallback)
    return trainer, prepared.encoder


def _by_length(items: Sequence[Any], options: int) -> list[Any]:
    """Texts, or the options of questions together, the shortest first."""
    ordered = sorted(_together(items, options), key=lambda group: max(map(_length, group)))
    return [item for group in ordered for item in group]


def _only_of_texts(recipe: Recipe) -> None:
    """UserError for what the recipe asks for and images do not have."""
    if recipe.mask_share:
        raise UserError(f"recipe.mask_share={recipe.mask_share} hides words, and the base reads images; leave it at 0")
    if recipe.read_once:
        raise UserError(
            "recipe.read_once=true is for texts: with frozen blocks images are always read once; leave it at false"
        )
    if recipe.group_by_length:
        raise UserError(
            "recipe.group_by_length=true sorts texts by their length, and the base reads images; leave it at false"
        )


def _arguments(work: Path, recipe: Recipe, n_examples: int, options: int) -> TrainingArguments:
    batch_size = options * max(1, recipe.batch_size // options)
    steps = -(-n_examples // batch_size)
    interval = max(1, -(-steps // recipe.checks_per_epoch))
    return TrainingArguments(
        output_dir=str(work),
        num_train_epochs=recipe.epochs,
        per_device_train_batch_size=batch_size,
        per_device_eval_batch_size=2 * batch_size,
        learning_rate=recipe.learning_rate,
        warmup_steps=0.1,  # below 1 it is a share of all steps
        weight_decay=0.01,
        eval_strategy="steps",
        eval_steps=interval,
        save_strategy="steps",
        save_steps=interval,
        save_total_limit=2,
        load_best_model_at_end=True,
        metric_for_best_model="accuracy",
        greater_is_better=True,
        restore_callback_states_from_checkpoint=True,  # the early stop goes on counting after a kill
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=torch.cuda.is_available(),
        seed=recipe.seed,
    )


class _LogAccuracy(TrainerCallback):  # type: ignore[misc]  # untyped in transformers
    """Says each validation accuracy in one line."""

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: dict[str, float], **others: Any) -> None:
        logger.info(
            "step %d of %d: validation accuracy %.4f", state.global_step, state.max_steps, metrics["eval_accuracy"]
        )


class _TellSteps(TrainerCallback):  # type: ignore[misc]  # untyped in transformers
    """Tells each step, for a bar."""

    def __init__(self, advance: Callable[[int], None]) -> None:
        self.advance = advance

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        self.advance(1)


def _accuracy(prediction: EvalPrediction, options: int) -> dict[str, float]:
    """The share of texts whose class is right, or of questions whose right option is the best."""
    logits, labels = prediction.predictions, prediction.label_ids
    right = np.argmax(logits, axis=-1) == labels if options == 1 else choices_right(logits, labels, options)
    return {"accuracy": float(right.mean())}
