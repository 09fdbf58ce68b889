"""A pilot: the ordinary work of a comparison on a few of its examples, in a folder that is thrown away."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

from benchmark import progress
from benchmark.engines.local import peak_memory
from benchmark.errors import NotApplicable
from benchmark.planning.memory_peaks import forget_peak
from benchmark.planning.sampling import few, typical, warming
from benchmark.progress.stopwatch import Passes, Taken, timed
from benchmark.run.cell import Cell
from benchmark.run.data import Data
from benchmark.run.steps import explain, finish
from benchmark.types import Evaluation, Method


@dataclass(frozen=True)
class Round:
    """One go over a few examples.

    Attributes:
        data: the examples.
        cells: by method, in a folder of the pilot.
        taken: what each method took.
        peak: by method, the most memory that it held, and what the process held before, in bytes.
    """

    data: Data
    cells: Mapping[str, Cell]
    taken: Mapping[str, Taken]
    peak: Mapping[str, tuple[int, int]]


class Pilot:
    """Runs a comparison's cells on a few examples.

    Every method explains; tests are run for one method of each kind (`_kind`), since what a test costs hangs on what a
    method gives, and not on how it came by it. The first method is a kind of its own: some tests remember what does not
    depend on the method, and the first one pays for it.

    Args:
        cells: those that are to be computed, in the order of the comparison.
        evaluations: its tests.
        place: a folder for what is written.
    """

    def __init__(self, cells: Mapping[str, Cell], evaluations: Mapping[str, Evaluation], place: Path) -> None:
        self.cells, self.evaluations, self.place = cells, evaluations, place
        self.model, self.data = (cell := next(iter(cells.values()))).model, cell.data
        self.rounds: list[Round] = []
        self.like: dict[str, str] = {}
        """The method whose tests stand for those of each."""

    def begin(self) -> None:
        """A go that warms up, and one over the fewest examples, which tells the kinds of methods."""
        first = next(iter(self.cells))
        with progress.step("warming up"):
            finish(self._cell(first, warming(self.data), "warm"), self.evaluations)
        self._go(few(self.data))

    def go_on(self, size: int, count: int) -> None:
        """A go over `count` batches of `size` examples."""
        self._go(typical(self.data, size, count))

    def _go(self, data: Data) -> None:
        cells = {name: self._cell(name, data, str(len(self.rounds))) for name in self.cells}
        peak: dict[str, tuple[int, int]] = {}
        with timed() as watch:
            watch.count = self._passes
            for name, cell in cells.items():
                before = forget_peak()
                with progress.scope("cell", name):
                    explain(cell, self.evaluations)
                self.like.setdefault(name, self._kin(cell, cells))
                if self.like[name] == name:
                    with progress.scope("cell", name):
                        finish(cell, self.evaluations)
                peak[name] = (peak_memory(), before)
        taken = {name: watch.parts["cell", name] for name in cells}
        self.rounds.append(Round(data, cells, taken, peak))

    def _kin(self, cell: Cell, cells: Mapping[str, Cell]) -> str:
        """An earlier method of the same kind, or the method itself."""
        others = [name for name, other in self.like.items() if name == other][1:]
        kind = self._kind(cell)
        return next((name for name in others if self._kind(cells[name]) == kind), cell.name)

    def _kind(self, cell: Cell) -> Hashable:
        """What the cost of testing a method hangs on: what it gives, as far as a test reads it."""
        reads = {test.reads for test in self.evaluations.values()}
        if not isinstance(cell.method, Method) or "method" in reads:
            return cell.name  # what it searches for is its own
        try:
            arrays = {*cell.explain("predicted").arrays} - {"layers"}
        except NotApplicable:
            arrays = set()
        of_edges = "edges" in reads and cell.method.scores_edges
        of_classes = "classes" in reads and cell.method.class_specific
        return cell.method.head_orders(1, 1) is not None, of_edges, of_classes, frozenset(arrays)

    def _cell(self, name: str, data: Data, folder: str) -> Cell:
        cell = self.cells[name]
        return replace(cell, folder=self.place / folder / cell.folder.name, data=data, checkpoint_seconds=inf)

    def _passes(self) -> Passes:
        cost = self.model.cost
        return cost.forward_passes, cost.backward_passes
