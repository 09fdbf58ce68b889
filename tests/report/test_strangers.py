"""Run folders of strangers: any name gives a report, nothing in it is executed, and what is malformed is one line."""

import csv
import io
import json
import logging
import os
import re
import resource
import shutil
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.console import Console

from benchmark.errors import UserError, printable
from benchmark.report import load_cells, terminal_table, write_report
from benchmark.report.__main__ import main
from benchmark.report.latex import escape as escape_latex
from benchmark.report.page.document import comparison_page
from benchmark.report.printed import as_text
from benchmark.results.digests import sealed
from benchmark.results.graph import AttributionGraph
from benchmark.results.wording import escape_markdown
from tests.report.carried import Page, carried
from tests.report.folders import Plan, changed, replaced_rows, resealed, write_cell, write_cells

NASTY = (
    "$x_{", "a$b$c", r"$\frac{1}{", "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "a&b<c", "&lt;b&gt;",
    "[x](javascript:alert(1))", "![x](http://evil.example/p.png)", "[x]: http://evil.example", "[0.1, 0.2]", "[x]",
    "http://evil.example/a", "www.evil.example", "`code`", "**bold**", "_it_", "~~s~~", "a|b", "# h", "- item", "1. one",
    '=HYPERLINK("http://x","y")', "+1+1|cmd", "-2+3", "@SUM(A1)", "\x1b]0;owned\x07", "\x1b[2J", "nul\0byte", "\x9b31m",
    "line\nbreak\rback", "lone \ud800 half", "\u202eright", "\u2028", "{{ 7 * 7 }}", r"\input{/etc/passwd}", "% comment",
    "[red]", "[/bold]", ":smile:", "ends in \\", "^^M", "~", "}{", "*", "_x", "_nolegend_", "日本語 😀 é", "\ufeff",
    "\uffff", "---", "n" * 300, "\0",
)  # fmt: skip

TAGS = {
    "h1",
    "h2",
    "h3",
    "p",
    "code",
    "ul",
    "li",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "strong",
    "em",
    "u",
    "br",
}


def renamed(folder: Path, name: str, *, deeply: bool = False) -> Path:
    """The run folder with its method called `name`; `deeply` renames task, model, tests, metrics and words as well."""
    record = json.loads((folder / "record.json").read_text())
    record["method"]["name"] = name
    record["hash"] = f"{abs(hash((name, deeply))):064x}"
    rows = pd.read_parquet(folder / "rows.parquet")
    if deeply:
        record["task"]["name"], record["model"]["name"] = f"task {name}", f"model {name}"
        for entry in record["evaluations"].values():
            entry["name"] += name
            entry["target"], entry["remark"] = name, name
            entry["metrics"] = {f"{name}{key}": value for key, value in entry["metrics"].items()}
            for metric in entry["metrics"].values():
                metric["x"] = metric["x"] and f"{name}{metric['x']}"
            for figure in entry["figures"]:
                figure["metric"] = f"{name}{figure['metric']}"
        record["evaluations"] = {f"{key}{name}": entry for key, entry in record["evaluations"].items()}
        (folder / "config.yaml").write_text(json.dumps({"method": {name: name, "steps": name}}))
        heatmap = json.loads((folder / "heatmap.json").read_text())
        for shown in heatmap:
            shown |= dict.fromkeys(("uid", "label", "predicted", "target"), name)
            shown["words"] = [name] * len(shown["words"])
        (folder / "heatmap.json").write_text(json.dumps(heatmap))
        rows = rows.assign(evaluation=rows["evaluation"] + name, metric=name + rows["metric"])
    (folder / "record.json").write_text(json.dumps(record))
    return replaced_rows(folder, rows)


@pytest.fixture(scope="module")
def strange(tmp_path_factory):
    """A report in which every nasty name is a method, and some are everything."""
    out = tmp_path_factory.mktemp("strange")
    plans = [
        Plan("rollout", settings={"place": place}, evaluations=("perturbation",), n=6) for place in range(len(NASTY))
    ]
    folders = [renamed(folder, name) for folder, name in zip(write_cells(out, plans), NASTY, strict=True)]
    for place, name in enumerate((NASTY[0], NASTY[26])):
        plan = Plan("rollout", settings={"deep": place}, evaluations=("perturbation",), n=6)
        folders.append(renamed(write_cell(out / "deep", plan), name, deeply=True))
    write_report(load_cells(folders), out / "report")
    return out / "report", folders


def markdown_page(text):
    return Page(MarkdownIt("commonmark").enable("table").enable("strikethrough").render(text))


