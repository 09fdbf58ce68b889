"""What there is, as tables: `benchmark.methods()`, `benchmark.evaluations()`, and the figures of `benchmark.leaderboard`.

None of them imports torch before it is needed: figures that are there can be read at once.
"""

import inspect
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from omegaconf import OmegaConf

from benchmark.catalogue import entries
from benchmark.errors import UserError
from benchmark.report.cells import load_cells
from benchmark.report.leaderboard import CSV_COLUMNS, frame
from benchmark.report.run_folders import without_foreign
from benchmark.results import store
from benchmark.results.comparison_folders import FACTS, Compared
from benchmark.results.tables import no_interval_of
from benchmark.results.wording import arrow
from benchmark.settings.configuration import compose, options
from benchmark.settings.making import make

if TYPE_CHECKING:
    from benchmark.types import Evaluation

COLUMNS = [*CSV_COLUMNS, "higher_is_better", "reason"]

_FACT = re.compile(r"^(Source|Cost): (.+?)\.?$(?=\n\n|\n[A-Z]|\Z)", re.MULTILINE | re.DOTALL)
_READS = {
    "tokens": "scores of words",
    "classes": "scores of words for several classes",
    "heads": "scores of heads",
    "components": "scores of heads, or of nodes or edges of the computation graph",
    "edges": "scores of edges",
    "method": "the method itself",
}


def methods() -> pd.DataFrame:
    """The explainers and controls by name: what each computes, what it needs, what it costs, and where it is from.

    Example:
        >>> benchmark.methods().loc["rollout", "needs"]
        'forward passes'
    """
    listed = pd.DataFrame([asdict(entry) for entry in entries()]).rename(columns={"definition": "what"})
    return listed.set_index("name")[["family", "what", "needs", "cost", "source"]]


def evaluations() -> pd.DataFrame:
    """The tests of explanations by name: what each measures, what it needs, its headline metrics, cost and source.

    Example:
        >>> benchmark.evaluations().loc["aopc", "metrics"]
        'comprehensiveness ↑, sufficiency ↓'
    """
    names = options("evaluations")
    config = compose(None, [f"+evaluations=[{','.join(names)}]"])
    OmegaConf.resolve(config)
    rows = [{"name": name, **_facts(make(config.evaluations[name]))} for name in names]
    return pd.DataFrame(rows).set_index("name")


def leaderboard(folder: str | Path) -> pd.DataFrame:
    """All scalar figures of a comparison, or of the run folders below a folder: those of `leaderboard.csv`.

    Args:
        folder: of a comparison (`runs/comparisons/NAME`), whose tests are read alone; or one with run folders below it.

    Returns:
        One row per task, model, method, evaluation and metric: value, 95 % interval (`low`, `high`), n, whether higher is
        better, and the reason where there is no value or no interval. `constant` is the share of the examples on which
        the explanation is constant, `half_constant` the share of those on which at least half of its units have one score,
        and `tied` the mean share of tied units, where the test reads explanations.

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
    scalars = table[table["x"].isna()]
    reasons = [row["dash"] or no_interval_of(row) or None for row in scalars.to_dict("records")]
    return scalars.assign(reason=pd.Series(reasons, scalars.index, dtype=object))[COLUMNS].reset_index(drop=True)


def _facts(test: "Evaluation") -> dict[str, Any]:
    from benchmark.evaluations.rationale.rationale import Rationale

    text = inspect.getdoc(type(test)) or ""
    facts = {kind: " ".join(said.split()) for kind, said in _FACT.findall(text)}
    needs = [_READS[test.reads]]
    needs += ["labels"] if test.target == "label" else []
    needs += ["rationales"] if isinstance(test, Rationale) else []
    needs += ["examples of a split"] if getattr(test, "calibration", "same") not in ("same", "each") else []
    headline = [
        f"{name} {arrow(m.higher_is_better)}".strip() for name, m in test.metrics.items() if m.headline and m.x is None
    ]
    return {
        "what": " ".join(text.partition("\n\n")[0].split()),
        "needs": ", ".join(needs),
        "metrics": ", ".join(headline),
        "cost": facts.get("Cost", ""),
        "source": facts.get("Source", ""),
    }
