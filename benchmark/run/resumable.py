"""Long work that survives a kill: results of batches are kept in parts, and a later start goes on behind them."""

import math
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from benchmark import progress

T = TypeVar("T")


@dataclass(frozen=True)
class Resumable(Generic[T]):
    """Work that gives one result per batch, in order.

    Attributes:
        folder: where parts are kept while the work is unfinished; its name must tell how the batches were cut.
        suffix: ending of a part's file name.
        write: writes merged results to a path, atomically.
        read: reads what `write` wrote, now or when it is asked for.
        merge: joins results in order.
        seconds: least time between two parts; short work writes none.
        size: of a result; a part is also written where results of `most` have come together.
        most: see `size`.
    """

    folder: Path
    suffix: str
    write: Callable[[T, Path], None]
    read: Callable[[Path], T]
    merge: Callable[[Sequence[T]], T]
    seconds: float
    size: Callable[[T], int] = lambda _: 0
    most: float = math.inf

    def run(self, sizes: Sequence[int], compute: Callable[[int], T], name: str, label: str = "") -> T:
        """Merged results of all batches; those of an earlier, killed run are taken from its parts.

        Args:
            sizes: examples in each batch.
            compute: the result of the batch of a number.
            name: of the work, as a step of `benchmark.progress`.
            label: what a person reads in its place.
        """
        return self.follow(sizes, lambda begin: map(compute, range(begin, len(sizes))), name, label)

    def follow(self, sizes: Sequence[int], results: Callable[[int], Iterator[T]], name: str, label: str = "") -> T:
        """The same, of results that come one after the other."""
        return self.merge(self.parts(sizes, results, name, label))

    def parts(self, sizes: Sequence[int], results: Callable[[int], Iterator[T]], name: str, label: str = "") -> list[T]:
        """The same, not merged to the end: what was read from parts, and then the results that are in none.

        Parts are named by the batches that they hold, so that one that a kill cut off is simply absent.

        Args:
            sizes: examples in each batch.
            results: those of the batches from a number on, in order.
            name: of the work, as a step of `benchmark.progress`.
            label: what a person reads in its place.
        """
        n_batches = len(sizes)
        parts, begin = self._chain(n_batches)
        done = [self.read(path) for path in parts]
        pending: list[T] = []
        size = 0
        last = time.monotonic()
        with progress.step(name, sum(sizes), label=label, done=sum(sizes[:begin])) as advance:
            for index, result in enumerate(results(begin), begin):
                pending.append(result)
                size += self.size(result)
                advance(sizes[index])
                if index + 1 < n_batches and (size >= self.most or time.monotonic() - last >= self.seconds):
                    path = self.folder / f"{begin:06d}-{index + 1:06d}{self.suffix}"
                    self.write(self.merge(pending), path)
                    done.append(self.read(path))
                    pending, size, begin, last = [], 0, index + 1, time.monotonic()
        return [*done, *pending]

    def clear(self) -> None:
        """Remove the parts, once the result is stored."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _chain(self, n_batches: int) -> tuple[list[Path], int]:
        """Parts that follow one another from the first batch on, and the batch that is next; listed once.

        Every batch is in one of them: of two parts that begin alike the longer counts, and one that begins within
        another or behind a gap is left out.
        """
        longest: dict[int, tuple[int, Path]] = {}
        for path in sorted(self.folder.glob(f"[0-9]*{self.suffix}")):
            first, _, last = path.name.removesuffix(self.suffix).partition("-")
            begin, stop = int(first), int(last)
            if begin < stop <= n_batches and stop > longest.get(begin, (0, path))[0]:
                longest[begin] = (stop, path)
        chain, place = [], 0
        while place in longest:
            place, path = longest[place]
            chain.append(path)
        return chain, place
