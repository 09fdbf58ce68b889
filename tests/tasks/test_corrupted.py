"""Counterparts of examples: of as many words, with another answer, and of no consequence for what models learn."""

import json
from itertools import pairwise

import pytest
import torch

import benchmark
from benchmark.errors import UserError
from benchmark.models.components import corrupted_of
from benchmark.training.tiny import TinyModel
from tasks.generated_prompts import GeneratedPrompts
from tasks.mechanism import MechanismTask
from tasks.planted import Planted
from tasks.prompts import Prompts
from tests import language_models

KINDS = ("ioi", "greater_than", "induction", "agreement")


@pytest.mark.parametrize("kind", KINDS)
def test_a_prompt_and_its_counterpart_differ_in_what_decides(kind):
    task = GeneratedPrompts((kind,), corrupted=True, train=1, validation=1, test=40)
    for example in task.split("test"):
        clean, other = example.inputs.split(), example.corrupted.split()
        places = [place for place, pair in enumerate(zip(clean, other, strict=True)) if pair[0] != pair[1]]
        assert len(places) == 1
        assert all(example.rationale[place] for place in places)
        answer, foil = example.candidates
        if kind == "greater_than":
            assert places == [7]
        if kind == "ioi":
            assert other.count(answer) == 2
            assert other.count(foil) == 1
        if kind == "induction" and foil != clean[-1]:
            assert other[other.index(clean[-1]) + 1] == foil
    plain = GeneratedPrompts((kind,), train=1, validation=1, test=40)
    assert [one.inputs for one in plain.split("test")] == [one.inputs for one in task.split("test")]
    assert all(one.corrupted is None for one in plain.split("test"))
    assert task.fingerprint != plain.fingerprint
    assert task.learned_from.fingerprint == plain.learned_from.fingerprint, "no model is trained again"


@pytest.mark.parametrize("kind", ["needle", "facts"])
def test_prompts_that_are_looked_up_have_none(kind):
    with pytest.raises(UserError, match="corrupted"):
        GeneratedPrompts((kind,), corrupted=True)


LINES = (
    {
        "prompt": "the film was bad , a bad",
        "corrupted": "the film was good , a bad",
        "answer": "film",
        "foils": ["story"],
    },
    {"prompt": "the story was a good", "corrupted": "the story was a bad", "answer": "film", "foils": ["story"]},
)


def written(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return {"test": str(path)}


def test_prompts_of_a_file_have_counterparts_with_which_circuits_are_patched(tmp_path):
    files = written(tmp_path / "prompts.jsonl", LINES)
    assert [example.corrupted for example in Prompts(files).split("test")] == [line["corrupted"] for line in LINES]
    folder = benchmark.compare(
        "task=prompts", f"task.files={{test: {files['test']}}}", "model=lm", "methods=[eap,attention_gradcam]",
        f"model.path={language_models.save('LlamaForCausalLM', tmp_path)}", "evaluations=[circuit,circuit_edges]",
        "evaluations.circuit.calibration=same", "evaluations.circuit_edges.calibration=same", "analyses=[]",
        "tracking=none", f"out={tmp_path / 'out'}",
    ).folder  # fmt: skip
    assert "counterpart" not in (folder / "leaderboard.md").read_text()


def test_some_prompts_without_a_counterpart_are_named(tmp_path):
    alone = {name: value for name, value in LINES[1].items() if name != "corrupted"}
    with pytest.raises(UserError, match="'test-000002' has no 'corrupted', and others do"):
        Prompts(written(tmp_path / "some.jsonl", [LINES[0], alone])).split("test")
    with pytest.raises(UserError, match=r"wrong.jsonl:1: 'corrupted' is \[1\]; give a prompt"):
        Prompts(written(tmp_path / "wrong.jsonl", [{**alone, "corrupted": [1]}])).split("test")


def test_counterparts_of_reviews_have_as_many_tokens():
    """Of the small model that reads them."""
    task = Planted(corrupted=True)  # whose words the tokenizer is made of
    model = benchmark.load_model(TinyModel(steps=1).resolve(task.learned_from), device="cpu")
    batch = model.encode_examples(task.split("test"), [0, 1])
    assert torch.equal(corrupted_of(batch)["attention_mask"], batch.tensors["attention_mask"])


def test_every_opinion_of_a_review_is_turned():
    task = Planted(corrupted=True, train=1, validation=1, test=60)
    for example in task.split("test"):
        pairs = list(zip(example.inputs, example.corrupted, strict=True))
        turned = [clean for clean, other in pairs if clean != other and clean.lower() not in ("a", "an")]
        assert turned
        for (clean, other), (_, following) in pairwise(pairs):
            assert clean[0].isupper() == other[0].isupper()
            if other.lower() in ("a", "an"):
                assert (other.lower() == "an") == (following[0].lower() in "aeiou")
    assert task.learned_from.fingerprint == Planted(train=1, validation=1, test=60).fingerprint
    assert Planted().learned_from.fingerprint == Planted().fingerprint


@pytest.mark.parametrize(("name", "other"), [("copy", True), ("either", False)])
def test_an_input_of_a_mechanism_has_one_with_another_answer_or_without_what_decides(name, other):
    task = MechanismTask(mechanism=name, corrupted=True, examples=12)
    by_text = {example.inputs: example for example in task.split("test")}
    for example in task.split("test"):
        if other:
            assert by_text[example.corrupted].label != example.label
        else:
            pairs = zip(example.inputs.split(), example.corrupted.split(), example.rationale, strict=True)
            assert all((clean != changed) == bool(decides) for clean, changed, decides in pairs)
