"""Which texts lie in others, by hand and against comparing each with each."""

import numpy as np
import pytest

from benchmark.annotations import KEYS, PASSAGE_SEGMENT, Option
from benchmark.passages import design_effect, holders, passage_of
from benchmark.types import Example
from benchmark.words import in_units


def words(*texts):
    return [tuple(text.split()) for text in texts]


def test_the_longest_text_that_holds_a_passage():
    texts = words("a fine film", "fine film", "film fine", "a fine film indeed", "fine film", "fine", "a film")
    assert holders(texts) == [3, 3, 2, 3, 3, 3, 6]


def test_the_first_of_equal_texts_and_of_holders_as_long():
    assert holders(words("b c", "a b", "b", "a b")) == [0, 1, 0, 1]
    assert holders(words("x", "", "y", "")) == [0, 1, 2, 1]


def test_whole_words_alone_count():
    assert holders(words("a fine film", "in", "film s", "fil")) == [0, 1, 2, 3]


def within(one, other):
    return any(other[start : start + len(one)] == one for start in range(len(other) - len(one) + 1))


def test_as_each_compared_with_each():
    rng = np.random.default_rng(0)
    texts = [tuple("abc"[i] for i in rng.integers(0, 3, rng.integers(1, 9))) for _ in range(200)]
    found = holders(texts)
    for text, place in zip(texts, found, strict=True):
        holding = [number for number, other in enumerate(texts) if within(text, other)]
        most = max(len(texts[number]) for number in holding)
        assert place == next(number for number in holding if len(texts[number]) == most)


@pytest.mark.parametrize(
    ("example", "passage"),
    [
        (Example("x", "A fine  film", 0), ("a", "fine", "film")),
        (Example("x", ["A", "film"], 0), ("a", "film")),
        (Example("x", ("A premise", ["a", "claim"]), 0), ("a", "premise")),
        (Example("x", ("Why ?", ["A", "film"]), 0, query_units=2), ("a", "film")),
        (Example("x", ("A talk", "why so"), 0, meta={KEYS[Option]: Option("q", 0, 3, 1)}), ("a", "talk")),
        (Example("x", np.zeros((4, 4, 3)), 0), None),
        (Example("x", in_units("A film", "tokens"), 0), ("a", "film")),
        (Example("x", in_units("A film", "characters"), 0), ("a", "film")),
        (Example("x", (["a", "claim"], ["A", "film"]), 0, meta={PASSAGE_SEGMENT: 1}), ("a", "film")),
    ],
)
def test_the_passage_of_an_example(example, passage):
    assert passage_of(example) == passage


def test_how_much_examples_share_their_passages():
    def of(*texts):
        return design_effect(Example(str(place), text, 0) for place, text in enumerate(texts))

    assert of("a", "b", "c") == (3, 1.0)
    assert of("a", "a", "b c", "a", "c") == (2, (3**2 + 2**2) / 5)
    assert of() == (0, 0.0)
    assert of("a", np.zeros((2, 2, 3))) == (None, None)


def test_it_is_the_most_by_which_a_mean_varies_more():
    """Of passages whose examples have one value, drawn many times."""
    rng = np.random.default_rng(0)
    sizes = [1, 1, 2, 3, 7]
    means = [np.repeat(rng.normal(size=len(sizes)), sizes).mean() for _ in range(20000)]
    texts = [f"w{passage}" for passage, size in enumerate(sizes) for _ in range(size)]
    _, effect = design_effect(Example(str(place), text, 0) for place, text in enumerate(texts))
    assert np.var(means) * len(texts) == pytest.approx(effect, rel=0.03)
