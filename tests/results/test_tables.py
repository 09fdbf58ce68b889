"""Tables of analyses: what they keep when they are stored."""

import ast
import json
import math
from pathlib import Path

import pandas as pd
import pytest

from benchmark.results.store import json_bytes
from benchmark.results.tables import Table, line, reach_of

ANALYSES = Path(__file__).parents[2] / "benchmark" / "analyses"


@pytest.mark.parametrize(
    "bounds", [(0.0, 1.0), (-1.0, 1.0), (0.0, math.inf), (-math.inf, math.inf), None], ids=lambda bounds: str(bounds)
)
def test_a_stored_figure_keeps_its_range(bounds):
    """Whoever reads it again can tell whether its interval is too wide, and cut a mean's interval to it."""
    table = Table("t", "T", ("of",), pd.DataFrame([line({"of": "a"}, "share", 0.5, 0.4, 0.6, 9, bounds=bounds)]))
    again = Table.from_json(json.loads(json_bytes(table.to_json())))
    (row,) = again.rows.to_dict("records")
    assert reach_of(row) == (bounds or (-math.inf, math.inf))
    assert json_bytes(again.to_json()) == json_bytes(table.to_json())


@pytest.mark.parametrize("path", sorted(ANALYSES.rglob("*.py")), ids=lambda path: path.stem)
def test_no_analysis_leaves_the_range_of_its_figures_out(path):
    """`frame` gives all columns that a figure has; where they are named beside it, a range is lost in silence."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pd.DataFrame":
            columns = [ast.unparse(keyword.value) for keyword in node.keywords if keyword.arg == "columns"]
            assert not [one for one in columns if "metric" in one or "FIGURE" in one]