def controls(text):
    return sorted(symbol for symbol in {*text} - {"\n"} if printable(symbol) != symbol)


@pytest.mark.thorough
def test_no_file_holds_a_control_character(strange):
    for path in strange[0].iterdir():
        if path.suffix in (".md", ".csv", ".tex", ".html"):
            assert controls(path.read_text(encoding="utf-8")) == [], path.name


def test_markdown_shows_every_name_as_it_is_and_nothing_else(strange):
    text = (strange[0] / "leaderboard.md").read_text()
    page = markdown_page(text)
    assert page.tags <= TAGS
    assert not [value for name, value in page.attributes if name in ("href", "src") or name.startswith("on")]
    shown = " ".join(" ".join(page.text).split())
    for name in NASTY:
        assert " ".join(printable(name).split()) in shown, name


def test_a_spreadsheet_computes_no_name(strange):
    for path in strange[0].glob("*.csv"):
        for row in csv.reader(io.StringIO(path.read_text())):
            for cell in row:
                assert not cell.startswith(("=", "+", "@")), (path.name, cell)
                assert not cell.startswith("-") or re.fullmatch(r"-\d+(\.\d+)?(e-?\d+)?", cell), (path.name, cell)
    methods = set(pd.read_csv(strange[0] / "cost.csv", keep_default_na=False)["method"])
    assert {"'" + name for name in NASTY if name[0] in "=+-@"} <= methods
    assert "a|b" in methods


def test_numbers_of_a_csv_stay_numbers(tmp_path):
    folder = write_cell(tmp_path, Plan("inverted"))
    write_report(load_cells([folder]), tmp_path / "report")
    table = pd.read_csv(tmp_path / "report" / "leaderboard.csv")
    assert table["value"].dtype == float
    assert (table["low"] < 0).any()
    assert [as_text(cell) for cell in ("-0.5", "+1e3", -1.0, None, "-x", "a-b")] == [
        "-0.5",
        "+1e3",
        -1.0,
        None,
        "'-x",
        "a-b",
    ]


def test_latex_reads_every_name_as_text(strange):
    text = (strange[0] / "leaderboard.tex").read_text()
    known = {
        "usepackage", "begin", "end", "centering", "caption", "label", "medskip", "toprule", "midrule", "bottomrule",
        "cmidrule", "multicolumn", "uparrow", "downarrow", "mathbf", "underline", "scriptsize", "par", "smallskip",
        "footnotesize", "textsuperscript", "textbackslash", "textasciitilde", "textasciicircum", "textless",
        "textgreater", "textbar", "times", "textperiodcentered", "dots", "geq", "leq", "tau", "setlength", "tabcolsep",
        "sbox", "ifdim", "wd", "columnwidth", "textwidth", "resizebox", "usebox", "else", "fi", "shortstack", "pm",
        "dagger", "ddagger", "phantom", "raggedright", "infty", "mathrm", "quad", "providecommand", "otherscript",
        "ifdefined", "directlua", "XeTeXversion",
    }  # fmt: skip
    assert set(re.findall(r"\\([A-Za-z]+)", text.replace(r"\\", " "))) <= known
    bare = re.sub(r"\\[{}]", "", text.replace(r"\\", " "))
    assert bare.count("{") == bare.count("}")
    assert len(re.findall(r"(?<!\\)\$", text)) % 2 == 0
    for table in re.findall(r"\\begin\{tabular\}\{(.*?)\}(.*?)\\end\{tabular\}", text, re.DOTALL):
        rows = [row for row in re.split(r"\\\\\*?\n", table[1]) if "&" in row and "multicolumn" not in row]
        assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {len(table[0]) - 1}
        assert not [row for row in rows if row.lstrip().startswith(("[", "*"))]


def test_the_page_holds_no_markup_of_names(strange):
    """All texts of run folders but those of its title are data, which no browser reads as markup."""
    text = (strange[0] / "index.html").read_text()
    plain = comparison_page(load_cells(strange[1][:1]), links=carried(text)["overview-data"]["links"])
    page, known = Page(text), Page(plain)
    assert page.tags == known.tags
    assert [tag for tag, _ in page.found] == [tag for tag, _ in known.found]
    assert page.attributes == known.attributes
    boards = carried(text)["overview-data"]["boards"]
    names = {method["name"] for board in boards for method in board["methods"]}
    for name in NASTY:
        assert any(shown.startswith(printable(name)) for shown in names), name


def test_every_name_is_drawn(strange):
    pictures = list(strange[0].glob("curve-*.png"))
    assert len(pictures) == len(list(strange[0].glob("curve-*.pdf"))) >= 2
    assert all(len(path.name) < 200 for path in strange[0].iterdir())


