"""Which of a comparison's examples a pilot runs on."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from benchmark.run.data import Data
from benchmark.types import Batch

FEW = 4
"""Examples of the smallest batch that is timed."""

Choice = Callable[[Sequence[Batch]], Sequence[Batch]]


def few(data: Data) -> Data:
    """The longest examples, `FEW` of them: beside full batches they show what a batch costs whatever it holds."""
    return _over(data, _last)


def warming(data: Data) -> Data:
    """The two shortest examples, for passes that are not counted."""
    return _over(data, lambda batches: [batches[0].select(range(min(2, len(batches[0]))))])


def typical(data: Data, size: int, count: int = 1) -> Data:
    """Some batches, spread over all and none of them in `few`, each cut to `size` examples.

    A single one is the middle one, whose texts are of middling length.
    """
    return _over(data, lambda batches: _spread(batches, size, count))


def _over(data: Data, choice: Choice) -> Data:
    """The same task and model with a choice of the scored examples, and of those that a test is calibrated on."""
    batches = choice(data.batches)
    n = sum(map(len, batches))
    return Data(
        data.model,
        batches=batches,
        calibration=lambda split, limit: choice(data.calibration(split, limit)),
        facts=replace(data.facts, n=n, limit=n, seed=data.facts.seed or 0),
        labels=data.labels,
    )


def _last(batches: Sequence[Batch]) -> list[Batch]:
    last = batches[-1]
    count = min(FEW, max(1, len(last) // 2) if len(batches) == 1 else len(last))
    return [last.select(range(len(last) - count, len(last)))]


def _spread(batches: Sequence[Batch], size: int, count: int) -> list[Batch]:
    """Batches in the middle of as many equal parts of the list; the last one without what `_last` has of it."""
    count = min(count, len(batches))
    chosen = [batches[int((place + 0.5) * len(batches) / count)] for place in range(count)]
    return [_cut(_rest(batch) if batch is batches[-1] else batch, size) for batch in chosen]


def _rest(batch: Batch) -> Batch:
    return batch.select(range(max(1, len(batch) - FEW if len(batch) > FEW else len(batch) // 2)))


def _cut(batch: Batch, size: int) -> Batch:
    """So many of its examples, evenly over their lengths."""
    size = min(size, len(batch))
    return batch.select([int((place + 0.5) * len(batch) / size) for place in range(size)])
