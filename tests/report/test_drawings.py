"""Figures of analyses: what is drawn is what the table says."""

import pandas as pd

from benchmark.report.drawings import draw_table, drawing_files
from benchmark.report.figures import fixed_style
from benchmark.report.naming import Names
from benchmark.report.page.studies import studies
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


def test_a_violin_for_each_class_of_each_method():
    labels = ("who", "class", "example")
    rows = [
        line(dict(zip(labels, (method, name, i), strict=True)), "τ", i / 8, n=1)
        for method in ("p", "q") for name in ("yes", "no") for i in range(9)
    ]  # fmt: skip
    drawing = Drawing("violins", x="who", y=("τ",), series="class")
    table = Table("t", "A title", labels, pd.DataFrame(rows), drawing=drawing)
    drawing.check(table)
    with fixed_style():
        figure = draw_table(table, drawing)
    (axes,) = figure.axes
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["p", "q"]
    shapes = [part for part in axes.collections if part.get_paths() and len(part.get_paths()[0].vertices) > 4]
    assert len(shapes) == 4
    assert {text.get_text() for text in figure.legends[0].get_texts()} == {"yes", "no"}
    (panel,) = studies([table], Names())[0]["figure"]["panels"]
    assert [series["value"] for series in panel["series"]] == [[0.5, 0.5], [0.5, 0.5]], "medians in the page"
    assert len(studies([table], Names())[0]["rows"]) == 36


def test_many_points_are_in_the_file_and_not_in_the_page():
    rows = [line({"example": i}, "τ", i, n=1) for i in range(501)]
    drawing = Drawing("bars", x="example", y=("τ",))
    for printed, count in ((True, 501), (False, 0)):
        table = Table("t", "A title", ("example",), pd.DataFrame(rows), drawing=drawing, printed=printed)
        assert len(studies([table], Names())[0]["rows"]) == count


def shaded(word="random", note="yes 0.900, no 0.100", examples=1):
    """Two words with two figures each, and what stands beside them."""
    labels = ("example", "place", "word")
    rows = [
        line({"example": f"e{i}", "place": place, "word": text}, metric, value + i, n=1)
        for i in range(examples) for place, text in enumerate((word, "")) for metric, value in (("a", 0.123456), ("b", -1))
    ]  # fmt: skip
    rows += [
        line({"example": f"e{i}", "place": 2, "word": "output"}, name, note=note)
        for i in range(examples)
        for name in "ab"
    ]
    drawing = Drawing("words", x="word", y=("a", "b"), panels=("example",))
    return Table("t", "A title", labels, pd.DataFrame(rows), drawing=drawing, printed=False)


def test_words_are_drawn_in_the_page_a_row_for_each_metric():
    """A word that is spelled like a method is no method; a word of blanks has a box."""
    table = shaded()
    table.check()
    (study,) = studies([Table.from_json(table.to_json())], Names({"random": "Random scores"}))
    assert study["figure"] == {
        "kind": "words",
        "panels": [
            {
                "title": "e0",
                "words": ["random", "▢"],
                "rows": [
                    {"name": "a", "values": [0.123, 0.123], "notes": ["output: yes 0.900, no 0.100"]},
                    {"name": "b", "values": [-1.0, -1.0], "notes": ["output: yes 0.900, no 0.100"]},
                ],
            }
        ],
        "left_out": 0,
    }
    assert [row[2] for row in study["rows"]] == ["random", "", "output"]
    assert list(drawing_files(table, "t")) == []


def test_the_page_draws_the_first_examples_of_many():
    figure = studies([shaded(examples=15)], Names())[0]["figure"]
    assert [panel["title"] for panel in figure["panels"]] == [f"e{i}" for i in range(12)]
    assert figure["left_out"] == 3


def test_points_have_their_intervals():
    rows = [line({"method": "p"}, "a", 1, 0, 2, 9), line({"method": "p"}, "b", 5, 4, 6, 9)]
    drawing = Drawing("scatter", x="a", y=("b",), series="method")
    table = Table("t", "A title", ("method",), pd.DataFrame(rows), drawing=drawing)
    with fixed_style():
        (axes,) = draw_table(table, drawing).axes
    ends = [path.vertices.tolist() for part in axes.collections for path in part.get_paths()]
    assert [[0, 5], [2, 5]] in ends
    assert [[1, 4], [1, 6]] in ends
