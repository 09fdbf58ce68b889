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


def batches_in(folder: Path) -> set[int]:
    """The numbers of the batches that lie in the parts of a folder."""
    return {number for path in folder.glob("[0-9]*-[0-9]*.*") for number in _held(path)}


def _held(part: Path) -> range:
    """The numbers of the batches that a part holds, which its name tells."""
    begin, _, stop = part.name.partition(".")[0].partition("-")
    return range(int(begin), int(stop))


@dataclass(frozen=True)
class Resumable(Generic[T]):
    """Work that gives one result per batch, in order.

    Attributes:
        folder: where parts are kept while the work is unfinished; its name must tell how the batches were cut.
        suffix: ending of a part's file name.
        write: writes merged results to a path, atomically.
        read: reads what `write` wrote, now or when it is asked for.
        merge: joins results in order.
        seconds: least time between two parts; short work writes none, but for what ends before a batch that is in one.
        size: of a result; a part is also written where results of `most` have come together.
        most: see `size`.
        excerpt: where the batches are some of those of longer work, their numbers there. All are computed; each result is a
            part of that work, and stays.
    """

    folder: Path
    suffix: str
    write: Callable[[T, Path], None]
    read: Callable[[Path], T]
    merge: Callable[[Sequence[T]], T]
    seconds: float
    size: Callable[[T], int] = lambda _: 0
    most: float = math.inf
    excerpt: Sequence[int] | None = None

    def run(self, sizes: Sequence[int], compute: Callable[[int], T], name: str, label: str = "") -> T:
        """Merged results of all batches; those of an earlier, killed run are taken from its parts.

        Args:
            sizes: examples in each batch.
            compute: the result of the batch of a number.
            name: of the work, as a step of `benchmark.progress`.
            label: what a person reads in its place.
        """
        return self.merge(self.parts(sizes, lambda numbers: map(compute, numbers), name, label))

    def parts(
        self, sizes: Sequence[int], results: Callable[[Sequence[int]], Iterator[T]], name: str, label: str = ""
    ) -> list[T]:
        """The same, not merged to the end: what was read from parts, and the results that are in none, in order.

        Parts are named by the batches that they hold, so that one that a kill cut off is simply absent.

        Args:
            sizes: examples in each batch.
            results: those of the batches of some numbers, in order.
            name: of the work, as a step of `benchmark.progress`.
            label: what a person reads in its place.
        """
        stored = self._stored(len(sizes)) if self.excerpt is None else {}
        done = {index for begin, (stop, _) in stored.items() for index in range(begin, stop)}
        missing = [index for index in range(len(sizes)) if index not in done]
        found = {begin: self.read(path) for begin, (_, path) in stored.items()}
        waiting: list[int] = []  # batches one behind the other that are in no part yet
        size, last = 0, time.monotonic()
        with progress.step(name, sum(sizes), label=label, done=sum(sizes[index] for index in done)) as advance:
            for index, result in zip(missing, results(missing), strict=True):
                waiting.append(index)
                found[index] = result
                size += self.size(result)
                advance(sizes[index])
                is_due = size >= self.most or time.monotonic() - last >= self.seconds or index + 1 in done
                if self.excerpt is not None or (is_due and index != missing[-1]):
                    merged = self.merge([found.pop(each) for each in waiting])
                    found[waiting[0]] = self._written(merged, waiting)
                    waiting, size, last = [], 0, time.monotonic()
        return [found[index] for index in sorted(found)]

    def clear(self) -> None:
        """Remove the parts, once the result is stored."""
        if self.excerpt is None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _written(self, result: T, batches: Sequence[int]) -> T:
        """A result that became a part, as it is read from there."""
        begin = batches[0] if self.excerpt is None else self.excerpt[batches[0]]
        path = self.folder / f"{begin:06d}-{begin + len(batches):06d}{self.suffix}"
        self.write(result, path)
        return self.read(path)

    def _stored(self, n_batches: int) -> dict[int, tuple[int, Path]]:
        """Parts by the number of their first batch, each with the number behind its last one; listed once.

        No batch is in two of them: of parts that begin alike the longest counts, and one that begins within another is left
        out.
        """
        longest: dict[int, tuple[int, Path]] = {}
        for path in sorted(self.folder.glob(f"[0-9]*{self.suffix}")):
            held = _held(path)
            if held.start < held.stop <= n_batches and held.stop > longest.get(held.start, (0, path))[0]:
                longest[held.start] = (held.stop, path)
        stored, place = dict[int, tuple[int, Path]](), 0
        for begin in sorted(longest):
            if begin >= place:
                stored[begin] = longest[begin]
                place = longest[begin][0]
        return stored
