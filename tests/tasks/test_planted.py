"""The planted task: exactness of labels and rationales, checked by an independent transcription of its rules."""

from collections import Counter

import numpy as np
import pytest

from benchmark.errors import UserError
from benchmark.settings.declared import SettingError
from benchmark.settings.making import build
from benchmark.types import Example, Task
from tasks.planted import Planted
from tasks.planted_shortcuts import PHRASES

# The rules once more, written down from the task's description and not from its grammar.
GOOD = frozenset(
    """wonderful superb delightful gripping moving charming brilliant captivating elegant hilarious inventive memorable
graceful thrilling splendid heartfelt enjoy enjoyed admire admired adore adored love loved""".split()  # noqa: SIM905  # words as they stand in a text
)
BAD = frozenset(
    """dreadful tedious dull clumsy lifeless predictable awful shallow boring incoherent forgettable irritating pointless
wooden bland tiresome hate hated regret regretted despise despised resent resented""".split()  # noqa: SIM905  # words as they stand in a text
)
NEGATORS = {"not", "never", "hardly", "didn't", "wasn't", "weren't"}
INTENSIFIERS = {"truly", "very", "remarkably", "thoroughly", "deeply", "extremely", "incredibly", "utterly"}


def votes(words: list[str]) -> list[int]:
    """Votes of the opinions in a text: +-1, twice that behind an intensifier, flipped behind a negator of the clause."""
    found, weight, sign = [], 1, 1
    for word in words:
        bare = word.lower().rstrip(".,")
        if bare in NEGATORS:
            sign = -1
        elif bare in INTENSIFIERS:
            weight = 2
        elif bare in GOOD or bare in BAD:
            found.append((1 if bare in GOOD else -1) * weight * sign)
            weight, sign = 1, 1
        if word[-1] in ".,":  # neutral clauses hold negators and intensifiers of nothing
            weight, sign = 1, 1
    return found


def rationale_words(example: Example) -> list[str]:
    return [word for word, carries in zip(example.inputs, example.rationale, strict=True) if carries]


@pytest.fixture(scope="module")
def task() -> Planted:
    return Planted(train=1500, validation=200, test=300)


@pytest.fixture(scope="module")
def examples(task: Planted) -> list[Example]:
    return [example for split in ("train", "validation", "test") for example in task.split(split)]


def test_label_follows_from_the_whole_text(examples: list[Example]) -> None:
    for example in examples:
        total = sum(votes(example.inputs))
        assert total != 0
        assert example.label == (total > 0)


def test_label_follows_from_the_rationale_alone(examples: list[Example]) -> None:
    for example in examples:
        found = votes(rationale_words(example))
        assert len(found) >= 2
        assert {value > 0 for value in found} == {bool(example.label)}


def test_rationale_holds_every_word_of_the_majority_and_nothing_else(examples: list[Example]) -> None:
    for example in examples:
        rest = [word for word, carries in zip(example.inputs, example.rationale, strict=True) if not carries]
        assert all(
            word.lower().rstrip(".,") in {*GOOD, *BAD, *NEGATORS, *INTENSIFIERS} for word in rationale_words(example)
        )
        side = [value for value in votes(example.inputs) if (value > 0) == bool(example.label)]
        assert sum(votes(rationale_words(example))) == sum(side)
        # what is left argues for the other side, or for none
        assert all((value > 0) != bool(example.label) for value in votes(rest))


def test_reviews_have_20_to_60_words_and_few_carry_the_label(examples: list[Example]) -> None:
    assert all(20 <= len(example.inputs) <= 60 for example in examples)
    assert all(len(example.rationale) == len(example.inputs) for example in examples)
    assert 0.08 < np.mean([example.rationale.mean() for example in examples]) < 0.25


def test_every_phenomenon_occurs(examples: list[Example]) -> None:
    negated = [e for e in examples if NEGATORS & {w.lower() for w in rationale_words(e)}]
    strong = [e for e in examples if INTENSIFIERS & {w.lower() for w in rationale_words(e)}]
    distracted = [e for e in examples if len({value > 0 for value in votes(e.inputs)}) == 2]
    idle = [e for e in examples if NEGATORS & {w for w, r in zip(e.inputs, e.rationale, strict=True) if not r}]
    for found in (negated, strong, distracted, idle):
        assert len(found) > 0.2 * len(examples)


def test_neither_length_nor_neutral_words_tell_the_label(examples: list[Example]) -> None:
    labels = np.array([example.label for example in examples])
    assert 0.45 < labels.mean() < 0.55
    lengths = np.array([len(example.inputs) for example in examples])
    assert abs(np.corrcoef(lengths, labels)[0, 1]) < 0.06
    opinions = {*GOOD, *BAD, *NEGATORS, *INTENSIFIERS}
    presence = {}
    for row, example in enumerate(examples):
        for word in {w.lower().rstrip(".,") for w in example.inputs} - opinions:
            presence.setdefault(word, np.zeros(len(examples)))[row] = 1
    common = [column for column in presence.values() if column.sum() > 100]
    assert len(common) > 40
    assert max(abs(np.corrcoef(column, labels)[0, 1]) for column in common) < 0.11  # 5 standard errors


def test_seed_determines_everything(task: Planted) -> None:
    again, other = Planted(train=1500, validation=200, test=300), Planted(seed=1, train=1500, validation=200, test=300)
    assert [e.inputs for e in again.split("test")] == [e.inputs for e in task.split("test")]
    assert again.fingerprint == task.fingerprint
    assert other.fingerprint != task.fingerprint
    assert [e.inputs for e in other.split("test")] != [e.inputs for e in task.split("test")]


