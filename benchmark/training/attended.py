"""Training with attention in the loss: a copy of a classifier's model, recorded while it learns, and the sources that do so.

A `Classifier` keeps its parameters frozen and its model bit-identical. What is trained is a copy of the model inside, whose
attention is recorded and edited from outside as everywhere else; no class of transformers is changed.
"""

import copy
import logging
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Protocol

import torch
from jaxtyping import Float
from torch import Tensor, nn

from benchmark import progress
from benchmark.errors import NoSplit, UserError
from benchmark.models import AttentionEdit, Classifier, Trace, load_model
from benchmark.models.checkpoints import quiet_transformers
from benchmark.models.label_matching import with_labels
from benchmark.models.passes import Cost
from benchmark.models.precision import Twin, around
from benchmark.randomness import generator
from benchmark.results.cache import atomic_path
from benchmark.settings.declared import Above, AtLeast, Count, Natural, Share, configurable
from benchmark.training.cached import checkpoint_directory, discard_foreign, is_whole, trained_once, write_record
from benchmark.training.sources import Loading, Source, load_arguments
from benchmark.training.starts import Fresh, Start
from benchmark.training.tiny import TinyModel
from benchmark.training.trainer import adamw, descend, masked, one_pass, texts_of, with_threads
from benchmark.types import Batch, Example, Task

logger = logging.getLogger(__name__)

SAVE_SECONDS = 30.0
"""Least time between two saved states of an unfinished training."""

_COPIES = (
    4  # attention-sized tensors of one layer that a training step holds: scores, probabilities and their gradients
)
_SCORED = 32  # examples of one pass when accuracy is measured


class Objective(Protocol):
    """A loss that sees what the model gives, its attention and the examples."""

    def __call__(self, trace: Trace, batch: Batch) -> Float[Tensor, "B"]:
        """The loss of each example; their mean is minimised."""


@configurable
class Course:
    """How a model is trained.

    Attributes:
        steps: of the optimiser.
        batch_size: examples per step.
        learning_rate: AdamW's peak, between a linear warm-up over a tenth of the steps and a linear decay.
        embedding_learning_rate: of the token embeddings, whose gradients are sparse; None for the same.
        weight_decay: AdamW's.
        mask_share: in half of a batch's examples the mask token replaces a share of the tokens that is drawn from
            [0, mask_share], so that the model has seen what perturbation puts in.
        seed: of the start, the order of examples, the masks and dropout.
    """

    steps: Count = 200
    batch_size: Count = 32
    learning_rate: Annotated[float, Above(0)] = 1e-3
    embedding_learning_rate: Annotated[float, Above(0)] | None = None
    weight_decay: Annotated[float, AtLeast(0)] = 0.01
    mask_share: Share = 0.0
    seed: Natural = 0


@dataclass(frozen=True)
class Lesson:
    """What is learnt from.

    Attributes:
        examples: of the training split.
        label_map: the model's class for each of the task's labels.
        objective: the loss.
        edits: of the attention, in every pass.
    """

    examples: Sequence[Example]
    label_map: Sequence[int]
    objective: Objective
    edits: tuple[AttentionEdit, ...] = ()


