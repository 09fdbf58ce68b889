"""Which curves are drawn, and how: panels, legends, points of classes, what is said beside them."""

import io
from dataclasses import replace
from itertools import combinations

import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from benchmark.report.cells import load_cells
from benchmark.report.curve_figures import curve_files, curves, not_drawn
from benchmark.report.drawings import draw_table
from benchmark.report.figures import Panel, draw_panels, draw_points, fixed_style, placed
from benchmark.report.leaderboard import frame
from benchmark.report.markdown import markdown
from benchmark.report.naming import KNOWN, method_look, series_look, style_of
from benchmark.report.pairs import every_pair
from benchmark.results import commits, store
from benchmark.results.control_names import CONTROLS
from benchmark.results.tables import Drawing, Table, line
from benchmark.settings.report_settings import FigureSettings
from tests.report.folders import Plan, write_cells

pytestmark = pytest.mark.rendered

MANY = [*KNOWN, *CONTROLS]


def described(folder, **changes):
    """The folder with other words for metrics of `perturbation`."""
    record = store.read_record(folder)
    test = record.evaluations["perturbation"]
    metrics = {name: replace(metric, **changes.get(name, {})) for name, metric in test.metrics.items()}
    tests = {**record.evaluations, "perturbation": replace(test, metrics=metrics)}
    commits.write_record(folder, replace(record, evaluations=tests))


def test_panels_stand_in_lines_and_comparable_ones_show_one_range():
    def panel(line="", column="", scale="", high=1.0):
        rows = pd.DataFrame({"series": "", "x": [0.0, 1.0], "value": [0.0, high], "low": 0.0, "high": high})
        return Panel(rows, line=line, column=column, scale=scale)

    assert placed([panel() for _ in range(4)]) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert [placed([panel() for _ in range(n)])[-1] for n in (1, 2, 3, 5, 6, 9)] == [
        (0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)]  # fmt: skip
    two = [panel(model, kind) for model in ("one", "two") for kind in "abcd"]
    assert placed(two) == [(line, column) for line in range(2) for column in range(4)]
    del two[1]  # one model has no such panel, and the others stay below each other
    columns = dict(zip("acdabcd", (column for _, column in placed(two)), strict=True))
    assert placed(two) == [(place > 2, columns[name]) for place, name in enumerate("acdabcd")]
    assert sorted(columns.values()) == [0, 1, 2, 3]
    figure = draw_panels("", [panel(scale="a", high=h) for h in (1.0, 3.0)] + [panel(high=9.0)], series_look([""]))
    one, two, three = (axes.get_ylim() for axes in figure.axes)
    assert one == two != three
    assert one[1] > 3


def test_the_legend_of_many_methods_is_no_taller_than_the_plot():
    rows = pd.DataFrame(
        [(name, x, 0.5 + 0.01 * place) for place, name in enumerate(MANY) for x in (0.0, 1.0)],
        columns=["series", "x", "value"],
    ).assign(low=0.4, high=0.6)
    figure = draw_panels("a heading", [Panel(rows, "a title", "x", "y")], method_look(MANY))
    figure.draw_without_rendering()
    (legend,), (axes,) = figure.legends, figure.axes
    texts = [text.get_text() for text in legend.get_texts()]
    assert texts == [*KNOWN[:5], *CONTROLS, f"{len(KNOWN) - 5} other methods"]
    assert legend.get_window_extent().height <= axes.get_tightbbox().height
    assert legend.get_window_extent().x0 >= axes.get_window_extent().x1


def test_no_line_joins_classes():
    rows = pd.DataFrame({"series": ["a", "a", "b", "b"], "x": [0.0, 1.0] * 2, "value": [0.1, 0.2, 0.3, 0.4]})
    axes = Figure().add_subplot()
    draw_points(axes, rows.assign(low=0.0, high=0.5), series_look(["a", "b"]), {0.0: "negative", 1.0: "positive"})
    assert [text.get_text() for text in axes.get_xticklabels()] == ["negative", "positive"]
    assert [line.get_linestyle() for line in axes.get_lines()] == ["None", "None"]
    places = [set(line.get_xdata()) for line in axes.get_lines()]
    assert all(one.isdisjoint(other) for one, other in combinations(places, 2)), "points lie side by side"


def test_curves_are_titled_described_and_where_flat_named_alone(tmp_path):
    folders = write_cells(tmp_path, [Plan(name) for name in ("attattr", "rollout", "random")])
    for folder in folders:
        described(folder, positive_accuracy={"title": "accuracy, best first", "headline": True})
    cells = load_cells(folders)
    table = frame(cells)
    (curve,) = curves(cells, table)
    assert curve.text == (
        "accuracy, best first against share_removed for 3 methods; lower is better; bands are 95 % intervals."
    )
    assert not_drawn([curve]) == ""
    files = dict(curve_files(cells, table))
    assert set(files) == {f"curve-perturbation-positive_accuracy.{kind}" for kind in ("png", "pdf")}
    (panel,) = curve.panels(told=False)
    assert {*panel.rows["series"]} == {"ATTATTR", "Rollout", "Random"}
    image = Image.open(io.BytesIO(files["curve-perturbation-positive_accuracy.png"]))
    assert image.text["Description"] == curve.text
    flat = table.assign(value=table["value"].where(table["x"].isna(), 0.25))
    assert list(curve_files(cells, flat)) == []
    line = not_drawn(curves(cells, flat))
    assert line == "Not drawn, as all values are equal or none is there: accuracy, best first."
    assert line in markdown(cells, flat, every_pair(cells, table))