def test_size_of_one_split_changes_no_other(task: Planted) -> None:
    smaller = Planted(train=10, validation=200, test=300)
    assert [e.inputs for e in smaller.split("test")] == [e.inputs for e in task.split("test")]
    assert [e.inputs for e in smaller.split("train")] == [e.inputs for e in task.split("train")[:10]]


@pytest.mark.parametrize("settings", [{}, {"shortcuts": 4}, {"corrupted": True}])
def test_the_first_reviews_can_be_had_without_the_others(settings):
    task, other = Planted(train=40, **settings), Planted(train=40, **settings)
    first = task.first_examples("train", 15)
    assert "train" not in task._splits  # nothing beyond them was drawn
    for found in (first, task.split("train")[:15], task.first_examples("train", 15)):
        told = [(e.uid, e.inputs, e.label, e.corrupted) for e in found]
        assert told == [(e.uid, e.inputs, e.label, e.corrupted) for e in other.split("train")[:15]]
    assert len(task.first_examples("train", 100)) == 40


def test_the_fingerprint_draws_no_training_split_and_covers_every_setting():
    task = Planted()
    assert task.fingerprint == Planted(name="another").fingerprint
    assert "train" not in task._splits
    changed = [
        {"seed": 1}, {"train": 7999}, {"validation": 299}, {"test": 399}, {"shortcuts": 4}, {"corrupted": True},
        {"shortcuts": 4, "shortcut_strength": 0.9}, {"shortcuts": 4, "shortcut_rate": 0.4},
        {"shortcuts": 4, "shortcut_splits": ["train", "test"]}, {"shortcuts": 4, "flipped_splits": ["train"]},
    ]  # fmt: skip
    prints = {Planted(**settings).fingerprint for settings in changed}
    assert len(prints | {task.fingerprint}) == 1 + len(changed)


def test_splits_share_no_review_and_no_uid(examples: list[Example]) -> None:
    assert max(Counter(" ".join(example.inputs) for example in examples).values()) == 1
    assert len({example.uid for example in examples}) == len(examples)


def test_sentences_are_written_properly(examples: list[Example]) -> None:
    for example in examples:
        text = " ".join(example.inputs)
        assert text.endswith(".")
        assert not {"{", "}", "*"} & set(text)
        assert " a(n) " not in text
        for sentence in text.split(". "):
            assert sentence[0].isupper()
        for article, noun in zip(example.inputs, example.inputs[1:], strict=False):
            if article.lower() in ("a", "an"):
                assert (article.lower() == "an") == (noun[0].lower() in "aeiou")


def test_is_a_task_and_builds_from_its_yaml() -> None:
    task: Task = build("task/planted", "train=20", "test=5")
    assert task.name == "planted"
    assert task.labels == ("negative", "positive")
    assert len(task.split("test")) == 5
    assert task.split("test") is task.split("test")


def test_mistakes_name_the_setting() -> None:
    with pytest.raises(UserError, match="test=0: allowed are whole numbers from 1"):
        Planted(test=0)
    with pytest.raises(UserError, match="did you mean validation"):
        Planted(train=1).split("valid")


def with_shortcuts(**settings):
    return Planted(**({"train": 600, "validation": 100, "test": 200, "shortcuts": 4} | settings))


def held(task, example):
    """The phrases in a review."""
    text = " ".join(example.inputs)
    return [phrase for phrase in task.planted_shortcuts if phrase in text]


def test_shortcuts_go_with_their_label():
    task = with_shortcuts()
    train = task.split("train")
    found = [(task.planted_shortcuts[phrase], task.labels[e.label]) for e in train for phrase in held(task, e)]
    assert len(found) / len(train) == pytest.approx(0.5, abs=0.06)
    assert np.mean([one == other for one, other in found]) == pytest.approx(0.95, abs=0.03)
    assert sorted(task.planted_shortcuts.values()) == ["negative", "negative", "positive", "positive"]
    assert not any(held(task, e) for split in ("validation", "test") for e in task.split(split))


def test_shortcuts_change_nothing_else():
    """Without its sentence every review is what it was; no rationale marks it."""
    plain, task = Planted(train=200, validation=1, test=1), with_shortcuts(train=200, validation=1, test=1)
    for before, after in zip(plain.split("train"), task.split("train"), strict=True):
        words = [word.strip(".") for phrase in held(task, after) for word in phrase.split()]
        marked = {word for word, is_marked in zip(after.inputs, after.rationale, strict=True) if is_marked}
        assert not {word.strip(".") for word in marked} & {*words}
        assert len(after.inputs) - len(before.inputs) == (5 if words else 0)
        at = next((i for i, word in enumerate(after.inputs) if word in words), None)
        kept = after.inputs if at is None else after.inputs[: at - 3] + after.inputs[at + 2 :]
        assert kept == before.inputs
    assert plain.fingerprint != task.fingerprint
    assert plain.rationale_is_truth
    assert not task.rationale_is_truth


def test_shortcuts_flip():
    task = with_shortcuts(shortcut_splits=["train", "test"], flipped_splits=["test"])
    found = [task.planted_shortcuts[p] == task.labels[e.label] for e in task.split("test") for p in held(task, e)]
    assert np.mean(found) < 0.12


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shortcuts": 3}, "an even number of at most 10"),
        ({"shortcuts": 12}, "an even number of at most 10"),
        ({"flipped_splits": ["test"]}, r"those of \['train'\]"),
    ],
)
def test_shortcuts_that_cannot_be(settings, message):
    with pytest.raises(SettingError, match=message):
        with_shortcuts(**settings)


def test_phrases_are_of_words_that_the_grammar_does_not_have():
    grammar = {word.strip(".,") for e in Planted(train=2000, validation=1, test=1).split("train") for word in e.inputs}
    assert not grammar & {word for phrase in PHRASES for word in phrase.split()}
