"""Generated prompts: the answer follows from the words that the rationale marks, and from no others."""

import pytest

import benchmark
from benchmark.errors import UserError
from benchmark.settings.configuration import compose
from benchmark.training.finetune import run_training
from benchmark.words import spans_of
from tasks.generated_prompts import GeneratedPrompts

KINDS = ("ioi", "greater_than", "induction", "agreement")


def told(example):
    """Words, the marked ones, answer and foil."""
    words = example.inputs.split()
    return words, [word for word, mark in zip(words, example.rationale, strict=True) if mark], *example.candidates


@pytest.mark.parametrize("kind", KINDS)
def test_the_answer_follows_from_the_marked_words(kind):
    for example in benchmark.build(f"task/{kind}", "test=50").split("test"):
        words, marked, answer, foil = told(example)
        assert answer != foil
        assert example.rated.tolist() == [True] * (len(words) - 1) + [False]
        if kind == "ioi":
            assert sorted(marked) == sorted([answer, foil, foil])
            assert (words.count(answer), words.count(foil)) == (1, 2)
        elif kind == "greater_than":
            (start,) = marked
            assert int(foil) < int(start) < int(answer)
        elif kind == "induction":
            word, follower = marked
            assert word == words[-1]
            assert follower == answer == words[words.index(word) + 1]
            assert foil in words
        else:
            (subject,) = marked
            assert words[1] == subject
            assert (answer in ("are", "were", "have")) == subject.endswith("s")


def test_every_prompt_follows_the_seed_and_no_split_hangs_on_another():
    one, same, other = (GeneratedPrompts(seed=seed, train=8, test=12) for seed in (0, 0, 1))
    assert [e.inputs for e in one.split("test")] == [e.inputs for e in same.split("test")]
    assert [e.inputs for e in one.split("test")] != [e.inputs for e in other.split("test")]
    assert one.fingerprint == same.fingerprint != other.fingerprint
    longer = GeneratedPrompts(train=16, test=12)
    assert [e.inputs for e in longer.split("test")] == [e.inputs for e in one.split("test")]
    assert [e.meta["kind"] for e in one.split("test")[:4]] == list(KINDS)
    assert tuple(one.labels) == ("answer", "foil")


def test_what_the_model_learns_from_is_the_mixture_whatever_is_scored():
    learned = [benchmark.build(f"task/{kind}").learned_from for kind in KINDS]
    assert len({task.fingerprint for task in learned}) == 1
    assert {e.meta["kind"] for e in learned[0].split("test")} == {*KINDS}


@pytest.mark.parametrize("pairs", [2, 8, 24])
def test_a_needle_is_asked_for_by_its_object(pairs):
    for example in benchmark.build("task/needle", "test=30", f"pairs={pairs}").split("test"):
        words, marked, answer, foil = told(example)
        assert words.count("The") == pairs + 1
        assert marked == [words[-2], f"{answer}.", f"{words[-2]}?", words[-2]]
        assert words[words.index(words[-2]) + 2] == f"{answer}."
        assert foil != answer
        assert example.rated.tolist() == [True] * (len(words) - 1) + [False]
        if len({word for word in words if word.endswith(".")}) > 1:
            assert f"{foil}." in words


def test_one_sentence_holds_the_fact_and_sentences_are_rated():
    for example in benchmark.build("task/facts", "test=60").split("test"):
        units = [example.inputs[start:end] for start, end in spans_of(example.inputs)]
        answer, foil = example.candidates
        (marked,) = [unit for unit, mark in zip(units, example.rationale, strict=True) if mark]
        assert example.rated.tolist() == [True] * 8 + [False, False]
        assert marked == f"{units[-1].removeprefix('Answer: ')} {answer}."
        assert units.count(marked) == 1
        assert foil != answer
        assert not any(unit == marked.replace(answer, foil) for unit in units)


def test_what_is_looked_up_is_for_models_that_are_there(tmp_path):
    with pytest.raises(UserError, match=r"does not learn task=needle in its minutes; take a model that is there"):
        benchmark.compare("task=needle", "model=tiny_lm", "methods=[random]", f"out={tmp_path}", "tracking=none")
    with pytest.raises(UserError, match=r"task.pairs=25"):
        benchmark.build("task/needle", "pairs=25")
    assert benchmark.build("task/ioi").fingerprint == benchmark.build("task/ioi", "pairs=4").fingerprint
    assert benchmark.build("task/facts").fingerprint != benchmark.build("task/facts", "pairs=4").fingerprint


def test_prompts_for_a_classifier_are_refused_before_anything_is_trained(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmark.training.small.Small.resolve", lambda *_: pytest.fail("a model is trained"))
    with pytest.raises(UserError, match="the task ioi asks for the next token, and the model is a classifier"):
        benchmark.compare("task=ioi", "model=tiny", "methods=[random]", f"out={tmp_path}", "tracking=none")
    with pytest.raises(UserError, match="has no prompts with candidates for the next token"):
        benchmark.compare("task=planted", "model=tiny_lm", "methods=[random]", f"out={tmp_path}", "tracking=none")
    with pytest.raises(UserError, match="what is trained here is a classifier"):
        run_training(compose("train", ["task=ioi", "model.path=nowhere", f"out={tmp_path}"]))
