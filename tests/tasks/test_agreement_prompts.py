"""Stimuli of agreement as prompts: what is asked, what decides, and which sentences are left out."""

import pytest

from benchmark.errors import UserError
from benchmark.settings.making import build
from tasks.agreement_prompts import AgreementPrompts
from tests.conftest import shared


def write(folder, lines):
    (folder / "data_agr").mkdir()
    for number in range(20):
        (folder / "data_agr" / f"agr.{number}").write_text("\n".join([*lines, ""]), "utf-8")
    return AgreementPrompts(str(folder))


def test_the_verb_is_asked_for_behind_what_stands_before_it(tmp_path):
    task = write(
        tmp_path,
        [
            "your bird with her lions does swim\t5\t0 1\t3 4",
            "my worms that would read do move\t5\t0 1\t",
            "her tiger does smile\t2\t0 1\t",
            "your dog who does swim can smile\t5\t0 1\t",
        ],
    )
    first, second = task.split("test")[:2]
    assert first.inputs == "your bird with her lions"
    assert first.candidates == ("does", "do")
    assert first.inputs.split()[int(first.rationale.argmax())] == "bird"
    assert first.rationale.sum() == 1
    assert first.rated.tolist() == [True, True, True, True, False]
    assert (second.inputs, second.candidates) == ("my worms that would read", ("do", "does"))
    assert len(task.split("test")) == 40, (
        "of each condition two: not the noun before its verb, and not a verb of one form"
    )


def test_nothing_left_is_one_line(tmp_path):
    task = write(tmp_path, ["our ant will cry\t2\t0 1\t"] * 5)
    with pytest.raises(UserError, match="no stimulus of the test split has a verb of two forms"):
        task.split("test")


def test_generated_and_authors_stimuli_have_one_form():
    generated = AgreementPrompts().split("test")
    assert len(generated) > 200
    assert {example.candidates for example in generated} == {("does", "do"), ("do", "does")}
    root = shared("data/opensesame")
    for example in (*generated, *AgreementPrompts(str(root)).split("test")):
        words = example.inputs.split()
        noun = words[int(example.rationale.argmax())]
        assert noun == "fish" or noun.endswith("s") == (example.candidates[0] == "do"), example.inputs
        assert example.rationale[example.rated].sum() == 1
    assert AgreementPrompts().fingerprint == AgreementPrompts().fingerprint != AgreementPrompts(seed=1).fingerprint


def test_it_is_for_models_that_are_there():
    with pytest.raises(UserError, match="does not learn task=agreement_stimuli in its minutes"):
        build("model/tiny_lm").resolve(build("task/agreement_stimuli"))
