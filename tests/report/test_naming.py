"""What people read in place of code names, and how methods look; CSV files keep the code names."""

import shutil
import subprocess
from dataclasses import replace

import pandas as pd
import pytest

from benchmark.report.analysis_tables import printed, table_files
from benchmark.report.cells import load_cells
from benchmark.report.drawings import draw_table
from benchmark.report.figures import fixed_style
from benchmark.report.naming import KNOWN, OURS, Names, looks_of, method_look, method_title, series_look, style_of
from benchmark.results.control_names import CONTROLS
from benchmark.results.tables import Drawing, Table, line
from benchmark.results.wording import without_fingerprint
from benchmark.settings.configuration import options
from benchmark.settings.report_settings import GivenNames, LatexSettings, ReportSettings
from tests.report.folders import Plan, write_cells

NAMES = Names(
    {"attattr": "ATTATTR", "raw_attention": "Raw attention", "random": "Random"}, {"aopc: compr": "comprehensiveness"}
)
MANY = [*KNOWN, *CONTROLS]
READOUTS = (
    "last_layer",
    "mean_layers",
    "rollout",
    "rollout_without_residual",
    "column_sum",
    "flow",
    "generic",
    "max_layers",
)


def heat():
    rows = [
        line({"edge score": edge}, readout, 0.123, 0.1, 0.2, 30)
        for edge in ("attention_x_input_norm", "grad_cam", "attattr")
        for readout in READOUTS
    ]
    rows[0] = line({"edge score": rows[0]["edge score"]}, READOUTS[0], note="no value of single examples " * 4)
    sentence = "The best is attention_x_input_norm with rollout_without_residual."
    drawing = Drawing("heat", x="metric", y=("edge score",))
    return Table("heat", "aopc: compr: every edge score", ("edge score",), pd.DataFrame(rows), (sentence,), drawing)


def curves():
    rows = [
        line({"method": method, "task": "my_task", "share": share / 50}, "accuracy_drop", share / 50, 0, 1, 9)
        for method in ("attattr", "raw_attention")
        for share in range(50)
    ]
    drawing = Drawing("curves", x="share", y=("accuracy_drop",), series="method")
    sentences = ("attattr: most: yes.", "random: best random place: none.")
    return Table("curves", "A drop", ("method", "task", "share"), pd.DataFrame(rows), sentences, drawing)


def questions():
    question = "largest gain in accuracy over all shares, least important heads pruned first, of each example"
    rows = [line({"method": "raw_attention", "question": question}, "p (Holm)", 0.5, n=9, note="best 0.25, worst 0.75")]
    return Table("questions", "Questions (η²)", ("method", "question"), pd.DataFrame(rows))


def test_labels_headings_titles_and_sentences_are_in_words():
    table = printed(heat(), NAMES)
    assert [row.labels[0] for row in table.rows] == ["Attention × input norm", "Grad-CAM", "ATTATTR"]
    assert [(heading.name, heading.code) for heading in table.columns[:2]] == [
        ("Last layer", "last_layer"), ("Mean layers", "mean_layers")
    ]  # fmt: skip
    worded = NAMES.worded(heat())
    assert worded.title == "comprehensiveness: every edge score"
    assert worded.sentences == ("The best is Attention × input norm with Rollout without residual.",)
    assert printed(curves(), NAMES).columns[0].name == "accuracy drop"
    assert printed(curves(), NAMES).rows[0].labels == ("ATTATTR", "my_task", "0"), (
        "a task is called as its owner calls it"
    )
    told = NAMES.worded(curves()).sentences
    assert told == ("ATTATTR: most: yes.", "random: best random place: none."), "words of English stay"


def test_files_for_programs_keep_code_names_and_others_have_titles():
    files = dict(table_files([heat(), curves()], NAMES))
    assert "attention_x_input_norm,last_layer" in files["table-heat.csv"].decode()
    assert "attention_x_input_norm" not in files["analyses.tex"].decode().replace("\\", "")
    assert "ATTATTR is `attattr`" not in files["analyses.md"].decode(), "the same letters"
    assert "Raw attention is `raw_attention`" in files["analyses.md"].decode()
    assert "| ATTATTR | my_task | 0 |" in files["analyses.md"].decode()


def test_figures_have_titles_and_methods_their_own_colour():
    with fixed_style():
        named = draw_table(curves(), curves().drawing, NAMES)
        drawn = draw_table(heat(), heat().drawing, NAMES)
    assert [text.get_text() for text in named.legends[0].get_texts()] == ["ATTATTR", "Raw attention (equals ATTATTR)"]
    assert named.axes[0].get_title(loc="left") == "accuracy drop"
    drawn_in = [one.get_color() for one in named.axes[0].get_lines()]
    assert drawn_in == [style_of(name).colour for name in ("attattr", "raw_attention")]
    assert [tick.get_text() for tick in drawn.axes[0].get_yticklabels()][:2] == ["Attention × input norm", "Grad-CAM"]
    assert drawn.axes[0].get_xticklabels()[0].get_text() == "Last layer"


