"""`benchmark.leaderboard`: the figures of finished comparisons as a table."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from benchmark.errors import UserError
from benchmark.report.cells import load_cells
from benchmark.report.leaderboard import CSV_COLUMNS, frame
from benchmark.report.run_folders import without_foreign
from benchmark.results import store
from benchmark.results.comparison_folders import FACTS, Compared

COLUMNS = [*CSV_COLUMNS, "higher_is_better", "reason"]


def leaderboard(folder: str | Path) -> pd.DataFrame:
    """All scalar figures of a comparison, or of the run folders below a folder: those of `leaderboard.csv`.

    Args:
        folder: of a comparison (`runs/comparisons/NAME`), whose tests are read alone; or one with run folders below it.

    Returns:
        One row per task, model, method, evaluation and metric: value, 95 % interval (`low`, `high`), n, whether higher is
        better, and the reason where there is no value. `constant` and `tied` are the share of the examples on which the
        explanation is constant and the mean share of tied units, where the test reads explanations.

    Raises:
        UserError: there is no such folder, or nothing finished in it.

    Example:
        >>> board = benchmark.leaderboard(comparison)
        >>> board.loc[board.metric == "average_precision", ["task", "model", "method", "n", "higher_is_better"]]
           task model   method   n higher_is_better
        0  tiny  bert  rollout  12             True
    """
    place = Path(folder).expanduser()
    if not place.is_dir():
        raise UserError(f"leaderboard: {place} is no folder; give that of a comparison, or one with run folders")
    tests: Mapping[str, str] | None = None
    if (place / FACTS).exists():
        compared = Compared.read(place)
        cells = [place.absolute().parents[1] / cell for cell in compared.cells]
        if missing := [cell for cell in cells if not cell.is_dir()]:
            raise UserError(f"leaderboard: {missing[0]}, of the comparison {place.name}, is gone; read leaderboard.csv")
        tests = compared.tests
    else:
        cells = without_foreign(store.find_cells(place))
    if not cells:
        raise UserError(f"leaderboard: no finished run folder (one with record.json) in {place}")
    table = frame(load_cells(cells, tests))
    return table[table["x"].isna()].rename(columns={"dash": "reason"})[COLUMNS].reset_index(drop=True)
