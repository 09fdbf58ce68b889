"""Every block of the documentation's results is of one of its comparisons (`tests/test_pages.py` runs these)."""

import ast
import json
import re
import subprocess
import sys
from hashlib import sha256
from types import SimpleNamespace

import pandas as pd
import pytest
import yaml

from benchmark.report.cells import load_cells
from benchmark.results.wording import number
from docs.archive import FACTS
from docs.results import DOCS, KINDS, TABLES, Block, Results, block_of, main, tables_of
from tests.conftest import REPOSITORY, shared
from tests.report.folders import Plan, write_cells

SETTINGS = yaml.safe_load((REPOSITORY / "docs" / "results.yaml").read_text(encoding="utf-8"))


@pytest.mark.thorough
def test_the_command_starts():
    """As the pages print it, in the checkout: a script of its own would not find what lies beside it."""
    done = subprocess.run(
        [sys.executable, "-m", "docs.results", "--help"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: python -m docs.results")


def test_blocks_and_pages_fit():
    text = "".join(
        path.read_text(encoding="utf-8") for path in (REPOSITORY / "README.md", *REPOSITORY.glob("docs/*.md"))
    )
    for name, block in SETTINGS["blocks"].items():
        assert block["comparison"] in SETTINGS["comparisons"], name
        assert f"<!-- results: {name} -->" in text, name
        assert f"<!-- end of {name} -->" in text, name
    assert set(re.findall("<!-- results: (.+?) -->", text)) == set(SETTINGS["blocks"])


PAGES = [REPOSITORY / "README.md", *sorted(REPOSITORY.glob("docs/*.md"))]
BOARDS = [name for name, block in SETTINGS["blocks"].items() if block["kind"] == "leaderboard"]


@pytest.mark.parametrize("name", BOARDS)
def test_every_leaderboard_has_its_pairs(name):
    """Bold and underline are no verdicts: what was tested stands right below, on the same columns."""
    board, beside = SETTINGS["blocks"][name], SETTINGS["blocks"].get(f"{name}_pairs")
    assert beside is not None
    assert (beside["kind"], beside["comparison"]) == ("pairs", board["comparison"])
    assert beside["columns"] == board["columns"]
    texts = [path.read_text(encoding="utf-8") for path in PAGES]
    shown = [text for text in texts if f"<!-- results: {name} -->" in text]
    assert shown
    for text in shown:
        between, found, _ = text.partition(f"<!-- end of {name} -->")[2].partition(f"<!-- results: {name}_pairs -->")
        assert found
        assert "<!--" not in between


def columns(name):
    """The headings of an analysis' table as a page shows it, without those of its lines."""
    text = "".join(path.read_text(encoding="utf-8") for path in PAGES)
    body = text.partition(f"<!-- results: {name} -->")[2].partition(f"<!-- end of {name} -->")[0]
    head = next((line for line in body.splitlines() if line.startswith("| ")), "")
    told = [re.sub("<br>.*", "", cell.strip()).replace("\\", "") for cell in re.split(r"(?<!\\)\|", head)[1:-1]]
    named = re.compile(r".*<br><sub>(.*)</sub>")  # a name of the code, below what people read in its place
    cells = [
        match[1] if (match := named.fullmatch(cell.strip())) and SETTINGS["blocks"][name].get("metrics") else shown
        for cell, shown in zip(re.split(r"(?<!\\)\|", head)[1:-1], told, strict=True)
    ]
    return [cell for cell in cells if cell not in ("", "n")]


def written():
    """Patterns of all texts in the code of the analyses: what it may write above a column."""
    for path in (REPOSITORY / "benchmark").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield re.escape(node.value)
            elif isinstance(node, ast.JoinedStr):
                parts = [re.escape(part.value) if isinstance(part, ast.Constant) else ".+" for part in node.values]
                if any(len(part) > 4 for part in parts if part != ".+"):
                    yield "".join(parts)
    for path in (REPOSITORY / "conf" / "analyses").glob("*.yaml"):
        yield from map(re.escape, keys(yaml.safe_load(path.read_text(encoding="utf-8"))))


def keys(tree):
    """Names of settings, which some analyses write above their columns."""
    for name, value in tree.items() if isinstance(tree, dict) else ():
        yield str(name)
        yield from keys(value)


ANALYSES = [name for name, block in SETTINGS["blocks"].items() if block["kind"] == "analysis"]


@pytest.fixture(scope="module")
def patterns():
    return re.compile("|".join(f"(?:{pattern})" for pattern in sorted(set(written())) if len(pattern) < 200))


@pytest.mark.parametrize("name", ANALYSES)
def test_columns_of_analyses_are_those_that_they_write_today(name, patterns):
    assert [column for column in columns(name) if not patterns.fullmatch(column)] == []


OF_KNOWN_TRUTH = {
    "agrees with the truth", "accuracy lost", "evidence hidden at 0.5", "accuracy without evidence at 0.5",
}  # fmt: skip
"""Columns that only comparisons whose truth is known have."""


@pytest.mark.parametrize("name", ANALYSES)
def test_a_table_has_the_same_columns_on_every_page(name):
    """One that was computed by an earlier version of its analysis lacks a column."""
    block = SETTINGS["blocks"][name]
    alike = [
        other
        for other in ANALYSES
        if SETTINGS["blocks"][other]["table"] == block["table"]
        if SETTINGS["blocks"][other].get("metrics") == block.get("metrics")
    ]
    expected = {column for other in alike for column in columns(other)} - OF_KNOWN_TRUTH
    assert set(columns(name)) - OF_KNOWN_TRUTH == expected


def test_pairs_are_said_of_every_ranked_column(tmp_path):
    cells = load_cells(write_cells(tmp_path, [Plan("a", 0.6), Plan("b", 0.1), Plan("random", 0.0)]))
    block = Block("c", "pairs", {"columns": {
        "perturbation: positive_auc": "area", "rationale: iou_f1": "IOU-F1", "agreement: kendall_gradient": "τ_b",
    }})  # fmt: skip
    results = SimpleNamespace(run=lambda name: SimpleNamespace(loaded=cells))
    lines = list(KINDS["pairs"](results, block))
    assert [line.partition(":")[0] for line in lines] == ["- area", "- IOU-F1"]  # headline or not; τ_b is not ranked
    assert all("against random: " in line for line in lines)
    block = Block("c", "pairs", {"columns": {"agreement: kendall_gradient": "τ_b"}, "summary": "tested"})
    opened, said, closed = list(KINDS["pairs"](results, block))
    assert opened.startswith("<details>")
    assert said == "The figures are descriptive, so that no difference is tested."
    assert closed.endswith("</details>")


def test_pictures_and_links_lead_to_files():
    """From where a page lies, as its readers follow them."""
    for page in (REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *REPOSITORY.glob("docs/*.md")):
        for link in re.findall(r"\]\(([^)#\s]+)(?:#[\w-]+)?\)", page.read_text(encoding="utf-8")):
            assert link.startswith("http") or (page.parent / link).is_file(), f"{page.name}: {link}"


KEPT = sorted(path.name for path in TABLES.iterdir())


@pytest.mark.parametrize("name", KEPT)
def test_what_is_kept_of_a_comparison_is_what_was_written(name):
    facts = json.loads((TABLES / name / FACTS).read_text(encoding="utf-8"))
    files = {path.name: sha256(path.read_bytes()).hexdigest() for path in (TABLES / name).iterdir()}
    assert {file: digest for file, digest in files.items() if file != FACTS} == facts["files"]
    assert facts["command"] == Results(SETTINGS["comparisons"], {}, REPOSITORY / "runs").line(name)
    assert facts["hours"] > 0
    missing = {f"table-{table}.csv" for table in tables_of(SETTINGS["blocks"], name)} - {*facts["files"]}
    assert not missing, "a table that a page shows"


def body(name):
    """What pages show between a block's markers; the same on each."""
    (shown,) = {
        text.partition(f"<!-- results: {name} -->\n")[2].partition(f"\n<!-- end of {name} -->")[0]
        for text in (page.read_text(encoding="utf-8") for page in PAGES)
        if f"<!-- results: {name} -->" in text
    }
    return shown


@pytest.mark.parametrize("name", [one for one in BOARDS if SETTINGS["blocks"][one]["comparison"] in KEPT])
def test_figures_of_a_leaderboard_are_those_that_are_kept(name):
    """Every figure on a page stands in the comparison's file, with all its digits, its interval and n."""
    block = block_of(SETTINGS["blocks"], name)
    kept = pd.read_csv(TABLES / block.comparison / "leaderboard.csv").set_index(["method", "evaluation", "metric"])
    checked = 0
    for line in body(name).splitlines():
        method, *entries = (entry.strip() for entry in line.strip("|").split(" | "))
        for key, entry in zip(block.settings["columns"], entries, strict=False):
            if not (
                shown := re.fullmatch(r"[^\w-]*(?:<u>)?(-?[\d.e-]+)\W*(?:</u>)? (\[[^],]+, [^]]+\])?(?: .*)?", entry)
            ):
                continue
            row = kept.loc[(method, *key.split(": "))]
            assert shown[1] == number(row["value"]), (method, key)
            interval = f"[{number(row['low'])}, {number(row['high'])}]"
            assert shown[2] == (None if pd.isna(row["low"]) else interval), (method, key)
            checked += 1
    assert checked >= 4


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["sst2"])
def test_a_reader_can_have_kept_rows_computed_anew(name, tmp_path, capsys):
    (tmp_path / name).symlink_to(shared(f"models/minilm-{name}"))
    folders = ["--data", str(shared("data")), "--checkpoints", str(tmp_path), "--out", str(tmp_path / "none")]
    assert main([name, "--check", *folders]) == 0
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 3
    assert all(line.startswith(f"{name}: ") and " rows, none differs" in line for line in said)


def shown_table(comparison, name):
    table = pd.read_csv(TABLES / comparison / f"table-{name}.csv")
    return table.set_index([*table.columns[: list(table.columns).index("metric")], "metric"])["value"]


def test_the_debate_says_of_its_test_by_removal_what_is_found_of_that_test():
    """Beside each of its three verdicts, in the order of the page: the planted reviews, SST-2 and the movies."""
    said = re.findall(
        r"`which_test` gives it the verdict \*([^*]+)\*", (DOCS / "debate.md").read_text(encoding="utf-8")
    )
    found = []
    for comparison in ("which_test", "which_test_sst2", "which_test_movies"):
        table = pd.read_csv(TABLES / comparison / "table-which_test.csv")
        test = "accuracy AUC, most relevant first (perturbation)"
        found.append(table[(table["test"] == test) & (table["metric"] == "so")]["note"].item())
    assert said == found


@pytest.mark.parametrize("comparison", ["masked_training", "masked_training_digits"])
def test_a_model_that_learned_with_masks_is_as_right_as_an_ordinary_one(comparison):
    own, masked = (
        value for (_, metric), value in shown_table(comparison, "between_models_models").items() if metric == "accuracy"
    )
    assert abs(own - masked) <= 0.02


def test_to_a_model_that_learned_with_masks_half_of_a_text_may_go_at_random():
    shifts = {name: shown_table(name, "shift") for name in ("which_test", "which_test_masked")}
    column = ("auto", "random", 0.5, "stranger, by hidden states, training-like")
    assert shifts["which_test_masked"][column] <= 0.55 < shifts["which_test"][column]
    lost = {name: shift["auto", "inverted", 0.9, "accuracy lost"] for name, shift in shifts.items()}
    assert lost["which_test_masked"] <= 0.02


@pytest.mark.parametrize("comparison", ["which_test", "which_test_masked"])
def test_comprehensiveness_tells_the_controls_apart_whatever_the_model_learned_with(comparison):
    found = shown_table(comparison, "which_test")
    for step in ("oracle above random", "random above inverted"):
        assert found["comprehensiveness (aopc)", step] > 0.5
