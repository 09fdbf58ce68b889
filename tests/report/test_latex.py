"""Tables for a paper: what they say, what may be chosen, and that TeX sets them without an overfull box."""

import re
import shutil
import subprocess
from functools import partial

import pytest
from omegaconf import OmegaConf

from benchmark.errors import UserError
from benchmark.report.cells import load_cells
from benchmark.report.latex import escape, interval_of, latex_analyses, latex_files
from benchmark.report.leaderboard import frame
from benchmark.report.naming import Names
from benchmark.report.pairs import every_pair
from benchmark.report.printed import Heading, PrintedEntry, PrintedRow, PrintedTable
from benchmark.settings.report_settings import LatexSettings, ReportSettings
from tests.report.folders import Plan, write_cells


@pytest.fixture(scope="module")
def made(comparison):
    cells = load_cells(comparison[1])
    table = frame(cells)
    pairs = every_pair(cells, table)

    def make(names=None, **settings):
        look = ReportSettings.read({"latex": settings, "names": names or {}})
        files = latex_files(cells, table, pairs, Names.of(cells, look.names), look.latex)
        return {name: content.decode() for name, content in files}

    return make


@pytest.mark.parametrize("name", ["[x]", "*", "* [2pt]", "a]b"])
def test_no_name_is_the_argument_of_a_line_break(name):
    """`\\\\[2pt]` and `\\\\*` are commands: a name that begins so, in a row after another one, must not become one."""
    assert not set("[]*") & set(escape(name).replace("{[}", "").replace("{]}", "").replace("{*}", ""))
    assert escape("a[b]*") == "a{[}b{]}{*}"


@pytest.mark.parametrize(
    "text", ["higher ↑, lower ↓", "τ of β-LRP, Δ ≠ 0 ≈ ∞", "‖e‖ ∘ ∂y, ½ – “so”", "a → b ← c ∈ Ω", "★ • ☆"]
)
def test_symbols_of_our_tables_are_printed(text):
    """pdfLaTeX has no glyph for these letters: they are commands. What it does not know is a question mark there."""
    found = escape(text).replace(r"\otherscript{☆}{?}", "?")
    assert found.isascii()
    assert found.count("?") == text.count("☆")
    assert found.count("$") % 2 == 0


def test_a_column_of_words_shows_them(tmp_path):
    """They are what the table says; in a column of figures long words say why there is none, and are a footnote."""
    figure, reason = PrintedEntry(0.5, 0.4, 0.6, 20), PrintedEntry(words="n is too small for that")
    why = "the model does not know what removals leave"
    rows = (
        PrintedRow(("attattr",), (figure, PrintedEntry(n=20, words="plausible, faithful"), PrintedEntry(words=why))),
        PrintedRow(
            ("random",), (reason, PrintedEntry(words="control"), PrintedEntry(words="all that was asked passes"))
        ),
    )
    headings = (Heading("auprc", True), Heading("quadrant"), Heading("why"))
    table = PrintedTable("Both", ("method",), headings, {"": rows}, ())
    text = latex_analyses([("both", table)], LatexSettings())
    lines = {line.split(" & ")[0]: line for line in text.splitlines() if line.startswith(("attattr", "random"))}
    assert lines["attattr"].split(" & ")[2].startswith("plausible, faithful")
    assert lines["random"].split(" & ")[1] == "--$^{1}$"
    assert lines["random"].split(" & ")[2].startswith("control")
    assert lines["attattr"].count("--") == 0
    assert [word for word in why.split() if word not in lines["attattr"]] == [], (
        "no value is as words of no examples are"
    )
    assert "n is too small for that" in text
    assert "plausible" not in text[text.index("smallskip") :]


def test_every_row_has_an_entry_per_column(made):
    for text in made(columns="two").values():
        bare = re.sub(r"\\[{}]", "", text)
        assert bare.count("{") == bare.count("}")
        assert len(re.findall(r"(?<!\\)\$", text)) % 2 == 0
        tables = re.findall(r"\\begin\{(?:tabular|longtable)\}\{(lr*)\}(.*?)\\end", text, re.DOTALL)
        assert tables
        for columns, body in tables:
            rows = [row for row in body.splitlines() if " & " in row and "multicolumn" not in row]
            assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {len(columns) - 1}


