"""What an analysis is given."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmark.results.tables import Table
from benchmark.run.cell import Cell
from benchmark.run.workbench import Setting
from benchmark.settings.identity import digests_of
from benchmark.targets import Target, TargetName
from benchmark.types import Batch, Evaluation


@dataclass(frozen=True)
class Context:
    """A finished comparison.

    Attributes:
        setting: its task, model, examples and configuration.
        cells: its methods' cells by name; their attributions and rows are on disk.
        evaluations: its tests by name.
        folder: where the comparison's report goes, and what an analysis keeps beside its tables; None: nothing is kept.
        tables: by name, those of the analyses that were run before, for an analysis that `reads_tables`.
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

    def first_examples(self, count: int | None, target: TargetName) -> Iterator[tuple[Batch, Target]]:
        """The first `count` scored examples (None: all) in their batches, each with what is explained."""
        data = self.setting.data
        remaining = len(data.uids) if count is None else count
        for index, batch in enumerate(data.batches):
            if remaining <= 0:
                return
            rows = list(range(min(remaining, len(batch))))
            remaining -= len(rows)
            yield batch.select(rows), data.target(index, target)[rows]
