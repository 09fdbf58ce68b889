"""What the page holds, as its data and as text; `test_browser` opens it."""

import hashlib
import json
import re
import tomllib
from base64 import b64decode
from dataclasses import replace

import pytest

from benchmark.report import load_cells, write_report
from benchmark.report.leaderboard import frame, groups_with_figures
from benchmark.report.page import showcase
from benchmark.report.page.document import comparison_page
from benchmark.report.pairs import every_pair
from benchmark.results import commits, store
from benchmark.results.comparison_folders import COMMAND
from benchmark.results.record import KINDS, About
from benchmark.results.wording import number
from tests.conftest import REPOSITORY
from tests.report.carried import Page, carried, scalar
from tests.report.conftest import DASHED
from tests.report.folders import Plan, resealed, write_cell, write_cells

pytestmark = pytest.mark.rendered

REPORT = REPOSITORY / "benchmark" / "report"
ASSETS = sorted(path for path in (REPORT / "page" / "assets").iterdir() if path.is_file())
VENDORED = sorted((REPORT / "vendor").glob("*/vendor.json"))


@pytest.fixture(scope="module")
def text(comparison):
    return comparison_page(load_cells(comparison[1]), links={"leaderboard.csv": "all figures"})


@pytest.fixture(scope="module")
def board(text):
    (found,) = carried(text)["overview-data"]["boards"]
    return found


@pytest.mark.parametrize("path", ASSETS, ids=lambda path: path.name)
def test_assets_are_short_files_that_the_page_holds(path, text):
    content = path.read_text(encoding="utf-8")
    assert len(content.splitlines()) <= 300
    assert path.suffix == ".jinja" or content in text


@pytest.mark.parametrize("path", VENDORED, ids=lambda path: path.parent.name)
def test_a_library_is_what_its_authors_published(path, text):
    facts = json.loads(path.read_text())
    assert {one.name for one in path.parent.iterdir()} == {*facts["files"], path.name}
    for name, digest in facts["files"].items():
        assert hashlib.sha256((path.parent / name).read_bytes()).hexdigest() == digest, name
    assert facts["licence"] in ("MIT", "BSD-2-Clause", "BSD-3-Clause", "Apache-2.0")
    assert "MIT License" in (path.parent / "LICENSE").read_text()
    (library,) = (name for name in facts["files"] if name.endswith(".js"))
    assert f"v{facts['version']}" in (path.parent / library).read_text()[:400]
    assert (path.parent / library).read_text() in text


def test_all_that_the_page_is_made_of_is_installed_with_the_package():
    package_data = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    installed = {path for pattern in package_data["benchmark"] for path in (REPOSITORY / "benchmark").glob(pattern)}
    needed = {*ASSETS, *(path for path in (REPORT / "vendor").rglob("*") if path.is_file())}
    assert len(needed) > 20
    assert needed <= installed


def test_the_page_asks_nothing_of_a_network_and_runs_its_own_scripts_alone(text):
    page = Page(text)
    assert not page.tags & {"iframe", "object", "embed", "img", "form", "base"}
    addresses = [value for key, value in page.attributes if key in ("src", "href", "action", "srcset")]
    assert all(re.fullmatch(r"#[\w-]+|data:,|leaderboard\.csv", value) for value in addresses)
    (policy,) = (attrs["content"] for tag, attrs in page.found if tag == "meta" and "http-equiv" in attrs)
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert policy.endswith("; img-src data:; base-uri 'none'; form-action 'none'")
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL) + re.findall(r"<style>(.*?)</style>", text, re.S)
    digests = {b64decode(digest) for digest in re.findall(r"'sha256-([\w+/=]+)'", policy)}
    assert {hashlib.sha256(script.encode()).digest() for script in scripts} == digests
    assert "innerHTML" not in "".join(path.read_text() for path in ASSETS)


def test_without_scripts_it_names_the_files_beside_it_and_no_others(text, comparison):
    (said,) = re.findall(r"<noscript>(.*?)</noscript>", text, re.DOTALL)
    assert re.findall(r'href="([^"]+)"', said) == ["leaderboard.csv"]
    (alone,) = re.findall(r"<noscript>(.*?)</noscript>", comparison_page(load_cells(comparison[1])), re.DOTALL)
    assert alone == "<p>This page is drawn by a script.</p>"


def test_texts_of_run_folders_are_data(comparison, text):
    assert "<b>fine</b>" not in text
    (examples,) = carried(text)["example-data"]
    assert "<b>fine</b>" in examples["words"][0]


def test_figures_are_those_of_the_leaderboard_as_it_prints_them(board, comparison):
    table = frame(load_cells(comparison[1]))
    names = [method["name"] for method in board["methods"]]
    assert names == list(dict.fromkeys(table["method"]))
    assert {(metric["test"], metric["name"]) for metric in board["scalars"]} == set(
        table.loc[table["x"].isna(), ["evaluation", "metric"]].itertuples(index=False, name=None)
    )
    checked = 0
    for row in table[table["x"].isna() & table["value"].notna()].to_dict("records"):
        metric, place = scalar(board, row["metric"]), names.index(row["method"])
        for end in ("value", "low", "high"):
            assert number(metric[end][place]) == number(row[end])
            checked += 1
    assert checked > 200
    assert scalar(board, "auprc")["note"][names.index("lrp")] == DASHED
    (curve,) = board["curves"]
    points = table[(table["method"] == "attattr (steps=5)") & table["x"].notna()]
    assert [number(value) for value in curve["lines"][names.index("attattr (steps=5)")]["value"]] == [
        number(value) for value in points["value"]
    ]


