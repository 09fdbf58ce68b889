"""docs/leaderboard.md from its first command to its last, as somebody follows it who knows nothing else."""

import re
import shlex

import pytest
import yaml

from benchmark.commands.board import KEYS
from benchmark.commands.running import settled_as_typed
from benchmark.comparison import run_comparison
from tests import pages
from tests.bundles.world import SMALL, command
from tests.conftest import REPOSITORY

PAGE = REPOSITORY / "docs" / "leaderboard.md"
COMPARE, CONSOLE = "python -m benchmark ", "attention-benchmark "


def commands() -> list[list[str]]:
    """The words of every command in a block, in the order of the page."""
    lines = [line for language, code in pages.blocks(PAGE) if not language for line in code.splitlines()]
    return [shlex.split(line) for line in lines if line.startswith((COMPARE, CONSOLE))]


@pytest.mark.thorough
def test_the_page_can_be_followed(tmp_path, monkeypatch, no_pictures):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, code in (pages.named_files(PAGE) | pages.shown_files(PAGE)).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(code)
    by_command = {words[1]: words[2:] for words in commands() if words[0] == "attention-benchmark"}
    assert by_command.keys() == KEYS.keys(), "each command is shown"
    (compared,) = [words[3:] for words in commands() if words[0] == "python"]
    small = [word for word in SMALL if not word.startswith("limit")]
    _, config = settled_as_typed(
        "config", [*compared, *small, "limit=6", "model.steps=20", "out=runs"], None, sweep=False
    )
    folder = run_comparison(config).folder
    command("bundle", *(word.replace("runs/comparisons/FOLDER", str(folder)) for word in by_command["bundle"]))
    submits = [words[2:] for words in commands() if words[:2] == ["attention-benchmark", "submit"]]
    command("submit", *next(words for words in submits if "late.yaml" in words))
    command("merge", *by_command["merge"])
    assert "explanations computed again" in command(
        "audit", *(word.replace("k=20", "k=3") for word in by_command["audit"])
    )
    command("site", *by_command["site"])
    place = next((tmp_path / "results" / "planted@1" / "late_words").iterdir()).name
    command("withdraw", *(word.replace("HASH", place) for word in by_command["withdraw"]))


def test_the_workflow_runs(world, tmp_path, monkeypatch):
    """Its commands, one after the other, on a pull request; only the job without a submission has rights."""
    (workflow,) = [yaml.safe_load(code) for language, code in pages.blocks(PAGE) if language == "yaml"]
    assert workflow["permissions"] == {"contents": "read"}
    check, site = workflow["jobs"]["check"], workflow["jobs"]["site"]
    assert "permissions" not in check
    assert "pull_request_target" not in workflow[True], "`on`: a job with a token never has the submission's head"
    checkouts = [step for job in (check, site) for step in job["steps"] if "checkout" in step.get("uses", "")]
    assert [step["with"]["persist-credentials"] for step in checkouts] == [False, False, False]
    assert checkouts[0]["with"]["ref"] == "${{ github.base_ref }}", "bundles are code: they are those of main"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bundles").symlink_to(world / "bundles")
    (tmp_path / "request" / "submissions").mkdir(parents=True)
    (tmp_path / "request" / "submissions" / "theirs").symlink_to(world / "submission-theirs")
    monkeypatch.syspath_prepend(str(world))
    for job in (check, site):
        lines = [step["run"] for step in job["steps"] if "run" in step]
        assert lines.pop(0) == "pip install attention-explainer-benchmark"
        for line in lines:
            program, name, *words = shlex.split(line)
            assert program == "attention-benchmark"
            found = [str(path) for word in words for path in (sorted(tmp_path.glob(word)) if "*" in word else [word])]
            command(name, *found)
    assert re.search("theirs", (tmp_path / "site" / "methods.html").read_text())