def test_the_overview_has_a_panel_for_each_main_curve(tmp_path):
    folders = write_cells(tmp_path, [Plan(name) for name in ("attattr", "random")])
    cells = load_cells(folders)
    for folder in folders:
        described(folder, positive_accuracy={"headline": True, "title": "accuracy"})
    cells = load_cells(folders)
    table = frame(cells)
    by_class = table[table["x"].isin([0.1, 0.2])].assign(metric="by_class", x=lambda rows: (rows["x"] > 0.1) * 1.0)
    both = pd.concat([table, by_class], ignore_index=True)
    for cell in cells:
        metrics = cell.record.evaluations["perturbation"].metrics
        metrics["by_class"] = replace(metrics["positive_accuracy"], title="by class", x="class", scale="class")
    files = dict(curve_files(cells, both))
    assert list(files)[:2] == ["curves.png", "curves.pdf"]
    assert {"curve-perturbation-by_class.png", "curve-perturbation-positive_accuracy.png"} <= set(files)
    text = Image.open(io.BytesIO(files["curves.png"])).text["Description"]
    assert "accuracy against share_removed" in text
    assert "by class against class" in text


def of_paper(width, methods=6, panels=1, **settings):
    rows = pd.DataFrame(
        [(f"a method, number {place}", x / 10, 0.1 * place) for place in range(methods) for x in range(10)],
        columns=["series", "x", "value"],
    ).assign(low=0.0, high=1.0)
    look = series_look(list(dict.fromkeys(rows["series"])))
    shown = [
        Panel(rows, f"panel {n}", "share removed", "accuracy, the most relevant words first") for n in range(panels)
    ]
    with fixed_style(width):
        figure = draw_panels("a heading", shown, look, settings=FigureSettings(width, **settings))
        figure.draw_without_rendering()
    return figure


@pytest.mark.parametrize(("width", "inches"), [("column", 3.15), ("page", 6.5)])
@pytest.mark.parametrize("panels", [1, 4])
def test_a_figure_for_a_paper_has_its_width_and_letters_as_large_as_a_caption(width, inches, panels):
    figure = of_paper(width, panels=panels, title=False)
    assert figure.get_figwidth() == inches
    texts = [text for text in figure.findobj(Text) if text.get_text() and text.get_visible()]
    assert min(text.get_fontsize() for text in texts) >= 7
    whole = figure.bbox
    for text in (
        text for text in texts if not text.get_text().replace(".", "").isdigit()
    ):  # ticks beyond an axis are not drawn
        box = text.get_window_extent()
        assert min(box.x0 - whole.x0, whole.x1 - box.x1, box.y0 - whole.y0, whole.y1 - box.y1) >= -1, text.get_text()
    (legend,) = figure.legends
    assert legend.get_window_extent().y1 <= min(axes.get_window_extent().y0 for axes in figure.axes)
    assert "a heading" not in {text.get_text() for text in texts}
    assert "a heading" in {text.get_text() for text in of_paper(width).findobj(Text)}


def test_ticks_stand_at_values_that_were_measured():
    values = [0.01, 0.05, 0.1, 0.2, 0.5]
    rows = pd.DataFrame([("a", x, x) for x in values], columns=["series", "x", "value"]).assign(low=0.0, high=1.0)
    figure = draw_panels("", [Panel(rows, "", "k", "y")], series_look(["a"]))
    ticks = figure.axes[0].get_xticks()
    assert {*ticks} <= {*values}
    assert len(ticks) >= 3


def test_ticks_of_a_logarithmic_axis_are_measured_values_too():
    rows = [line({"m": m}, "gap", 1 / m, n=5) for m in (5, 10, 20, 40)]
    table = Table("t", "T", ("m",), pd.DataFrame(rows), drawing=Drawing("curves", x="m", y=("gap",), logarithmic="x"))
    with fixed_style():
        figure = draw_table(table, table.drawing)
        figure.draw_without_rendering()
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == ["5", "10", "20", "40"]


def test_panels_of_a_page_are_no_narrower_than_a_third_of_it():
    rows = pd.DataFrame({"series": [""], "x": [0.0], "value": [1.0], "low": [0.0], "high": [2.0]})
    panels = [Panel(rows, f"{a} · {b}", "x", "y", line=a, column=b) for a in "pq" for b in "abcdef"]
    figure = draw_panels("", panels, series_look([""]), settings=FigureSettings("page"))
    widths = [axes.get_position().width * figure.get_figwidth() for axes in figure.axes]
    assert min(widths) > 1


def test_curves_that_lie_on_one_another_are_named():
    rows = pd.DataFrame([(name, x, x) for name in "ab" for x in range(5)], columns=["series", "x", "value"])
    rows = pd.concat([rows, rows[rows["series"] == "a"].assign(series="c", value=1.0)]).assign(low=0.0, high=1.0)
    figure = draw_panels("", [Panel(rows, "", "k", "y")], series_look(["a", "b", "c"]))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b (equals a)", "c"]


def test_the_better_end_is_up_where_low_figures_are_better():
    rows = pd.DataFrame({"x": [0.1, 0.2], "y": [0.3, 0.4], "series": ["", ""]})
    rows = rows.assign(x_low=0.0, x_high=1.0, y_low=0.0, y_high=1.0)
    panels = [Panel(rows, name, "x", "y", turned=name == "low", draw=lambda *_: None) for name in ("low", "high")]
    low, high = draw_panels("", panels, {}).axes
    assert low.yaxis_inverted()
    assert not high.yaxis_inverted()


def test_no_two_methods_of_ours_share_a_colour_among_the_first_sixteen_in_any_figure():
    first = KNOWN[:16]
    alone = {name: style_of(name).colour for name in first}
    assert len({*alone.values()}) == 16
    assert {name: style.colour for name, style in method_look(MANY).items() if style.named and name in first} == {
        name: alone[name] for name in KNOWN[:5]
    }
    assert not {*alone.values()} & {style.colour for style in series_look(["small", "large"]).values()}
