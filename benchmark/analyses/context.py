"""What an analysis is given, and what it is."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol, runtime_checkable

from jaxtyping import Int
from torch import Tensor

from benchmark.results.tables import Table
from benchmark.run.cell import Cell
from benchmark.run.workbench import Setting
from benchmark.settings.identity import digests_of
from benchmark.types import Batch, Evaluation, Target


@dataclass(frozen=True)
class Context:
    """A finished comparison.

    Attributes:
        setting: its task, model, examples and configuration.
        cells: its methods' cells by name; their attributions and rows are on disk.
        evaluations: its tests by name.
        folder: where the comparison's report goes, and what an analysis keeps beside its tables; None: nothing is kept.
        tables: by name, those of the analyses that were run before, for an analysis that reads them (`ReadsTables`).
    """

    setting: Setting
    cells: Mapping[str, Cell]
    evaluations: Mapping[str, Evaluation]
    folder: Path | None = None
    tables: Mapping[str, Sequence[Table]] = field(default_factory=dict)

    @property
    def tests(self) -> dict[str, str]:
        """Name and identity of the comparison's tests; a cell may hold those of other comparisons too."""
        return digests_of(self.evaluations)

    def first_examples(self, count: int | None, target: Target) -> Iterator[tuple[Batch, Int[Tensor, "B"]]]:
        """The first `count` scored examples (None: all) in their batches, each with the classes that are explained."""
        data = self.setting.data
        remaining = len(data.uids) if count is None else count
        for index, batch in enumerate(data.batches):
            if remaining <= 0:
                return
            rows = list(range(min(remaining, len(batch))))
            remaining -= len(rows)
            yield batch.select(rows), data.target(index, target)[rows]


@runtime_checkable
class Analysis(Protocol):
    """A question that needs several methods, tasks or models at once; `version` enters the comparison's name."""

    version: ClassVar[int]

    def __call__(self, context: Context) -> Sequence[Table]:
        """Its answers, each a table with intervals."""


@runtime_checkable
class SaysNothing(Protocol):
    """An analysis that leaves no table where it is not applicable, so that comparisons of every kind may have it."""

    says_nothing: ClassVar[bool]


@runtime_checkable
class ReadsElsewhere(Protocol):
    """An analysis whose tables depend on more than its comparison and its settings: models or data of its own."""

    def reads(self, context: Context) -> Mapping[str, str]:
        """A digest of everything else that it reads, by name; tables of other digests are computed again."""


@runtime_checkable
class ReadsTables(Protocol):
    """An analysis of the tables of the comparison's others: it is run after them, and again where one of them changed.

    It finds figures by their keys (`Table.keyed`), never by what a table says. One with `reads_their_tables` reads those of
    other such analyses as well, and comes after them.
    """

    reads_tables: ClassVar[bool]
