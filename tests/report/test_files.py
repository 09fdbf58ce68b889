import io
import math
import re
import shutil
from dataclasses import replace

import pandas as pd
import pytest
from PIL import Image
from rich.console import Console

from benchmark.errors import UserError
from benchmark.report import load_cells, read_leaderboard, terminal_table, write_report
from benchmark.report.latex import escape as escape_latex
from benchmark.report.naming import style_of
from benchmark.report.printed import PrintedEntry
from benchmark.results import commits, store
from benchmark.results.record import Figure, Metric
from benchmark.results.wording import number
from tests.report.carried import carried, scalar
from tests.report.conftest import DASHED
from tests.report.folders import CSV_COLUMNS, Plan, resealed, write_cell, write_cells

pytestmark = pytest.mark.rendered

NAMES = {
    "leaderboard.csv", "curves.csv", "differences.csv", "cost.csv", "leaderboard.md", "leaderboard.tex",
    "leaderboard.json", "leaderboard-full.tex",
    "index.html",
    "curve-perturbation-positive_accuracy.png", "curve-perturbation-positive_accuracy.pdf",
    "analyses.md", "analyses.tex", "table-sweep_attattr_steps.csv", "table-sweep_attattr_steps.png",
    "table-sweep_attattr_steps.pdf",
}  # fmt: skip


@pytest.fixture(scope="module")
def report(comparison, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    return folder, write_report(load_cells(comparison[1]), folder)


def line_of(text, method):
    return next(line for line in text.splitlines() if line.startswith((f"| {method} |", f"{method} &")))


def test_all_files_are_written(report):
    folder, written = report
    assert {path.name for path in written} == NAMES
    assert {path.name for path in folder.iterdir()} == {*NAMES, "drawn"}


def test_equal_cells_give_equal_bytes_wherever_they_lie(report, comparison, tmp_path):
    elsewhere = tmp_path / "moved"
    shutil.copytree(comparison[0], elsewhere)
    again = write_report(
        load_cells([elsewhere / path.relative_to(comparison[0]) for path in reversed(comparison[1])]),
        tmp_path / "report",
    )
    for first, second in zip(report[1], again, strict=True):
        assert first.read_bytes() == second.read_bytes(), first.name


def test_the_csv_holds_the_scalars_and_the_curves_theirs(report, comparison):
    table = read_leaderboard(comparison[1])
    scalars = pd.read_csv(report[0] / "leaderboard.csv")
    assert list(scalars.columns) == CSV_COLUMNS
    expected = table[table["x"].isna()].reset_index(drop=True)
    pd.testing.assert_frame_equal(scalars, expected[list(scalars.columns)], check_dtype=False)
    points = pd.read_csv(report[0] / "curves.csv")
    assert len(points) == table["x"].notna().sum() > 0
    cost = pd.read_csv(report[0] / "cost.csv")
    assert len(cost) == len(comparison[1])
    assert set(cost["forward_passes"]) == {60}


def test_markdown_marks_best_second_and_dashes(report):
    text = (report[0] / "leaderboard.md").read_text()
    overview = text.split("### Overview")[1].split("### ")[0]
    assert "perturbation: positive_auc ↓ | perturbation: negative_auc ↑" in overview
    assert line_of(overview, "transformer_attribution").count("**") == 6
    assert overview.count("<u>") == 3
    assert "**" not in line_of(overview, "oracle")
    assert overview.index("| *controls* |") < overview.index("| oracle |") < overview.index("| random |")
    assert line_of(overview, "lrp").endswith("| – [1] | 60 |")
    assert f"[1] {DASHED}" in overview
    assert "[2] the model bypasses the attention interface" in overview
    assert "| NaN |" in line_of(overview, "broken")


def test_markdown_gives_the_verdicts_below_each_table(report):
    perturbation = (report[0] / "leaderboard.md").read_text().split("### perturbation")[1].split("### ")[0]
    assert re.search(r"- positive_auc ↓: calibrated \(oracle above random: 0\.\d+ \[", perturbation)
    assert "Holm-corrected over the methods" in perturbation
    against = perturbation.split("Against random")[1]
    assert re.search(
        r"- positive_auc ↓ \(10 methods\): better than random: transformer_attribution, .*; "
        r"not distinguishable from random: rollout; worse than random: lrp",
        against,
    )
    agreement = (report[0] / "leaderboard.md").read_text().split("### agreement")[1].split("### ")[0]
    assert "descriptive" in agreement


def test_names_cannot_break_a_table(tmp_path):
    folders = write_cells(tmp_path, [Plan("rollout", dashes={"rationale": "a|b\n<i>c</i>"}), Plan("random")])
    write_report(load_cells(folders), tmp_path / "report")
    text = (tmp_path / "report" / "leaderboard.md").read_text()
    assert r"a\|b \<i\>c\</i\>" in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert all(len(re.findall(r"(?<!\\)\|", row)) >= 4 for row in rows)


def test_latex_escapes():
    assert escape_latex(r"a_b & 5% {x} \y") == r"a\_b \& 5\% \{x\} \textbackslash{}y"
    assert escape_latex("日本 τ – ok") == r"\otherscript{日本}{??} $\tau$ -- ok"


def test_figures_are_pictures(report):
    image = Image.open(io.BytesIO((report[0] / "curve-perturbation-positive_accuracy.png").read_bytes()))
    assert image.size[0] > 600
    assert len(image.convert("RGB").getcolors(1 << 20)) > 20
    assert "Software" not in image.info
    pdf = (report[0] / "curve-perturbation-positive_accuracy.pdf").read_bytes()
    assert pdf.startswith(b"%PDF")
    assert b"CreationDate" not in pdf


@pytest.mark.parametrize("content", ["{", '{"a": 1}', '[{"uid": "a", "words": ["b"], "scores": [], "target": "c"}]'])
def test_corrupt_heatmaps_are_named_and_nothing_is_written(tmp_path, content):
    folder = write_cell(tmp_path, Plan("rollout"))
    (folder / "heatmap.json").write_text(content)
    with pytest.raises(UserError) as raised:
        write_report(load_cells([resealed(folder)]), tmp_path / "report")
    assert str(folder) in str(raised.value)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "report").exists()


