"""Figures of analyses: what is drawn is what the table says."""

import pandas as pd

from benchmark.report.drawings import draw_table, drawing_files
from benchmark.report.figures import fixed_style
from benchmark.results.tables import Drawing, Table, line


def curves():
    rows = [line({"method": name, "x": x}, "b", x, x - 1, x + 1, 9) for name in ("p", "q", "r") for x in (1.0, 2.0)]
    rows += [line({"method": name, "x": x}, "a", x, x - 1, x + 1, 9) for name in ("p", "r") for x in (1.0, 2.0)]
    drawing = Drawing("curves", x="x", y=("a", "b"), series="method")
    return Table("t", "A title", ("method", "x"), pd.DataFrame(rows), drawing=drawing)


def test_a_series_looks_the_same_in_every_panel_and_in_the_legend():
    table = curves()
    with fixed_style():
        figure = draw_table(table, table.drawing)
    first, second = figure.axes[:2]
    looks = [
        {line.get_label(): (line.get_color(), line.get_marker()) for line in axes.get_lines()}
        for axes in (first, second)
    ]
    assert set(looks[0]) == {"P", "R"}
    assert set(looks[1]) == {"P", "Q", "R"}
    assert len(set(looks[1].values())) == 3
    for name, look in looks[0].items():
        assert looks[1][name] == look
    (legend,) = figure.legends
    shown = dict(zip((text.get_text() for text in legend.get_texts()), legend.legend_handles, strict=True))
    assert {name: (handle.get_color(), handle.get_marker()) for name, handle in shown.items()} == looks[1]


def test_equal_tables_give_equal_bytes():
    assert dict(drawing_files(curves(), "t")) == dict(drawing_files(curves(), "t"))
    assert set(dict(drawing_files(curves(), "t"))) == {"t.png", "t.pdf"}


def test_a_table_without_a_finite_value_is_not_drawn():
    rows = pd.DataFrame([line({"method": "p", "x": 1.0}, "a", note="no reason")])
    drawing = Drawing("curves", x="x", y=("a",), series="method")
    assert list(drawing_files(Table("t", "A title", ("method", "x"), rows, drawing=drawing), "t")) == []