@configurable
class AttentionTrained(Loading, ABC):
    """A source whose checkpoint is another source's, trained on with attention in the loss.

    The checkpoint is an ordinary directory in the cache under a digest of the task, the base model and the settings. It has
    the base's tokenizer and label names, and `training.json`: accuracies, seconds, settings, and the base's fingerprint.
    Until it is finished its state lies beside it, and after a kill the same call goes on from there to the same weights.
    Training is in float32, on the device, with the threads and within the limits that the comparison has for the model.

    Attributes:
        base: another source, or the directory or hub id of a checkpoint.
        start: the first weights.
        course: how it is trained.
    """

    version: ClassVar[int] = 1
    kind: ClassVar[str]

    base: Source | str = field(default_factory=TinyModel)
    start: Start = field(default_factory=Fresh)
    course: Course = field(default_factory=Course)
    threads: Count | None = field(default=1, kw_only=True)

    @property
    def begins(self) -> Start:
        """The weights that training begins from."""
        return self.start

    @abstractmethod
    def objective(self, base: Classifier) -> Objective:
        """The loss."""

    def check(self, task: Task) -> None:
        """UserError where the task lacks what the objective needs."""
        task.split("train")

    def edits(self, base: Classifier) -> tuple[AttentionEdit, ...]:
        """Edits of the attention in every pass of the training."""
        return ()

    def constants(self, trained: Classifier) -> Sequence[nn.Parameter]:
        """Parameters that keep their first values."""
        return ()

    def resolve(self, task: Task) -> str:
        """Directory of the checkpoint for a task; trains it where the cache has none.

        Raises:
            UserError: the base or the task cannot be used.
        """
        base = self._opened_base(task)
        settings = self.of_weights(but="base")  # what it is says its fingerprint
        covered = [self.version, task.fingerprint, list(task.labels), base.fingerprint, settings]
        directory = checkpoint_directory(self.kind, covered)
        if not is_whole(directory):
            self.check(task)

        def train(temporary: Path) -> None:
            with with_threads(self.threads):
                self._train(base, task, directory, temporary)

        return trained_once(directory, f"the {self.kind} model", train)

    def _opened_base(self, task: Task) -> Classifier:
        source = self.base if isinstance(self.base, str) else self.base.resolve(task)
        loaded = load_model(source, **{**load_arguments(self), "dtype": "float32"})
        return with_labels(loaded, getattr(self.base, "labels", None))

    def _train(self, base: Classifier, task: Task, directory: Path, temporary: Path) -> None:
        started, work = time.monotonic(), directory.parent / f".{directory.name}-training"
        logger.info("training the %s model, once for this task: %d steps", self.kind, self.course.steps)
        discard_foreign(work)
        torch.manual_seed(self.course.seed)
        trained = trainable(base, self.begins(base))
        for parameter in self.constants(trained):
            parameter.requires_grad = False
        label_map, edits = base.label_map(task.labels), self.edits(base)
        lesson = Lesson(task.split("train"), label_map, self.objective(base), edits)
        fit(trained, lesson, self.course, label=f"training the {self.kind} model", state=work / "state.pt")
        finished(trained)
        accuracies = _accuracies(trained, task, edits)
        seconds = time.monotonic() - started
        shown = ", ".join(f"{100 * accuracy:.1f} % {split} accuracy" for split, accuracy in accuracies.items())
        logger.info("the %s model was trained in %s: %s", self.kind, progress.duration(seconds), shown)
        _write(trained, temporary)
        settings = asdict(self)
        record = {"accuracy": accuracies, "seconds": round(seconds, 1), "examples": len(lesson.examples)}
        write_record(temporary, {**record, "base": base.fingerprint, "settings": settings})
        shutil.rmtree(work, ignore_errors=True)


def trainable(classifier: Classifier, module: nn.Module | None = None) -> Classifier:
    """The classifier around a copy of its model whose parameters learn; the classifier itself stays as it is.

    The copy is in training mode except for its attention modules: dropout acts as the checkpoint says everywhere but on
    attention probabilities. Those would be dropped before they are recorded, and the recorded rows would not sum to 1.

    Args:
        classifier: as `load_model` gives it.
        module: a model of the same class to train in place of a copy; None for a copy.

    Raises:
        UserError: an encoder–decoder, whose attention calls have different keys.
    """
    if classifier.streams.count > 1:
        raise UserError(f"model '{classifier.name}' is an encoder–decoder; training with attention takes one stream")
    module = copy.deepcopy(classifier.model) if module is None else module
    trained = replace(around(classifier, module), cost=Cost(), twin=Twin())
    module.requires_grad_(requires_grad=True).train()
    for attention in trained.attention_modules:
        attention.eval()
    return trained


def finished(trained: Classifier) -> Classifier:
    """The same in evaluation mode with frozen parameters."""
    trained.model.eval().requires_grad_(requires_grad=False)
    return trained


