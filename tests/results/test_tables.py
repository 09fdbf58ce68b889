"""Tables of analyses: what they keep when they are stored."""

import ast
import json
import math
from pathlib import Path

import pandas as pd
import pytest

from benchmark.results.store import json_bytes
from benchmark.results.tables import KEY, Table, line, reach_of

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


def stored(table):
    """The table after it was written and read."""
    return Table.from_json(json.loads(json_bytes(table.to_json())))


def test_a_figure_is_found_by_its_key_and_by_nothing_else():
    rows = [
        line({"of": "a"}, "share", 0.1, key="read_row.share"),
        line({"of": "read_row.share"}, "read_row.share", 0.2, note="read_row.share"),
        line({"of": "b"}, "another", 0.3, key="read_row.share"),
        line({"of": "c"}, "share", 0.4, key="all_layers.share"),
    ]
    for table in (whole := Table("t", "T", ("of",), pd.DataFrame(rows)), stored(whole)):
        assert table.keyed("read_row.share")["value"].tolist() == [0.1, 0.3], "those of one kind, in their order"
        assert table.keyed("none", "all_layers.share", "read_row.share")["value"].tolist() == [0.4]
        for absent in ("share", "a", "read_row", "T"):
            assert table.keyed(absent).empty
        with pytest.raises(ValueError, match="without a key"):
            table.keyed("read_row.share", "")
    assert [row.get(KEY) for row in whole.to_json()["rows"]] == ["read_row.share", None, *(r[KEY] for r in rows[2:])]


def test_a_table_without_keys_is_written_as_ever_and_may_have_a_label_of_any_other_name():
    table = Table("t", "T", ("key",), pd.DataFrame([line({"key": "a"}, "share", 0.1)]))
    again = stored(table)
    assert KEY not in json_bytes(table.to_json()).decode()
    assert json_bytes(again.to_json()) == json_bytes(table.to_json())
    for one in (table, again):
        one.check()
        assert one.keys.tolist() == [""]
        assert one.keyed("share").empty


@pytest.mark.parametrize("path", sorted(ANALYSES.rglob("*.py")), ids=lambda path: path.stem)
def test_no_analysis_leaves_the_range_of_its_figures_out(path):
    """`frame` gives all columns that a figure has; where they are named beside it, a range is lost in silence."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pd.DataFrame":
            columns = [ast.unparse(keyword.value) for keyword in node.keywords if keyword.arg == "columns"]
            assert not [one for one in columns if "metric" in one or "FIGURE" in one]
