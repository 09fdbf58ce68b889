"""What a comparison that was planned takes, kept while it runs and shown beside the plan."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmark.engines.base import Runner
from benchmark.engines.local import Here
from benchmark.models import Classifier
from benchmark.progress.stopwatch import Passes, Stopwatch, timed
from benchmark.report.planned import write_planned
from benchmark.results.plans import Account, Plan, Spent, found
from benchmark.run.cell import Cell

ACCOUNT = "spent.json"


class Spending:
    """Keeps the account of a comparison in its folder; what an earlier command spent stays. Without a plan it does nothing.

    Args:
        plan: of the comparison, or None.
        folder: of the comparison.
        watch: listens to the comparison.
        runner: computes; passes of its workers are not counted here.
        opening: seconds that opening task and model took.
    """

    def __init__(self, plan: Plan | None, folder: Path, watch: Stopwatch, runner: Runner, opening: float) -> None:
        self._plan, self._folder, self._watch, self._runner = plan, folder, watch, runner
        self._opening = opening

    def finished(self, cell: Cell) -> None:
        """A cell is finished; one that was reused took nothing that is kept."""
        taken = self._watch.parts["cell", cell.name]
        if self._plan is None or not taken.laps:
            return
        counted = taken.passes if isinstance(self._runner, Here) else (None, None)
        size = sum(path.stat().st_size for path in cell.folder.iterdir() if path.is_file())
        spent = Spent(taken.seconds, size, self._runner.peak_memory(), *counted)
        account = self._account()
        self._keep(
            account,
            cells={**account.cells, cell.name: spent},
            opening_seconds=self._opening,
            at_once=max(account.at_once, self._runner.at_once),
        )

    def analysed(self) -> None:
        """Cells and analyses are done; the report is about to be made, and links to what is shown here."""
        account, analyses = self._account(), self._seconds("analysis")
        self._keep(account, analyses_seconds=account.analyses_seconds or analyses)
        self._show()

    def reported(self) -> None:
        """The report is made."""
        account, report = self._account(), self._seconds("report")
        self._keep(account, report_seconds=account.report_seconds or report)
        self._show()

    def _seconds(self, kind: str) -> float:
        return sum(taken.seconds for part, taken in self._watch.parts.items() if part[0] == kind)

    def _account(self) -> Account:
        """As it stands; another process may have added to it."""
        return found(Account.read, self._folder / ACCOUNT) or Account()

    def _keep(self, account: Account, **changes: Any) -> None:
        if self._plan is not None:
            replace(account, **changes).write(self._folder / ACCOUNT)

    def _show(self) -> None:
        if self._plan is not None:
            write_planned(self._plan, self._account(), self._folder)


@contextmanager
def followed(plan: Path, folder: Path, model: Classifier, runner: Runner, opening: float) -> Iterator[Spending]:
    """What is spent while the block runs, where a plan lies at its path."""

    def passes() -> Passes:
        return model.cost.forward_passes, model.cost.backward_passes

    planned = found(Plan.read, plan)
    with nullcontext(Stopwatch()) if planned is None else timed() as watch:
        watch.count = passes
        yield Spending(planned, folder, watch, runner, opening)