def printed(table, width):
    console = Console(width=width, file=io.StringIO())
    console.print(table)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_terminal_s_table_fits_and_shows_the_headline_metrics(comparison, width):
    text = printed(terminal_table(load_cells(comparison[1])), width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    words = ("positive", "negative", "auprc", "attattr (steps=20)", "–[1]", "[2] the model bypasses")
    for name in words if width > 80 else words[:4]:
        assert name in text
    assert "micro" not in text
    assert text.index("transformer_attribution") < text.index("oracle")


def test_best_and_second_are_marked_without_colours(comparison):
    lines = printed(terminal_table(load_cells(comparison[1])), 120).splitlines()
    best = next(line for line in lines if line.startswith("transformer_attribution"))
    assert re.search(r"\d\.\d{3} ±\d\.\d{3}★", best)
    assert sum(line.count("☆") for line in lines) == 3 + 1, "the second of each ranked metric, and the legend"
    assert not any("★" in line for line in lines if line.startswith(("oracle", "random")))


@pytest.mark.parametrize(("plans", "stars"), [(["rollout", "lrp"], 0), (["rollout", "lrp", "attattr"], 3)])
def test_a_star_is_only_for_what_is_better_than_random(tmp_path, plans, stars):
    """The best of methods that nothing tells from random scores, or that are worse, is not marked for being first."""
    folders = write_cells(tmp_path, [Plan(name) for name in (*plans, "random")])
    text = printed(terminal_table(load_cells(folders)), 120)
    table = text[: text.index("±: larger")]
    assert table.count("★") == stars
    assert "☆" not in table


def test_where_nothing_random_was_run_nothing_is_marked(tmp_path):
    """A star says that the method is better than random scores."""
    folders = write_cells(tmp_path, [Plan("rollout"), Plan("lrp"), Plan("inverted")])
    text = printed(terminal_table(load_cells(folders)), 120)
    assert not {"★", "☆"} & {*text[: text.index("±: larger")]}
    assert "nowhere without that control" in " ".join(text.split())


def with_nine_more(tmp_path):
    folders = write_cells(tmp_path, [Plan("transformer_attribution"), Plan("random")])
    for folder in folders:
        record = store.read_record(folder)
        names = [f"comprehensiveness_{place}" for place in range(9)]
        test = record.evaluations["rationale"]
        test = replace(
            test,
            metrics={**test.metrics, **{name: Metric(True, (0.0, 1.0), headline=True) for name in names}},
            figures=(*test.figures, *(Figure(name, math.nan, 0.5, 0.4, 0.55, 60) for name in names)),
        )
        commits.write_record(folder, replace(record, evaluations={**record.evaluations, "rationale": test}))
    return load_cells(folders)


@pytest.mark.parametrize(
    ("width", "shown", "bounded"), [(62, 3, False), (80, 3, True), (130, 6, True), (300, 12, True)]
)
def test_what_does_not_fit_is_named_with_where_it_stands(tmp_path, width, shown, bounded):
    text = printed(terminal_table(with_nine_more(tmp_path)), width)
    assert max(map(len, text.splitlines())) <= width
    assert ("more headline metrics in leaderboard.md: " in text) == (shown < 12)
    assert ("intervals stand in leaderboard.md" in text) == (not bounded)
    line = next(line for line in text.splitlines() if line.startswith("transformer_attribution"))
    assert ("±" in line) == bounded
    assert len(re.findall(r"(?<!±)\d\.\d{3}", line)) == shown


def test_a_margin_covers_an_asymmetric_interval():
    assert PrintedEntry(0.5, 0.3, 0.51).margin == pytest.approx(0.2)
    assert math.isnan(PrintedEntry(0.5).margin)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.4123, "0.412"), (-0.5, "-0.500"), (12.345, "12.35"), (123.45, "123.5"), (0.0, "0.000"), (1e-5, "1.0e-05"),
        (math.nan, "NaN"), (-math.inf, "-∞"), (123456.0, "1.23e+05"),
    ],
)  # fmt: skip
def test_numbers(value, shown):
    assert number(value) == shown


