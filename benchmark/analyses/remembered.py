"""Edge scores computed once and read out many times."""

import time
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor

from benchmark.models import Classifier
from benchmark.models.passes import Cost
from benchmark.types import Batch

Scores = tuple[Float[Tensor, "B H T T"], ...]


@dataclass(frozen=True)
class _Stored:
    scores: Scores
    cost: Cost


@dataclass
class Remembered:
    """An edge score that is computed once for the same examples and classes.

    The first batches that fit the budget are remembered. Readouts go over the same batches in the same order, one readout
    after the other: a memory of the last batches would forget each before it is asked for again.

    The passes of the first use are counted at every use (`Cost`), so that a cell's cost is that of its method alone.

    Attributes:
        edges: the edge score.
        budget: bytes of scores that are remembered at most.
    """

    edges: Any
    budget: int
    _memory: dict[Hashable, _Stored] = field(default_factory=dict)
    _bytes: int = 0

    @property
    def version(self) -> int:
        """The edge score's own."""
        return int(self.edges.version)

    @property
    def class_specific(self) -> bool:
        """The edge score's own."""
        return bool(self.edges.class_specific)

    def __call__(self, model: Classifier, batch: Batch, target: Int[Tensor, "B"]) -> Scores:
        """Scores of the L layers; not to be written to."""
        classes = tuple(target.tolist()) if self.class_specific else ()
        key = (model.fingerprint, batch.uids, tuple(batch.units.shape), classes)
        if (stored := self._memory.get(key)) is not None:
            model.cost.forward_passes += stored.cost.forward_passes
            model.cost.backward_passes += stored.cost.backward_passes
            model.cost.remembered_seconds += stored.cost.remembered_seconds
            return stored.scores
        before, start = replace(model.cost), time.perf_counter()
        scores: Scores = tuple(self.edges(model, batch, target))
        size = sum(layer.numel() * layer.element_size() for layer in scores)
        if self._bytes + size <= self.budget:
            self._bytes += size
            spent = Cost(
                model.cost.forward_passes - before.forward_passes,
                model.cost.backward_passes - before.backward_passes,
                time.perf_counter() - start,
            )
            self._memory[key] = _Stored(scores, spent)
        return scores
