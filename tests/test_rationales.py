"""Rationales of a table's rows in each form, of single texts and of pairs, and what is refused."""

import pytest

from benchmark.errors import UserError
from benchmark.rationales import rationale_of

TEXT = "a fine  film, good\tfilm"  # two spaces, a tab, punctuation that belongs to a word
WORDS = TEXT.split()


def marked(value, *texts):
    """The marked words."""
    words = [word for text in texts for word in text.split()]
    return [word for word, mark in zip(words, rationale_of(value, texts, "t:1"), strict=True) if mark]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([0, 1, 1, 0, 0], ["fine", "film,"]),
        ([False, True, 0.0, 1.0, 0], ["fine", "good"]),
        ("[0, 0, 0, 0, 1]", ["film"]),
        ([[2, 6]], ["fine"]),
        ([[3, 4]], ["fine"]),
        ([[5, 9]], ["fine", "film,"]),
        ([[2, 6], [19, 23]], ["fine", "film"]),
        ([[0, len(TEXT)]], WORDS),
        (["film"], ["film,", "film"]),
        (["fine film"], ["fine", "film,"]),
        (["good film", ","], ["film,", "good", "film"]),
        ('["film,"]', ["film,"]),
        ([], []),
        ("[]", []),
    ],
)
def test_the_three_forms(value, expected):
    assert marked(value, TEXT) == expected


def test_overlapping_occurrences_and_letters_beyond_ascii():
    assert marked(["a b a"], "a b a b a c") == ["a", "b", "a", "b", "a"]
    assert marked(["été"], "l'été étés") == ["l'été"]
    assert marked([[2, 3]], "é 😀 b") == ["😀"]


@pytest.mark.parametrize("value", [None, "", "  ", float("nan"), "null"])
def test_an_empty_value_is_no_annotation(value):
    assert rationale_of(value, [TEXT], "t:1") is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([[0, 1], [1, 0, 0]], ["film", "a"]),
        ([[[0, 1]], ["film"]], ["fine", "film"]),
        ([["film"], []], ["film"]),
        ([0, 1, 0, 0, 1], ["film", "film"]),
        ([], []),
    ],
)
def test_pairs_have_a_list_for_each_text_or_marks_for_both(value, expected):
    assert marked(value, "fine film", "a dull film") == expected


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([0, 1], "has 2 marks for 5 words"),
        ([0, 2, 0, 0, 0], "holds 2, where a mark is 0 or 1"),
        ([2, 6], r"a span has brackets of its own: \[\[0, 4\]\]"),
        ([[2, 99]], r"has the span \[2, 99\] in a text of 23 characters"),
        ([[6, 2]], "start < end is needed"),
        ([[6, 8]], "covers white space alone"),
        (["fin"], "names 'fin', which does not occur in the text"),
        (["Fine"], "case as written"),
        ([" "], "holds an empty phrase"),
        ("fine film", r"fine film is no JSON: marks of words \[0, 1\], spans of characters .* or phrases"),
        ("['fine']", "with double quotation marks"),
        ({"start": 1}, "is no list"),
        (["fine", 1], "is none of"),
        ([[1.5, 2]], "is none of"),
    ],
)
def test_what_does_not_fit_is_one_line_with_the_place(value, message):
    with pytest.raises(UserError, match=rf"^t:1: the rationale \(task.rationale\) .*{message}") as caught:
        rationale_of(value, [TEXT], "t:1")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [["film"], [[0, 1]], [[[0, 1]], "film"]])
def test_a_pair_without_a_list_for_each_text(value):
    with pytest.raises(UserError, match=r"is none of a pair: \[FIRST, SECOND\]"):
        rationale_of(value, ["fine film", "a dull film"], "t:1")
