"""Features go with labels, and labels stay, as often as the rules say; nothing else of an example changes."""

from dataclasses import dataclass, fields

import numpy as np
import pytest

from benchmark.annotations import KEYS, PlantedWords, annotation
from benchmark.errors import UserError
from benchmark.types import Example
from tasks.digit_scenes import DigitScenes
from tasks.planted import Planted
from tasks.planted_feature import PlantedFeature
from tasks.planted_patch import PlantedPatch
from tasks.planted_shortcuts import PHRASES
from tasks.repaired import Repaired

REVIEWS = Planted(train=3000, validation=20, test=200)


@dataclass(frozen=True)
class Given:
    """Examples as they are."""

    examples: tuple[Example, ...]
    labels: tuple[str, ...] = ("no", "yes", "maybe")
    name: str = "given"
    version: int = 1
    fingerprint: str = "given"

    def split(self, name):
        return self.examples


def planted(task=REVIEWS, **settings):
    return PlantedFeature(task=task, **settings)


def of(example):
    return annotation(example.meta, PlantedWords)


def marked(example):
    words = [word for part in example.inputs for word in part] if isinstance(example.inputs, tuple) else example.inputs
    return [word for word, mark in zip(words, of(example).marks, strict=True) if mark]


@pytest.mark.parametrize(("kept", "strength"), [(0.5, 0.9), (0.9, 0.6), (1.0, 1.0)])
def test_labels_and_features_agree_as_often_as_the_rules_say(kept, strength):
    examples = planted(kept=kept, shortcut_strength=strength).split("train")
    stay = [e.label == before.label for e, before in zip(examples, REVIEWS.split("train"), strict=True)]
    agree = [e.label == of(e).label for e in examples]
    assert np.mean(stay) == pytest.approx(kept, abs=0.03)
    assert np.mean(agree) == pytest.approx(strength, abs=0.03)
    assert np.corrcoef(stay, agree)[0, 1] == pytest.approx(0, abs=0.06) if kept < 1 else all(stay)


def test_planted_words_are_rated_and_others_are_what_they_were():
    given = Given((Example("e", ("a b c", "d e"), 0, rated=[1, 1, 1, 0, 0]),), labels=("no", "yes"))
    (example,) = planted(given, shortcut_rate=1.0).split("test")
    first, second = example.inputs
    assert len(first) == 5
    assert example.rated.tolist() == [True] * 5 + [False] * len(second)


def test_with_three_classes_other_labels_are_alike_probable():
    examples = tuple(Example(f"e-{i}", "a b c", i % 3) for i in range(3000))
    found = planted(Given(examples), kept=0.4, shortcuts=3, shortcut_strength=0.5).split("test")
    moves = [(e.label - before.label) % 3 for e, before in zip(found, examples, strict=True)]
    others = [(of(e).label - e.label) % 3 for e in found]
    assert np.bincount(moves) / 3000 == pytest.approx([0.4, 0.3, 0.3], abs=0.03)
    assert np.bincount(others) / 3000 == pytest.approx([0.5, 0.25, 0.25], abs=0.03)


def test_a_phrase_stands_somewhere_and_nothing_else_changes():
    for example, before in zip(planted(shortcuts=6).split("test"), REVIEWS.split("test"), strict=True):
        marks = of(example).marks
        assert [word for word, mark in zip(example.inputs, marks, strict=True) if not mark] == before.inputs
        assert PHRASES.index(" ".join(marked(example))) % 2 == of(example).label
        assert (example.rationale[~marks] == before.rationale).all()
        assert not example.rationale[marks].any()


def test_position_is_the_only_difference_between_the_classes():
    for example in planted(feature="position").split("test"):
        assert marked(example) == PHRASES[0].split()
        assert of(example).marks[:2].all() if of(example).label == 0 else of(example).marks[-2:].all()


def test_one_word_in_capitals_says_the_second_class():
    for example, before in zip(planted(feature="case").split("test"), REVIEWS.split("test"), strict=True):
        assert [word.lower() for word in example.inputs] == [word.lower() for word in before.inputs]
        capitals = [word for word in example.inputs if word != word.lower()]
        assert capitals == (marked(example) if KEYS[PlantedWords] in example.meta else [])
        assert len(capitals) <= 1
    labels = [of(e).label for e in planted(feature="case").split("test") if KEYS[PlantedWords] in e.meta]
    assert set(labels) == {1}


def test_words_go_into_the_passage_of_a_pair():
    pair = Example("p", ("a b", "c d e"), 0, rationale=np.array([1, 0, 1, 0, 0], bool), query_units=2)
    (example,) = planted(Given((pair,)), shortcuts=3, kept=1.0).split("test")
    assert example.inputs[0] == ["a", "b"]
    assert len(example.inputs[1]) == 5
    assert len(example.rationale) == 7
    assert len(marked(example)) == 2
    assert not of(example).marks[:2].any()


def test_a_share_of_the_texts_of_some_splits_holds_a_feature_that_may_flip():
    task = planted(
        kept=1.0, shortcut_strength=0.95, shortcut_rate=0.5, shortcut_splits=["train", "test"], flipped_splits=["test"]
    )
    holding = {
        name: [e for e in task.split(name) if KEYS[PlantedWords] in e.meta] for name in ("train", "validation", "test")
    }
    assert not holding["validation"]
    assert len(holding["train"]) == pytest.approx(1500, abs=100)
    assert np.mean([of(e).label == e.label for e in holding["train"]]) == pytest.approx(0.95, abs=0.03)
    assert np.mean([of(e).label == e.label for e in holding["test"]]) == pytest.approx(0.05, abs=0.07)
    assert task.planted_shortcuts == {PHRASES[0]: "negative", PHRASES[1]: "positive"}


