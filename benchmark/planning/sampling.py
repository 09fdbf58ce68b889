"""Which of a comparison's examples a pilot runs on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmark.run.data import Data
from benchmark.run.encoded import Chosen, sizes_of
from benchmark.types import Batch

FEW = 2
"""Examples of the smallest batch that is timed."""

Choice = Callable[[Sequence[Batch]], Sequence[Batch]]


def few(data: Data) -> Data:
    """`FEW` rather long examples: beside fuller batches they show what a batch costs whatever it holds."""
    return _over(data, lambda batches: [_split(batches)[0]])


def warming(data: Data) -> Data:
    """The two shortest examples, for passes that are not counted."""
    return _over(data, lambda batches: [batches[0].select(range(min(2, len(batches[0]))))])


def typical(data: Data, size: int, count: int = 1) -> Data:
    """Some batches, spread over all and none of them in `few`, each cut to `size` examples.

    A single one is the middle one, whose texts are of middling length.
    """
    return _over(data, lambda batches: _spread(_split(batches)[1], size, count))


def _over(data: Data, choice: Choice) -> Data:
    """The same task and model with a choice of the scored examples, and of those that a test is calibrated on."""
    batches = choice(data.batches)
    n = sum(sizes_of(batches))
    return Data(
        data.model,
        batches=batches,
        calibration=lambda split, limit: choice(data.calibration(split, limit)),
        facts=replace(data.facts, n=n, limit=n, seed=data.facts.seed or 0),
        labels=data.labels,
    )


def _split(batches: Sequence[Batch]) -> tuple[Batch, Sequence[Batch]]:
    """The last examples of the batch at three quarters of the list, and everything else; of one example, that twice."""
    place = 3 * len(batches) // 4
    chosen = batches[place]
    count = min(FEW, max(1, len(chosen) // 2))
    some, rest = chosen.select(range(len(chosen) - count, len(chosen))), chosen.select(range(len(chosen) - count))
    if len(batches) == 1:
        return some, [rest] if len(rest) else [some]
    places = [other for other in range(len(batches)) if other != place or len(rest)]
    return some, Chosen(_Without(batches, place, rest), places)


@dataclass(frozen=True)
class _Without(Sequence[Batch]):
    """The batches of a comparison, one of which has lost some examples."""

    batches: Sequence[Batch]
    place: int
    rest: Batch

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, index: Any) -> Any:
        return self.rest if index == self.place else self.batches[index]


def _spread(batches: Sequence[Batch], size: int, count: int) -> list[Batch]:
    """The batches in the middle of as many equal parts of the list."""
    count = min(count, len(batches))
    return [_cut(batches[int((place + 0.5) * len(batches) / count)], size) for place in range(count)]


def _cut(batch: Batch, size: int) -> Batch:
    """So many of its examples, evenly over their lengths."""
    size = min(size, len(batch))
    return batch.select([int((place + 0.5) * len(batch) / size) for place in range(size)])
