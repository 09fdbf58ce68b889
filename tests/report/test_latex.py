"""Tables for a paper: what they say, what may be chosen, and that TeX sets them without an overfull box."""

import re
import shutil
import subprocess

import pytest
from omegaconf import OmegaConf

from benchmark.errors import UserError
from benchmark.report.cells import load_cells
from benchmark.report.latex import escape, latex_analyses, latex_files
from benchmark.report.leaderboard import frame
from benchmark.report.pairs import every_pair
from benchmark.report.printed import Heading, PrintedEntry, PrintedRow, PrintedTable
from benchmark.settings.latex_settings import LatexSettings
from tests.report.folders import Plan, write_cells


@pytest.fixture(scope="module")
def made(comparison):
    cells = load_cells(comparison[1])
    table = frame(cells)
    pairs = every_pair(cells, table)

    def make(**settings):
        files = latex_files(cells, table, pairs, LatexSettings.read(settings))
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
    """pdfLaTeX has no glyph for these letters: they are commands. What it does not know becomes a question mark."""
    found = escape(text)
    assert found.isascii()
    assert found.count("?") == text.count("☆")
    assert found.count("$") % 2 == 0


def test_a_column_of_words_shows_them(tmp_path):
    """They are what the table says; in a column of figures long words say why there is none, and are a footnote."""
    figure, reason = PrintedEntry(0.5, 0.4, 0.6, 20), PrintedEntry(words="n is too small for that")
    rows = (
        PrintedRow(("attattr",), (figure, PrintedEntry(n=20, words="plausible, faithful"))),
        PrintedRow(("random",), (reason, PrintedEntry(words="control"))),
    )
    table = PrintedTable("Both", ("method",), (Heading("auprc", True), Heading("quadrant")), {"": rows}, ())
    text = latex_analyses([("both", table)], LatexSettings())
    lines = {line.split(" & ")[0]: line for line in text.splitlines() if line.startswith(("attattr", "random"))}
    assert lines["attattr"].split(" & ")[2].startswith("plausible, faithful")
    assert lines["random"].split(" & ")[1] == "--$^{1}$"
    assert lines["random"].split(" & ")[2].startswith("control")
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


def test_rows_stand_in_one_order_in_all_tables(made):
    orders = []
    for text in made(columns="two").values():
        for body in re.findall(r"\\midrule\n(.*?)\\bottomrule", text, re.DOTALL):
            orders.append([line.split(" & ")[0] for line in body.splitlines() if " & " in line])
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
        names={"rollout": "Ours"},
    )["leaderboard.tex"]
    assert [line.split(" & ")[0] for line in text.splitlines() if "pm" not in line and "_{[" in line] == [
        "Ours",
        "Random",
    ]
    assert text.index("auprc") < text.index("positive")
    assert r"\pm" not in text
    assert "_{" not in re.sub(r"\\label\{.*?\}", "", made(interval="none")["leaderboard.tex"])


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"column": "two"}, r"report\.latex\.column is no setting; did you mean columns"),
        ({"columns": "three"}, r"report\.latex\.columns=three: allowed are one, two"),
        ({"interval": 3}, r"report\.latex\.interval=3: allowed are half, bounds, none"),
        ({"metrics": 3}, r"report\.latex\.metrics=3 must be a list of names"),
        ({"names": "x"}, r"report\.latex\.names=x must be a mapping"),
        ({"metrics": ["rationale.auprk"]}, r"metrics=rationale\.auprk is unknown; did you mean rationale\.auprc"),
        ({"methods": ["rolout"]}, "no method rolout; did you mean rollout"),
        ({"names": {"rolout": "X"}}, r"names\.rolout: there is no method rolout; did you mean rollout"),
        ("two", "must be a mapping"),
    ],
)
def test_a_slip_is_one_line(made, given, told):
    with pytest.raises(UserError, match=told):
        made(**given) if isinstance(given, dict) else LatexSettings.read(given)


def test_settings_come_from_a_configuration():
    config = OmegaConf.create(
        {"columns": "two", "metrics": ["a"], "methods": [], "interval": "none", "names": {"a": "A"}}
    )
    assert LatexSettings.read(config) == LatexSettings("two", ("a",), (), "none", {"a": "A"})
    assert LatexSettings.read(None) == LatexSettings()


def test_a_float_of_many_methods_is_cut_and_says_so(tmp_path):
    folders = write_cells(
        tmp_path, [Plan(f"method_{place}", skill=place / 40) for place in range(33)] + [Plan("random")]
    )
    cells = load_cells(folders)
    table = frame(cells)
    files = dict(latex_files(cells, table, {("planted", "tiny"): []}, LatexSettings()))
    overview, full = (files[name].decode() for name in ("leaderboard.tex", "leaderboard-full.tex"))
    assert "The best 30 of 33 methods; the appendix has all." in overview
    assert "Random &" in overview
    assert len({line.split(" & ")[0] for line in overview.splitlines() if line.startswith("Method ")}) == 30
    assert len({line.split(" & ")[0] for line in full.splitlines() if line.startswith("Method ")}) == 33


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no TeX is installed")
@pytest.mark.parametrize("columns", ["one", "two"])
def test_tex_sets_the_tables_without_an_overfull_box(made, tmp_path, columns):
    for name, text in made(columns=columns).items():
        (tmp_path / name).write_text(text, encoding="latin-1")
    option, single = ("[twocolumn]", r"\onecolumn") if columns == "two" else ("", "")
    (tmp_path / "paper.tex").write_text(
        rf"\documentclass{option}{{article}}\usepackage{{booktabs,graphicx,longtable}}\begin{{document}}Text."
        rf"\input{{leaderboard}}\clearpage{single}\input{{leaderboard-full}}\end{{document}}"
    )
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout
    assert "Float too large" not in done.stdout
