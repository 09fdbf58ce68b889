"""Invented comparisons that several tests read."""

from pathlib import Path

import pytest

from tests.report.folders import SKILL, Plan, write_cells

DASHED = "a method without token scores & such"


@pytest.fixture(scope="session")
def comparison(tmp_path_factory) -> tuple[Path, list[Path]]:
    """All methods on one task and model; `lrp` cannot serve `rationale`, `flow` nothing at all, `broken` gives NaN."""
    out = tmp_path_factory.mktemp("runs")
    plans = [Plan(method) for method in SKILL if method != "lrp"]
    plans += [
        Plan("lrp", dashes={"rationale": DASHED}),
        Plan("flow", dash="the model bypasses the attention interface"),
    ]
    plans += [
        Plan("broken", nan=("positive_auc",)),
        *(Plan("attattr", settings={"edges": {"steps": m}}) for m in (5, 10, 20)),
    ]
    return out, write_cells(out, [plan for plan in plans if plan.method != "attattr" or plan.settings])