def test_the_terminal_gets_no_control_sequence(strange):
    console = Console(width=140, file=io.StringIO(), force_terminal=False)
    console.print(terminal_table(load_cells(strange[1])))
    text = console.file.getvalue()
    assert controls(text) == []
    for name in ("[red]", "[/bold]", ":smile:", "<script>alert(1)</script>", "$x_{"):
        assert name in text


@settings(max_examples=150)
@given(st.text(st.characters(codec=None), max_size=30))
@example("[a](b)[0.1, 0.2]: c")
@example("\\")
@example("1) 2. -")
def test_any_text_survives_markdown_and_latex(text):
    name = printable(text)
    name.encode()
    assert controls(name) == []
    for line in (
        f"| {escape_markdown(name)} | b |",
        f"## {escape_markdown(name)} end",
        f"- {escape_markdown(name)}: x",
    ):
        table = f"| h | b |\n| --- | --- |\n{line}" if line.startswith("|") else line
        page = markdown_page(table + "\n\n[0.1, 0.2] [x] [1]\n")
        assert page.tags <= TAGS | {"h2"}
        assert " ".join(name.split()) in " ".join("".join(page.text).split())
    latex = escape_latex(name)
    bare = re.sub(r"\\[{}]", "", latex)
    assert bare.count("{") == bare.count("}")
    assert not re.match(r"[\[*]", latex)


def test_a_message_is_one_line_without_control_characters(tmp_path, capsys):
    place = tmp_path / "x\x1b[2J\ny"
    with pytest.raises(SystemExit) as ended:
        main([str(place)])
    assert ended.value.code == 2
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    assert controls(shown) == []
    assert str(UserError("a\nb\x1b\ud800")) == "a b\ufffd"


def put(*path_and_value):
    *path, last, value = path_and_value

    def change(record):
        for key in path:
            record = record[key]
        record[last] = value

    return lambda folder: changed(folder, change)


def written(name, content):
    return lambda folder: (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def table_of(**columns):
    base = {"uid": ["a"], "evaluation": ["rationale"], "metric": ["auprc"], "x": [None], "value": [0.5]}
    return lambda folder: pq.write_table(pa.table({**base, **columns}), folder / "rows.parquet")


def bomb(folder):
    """A small file with two million rows: 33,000 for each example."""
    rows = 2_000_000
    one = pa.array(["a"]).dictionary_encode()
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), one.dictionary)
    names = ("uid", "evaluation", "metric")
    numbers = {name: pa.array(np.zeros(rows, np.float32)) for name in ("x", "value")}
    pq.write_table(pa.table({**dict.fromkeys(names, column), **numbers}), folder / "rows.parquet", compression="zstd")


def no_file(name):
    def change(folder):
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return change


def sealed_tables(*tables):
    """The content of an analysis' file."""
    return json.dumps(sealed({"tables": list(tables), "reads": {}}))


def drawn(label="1.5", **drawing):
    """A table of an analysis."""
    rows = [{"τ": label, "metric": "auc", "value": 1, "low": None, "high": None, "n": 3, "note": ""}]
    shown = {"kind": "curves", "x": "τ", "y": ["auc"], "series": None, "panels": [], "value": None, "logarithmic": "x"}
    facts = {"name": "t $x_{", "title": "A $ table $x_{", "labels": ["τ"], "sentences": ["=1+1"], "printed": True}
    return {**facts, "rows": rows, "drawing": {**shown, **drawing}}


