"""Figures of analyses: what is drawn is what the table says."""

import json
from io import BytesIO

import pandas as pd
import pytest
from PIL import Image

from benchmark.report.drawings import draw_table, drawing_files
from benchmark.report.figures import fixed_style
from benchmark.report.naming import Names
from benchmark.report.page.studies import studies
from benchmark.results.tables import Drawing, Table, line
from benchmark.settings.report_settings import FigureSettings

pytestmark = pytest.mark.rendered


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
    told = (text.get_text().partition(" (equals")[0] for text in legend.get_texts())
    shown = dict(zip(told, legend.legend_handles, strict=True))
    assert {name: (handle.get_color(), handle.get_marker()) for name, handle in shown.items()} == looks[1]


def drawn(rows, labels, drawing):
    table = Table("t", "A title", labels, pd.DataFrame(rows), drawing=drawing)
    table.check()
    assert Table.from_json(json.loads(json.dumps(table.to_json()))).drawing == drawing
    with fixed_style():
        return draw_table(table, drawing)


@pytest.mark.parametrize(("width", "parts"), [("screen", 1), ("page", 1), ("column", 3)])
def test_a_figure_of_a_column_is_no_higher_than_a_page(width, parts):
    """Seven panels below one another would be; each is in one of the files, which are called alike."""
    metrics = tuple("abcdefg")
    rows = [line({"x": x}, metric, x, x - 1, x + 1, 9) for metric in metrics for x in (1.0, 2.0)]
    table = Table("t", "A title", ("x",), pd.DataFrame(rows), drawing=Drawing("curves", x="x", y=metrics))
    files = dict(drawing_files(table, "table-t", settings=FigureSettings(width=width, format=("png",))))
    assert [*files] == ["table-t.png", *(f"table-t-part-{place}.png" for place in range(2, parts + 1))]
    for content in files.values():
        image = Image.open(BytesIO(content))
        assert width == "screen" or image.height / image.info["dpi"][1] <= 8.51


def test_a_panel_of_a_number_says_what_it_is_of():
    labels = ("kept", "only_first", "x")
    rows = [
        line(dict(zip(labels, (kept, first, x), strict=True)), "a", x)
        for kept in (0.5, 0.9) for first in ("yes", "no") for x in (1.0, 2.0)
    ]  # fmt: skip
    figure = drawn(rows, labels, Drawing("curves", x="x", y=("a",), panels=("kept", "only_first")))
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        f"kept = {kept} · only first = {first} · a" for kept in (0.5, 0.9) for first in ("yes", "no")
    ]
    named = [line({"model": name, "x": x}, "a", x) for name in ("bert", "0.5-bert") for x in (1.0, 2.0)]
    figure = drawn(named, ("model", "x"), Drawing("curves", x="x", y=("a",), panels=("model",)))
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["bert · a", "0.5-bert · a"]


@pytest.mark.parametrize("kind", ["curves", "points", "bars"])
def test_panels_of_a_metric_and_of_metrics_that_are_alike_show_one_range(kind):
    rows = [
        line({"model": model, "x": x}, metric, x * (1 + place + 3 * number), n=1)
        for number, model in enumerate(("one", "two")) for place, metric in enumerate(("a", "b", "c")) for x in (1.0, 2.0)
    ]  # fmt: skip
    drawing = Drawing(kind, x="x", y=("a", "b", "c"), panels=("model",), alike=(("a", "b"),))
    figure = drawn(rows, ("model", "x"), drawing)
    ranges = [axes.get_xlim() if kind == "bars" else axes.get_ylim() for axes in figure.axes]
    assert ranges[0] == ranges[1] == ranges[3] == ranges[4]
    assert ranges[2] == ranges[5] != ranges[0]
    lines, columns = ({round(getattr(axes.get_position(), end), 9) for axes in figure.axes} for end in ("y0", "x0"))
    assert (len(lines), len(columns)) == (2, 3), "a line for each model"


def heat(size, maps, drawing, value=lambda which, y, x: 0.1 * x + y):
    labels = ("map", "y", "x")
    rows = [
        line({"map": which, "y": y, "x": x}, "a", value(which, y, x))
        for which in maps for y in range(size) for x in range(size)
    ]  # fmt: skip
    figure = drawn(rows, labels, drawing)
    return [axes for axes in figure.axes if axes.images]


def test_heat_maps_share_a_scale_and_differences_have_one_around_zero():
    drawing = Drawing("heat", x="x", y=("y",), panels=("map",), value="a", differences=("less",))
    scale = {"one": 1.0, "two": 3.0, "less": -0.5}
    panels = heat(3, scale, drawing, lambda which, y, x: scale[which] * (x + y) / 4 + (0.1 if which == "less" else 0))
    found = [(axes.images[0].get_cmap().name, *axes.images[0].get_clim()) for axes in panels]
    assert found[0] == found[1] == ("viridis", 0.0, 3.0)
    assert found[2] == ("RdBu_r", -0.4, 0.4)
    assert len({axes.get_ylim() for axes in panels}) == 1, "the first layer is above in each"
    assert panels[0].yaxis_inverted()
    signed = heat(
        3, ("one", "two"), Drawing("heat", x="x", y=("y",), panels=("map",), value="a"), lambda _, y, x: x - y
    )
    assert {(axes.images[0].get_cmap().name, axes.images[0].get_clim()) for axes in signed} == {("RdBu_r", (-2.0, 2.0))}


def test_numbers_in_cells_are_legible_or_not_there():
    drawing = Drawing("heat", x="x", y=("y",), panels=("map",), value="a")
    for size, maps, numbered in (
        (4, "a", True),
        (4, "ab", True),
        (12, "a", True),
        (12, "abc", False),
        (30, "a", False),
    ):
        panels = heat(size, maps, drawing)
        texts = [text for axes in panels for text in axes.texts]
        assert len(texts) == (len(maps) * size * size if numbered else 0)
        inches = panels[0].figure.get_figwidth()
        assert all(text.get_fontsize() * min(1.0, 9 / inches) > 5 for text in texts), "as wide as a page"


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