def labels(lines):
    """The methods of a table's lines, without the lines of intervals below them."""
    return [
        line.split(" & ")[0] for line in lines.splitlines() if " & " in line and not line.startswith((" &", r"\quad"))
    ]


def test_rows_stand_in_one_order_in_all_tables(made):
    orders = []
    for text in made(columns="two").values():
        for body in re.findall(r"\\midrule\n(.*?)\\bottomrule", text, re.DOTALL):
            orders.append(labels(body))
    assert len(orders) >= 3
    assert all(order == orders[0] for order in orders)
    assert orders[0][0] == "Transformer attribution"
    assert orders[0][-5:] == ["Oracle", "Random", "Inverted", "Position", "Frequency"]


def test_daggers_say_what_was_tested(made):
    text = made()["leaderboard.tex"]
    best = next(line for line in text.splitlines() if line.startswith("Transformer attribution"))
    assert r"\mathbf" in best
    assert r"\dagger" in best
    assert r"\ddagger" not in best
    worst = next(line for line in text.splitlines() if line.startswith("LRP"))
    assert re.search(r"\^\{\\ddagger", worst)
    assert r"$\dagger$: better than random scores" in text
    assert "Holm-corrected" in text
    control = next(line for line in text.splitlines() if line.startswith("Oracle"))
    assert r"\dagger" not in re.sub(r"\\phantom\{[^}]*\}", "", control)


def test_metrics_methods_interval_and_names_are_chosen(made):
    text = made(
        metrics=["rationale.auprc", "perturbation"],
        methods=["rollout", "random"],
        interval="bounds",
        names={"methods": {"rollout": "Ours"}},
    )["leaderboard.tex"]
    bodies = re.findall(r"\\midrule\n(.*?)\\bottomrule", text, re.DOTALL)
    assert bodies
    assert all(labels(body) == ["Ours", "Random"] for body in bodies)
    assert text.count("scriptsize$[0.") >= 4
    assert text.index("auprc") < text.index("positive")
    assert r"\pm" not in text
    assert "scriptsize$" not in made(interval="none")["leaderboard.tex"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"column": "two"}, r"report\.latex\.column is no setting; did you mean columns"),
        ({"columns": "three"}, r"report\.latex\.columns=three: allowed are one, two"),
        ({"interval": 3}, r"report\.latex\.interval=3: allowed are half, bounds, none"),
        ({"metrics": 3}, r"report\.latex\.metrics=3 must be a list of names"),
        ({"layout": "models"}, r"report\.latex\.layout=models: allowed are metrics, tasks"),
        ({"metrics": ["rationale.auprk"]}, r"metrics=rationale\.auprk is unknown; did you mean rationale\.auprc"),
        ({"methods": ["rolout"]}, "no method rolout; did you mean rollout"),
        ("two", "must be a mapping"),
    ],
)
def test_a_slip_is_one_line(made, given, told):
    with pytest.raises(UserError, match=told):
        made(**given) if isinstance(given, dict) else ReportSettings.read({"latex": given})


def test_settings_come_from_a_configuration():
    latex = {"columns": "two", "metrics": ["a"], "methods": [], "interval": "none"}
    names = {
        "methods": {"a": "A"},
        "metrics": {"perturbation": {"positive_auc_mean": "AUC"}, "aopc.sufficiency": "Suff."},
    }
    found = ReportSettings.read(OmegaConf.create({"latex": latex, "names": names, "figures": {"format": "pdf"}}))
    assert found.latex == LatexSettings("two", "metrics", ("a",), (), "none")
    assert found.names.methods == {"a": "A"}
    assert found.names.metrics == {"perturbation.positive_auc_mean": "AUC", "aopc.sufficiency": "Suff."}
    assert found.figures.format == ("pdf",)
    assert ReportSettings.read(None) == ReportSettings()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"latx": {}}, r"report\.latx is no setting; did you mean latex"),
        ({"names": {"method": {}}}, r"report\.names\.method is no setting; did you mean methods"),
        ({"names": {"methods": "x"}}, r"report\.names\.methods=x must be a mapping"),
        ({"figures": {"width": "half"}}, r"report\.figures\.width=half: allowed are screen, column, page"),
        ({"figures": {"format": ["pdf", "svg"]}}, r"report\.figures\.format=svg: allowed are pdf, png"),
        ({"figures": {"title": "no"}}, r"report\.figures\.title=no: allowed are"),
    ],
)
def test_a_slip_in_how_a_report_looks_is_one_line(given, told):
    with pytest.raises(UserError, match=told):
        ReportSettings.read(given)


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ({"methods": {"rolout": "X"}}, r"names\.methods\.rolout: there is no method rolout; did you mean rollout"),
        ({"metrics": {"aopc.x": "X"}}, r"names\.metrics\.aopc\.x: there is no metric aopc\.x; did you mean aopc\.y"),
    ],
)
def test_names_of_nothing_are_refused(names, told):
    look = ReportSettings.read({"names": names})
    check = (
        partial(look.check_methods, ["rollout"]) if "methods" in names else partial(look.check_names, {"aopc": ["y"]})
    )
    with pytest.raises(UserError, match=told):
        check()