def fit(
    trained: Classifier,
    lesson: Lesson,
    course: Course,
    *,
    label: str,
    state: Path | None = None,
    save_seconds: float = SAVE_SECONDS,
) -> None:
    """Train in place: minimise the mean of the objective over batches of the examples.

    What is drawn at a step depends on the seed and the step alone. A training that goes on from its saved state therefore
    ends at the same weights, to the last bit.

    Args:
        trained: of `trainable`.
        lesson: what is learnt from.
        course: how.
        label: what a person reads while it is trained.
        state: file of the unfinished training, which a later call goes on from; None keeps none.
        save_seconds: least time between two saves.

    Raises:
        UserError: masks are asked for, and the model has no mask token.
    """
    if course.mask_share and trained.mask_token_id is None:
        raise UserError(f"model '{trained.name}' has no mask token; set course.mask_share=0")
    rate = course.learning_rate
    optimizer = adamw(trained.model, rate, course.embedding_learning_rate or rate, course.weight_decay)
    begin = _restored(state, trained.model, optimizer)
    batches, saved = _Order(lesson.examples, course), time.monotonic()

    def learn(step: int) -> None:
        with torch.random.fork_rng(devices=_devices(trained)):
            torch.manual_seed(_seed(course, "step", step))
            _learn(trained, lesson, course, batches(step))

    def save(done: int) -> None:
        nonlocal saved
        if state is not None and done < course.steps and time.monotonic() - saved >= save_seconds:
            _save(state, done, trained.model, optimizer)
            saved = time.monotonic()

    descend(trained.model, optimizer, course.steps, learn, label, begin=begin, done=save)


def _learn(trained: Classifier, lesson: Lesson, course: Course, examples: Sequence[Example]) -> None:
    """Gradients of the mean loss of one batch, computed in parts that fit the memory budget."""
    batch = trained.encode_examples(examples, lesson.label_map)
    if course.mask_share and trained.mask_token_id is not None:
        ids = masked(batch.tensors["input_ids"], batch.units >= 0, trained.mask_token_id, course.mask_share)
        batch = replace(batch, tensors={**batch.tensors, "input_ids": ids})
    for part, _ in trained.parts(batch, _COPIES * trained.n_layers):
        trace = trained.run(part, edits=lesson.edits, record=("attentions",), grad=True)
        torch.autograd.backward((lesson.objective(trace, part) / len(batch)).sum())


class _Order:
    """The examples of every step."""

    def __init__(self, examples: Sequence[Example], course: Course) -> None:
        self.examples, self.course = examples, course
        self.lengths = [sum(map(len, texts_of(example))) for example in examples]
        self.per_pass = -(-len(examples) // course.batch_size)
        self.number, self.batches = -1, [[0]]

    def __call__(self, step: int) -> list[Example]:
        number, place = divmod(step, self.per_pass)
        if number != self.number:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(_seed(self.course, "order", number))
                self.number, self.batches = number, [*one_pass(self.lengths, self.course.batch_size)]
        return [self.examples[row] for row in self.batches[place]]


def _save(state: Path, step: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    with atomic_path(state) as temporary:
        torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, temporary)


def _restored(state: Path | None, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Put back what was saved; the step that is next, 0 where nothing was."""
    if state is None or not state.is_file():
        return 0
    saved = torch.load(state, map_location="cpu", weights_only=True)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    return int(saved["step"])


def _seed(course: Course, purpose: str, number: int) -> int:
    return int(generator(course.seed, purpose, str(number)).integers(2**63 - 1))


def _devices(trained: Classifier) -> list[torch.device]:
    return [trained.device] if trained.device.type == "cuda" else []


def _write(trained: Classifier, directory: Path) -> None:
    """An ordinary checkpoint with the classifier's label names, and the tokenizer."""
    model: Any = trained.model
    model.set_attn_implementation("eager")
    model.config.id2label = dict(enumerate(trained.labels))
    model.config.label2id = {label: index for index, label in enumerate(trained.labels)}
    with quiet_transformers():
        model.save_pretrained(directory)
    trained.tokenizer.save_pretrained(directory)


def _accuracies(model: Classifier, task: Task, edits: Sequence[AttentionEdit]) -> dict[str, float]:
    """On the splits that are not trained on, as far as the task has them."""
    accuracies = {}
    for split in ("validation", "test"):
        try:
            examples = task.split(split)
        except NoSplit:
            continue
        accuracies[split] = _accuracy(model, examples, model.label_map(task.labels), edits)
    return accuracies


def _accuracy(
    model: Classifier, examples: Sequence[Example], label_map: Sequence[int], edits: Sequence[AttentionEdit]
) -> float:
    correct = 0
    for start in range(0, len(examples), _SCORED):
        batch = model.encode_examples(examples[start : start + _SCORED], label_map)
        for part, _ in model.parts(batch):
            correct += int((model.run(part, edits=edits).logits.argmax(-1) == part.label).sum())
    return correct / len(examples)
