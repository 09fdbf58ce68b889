"""Scores made elsewhere: read from a file, checked before work, and what a comparison reads are the given scores."""

import copy
import json
from dataclasses import replace

import pandas as pd
import pytest
import torch

from benchmark.checking import small_models
from benchmark.comparison import run_comparison
from benchmark.errors import UserError
from benchmark.settings.checking import check
from benchmark.settings.configuration import compose
from benchmark.settings.identity import digest_of
from methods.given_scores import Scores
from tests import tiny_task

TASK = tiny_task.TinyTask()


def write(path, lines):
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return path


def lengths(example):
    """What the probe of the tiny task scores: the letters of each word."""
    return [len(word) for word in example.inputs.split()]


def by_uid():
    return [{"uid": example.uid, "scores": lengths(example)} for example in TASK.split("test")]


def config(place, out, *overrides):
    settings = [
        "task=tiny_task",
        "model=hf",
        f"model.path={place / 'bert'}",
        "tracking=none",
        f"out={out}",
        "batch_size=5",
    ]
    return compose("config", [*settings, *overrides], str(place / "conf"))


def test_a_comparison_reads_the_given_scores(place, tmp_path, no_pictures):
    by_text = [{"text": example.inputs, "scores": lengths(example)} for example in TASK.split("test")[6:]]
    path = write(tmp_path / "mine.jsonl", [*by_uid()[:6], *by_text])
    chosen = ("methods=[probe,scores]", f"methods.scores.path={path}", "evaluations=[perturbation,rationale]")
    comparison = run_comparison(config(place, tmp_path / "runs", *chosen))
    table = pd.read_csv(comparison.folder / "leaderboard.csv").set_index(["evaluation", "metric"])
    probe, scores = (table[table.method == name].drop(columns="method") for name in ("probe", "scores"))
    assert len(scores) > 10
    pd.testing.assert_frame_equal(scores, probe)


def test_the_content_is_the_identity(tmp_path):
    one, same = (write(tmp_path / name, by_uid()) for name in ("one.jsonl", "same.jsonl"))
    other = write(tmp_path / "other.jsonl", [*by_uid()[1:], {"uid": "x", "scores": [1]}])
    assert digest_of(Scores(str(one))) == digest_of(Scores(str(same)))
    assert digest_of(Scores(str(one))) != digest_of(Scores(str(other)))


def test_a_path_has_to_be_given(place, tmp_path):
    with pytest.raises(UserError, match=r"^methods\.scores\.path is not set; give it on the command line"):
        check(config(place, tmp_path, "methods=[scores]"))
    assert "scores" not in compose("config", ["methods=all"]).methods


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], r"mine\.jsonl is empty"),
        (["{"], r"mine\.jsonl:1: broken JSON"),
        (["[1, 2]"], r'mine\.jsonl:1: expected \{"uid": \.\.\., "scores"'),
        ([{"scores": [1]}], r"mine\.jsonl:1: expected"),
        ([{"uid": "a", "scores": [1]}, {"uid": ["a"], "scores": [1]}], r"mine\.jsonl:2: uid=\['a'\] is no identifier"),
        ([{"text": 3, "scores": [1]}], r"mine\.jsonl:1: text=3 is no text"),
        ([{"uid": None, "scores": [1]}], r"mine\.jsonl:1: neither uid nor text"),
        ([{"uid": "a", "scores": 1}], r"mine\.jsonl:1: scores=1 is no list"),
        (['{"uid": "a", "scores": [1, NaN]}'], r"mine\.jsonl:1: score 2 is nan, which is no finite number"),
        ([{"uid": "a", "scores": [True]}], r"score 1 is True"),
        ([{"uid": "a", "scores": [None]}], r"score 1 is None"),
        ([{"uid": "a", "scores": [10**400]}], r"mine\.jsonl:1: broken JSON"),
        ([{"uid": "a", "scores": [1]}] * 2, r"mine\.jsonl:2: example 'a' has scores in .*mine\.jsonl:1 already"),
        ([{"text": "a  b", "scores": [1, 2]}, {"text": "a b", "scores": [1, 2]}], r"the text 'a b' has scores in"),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path, lines, message):
    with pytest.raises(UserError, match=message):
        Scores(str(write(tmp_path / "mine.jsonl", lines)))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(UserError, match=r"methods\.scores\.path=.*no\.jsonl cannot be read \(.*No such file"):
        Scores(str(tmp_path / "no.jsonl"))


def missing(lines):
    return lines[:10]


def too_few(lines):
    return [*lines[:4], {**lines[4], "scores": [1]}, *lines[5:]]


def another_text(lines):
    return [{**lines[0], "text": "another text"}, *lines[1:]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (missing, r"mine\.jsonl has no scores for 2 of 12 examples: 'test-1\d' \(.+\), 'test-1\d' \(.+\); add"),
        (too_few, r"mine\.jsonl:5: 1 scores for example 'test-04', which has \d words"),
        (another_text, r"mine\.jsonl:1: the text of example 'test-00' is another one"),
    ],
)
def test_scores_are_checked_before_anything_is_explained(place, tmp_path, change, message):
    path, out = write(tmp_path / "mine.jsonl", change(by_uid())), tmp_path / "runs"
    tiny_task.CALLS.clear()
    chosen = ("methods=[probe,scores]", f"methods.scores.path={path}", "evaluations=[rationale]")
    with pytest.raises(UserError, match=message):
        run_comparison(config(place, out, *chosen))
    assert tiny_task.CALLS == []


@pytest.mark.parametrize("family", ["bert", "gpt2", "vit"])
def test_the_contract(family, tmp_path):
    """What `test_contract.py` asks: finite, right shapes, deterministic, invariant to padding, model untouched."""
    model = small_models.load(family, tmp_path / "model", dtype="float32")
    inputs = small_models.inputs(family)
    batch = replace(model.encode(inputs), uids=("a", "b", "c"))
    rows = [[(-1) ** unit / (unit + 3) for unit in range(n)] for n in batch.n_units.tolist()]
    method = Scores(
        str(write(tmp_path / "s.jsonl", [{"uid": u, "scores": r} for u, r in zip("abc", rows, strict=True)]))
    )
    state = copy.deepcopy(model.model.state_dict())
    found = method(model, batch, torch.tensor([0, 1, 2]))
    assert [series.tolist() for series in found.words(batch)] == rows
    assert not found.tokens[~batch.attention_mask].any()
    assert torch.equal(method(model, batch, torch.tensor([1, 1, 1])).tokens, found.tokens)
    alone = replace(model.encode(inputs[1:2]), uids=("b",))
    assert torch.equal(method(model, alone, torch.tensor([1])).tokens, found.tokens[1:2, : alone.units.shape[1]])
    assert all(torch.equal(value, model.model.state_dict()[key]) for key, value in state.items())