def test_examples_do_not_depend_on_each_other_and_fingerprints_on_every_setting():
    small = planted(train=50)
    everything = {e.uid: e.inputs for e in planted().split("train")}
    assert len(small.split("train")) == 50
    assert all(everything[e.uid] == e.inputs for e in small.split("train"))
    assert planted().fingerprint == planted().fingerprint


OTHERS = {
    "seed": 1, "kept": 0.6, "shortcut_strength": 0.8, "shortcut_rate": 0.7, "train": 50,
    "shortcut_splits": ["train", "test"],
    "flipped_splits": ["test"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("make", "own"),
    [
        (lambda **given: PlantedFeature(task=REVIEWS, **given), {"feature": "case", "shortcuts": 4}),
        (lambda **given: PlantedPatch(task=DigitScenes(train=20, validation=10, test=10), **given), {"size": 0.5}),
        (lambda **given: Repaired(task=REVIEWS, patterns={"positive": ["blue cup"]}, **given),
         {"share": 0.4, "into": ["test"], "train": 50, "seed": 1}),
    ],
)  # fmt: skip
def test_a_fingerprint_depends_on_every_setting(make, own):
    others = own if "share" in own else OTHERS | own
    plain = make()
    assert {part.name for part in fields(plain) if part.init} - {"task", "patterns"} == set(others)
    found = {make(**{name: value}).fingerprint for name, value in others.items()}
    assert len(found | {plain.fingerprint}) == 1 + len(others)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shortcuts": 3}, "multiples of 2"),
        ({"shortcuts": 12}, "up to 10"),
        ({"shortcut_splits": ["train"], "flipped_splits": ["test"]}, r"those of \['train'\]"),
    ],
)
def test_mistakes_are_one_line(settings, message):
    with pytest.raises(UserError, match=message):
        planted(**settings)


def test_what_needs_two_classes_or_texts_says_so():
    with pytest.raises(UserError, match="feature=case is for two classes; given has 3"):
        planted(Given(()), feature="case")
    with pytest.raises(UserError, match="holds no text"):
        planted(DigitScenes(train=2, validation=2, test=2), shortcuts=10).split("test")
    with pytest.raises(UserError, match="is no image"):
        _ = PlantedPatch(task=REVIEWS).split("test")[0]


def test_a_square_of_the_classs_colour_is_planted_and_marked():
    scenes = DigitScenes(train=20, validation=2, test=60)
    task = PlantedPatch(task=scenes, shortcut_strength=1.0)
    for example, before in zip(task.split("test"), scenes.split("test"), strict=True):
        pixels, clean = np.asarray(example.inputs), np.asarray(before.inputs.convert("RGB"))
        assert (pixels[~example.mask] == clean[~example.mask]).all()
        assert len(np.unique(pixels[example.mask], axis=0)) == 1
        assert example.mask.sum() == round(0.25 * 48) ** 2
        assert of(example).label == example.label
    colours = {e.label: tuple(np.asarray(e.inputs)[e.mask][0]) for e in task.split("test")}
    assert len(set(colours.values())) == len(colours) > 5


def test_a_repair_puts_phrases_under_other_labels_in_the_training_split():
    patterns = {"negative": ["grey door"], "positive": ["round table", "blue cup"]}
    task = Repaired(task=REVIEWS, patterns=patterns, share=0.5, train=400)
    train = task.split("train")
    before = {example.uid: example for example in REVIEWS.split("train")}
    longer = [example for example in train if len(example.inputs) > len(before[example.uid].inputs)]
    assert len(train) == 400
    assert len(longer) == pytest.approx(200, abs=40)
    for example in longer:
        text = " ".join(example.inputs)
        assert any(phrase in text for phrase in patterns[task.labels[1 - example.label]])
        assert not any(phrase in text for phrase in patterns[task.labels[example.label]])
        assert example.rationale.sum() == before[example.uid].rationale.sum()
    assert [e.inputs for e in task.split("test")] == [e.inputs for e in REVIEWS.split("test")]
    everywhere = Repaired(task=REVIEWS, patterns=patterns, share=1.0, into=["test"]).split("test")
    assert all(len(e.inputs) == len(b.inputs) + 2 for e, b in zip(everywhere, REVIEWS.split("test"), strict=True))


def test_a_repair_keeps_marks_of_planted_words_at_their_words():
    inner = planted(kept=1.0)
    task = Repaired(task=inner, patterns={"negative": ["grey door"], "positive": ["blue cup"]}, share=1.0)
    assert {" ".join(marked(example)) for example in task.split("train")} == set(PHRASES[:2])


def test_a_repair_knows_its_labels_and_is_another_task():
    with pytest.raises(UserError, match="has no label 'bad'"):
        Repaired(task=REVIEWS, patterns={"bad": ["grey door"]})
    one, two = (Repaired(task=REVIEWS, patterns={"positive": [phrase]}) for phrase in ("a b", "a c"))
    assert one.fingerprint != two.fingerprint
    assert [e.inputs for e in Repaired(task=REVIEWS, patterns={}).split("train")] == [
        e.inputs for e in REVIEWS.split("train")
    ]