@pytest.mark.thorough
def test_a_float_of_many_methods_is_cut_and_says_so(tmp_path):
    folders = write_cells(
        tmp_path, [Plan(f"method_{place}", skill=place / 40) for place in range(33)] + [Plan("random")]
    )
    cells = load_cells(folders)
    table = frame(cells)
    files = dict(latex_files(cells, table, {("planted", "tiny"): []}, Names.of(cells), LatexSettings()))
    overview, full = (files[name].decode() for name in ("leaderboard.tex", "leaderboard-full.tex"))
    assert "The best 24 of 33 methods; the appendix has all." in overview
    assert "Random &" in overview
    assert len({line.split(" & ")[0] for line in overview.splitlines() if line.startswith("Method ")}) == 24
    assert len({line.split(" & ")[0] for line in full.splitlines() if line.startswith("Method ")}) == 33


def typeset(folder, files, *, engine="pdflatex", columns="one"):
    """What an engine says of a paper with these tables; it must set them."""
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    option, single = ("[twocolumn]", r"\onecolumn") if columns == "two" else ("", "")
    full = r"\input{leaderboard-full}" if "leaderboard-full.tex" in files else ""
    (folder / "paper.tex").write_text(
        rf"\documentclass{option}{{article}}\usepackage{{booktabs,longtable}}\begin{{document}}Text."
        rf"\input{{leaderboard}}\clearpage{single}{full}\end{{document}}"
    )
    command = [engine, "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]
    return done.stdout


needs_tex = pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no TeX is installed")


@needs_tex
@pytest.mark.parametrize("interval", ["half", "bounds"])
@pytest.mark.parametrize("columns", ["one", "two"])
def test_tex_sets_the_tables_without_an_overfull_box(made, tmp_path, columns, interval):
    """Nothing is shrunk, so that what fits is as large as it says: 8 pt, intervals 7 pt."""
    files = made(columns=columns, interval=interval)
    assert not any(r"\resizebox" in text for text in files.values())
    said = typeset(tmp_path, files, columns=columns)
    assert "Overfull" not in said
    assert "Float too large" not in said


@pytest.fixture(scope="module")
def nine(tmp_path_factory):
    """Three models on three data sets; one method is compared on the first data set alone."""
    root = tmp_path_factory.mktemp("nine")
    folders = []
    for task in ("reviews", "opinions", "blurbs"):
        for model in ("small", "medium", "large"):
            skills = {"rollout": 0.2, "attattr": 0.8, "gradient_x_input": 0.5, "random": 0.0}
            skills |= {"lime": 0.4} if task == "reviews" else {}
            place = {"task": {"name": task}, "model": {"name": model, "fingerprint": model * 4}}
            plans = [Plan(name, skill=skill, **place) for name, skill in skills.items()]
            folders += write_cells(root / task / model, plans)
    cells = load_cells(folders)
    table = frame(cells)
    pairs = every_pair(cells, table)

    def make(names=None, **settings):
        look = ReportSettings.read({"latex": {"layout": "tasks", **settings}, "names": names or {}})
        files = latex_files(cells, table, pairs, Names.of(cells, look.names), look.latex)
        return dict(files)["leaderboard.tex"].decode()

    return make


@pytest.mark.thorough
def test_a_table_over_tasks_has_a_column_for_each_model_on_each_of_them(nine):
    names = {"tasks": {"reviews": "IMDb"}, "models": {"small": "BERT-S"}, "methods": {"attattr": "Ours"}}
    text = nine(names=names, metrics=["rationale.auprc"], columns="two")
    assert text.count(r"\begin{tabular}{lrrrrrrrrr}") == 1
    assert [text.count(rf"\multicolumn{{3}}{{c}}{{{task}}}") for task in ("IMDb", "opinions", "blurbs")] == [1, 1, 1]
    assert text.count(r"\shortstack[r]{BERT-S}") == 3
    lines = [
        line for line in text.splitlines() if " & " in line and line[0].isalpha() and not line.startswith("method")
    ]
    assert [line.split(" & ")[0] for line in lines] == ["Ours", "Gradient $\\times$ input", "LIME", "Rollout", "Random"]
    lime = next(line for line in lines if line.startswith("LIME"))
    assert lime.count("--$^{1}$") == 6
    assert "not compared on this data set and model" in text
    assert r"$n$ & " in text


@pytest.mark.thorough
def test_tables_over_tasks_share_one_order_and_one_explanation(nine):
    text = nine(metrics=["rationale.auprc", "perturbation.positive_auc"], columns="two")
    orders = [labels(body) for body in re.findall(r"\\midrule\n(.*?)\\bottomrule", text, re.DOTALL)]
    assert len(orders) == 2
    assert orders[0] == orders[1]
    assert text.count("Holm-corrected") == 1
    assert r"as in Table~\ref{tab:rationale.auprc}" in text


@needs_tex
def test_tex_sets_three_models_on_three_tasks_across_a_page_of_two_columns(nine, tmp_path):
    said = typeset(tmp_path, {"leaderboard.tex": nine(columns="two")}, columns="two")
    assert "Overfull" not in said
    assert "Float too large" not in said


def test_figures_are_bold_where_a_method_is_worse_than_the_best(tmp_path):
    """Two methods that no test tells apart have no best one."""
    plans = [Plan("attattr", skill=0.6), Plan("rollout", skill=0.6), Plan("random")]
    cells = load_cells(write_cells(tmp_path, plans))
    table = frame(cells)
    files = latex_files(cells, table, every_pair(cells, table), Names.of(cells), LatexSettings())
    text = dict(files)["leaderboard.tex"].decode()
    assert r"\mathbf" not in text
    assert "No figure is bold" in text


def test_an_interval_that_is_not_symmetric_is_shown_by_its_bounds():
    even, skewed = PrintedEntry(0.5, 0.4, 0.59, 9), PrintedEntry(0.5, 0.45, 0.7, 9)
    past_the_end = PrintedEntry(0.95, 0.8, 1.0, 9, reach=(0.0, 1.0))
    assert [interval_of(entry, "half") for entry in (even, skewed, past_the_end)] == [
        "±0.100", "[0.450, 0.700]", "[0.800, 1.000]",
    ]  # fmt: skip
    assert interval_of(even, "bounds") == "[0.400, 0.590]"
    assert interval_of(even, "none") == ""


@needs_tex
@pytest.mark.parametrize("engine", ["pdflatex", "lualatex"])
def test_letters_of_other_scripts_break_no_engine(tmp_path, engine):
    if shutil.which(engine) is None:
        pytest.skip(f"{engine} is not installed")
    cells = load_cells(write_cells(tmp_path / "cells", [Plan("rollout"), Plan("random")]))
    names = Names.of(cells, ReportSettings.read({"names": {"methods": {"rollout": "Łukasz 注意力"}}}).names)
    table = frame(cells)
    files = latex_files(cells, table, every_pair(cells, table), names, LatexSettings())
    text = dict(files)["leaderboard.tex"].decode()
    assert r"\otherscript{注意力}{???}" in text
    typeset(tmp_path, {"leaderboard.tex": text}, engine=engine)
    if shutil.which("pdftotext") is not None:
        read = subprocess.run(["pdftotext", "paper.pdf", "-"], cwd=tmp_path, capture_output=True, text=True, check=True)
        assert ("???" in read.stdout) == (engine == "pdflatex")
