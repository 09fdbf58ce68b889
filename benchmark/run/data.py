"""The encoded examples of one task and model, and what all methods share of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from threading import Lock

import torch
from jaxtyping import Float, Int
from torch import Tensor

from benchmark.engines.base import Runner, Series, nothing
from benchmark.engines.local import Here
from benchmark.errors import NotApplicable
from benchmark.evaluations.base import correctness
from benchmark.models import Classifier
from benchmark.randomness import generator
from benchmark.results.record import TaskRecord
from benchmark.run.encoded import Chosen, lengths_of, sizes_of, uids_of
from benchmark.targets import ClassTarget, DrawnClass, Explained, OneClass, Target, joined
from benchmark.types import Batch


@dataclass
class Data:
    """The encoded examples of one task and model, and what all methods share.

    Attributes:
        model: the classifier.
        batches: the scored examples, which `Encoded` encodes when they are asked for.
        calibration: encodes the first n examples of another split, for head importance.
        facts: what the record says of them.
        labels: class names as the task spells them.
        runner: computes what is asked of the batches.
    """

    model: Classifier
    batches: Sequence[Batch]
    calibration: Callable[[str, int], Sequence[Batch]]
    facts: TaskRecord
    labels: tuple[str, ...]
    runner: Runner = field(default_factory=Here)
    _logits: dict[int, Tensor] = field(default_factory=dict, init=False)
    _targets: dict[Explained, Target] = field(default_factory=dict, init=False, repr=False, compare=False)
    _guard: Lock = field(default_factory=Lock, init=False, repr=False, compare=False)

    def excerpt(self, choice: Callable[[Sequence[Batch]], Sequence[Batch]]) -> "Data":
        """The same task and model with a choice of the scored examples, and of those that a test is calibrated on."""
        batches = choice(self.batches)
        n = sum(sizes_of(batches))
        return Data(
            self.model,
            batches=batches,
            calibration=lambda split, limit: choice(self.calibration(split, limit)),
            facts=replace(self.facts, n=n, limit=n, seed=self.facts.seed or 0, passages=None, design_effect=None),
            labels=self.labels,
            runner=self.runner,
        )

    @property
    def uids(self) -> tuple[str, ...]:
        """The scored examples, in the order of the batches."""
        return uids_of(self.batches)

    @cached_property
    def lengths(self) -> list[list[int]]:
        """Tokens of each example without padding, by batch."""
        return lengths_of(self.batches)

    def start(self, index: int) -> int:
        """Number of examples before a batch."""
        return self._starts[index]

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *accumulate(sizes_of(self.batches))]

    def target(self, index: int, which: Explained) -> Target:
        """What is explained of each example of a batch.

        Raises:
            NotApplicable: there is no such thing: an example has no label, the model no second class.
        """
        batch = self.batches[index]
        if isinstance(which, OneClass):
            return ClassTarget(torch.full_like(batch.label, which.index))
        if isinstance(which, DrawnClass):
            classes = len(self.model.labels)
            drawn = [int(generator(which.seed, "explained class", uid).integers(classes)) for uid in batch.uids]
            return ClassTarget(batch.label.new_tensor(drawn))
        if which in ("label", "margin", "log_probability") and bool((batch.label < 0).any()):
            raise NotApplicable("some examples have no label")
        return self.model.target(batch, which, lambda: self.logits(index))

    def targets(self, which: Explained) -> Target:
        """What is explained of all examples, in the order of the batches; gathered once."""
        if which not in self._targets:
            found = [self.target(index, which).to("cpu") for index in range(len(self.batches))]
            self._targets[which] = joined(found)
        return self._targets[which]

    @property
    def predicted(self) -> Int[Tensor, "N"]:
        """The most probable class of each example, in the order of the batches."""
        return torch.cat([self.logits(index).argmax(-1).cpu() for index in range(len(self.batches))])

    @property
    def correct(self) -> Float[Tensor, "N"]:
        """1 where an example's label is predicted, else 0, in float64; NaN without a label."""
        right = [
            torch.where(batch.label >= 0, correctness(self.logits(index), batch.label), torch.nan).cpu()
            for index, batch in enumerate(self.batches)
        ]
        return torch.cat(right)

    def logits(self, index: int) -> Float[Tensor, "B C"]:
        """Logits of a batch, computed once for all methods; where several batches are computed at a time, those of all."""
        if index not in self._logits:
            with self._guard:  # of two threads that ask, one computes
                if index not in self._logits:
                    self._compute_logits(index)
        return self._logits[index]

    def _compute_logits(self, index: int) -> None:
        numbers = range(len(self.batches)) if self.runner.at_once > 1 else range(index, index + 1)
        series = Series(self.model, logits_of, Chosen(self.batches, numbers), nothing)
        for number, logits in zip(numbers, self.runner.results(series), strict=True):
            self._logits[number] = logits.to(self.model.device)


def logits_of(model: Classifier, batch: Batch) -> Float[Tensor, "B C"]:
    """Logits of a batch."""
    return model.run(batch).logits