def test_titles_kinds_and_definitions_are_those_of_the_record(tmp_path):
    folders = write_cells(tmp_path, [Plan("attattr", n=4), Plan("random", n=4)])
    for folder in folders:
        record = store.read_record(folder)
        test = record.evaluations["perturbation"]
        auc = replace(test.metrics["positive_auc"], title="accuracy AUC", short="AUC", meaning="The mean height")
        told = replace(test, about=About(KINDS[0], 1, "Perturbation"), metrics={**test.metrics, "positive_auc": auc})
        commits.write_record(folder, replace(record, evaluations={**record.evaluations, "perturbation": told}))
    (board,) = carried(comparison_page(load_cells(folders)))["overview-data"]["boards"]
    metric = scalar(board, "positive_auc")
    assert [metric[name] for name in ("title", "short", "kind", "better")] == ["accuracy AUC", "AUC", KINDS[0], -1]
    assert metric["sentence"] == "The mean height; from 0 to 1, lower is better."
    assert scalar(board, "auprc")["title"] == "rationale: auprc"


def test_pairs_are_those_of_the_comparison(board, comparison):
    cells = load_cells(comparison[1])
    table = frame(cells)
    (found,) = every_pair(cells, table).values()
    names = [method["name"] for method in board["methods"]]
    assert [contrast["name"] for contrast in board["contrasts"]] == [one.column.metric for one in found]
    contrast, pairs = board["contrasts"][0], found[0]
    verdicts = set()
    for place, (first, second) in enumerate(pairs.comparisons):
        assert [names[contrast["first"][place]], names[contrast["second"][place]]] == [first, second]
        assert number(contrast["gain"][place]) == number(pairs.comparisons[first, second].gain.value)
        assert (contrast["verdict"][place] == 1) == pairs.better(first, second)
        assert (contrast["verdict"][place] is None) == ((first, second) not in pairs.adjusted)
        verdicts.add(contrast["verdict"][place])
    assert verdicts == {1, 0, None} or verdicts == {1, 0, -1, None}
    assert contrast["calibration"].startswith("calibrated (oracle above random")


def test_examples_have_scores_outcome_and_curves(text, comparison):
    (examples,) = carried(text)["example-data"]
    assert examples["uid"] == ["test-0"]
    assert (examples["label"], examples["predicted"], examples["probability"]) == (["positive"], ["negative"], [0.75])
    assert examples["rationale"] == ["011000"]
    assert len(examples["methods"]) == len(comparison[1]) - 1, "one of them could not serve"
    assert [0.1, -0.2, 0.9, 0.3, 0.0, None] in [scores[0] for scores in examples["scores"]]
    cells = load_cells(comparison[1])
    _, _, members, _ = next(iter(groups_with_figures(cells, frame(cells))))
    (curve,) = examples["curves"]
    place, values = curve["lines"][3]
    rows = members[place].rows.frame().query("uid == 'test-0' and metric == 'positive_accuracy'").sort_values("x")
    assert [number(value) for value in values[0]] == [number(value) for value in rows["value"]]


def test_what_was_run_is_said(board, comparison):
    run = board["run"]
    assert run["facts"]["data, SHA-256"] == "d" * 16
    assert ["flow", "all tests", "the model bypasses the attention interface"] in run["dashes"]
    assert ["lrp", "rationale", DASHED] in run["dashes"]
    assert {method["hash"] for method in run["methods"]} == {store.read_record(path).hash for path in comparison[1]}
    assert any('"steps": 20' in method["settings"] for method in run["methods"])


def test_the_command_of_the_folder_is_on_the_page(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmark.report.write.curve_files", lambda *_: iter(()))
    (tmp_path / COMMAND).write_text("python -m benchmark limit=4\n")
    write_report(load_cells([write_cell(tmp_path / "runs", Plan("attattr", n=4))]), tmp_path)
    overview = carried((tmp_path / "index.html").read_text())["overview-data"]
    assert overview["command"] == "python -m benchmark limit=4"
    assert overview["links"]["differences.csv"].startswith("every method")


def test_more_scores_than_a_page_can_carry_leave_examples_out(tmp_path, monkeypatch):
    folder = write_cell(tmp_path, Plan("attattr", n=4))
    entries = json.loads((folder / "heatmap.json").read_text())
    (folder / "heatmap.json").write_text(json.dumps([entries[0] | {"uid": f"test-{i}"} for i in range(4)]))
    cells = load_cells([resealed(folder)])
    whole = showcase.columns([(0, cells[0])])
    assert (len(whole["uid"]), whole["left_out"]) == (4, 0)
    monkeypatch.setattr(showcase, "MOST_SCORES", 12)
    part = showcase.columns([(0, cells[0])])
    assert (part["uid"], part["left_out"]) == (["test-0", "test-1"], 2)