DEEP = 100_000
MALFORMED = {
    "depth": written("record.json", "[" * DEEP + "]" * DEEP),
    "depth in an object": written("record.json", '{"schema": 2, "a": ' + '{"a":' * 900 + "1" + "}" * 901),
    "digits": put("task", "n", 7),  # replaced below
    "number": written("record.json", '{"schema": 2, "evaluations": {}, "n": 1e400}'),
    "open string": written("record.json", '{"schema": 2, "a": "' + '\\"' * 50_000),
    "evaluation": put("evaluations", "x", []),
    "evaluations": put("evaluations", [1]),
    "cost": put("cost", "x"),
    "cost value": put("cost", "seconds", "x"),
    "no method": put("method", "name", ""),
    "method": put("method", None),
    "method name": put("method", "name", ["a"]),
    "n": put("task", "n", "many"),
    "true n": put("task", "n", True),
    "figures": put("evaluations", "rationale", "figures", {"a": 1}),
    "figure": put("evaluations", "rationale", "figures", [1]),
    "figure value": put("evaluations", "rationale", "figures", [{"metric": "auprc", "n": 3, "value": "x"}]),
    "metrics": put("evaluations", "rationale", "metrics", [1]),
    "metric": put("evaluations", "rationale", "metrics", {"auprc": 1}),
    "dash": put("dash", {"a": 1}),
    "two names": put("evaluations", {"a": {}, "a\0": {}}),
    "aliases": written("config.yaml", "a: &a [1, 2]\nb: [*a, *a]\n"),
    "yaml depth": written("config.yaml", "[" * 5000 + "]" * 5000),
    "yaml tag": written("config.yaml", "!!python/object/apply:os.system ['true']"),
    "yaml number": written("config.yaml", "a: " + "9" * 5000),
    "yaml base 60": written("config.yaml", "a: 1" + ":59" * 2000),
    "yaml list": written("config.yaml", "[1]"),
    "yaml bytes": written("config.yaml", b"\xff\xfe\x00"),
    "rows bomb": bomb,
    "rows text": table_of(value=["x"]),
    "rows list": table_of(value=[[1]]),
    "rows column": lambda folder: pq.write_table(pa.table({"uid": ["a"]}), folder / "rows.parquet"),
    "rows cut": written("rows.parquet", b"PAR1"),
    "heatmap": written("heatmap.json", '[{"uid": 1, "words": 3, "scores": 4, "target": 5}]'),
    "heatmap probability": written(
        "heatmap.json", '[{"uid": "a", "words": ["b"], "scores": [1], "target": "c", "probability": "x"}]'
    ),
    "heatmap depth": written("heatmap.json", "[" * DEEP),
    "graphs": written("graphs.json", '[{"uid": "a", "target": "b", "graph": {"tokens": 3}}]'),
    "pipe": no_file("heatmap.json"),
    "analyses": lambda folder: written("drawn.json", sealed_tables({"name": "x"}))(analyses_of(folder)),
    "analyses drawing": lambda folder: written("drawn.json", sealed_tables(drawn(x="nowhere")))(analyses_of(folder)),
    "analyses kind": lambda folder: written("drawn.json", sealed_tables(drawn(kind="pie")))(analyses_of(folder)),
    "analyses words": lambda folder: written("drawn.json", sealed_tables(drawn(kind="words", y=["no"], logarithmic="")))(
        analyses_of(folder)
    ),
    "analyses number": lambda folder: written("drawn.json", sealed_tables(drawn(label="x")))(analyses_of(folder)),
    "analyses depth": lambda folder: written("drawn.json", "[" * DEEP)(analyses_of(folder)),
}  # fmt: skip
MALFORMED["digits"] = lambda folder: written(
    "record.json", (folder / "record.json").read_text().replace('"n": 60', f'"n": {"6" * 5000}')
)(folder)


def analyses_of(folder):
    place = folder.parents[2] / "report" / "analyses"
    place.mkdir(parents=True)
    return place


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Run folders of three methods, to be copied."""
    out = tmp_path_factory.mktemp("plain")
    return out, write_cells(out, [Plan("rollout"), Plan("random"), Plan("oracle")])


@pytest.fixture
def runs(plain, tmp_path):
    """A copy of them."""
    return Path(shutil.copytree(plain[0], tmp_path / "runs"))


@pytest.mark.usefixtures("no_curves")
@pytest.mark.parametrize("case", MALFORMED)
def test_what_is_malformed_is_one_line_and_costs_little(runs, plain, capsys, case):
    folder = runs / plain[1][0].relative_to(plain[0])
    MALFORMED[case](folder)
    resealed(folder)
    start, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(SystemExit) as ended:
        main([str(runs)])
    assert ended.value.code == 2
    assert time.process_time() - start < 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # kilobytes
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    assert len(captured.err) < 1000
    assert "remove" not in captured.err
    place = "analyses" if case.startswith("analyses") else folder.name
    assert place in captured.err
    assert not (runs / "report" / "leaderboard.md").exists()


@pytest.fixture
def no_curves(monkeypatch):
    """The figures of curves take most of a report's time."""
    monkeypatch.setattr("benchmark.report.write.curve_files", lambda *_: iter(()))