def test_cells_that_could_not_serve_alone_make_a_report(tmp_path):
    folders = write_cells(tmp_path, [Plan("flow", dash="no attention", evaluations=())])
    write_report(load_cells(folders), tmp_path / "report")
    assert "flow: no attention" in (tmp_path / "report" / "leaderboard.md").read_text()
    assert "flow: no attention" in printed(terminal_table(load_cells(folders)), 100)


def test_every_seed_of_a_control_has_its_grey():
    found = {name: style_of(name) for name in ("attattr", "random", "random_1", "random_3 (seed=3)", "inverted")}
    assert found["random_1"] == found["random"] == found["random_3 (seed=3)"]
    assert found["inverted"] != found["random"]


REMARK = "1 by construction: the method does not look at the class"


@pytest.fixture(scope="module")
def remarked(tmp_path_factory):
    out = tmp_path_factory.mktemp("remarked")
    marked = {"rationale": REMARK, "agreement": REMARK}
    return write_cells(
        out,
        [
            Plan("attattr"),
            Plan("rollout", remarks=marked),
            Plan("lrp", dashes={"rationale": "no token scores"}),
            *(Plan(control, remarks=marked) for control in ("oracle", "random", "inverted")),
        ],
    )


def test_what_must_be_known_of_a_figure_is_a_footnote_in_every_table(remarked, tmp_path):
    write_report(load_cells(remarked), tmp_path)
    text = {name: (tmp_path / name).read_text() for name in ("leaderboard.md", "leaderboard.tex")}
    overview = text["leaderboard.md"]
    number_of = next(i for i in (1, 2) if f"[{i}] {REMARK}" in overview)
    assert f"] [{number_of}] |" in line_of(overview, "rollout")
    assert f"[{number_of}]" not in line_of(overview, "attattr")
    assert f"– [{3 - number_of}]" in line_of(overview, "lrp")
    assert rf"\textsuperscript{{{number_of}}}~{REMARK}" in text["leaderboard.tex"]
    assert re.search(rf"Rollout & .*\^\{{[^}}]*{number_of}\}}\$", text["leaderboard.tex"])
    (board,) = carried((tmp_path / "index.html").read_text())["overview-data"]["boards"]
    notes = dict(zip([method["name"] for method in board["methods"]], scalar(board, "auprc")["note"], strict=True))
    assert (notes["rollout"], notes["lrp"], notes["attattr"]) == (REMARK, "no token scores", None)
    console = Console(width=140, record=True, file=io.StringIO())
    console.print(terminal_table(load_cells(remarked)))
    shown = console.export_text()
    assert REMARK in " ".join(shown.split())
    assert re.search(rf"rollout .*±[^ ]+ ?\[{number_of}\]", shown)
    assert not re.search(rf"attattr .*\[{number_of}\]", shown)


def test_a_remark_is_of_what_is_ranked(remarked):
    table = read_leaderboard(remarked).query("method == 'rollout'")
    assert set(table[table["evaluation"] == "rationale"]["remark"]) == {REMARK}
    assert set(table[table["evaluation"] != "rationale"]["remark"]) == {None}, "descriptive, or without a remark"


def test_controls_that_are_one_by_construction_calibrate_nothing(remarked, tmp_path):
    write_report(load_cells(remarked), tmp_path)
    text = (tmp_path / "leaderboard.md").read_text()
    assert f"calibration does not apply ({REMARK})" in text
    assert "positive_auc ↓: calibrated" in text
