"""What a comparison is about: one task, one model, the encoded examples, and the cells that are computed on them."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from omegaconf import DictConfig, OmegaConf

from benchmark import words
from benchmark.errors import NoSplit, NotApplicable, UserError
from benchmark.models import Classifier, load_model
from benchmark.models.headless import Head
from benchmark.models.next_token import CANDIDATES, Answers
from benchmark.models.remarks import say_how_texts_are_read
from benchmark.passages import design_effect
from benchmark.randomness import generator
from benchmark.results.digests import digest
from benchmark.results.record import TaskRecord
from benchmark.run.arrays import STORED
from benchmark.run.cell import STEPS, Cell, Step
from benchmark.run.data import Data
from benchmark.run.encoded import Encoded
from benchmark.settings.checking import check_name
from benchmark.settings.defaults import whole
from benchmark.settings.identity import identity
from benchmark.settings.making import make
from benchmark.types import Compared, Example, Method, Task, as_compared

logger = logging.getLogger(__name__)

CONTROL_SAMPLE = 2000
"""How many training examples a method that is fitted sees."""


@dataclass(frozen=True)
class Setting:
    """A task and a model, loaded, with the examples that are scored.

    Attributes:
        config: the composed configuration.
        task: the data set.
        model: the classifier.
        data: the encoded examples.
    """

    config: DictConfig
    task: Task
    model: Classifier
    data: Data

    @cached_property
    def is_unspaced(self) -> bool:
        """Whether a text is of a script without white space, which comes apart by rules of ours."""
        batches = self.data.batches
        return any(words.is_unspaced(word) for batch in batches for own in batch.words for word in own)

    def cell(self, name: str, method: Compared | None = None, settings: Mapping[str, Any] | None = None) -> Cell:
        """The cell of a method: its run folder's name ends in the hash of what the attributions depend on.

        Args:
            name: of the method.
            method: the explainer, or a search; None: the one that the configuration calls `name`. One that is fitted
                depends on the first `CONTROL_SAMPLE` examples of the training split, which the task tells.
            settings: what makes it, for `config.yaml`; None: those of the configuration.
        """
        config, task, model, facts = self.config, self.task, self.model, self.data.facts
        method = as_compared(make(config.methods[name])) if method is None else method
        fitted = isinstance(method, Method) and method.fitted
        covered = self.covered(identity(method), fitted=fitted)
        if isinstance(method, Method):
            method.check(self.data.batches)
        key = digest(covered)
        described = {
            "task": whole(_plain(config.task)),
            "model": whole(_plain(config.model)),
            "method": whole(settings or _plain(config.methods[name])),
        }
        return Cell(
            folder=Path(config.out) / task.name / model.name / f"{name}-{key[:8]}",
            name=name,
            compared=method,
            model=model,
            data=self.data,
            identity={**covered, "hash": key},
            config={**described, "split": config.split, "limit": facts.limit, "seed": facts.seed},
            checkpoint_seconds=float(config.checkpoint_seconds),
            training=partial(_first_of_training, task) if fitted else None,
            steps=steps_of(config),
        )

    def covered(self, method: Any, *, fitted: bool) -> dict[str, Any]:
        """What the hash of a cell covers: everything that its attributions depend on.

        Args:
            method: the identity of the method.
            fitted: whether it sees examples of the training split first.
        """
        facts = self.data.facts.identity
        return {
            "task": {key: value for key, value in facts.items() if key not in ("units", "lost_units")},
            "model": self.model.fingerprint,
            "dtype": str(self.model.dtype),
            "stored": STORED,
            "method": method,
            "fitted_on": CONTROL_SAMPLE if fitted else None,
            **({"words": words.VERSION} if self.is_unspaced else {}),
        }

    def entire(self) -> "Setting":
        """The same setting for all steps, whichever the command is for: an analysis computes what it needs."""
        config = self.config.copy()
        config["stage"] = "all"
        return replace(self, config=config)

    def limited(self, limit: int | None) -> "Setting":
        """The same setting with at most `limit` of its examples."""
        least = min((number for number in (self.config.limit, limit) if number is not None), default=None)
        if least == self.config.limit:
            return self
        examples = self.task.split(self.config.split)
        return replace(self, data=encode(self.config, self.task, self.model, examples, least))


def _resolved(source: Any, task: Task) -> str:
    """The checkpoint of a source; where it is trained and a split for that lacks, to score another one is no way out."""
    try:
        return str(source.resolve(task))
    except NoSplit as error:
        if not error.proposal:
            raise
        raise NoSplit(f"the model is trained on the task's own splits, and {error.lacking}") from error


def _first_of_training(task: Task) -> Sequence[Example]:
    """What a method is fitted on."""
    if isinstance(task, InOrder):
        return task.first_examples("train", CONTROL_SAMPLE)
    return task.split("train")[:CONTROL_SAMPLE]


def steps_of(config: DictConfig) -> tuple[Step, ...]:
    """The steps that a command takes: all of them, or the one that `stage` names."""
    return tuple(step for step in STEPS if config.get("stage", "all") in ("all", step))


def _plain(config: DictConfig) -> Any:
    return OmegaConf.to_container(config, resolve=True)


def open_setting(config: DictConfig, beside: Setting | None = None) -> Setting:
    """Load the task and the model of a configuration, encode its examples, and say what the model does not see of them.

    Args:
        config: of a comparison.
        beside: a setting that is open already; what its model does not see either is not said again.
    """
    task: Task = make(config.task, Task)
    check_name("task.name", task.name)
    examples = task.split(config.split)
    model = open_model(config, task, next(iter(examples), None))
    data = encode(config, task, model, examples, config.limit)
    lost, units, window = unseen = _unseen(model, data)
    if lost and (beside is None or unseen != _unseen(beside.model, beside.data)):
        logger.warning(
            "%d of %d words (%.1f %%) lie beyond the window of %d tokens",
            lost, units, 100 * lost / units, window,
        )  # fmt: skip
    if beside is None and (told := data.facts.shared_passages):
        logger.warning("%s", told)
    say_how_texts_are_read(model.encoder, data.batches, compared=True)
    return Setting(config, task, model, data)


def _unseen(model: Classifier, data: Data) -> tuple[int, int, int]:
    """How many words the model does not see, of how many, and its window."""
    return data.facts.lost_units, data.facts.units, model.window


def open_model(config: DictConfig, task: Task, example: Example | None) -> Classifier:
    """Load the model of a configuration; what is trained on first use is trained on the task.

    Args:
        config: its part `model` is read.
        task: says what classes are called where the model does not.
        example: one that the model is asked about, or None.

    Raises:
        UserError: the task asks for something else than the model answers, or there is no such model.
    """
    source = make(config.model)
    if source.threads is not None:
        torch.set_num_threads(source.threads)
    labels = getattr(source, "labels", None)
    head: Head = getattr(source, "head", "own")
    answers: Answers = getattr(source, "answers", "class")
    check_asked(task, example, answers, "the model")  # before anything is trained for it
    if labels is None and (head == "zero" or answers == "next_token"):
        labels = task.labels or None
        if answers == "next_token" and len(labels or ()) == 1:
            raise UserError(
                f"the prompts of {task.name} have no foils, among which an answer would be certain: give foils, or "
                "model.labels=vocabulary, or model.labels=continuation"
            )
    return load_model(
        _resolved(source, getattr(task, "learned_from", task)),
        dtype=source.dtype,
        device=source.device,
        window=source.window,
        max_tokens=source.max_tokens,
        memory_budget=source.memory_budget,
        labels=labels,
        head=head,
        task=answers,
        gguf_file=getattr(source, "gguf_file", None),
        chat=getattr(source, "chat", False),
    )


def _class_names(task: Task, model: Classifier) -> tuple[str, ...]:
    """What the classes of the logits are called: by the task, and where they are no candidates of it by the model."""
    return tuple(task.labels) if model.encoder.over == CANDIDATES else model.labels


def check_asked(task: Task, example: Example | None, answers: Answers, model: str) -> None:
    """UserError where a task of prompts meets a classifier, or a task of classes a language model."""
    if example is None:
        return
    if answers == "next_token" and not example.candidates:
        raise UserError(
            f"the task {task.name} has no prompts with candidates for the next token, which {model} is asked for; choose "
            "task=prompts, or a classifier: model=hf model.path=CHECKPOINT"
        )
    if example.candidates and answers == "class":
        raise UserError(
            f"the task {task.name} asks for the next token, and {model} is a classifier; choose a causal language model: "
            "model=lm model.path=CHECKPOINT"
        )


def _check_kind(task: Task, model: Classifier, example: Example | None) -> None:
    """UserError where task and model do not go together: texts and images, prompts and classifiers."""
    if example is None:
        return
    check_asked(task, example, model.encoder.answers, f"the model '{model.name}'")
    if isinstance(example.inputs, Mapping | PathLike):
        return
    is_text = isinstance(example.inputs, Sequence)
    if is_text and model.encoder.patch is not None and not _is_path(example.inputs):
        raise UserError(
            f"the task {task.name} has texts, and the model '{model.name}' reads images; choose a classifier of texts: "
            "model=tiny, or model=hf model.path=CHECKPOINT"
        )
    if not is_text and model.encoder.patch is None:
        raise UserError(
            f"the task {task.name} has images, and the model '{model.name}' reads texts; choose a vision transformer: "
            "model=tiny_vit, or model=hf model.path=CHECKPOINT"
        )


def _is_path(inputs: Any) -> bool:
    with suppress(OSError, ValueError):
        return isinstance(inputs, str) and Path(inputs).is_file()
    return False


def sample(examples: Sequence[Example], limit: int | None, seed: int) -> list[Example]:
    """`limit` examples drawn without replacement by the seed, in the order of the data set; all without a limit."""
    return [examples[place] for place in drawn_places(len(examples), limit, seed)]


def drawn_places(count: int, limit: int | None, seed: int) -> list[int]:
    """`limit` of `count` places, drawn without replacement by the seed, in order; all without a limit."""
    if limit is None or limit >= count:
        return list(range(count))
    return np.sort(np.random.default_rng(seed).permutation(count)[:limit]).tolist()  # type: ignore[no-any-return]  # numpy's tolist has no type


def encode(config: DictConfig, task: Task, model: Classifier, examples: Sequence[Example], limit: int | None) -> Data:
    """The scored examples in batches of similar length, encoded when they are asked for (`Encoded`).

    Where all examples are scored, none is drawn, and the record has neither limit nor seed.
    """
    drawn = drawn_places(len(examples), limit, config.seed)
    all_scored = len(drawn) == len(examples)
    _check_kind(task, model, examples[drawn[0]] if drawn else None)
    label_map = model.label_map(task.labels)

    def batches(examples: Sequence[Example], chosen: Sequence[int]) -> Encoded:
        size, ordered = config.batch_size, _ordered(examples, chosen)
        parts = [ordered[start : start + size] for start in range(0, len(ordered), size)]
        return Encoded(lambda part: model.encode_examples([examples[place] for place in part], label_map), parts)

    def calibration(split: str, limit: int) -> Encoded:
        try:
            examples = task.split(split)
        except NoSplit as error:
            raise NotApplicable(f"it is calibrated on the {split} split, which the task does not have") from error
        places = _mixed(len(examples), config.seed) if isinstance(task, ClassByClass) else range(len(examples))
        chosen = list(islice((place for place in places if _uid(examples, place) not in uids), limit))
        if not chosen:
            raise UserError(f"calibration.split={split} has no example that is not scored; use another split or `same`")
        if (split, limit) not in calibrated:
            calibrated[split, limit] = batches(examples, chosen)
        return calibrated[split, limit]

    calibrated: dict[tuple[str, int], Encoded] = {}
    scored = batches(examples, drawn)
    uids = frozenset(scored.uids)
    are_texts = model.encoder.patch is None
    passages, shared = design_effect(examples[place] for place in drawn) if are_texts else (None, None)
    facts = TaskRecord(
        name=task.name,
        version=task.version,
        split=config.split,
        limit=None if all_scored else limit,
        seed=None if all_scored else config.seed,
        n=len(drawn),
        fingerprint=task.fingerprint,
        units=scored.units,
        lost_units=scored.lost,
        passages=passages,
        design_effect=shared,
    )
    return Data(model, batches=scored, calibration=calibration, facts=facts, labels=_class_names(task, model))


@runtime_checkable
class OfImages(Protocol):
    """Examples of which it is known, without making one, that they are images, and what they are called."""

    def image_uids(self) -> Sequence[str] | None:
        """The identifier of each; None where they may be texts."""


@runtime_checkable
class InOrder(Protocol):
    """A task that makes its examples one after the other, so that the first can be had without those that follow."""

    def first_examples(self, name: str, count: int) -> Sequence[Example]:
        """The first examples of a split."""


@runtime_checkable
class ClassByClass(Protocol):
    """A task whose splits may hold one class after another, so that their first examples stand for nothing."""

    class_by_class: ClassVar[bool]


def _mixed(count: int, seed: int) -> list[int]:
    """The places of examples in an order drawn by the seed."""
    return generator(seed, "order of calibration").permutation(count).tolist()  # type: ignore[no-any-return]  # numpy's tolist has no type


def _uid(examples: Sequence[Example], place: int) -> str:
    known = examples.image_uids() if isinstance(examples, OfImages) else None
    return examples[place].uid if known is None else known[place]


def _ordered(examples: Sequence[Example], places: Sequence[int]) -> list[int]:
    """The places from the shortest example to the longest, those of a length by their identifiers; images have none."""
    known = examples.image_uids() if isinstance(examples, OfImages) else None
    if known is not None:
        return sorted(places, key=known.__getitem__)
    keys = {place: _length(examples[place]) for place in places}
    return sorted(places, key=keys.__getitem__)


def _length(example: Example) -> tuple[int, str]:
    parts = example.inputs if isinstance(example.inputs, tuple) else (example.inputs,)
    return sum(len(part) for part in parts if isinstance(part, str | Sequence)), example.uid