@pytest.mark.usefixtures("no_curves")
def test_tables_of_analyses_are_shown_whatever_they_are_called(runs, plain):
    folder = runs / plain[1][0].relative_to(plain[0])
    table = {**drawn(), "sentences": [*NASTY], "title": "".join(NASTY)}
    tables = [table, {**table, "name": "T $x_{{"}, {**table, "name": "=1", "title": "=1", "labels": ["=τ"]}]
    tables[2]["rows"] = [{"=τ" if key == "τ" else key: value for key, value in row.items()} for row in table["rows"]]
    tables[2]["drawing"] = {**table["drawing"], "x": "=τ"}
    words = [{**row, "τ": nasty, "place": 0} for row in table["rows"] for nasty in NASTY]
    noted = [{**row, "value": None, "note": row["τ"], "place": 1} for row in words]
    shaded = {**table["drawing"], "kind": "words", "logarithmic": ""}
    tables.append({**table, "name": "words", "labels": ["τ", "place"], "rows": [*words, *noted], "drawing": shaded})
    written("drawn.json", sealed_tables(*tables))(analyses_of(folder))
    assert main([str(runs)]) == 0
    report = runs / "report"
    assert len(list(report.glob("table-*.csv"))) == 4
    assert len(list(report.glob("table-*.png"))) == 3, "words are drawn in the page"
    page = (report / "index.html").read_text()
    found = carried(page)["overview-data"]["analyses"][3]["figure"]["panels"][0]
    shown = [*dict.fromkeys(printable(nasty) or "▢" for nasty in NASTY)]
    assert found["words"] == shown
    assert len(found["rows"][0]["notes"]) == len(shown)
    assert Page(page).tags == Page(comparison_page(load_cells(plain[1]))).tags
    assert markdown_page((report / "analyses.md").read_text()).tags <= TAGS
    assert "'=τ" in "".join(path.read_text() for path in report.glob("table-*.csv"))


GRAPH = {
    "tokens": ["[CLS]", "a", "b"], "units": [-1, 0, 1], "states": ["not-appeared", "fixed", "appeared"],
    "construction": "paper", "threshold": 0.4, "layers": 2, "top": 1, "terminal": 0, "edges": [[1, 2, 0, 0.5, 1.0]],
}  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"layers": 10**9}, {"layers": "x"}, {"top": 9}, {"terminal": -4}, {"threshold": "x"}, {"construction": "odd"},
        {"edges": [[1, 9, 0, 0.5, 1.0]]}, {"edges": [[2, 1, 0, 0.5, 1.0]]}, {"edges": [[1, 2, 7, 0.5, 1.0]]},
        {"edges": [[1, 2, 0, None, 1.0]]}, {"edges": [[1, 2, 0, 0.5, 1.0]] * 2}, {"tokens": [1, 2, 3]}, {"edges": 3},
    ],
)  # fmt: skip
def test_a_malformed_graph_is_refused(change):
    assert AttributionGraph.from_json(GRAPH).depth == 1
    with pytest.raises((KeyError, TypeError, ValueError)):
        AttributionGraph.from_json({**GRAPH, **change})


@pytest.mark.usefixtures("no_curves")
def test_a_malformed_graph_is_one_line(runs, plain, capsys):
    folder = runs / plain[1][0].relative_to(plain[0])
    entry = {"uid": "a", "label": "x", "predicted": "x", "target": "x", "graph": {**GRAPH, "layers": 10**9}}
    (folder / "graphs.json").write_text(json.dumps([entry]))
    resealed(folder)
    with pytest.raises(SystemExit) as ended:
        main([str(runs)])
    assert ended.value.code == 2
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    assert "graphs.json" in shown


@pytest.mark.usefixtures("no_curves")
@pytest.mark.parametrize(
    ("place", "content"),
    [
        ("tool", "{}"), ("tool", "[1]"), ("rollout-0123abcd", '{"schema": 1}'),
        ("tool", '{"schema": 2}'), ("tool", "not JSON"), ("tool\x1b[2J", "{}"),
        ("rollout-0123abcd", '{"schema": 99}'), ("rollout-0123abcd", '{"name": "something else"}'),
    ],
)  # fmt: skip
def test_a_record_of_something_else_is_left_out_and_not_called_corrupt(runs, tmp_path, capsys, caplog, place, content):
    foreign = runs / place
    foreign.mkdir()
    (foreign / "record.json").write_text(content)
    with caplog.at_level(logging.WARNING):
        assert main([str(runs)]) == 0
    told = " ".join(caplog.messages)
    assert printable(place) in told
    assert "left out" in told
    assert controls(told) == []
    assert "corrupt" not in told + capsys.readouterr().err
    assert (runs / "report" / "leaderboard.md").exists()
    (tmp_path / "other").mkdir()
    foreign.rename(tmp_path / "other" / place)
    with pytest.raises(SystemExit) as ended:
        main([str(tmp_path / "other")])
    assert ended.value.code == 2
    shown = capsys.readouterr().err
    assert "none that this version reads" in shown
    assert "remove" not in shown