def test_methods_have_their_titles_whatever_the_column_is_called():
    for column in ("explainer", "and", "guide", "reference"):
        assert OURS.label(column, "raw_attention") == "Raw attention"
        assert OURS.label(column, "attattr_fast") == "ATTATTR fast"
    assert OURS.label("explainer", "mine_2") == "Mine 2"
    assert OURS.label("task", "my_task") == "my_task"
    assert OURS.label("word", "raw_attention") == "raw_attention"
    assert OURS.label("of", "scores") == "scores", "a word of English"


def test_names_come_from_the_methods_and_metrics_of_a_comparison(tmp_path):
    cells = load_cells(write_cells(tmp_path, [Plan("attattr"), Plan("raw_attention")]))
    names = Names.of(cells, GivenNames(methods={"raw_attention": "ATTATTR"}))
    assert names.methods == {"attattr": "ATTATTR", "raw_attention": "ATTATTR (raw_attention)"}, "two names stay two"


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no TeX is installed")
@pytest.mark.parametrize("columns", ["one", "two"])
def test_tex_sets_wide_long_and_wordy_tables_without_an_overfull_box(tmp_path, columns):
    files = dict(
        table_files([heat(), curves(), questions()], NAMES, ReportSettings(latex=LatexSettings(columns=columns)))
    )
    (tmp_path / "analyses.tex").write_bytes(files["analyses.tex"])
    option = "[twocolumn]" if columns == "two" else ""
    (tmp_path / "paper.tex").write_text(
        rf"\documentclass{option}{{article}}\usepackage{{booktabs,graphicx}}\begin{{document}}Text."
        r"\input{analyses}\end{document}"
    )
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]
    assert [text for text in ("Overfull", "Float too large") if text in done.stdout] == []
    parts = {"one": 9, "two": 8}[columns]
    assert files["analyses.tex"].count(rb"\begin{table") == parts, "parts of the heat map, of 100 lines, and questions"


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("transformer_attribution", "Transformer attribution"),
        ("lrp_alpha_beta", "LRP α β"),
        ("gradient_x_input (steps=5)", "Gradient × input (steps=5)"),
        ("attattr", "ATTATTR"),
        ("mine", "Mine"),
    ],
)
def test_names_in_words(name, title):
    assert method_title(name) == title


def test_a_fingerprint_is_no_part_of_a_name():
    assert without_fingerprint("tiny-c99fb17447543bba") == "tiny"
    assert without_fingerprint("bert-base-uncased") == "bert-base-uncased"


def test_every_method_of_ours_has_a_colour_and_marker_of_its_own():
    assert {*KNOWN} == {*options("methods")} - {*CONTROLS}
    pairs = [(style.colour, style.marker) for style in map(style_of, KNOWN)]
    assert len(pairs) == len(set(pairs))
    first = [style_of(name) for name in KNOWN[:8]]
    assert len({style.colour for style in first}) == 8
    assert len({(style.colour, style.marker, str(style.line)) for style in first}) == 8


def test_a_method_looks_the_same_unless_another_one_has_its_colour():
    alike = next(name for name in KNOWN if style_of(name).colour == style_of("mine").colour)
    one, other = (method_look(names) for names in (["rollout", "mine", "random"], [alike, "mine", "rollout"]))
    assert one["rollout"] == other["rollout"]
    assert one["mine"] == style_of("mine")
    assert other[alike] == style_of(alike)
    assert other["mine"] == replace(style_of("mine"), colour=other["mine"].colour)
    assert len({style.colour for style in other.values()}) == 3
    assert series_look(["rollout", "random"])["rollout"] == style_of("rollout")
    assert len({style.colour for style in series_look(["0.1", "0.2", "0.3"]).values()}) == 3
    assert series_look(["theory", "mine"], {"mine": "Mine"})["mine"] == style_of("mine"), "a method of the comparison"


@pytest.mark.parametrize(
    "names",
    [
        ["attattr", "attattr_fast", "accuracy_difference", "rollout", "random"],
        ["attention_gradcam", "attattr", "oracle"],
        [*KNOWN[:9], *CONTROLS],
        KNOWN[14:23],
    ],
)
def test_methods_of_a_figure_have_colours_of_their_own_in_whatever_order(names):
    look, backwards = method_look(names), method_look(names[::-1])
    assert look == backwards
    real = [name for name in names if name not in CONTROLS]
    assert len({look[name].colour for name in real}) == len(real)
    assert series_look(names) == look
    mixed = series_look([*names, "theory", "whole"])
    assert {name: mixed[name] for name in names} == look
    others = {mixed[name].colour for name in ("theory", "whole")}
    assert len(others) == 2
    assert others.isdisjoint(style.colour for style in look.values())


def test_sixteen_methods_have_sixteen_colours():
    look = looks_of(KNOWN[:16])
    assert len({style.colour for style in look.values()}) == 16


def test_of_many_methods_the_best_five_and_the_controls_stand_out():
    look = method_look(MANY)
    assert [name for name, style in look.items() if style.named] == [*KNOWN[:5], *CONTROLS]
    assert len({look[name].colour for name in KNOWN[5:]}) == 1
    assert all(style.named for style in method_look([*KNOWN[:9], *CONTROLS]).values())
    assert all(len({look[name].colour[i : i + 2] for i in (1, 3, 5)}) == 1 for name in CONTROLS), "greys"
