"""A classification task as prompts: where its words are in the prompt, what is rated, and what is asked."""

from dataclasses import dataclass, field

import numpy as np
import pytest

import benchmark
from benchmark.errors import UserError
from benchmark.types import Example
from benchmark.words import spans_of
from tasks.multiple_choice import MultipleChoice
from tasks.prompted import Prompted


@dataclass(frozen=True)
class Given:
    """A task of these examples."""

    examples: tuple[Example, ...]
    labels: tuple[str, ...] = ("bad", "good")
    name: str = "given"
    version: int = 1
    fingerprint: str = "f"
    shown: tuple[Example, ...] = field(default=())

    def split(self, name):
        return self.shown if name == "train" else self.examples


def marked(example, marks):
    spans = spans_of(example.inputs)
    assert len(spans) == len(marks)
    return [example.inputs[start:end] for (start, end), mark in zip(spans, marks, strict=True) if mark]


def one(inputs, label=1, marks=None, **more):
    rationale = None if marks is None else np.array(marks, dtype=bool)
    return Example(f"{inputs}", inputs, label, rationale, **more)


def test_the_words_of_the_text_alone_are_rated():
    task = Prompted(Given((one("a fine film", marks=[0, 1, 0]),)))
    (example,) = task.split("test")
    assert example.inputs == "Review: a fine film\nSentiment:"
    assert example.candidates == ("good", "bad")
    assert example.label == 0
    assert marked(example, example.rated) == ["a", "fine", "film"]
    assert marked(example, example.rationale) == ["fine"]
    assert tuple(task.labels) == ("answer", "foil")


def test_words_stand_for_labels_and_own_rated_words_stay():
    example = one(["an", "odd", "plot"], label=0, rated=np.array([True, False, True]))
    task = Prompted(Given((example,), labels=("neg", "pos", "mixed")), words=["terrible", "great", "fair"])
    (found,) = task.split("test")
    assert found.candidates == ("terrible", "great", "fair")
    assert marked(found, found.rated) == ["an", "plot"]
    assert found.rationale is None
    assert tuple(task.labels) == ("answer", "foil 1", "foil 2")


def test_a_pair_may_stand_in_any_order_and_a_query_is_not_rated():
    pair = one(("who came", "Anna came late"), marks=[0, 0, 1, 1, 0], query_units=2)
    task = Prompted(Given((pair,)), template="{second}\nQuestion: {first} ?")
    (found,) = task.split("test")
    assert found.inputs == "Anna came late\nQuestion: who came ?"
    assert marked(found, found.rated) == ["Anna", "came", "late"]
    assert marked(found, found.rationale) == ["Anna", "came"]


def test_examples_that_are_shown_come_from_the_training_split_in_turn():
    shown = tuple(one(f"text {number}", label=number % 2) for number in range(10))
    task = Prompted(Given((one("a film"),), shown=shown), shots=3)
    (found,) = task.split("test")
    answers = [line.removeprefix("Sentiment: ") for line in found.inputs.splitlines() if line.startswith("Sentiment: ")]
    assert answers == ["bad", "good", "bad"]
    for own in Prompted(task.task, shots=3).split("train"):
        text = own.inputs.rpartition("Review: ")[2].partition("\n")[0]
        assert own.inputs.count(f"Review: {text}\n") == 1, "an example does not stand before itself"
    assert marked(found, found.rated) == ["a", "film"]
    assert found.inputs.endswith("\n\nReview: a film\nSentiment:")
    again = Prompted(Given((one("a film"),), shown=shown), shots=3, seed=1)
    assert again.fingerprint != task.fingerprint
    with pytest.raises(UserError, match=r"task.shots=30: the training split of given has too few"):
        Prompted(Given((one("a film"),), shown=shown), shots=30).split("test")


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"template": "Review:"}, "give {text} once"),
        ({"template": "{text} {text}"}, "give {text} once"),
        ({"template": "{text} {more}"}, "give {text} once"),
        ({"template": "{first} {second}"}, "has single texts; give {text}"),
        ({"template": "Review: {text"}, "give {text} once"),
        ({"template": "}{text}"}, "give {text} once"),
        ({"words": ["good"]}, "has 2 labels (bad, good); give a word for each"),
        ({"words": ["good", "good"]}, "two labels have the same word"),
    ],
)
def test_mistakes_are_one_line(settings, line):
    given = Given((one("a film"),))
    with pytest.raises(UserError) as error:
        Prompted(given, **settings).split("test")
    assert line in str(error.value)


def test_examples_that_cannot_be_asked_are_one_line():
    with pytest.raises(UserError, match="has no label, so that no word is its answer"):
        Prompted(Given((one("a film", label=-1),))).split("test")
    with pytest.raises(UserError, match="is no text"):
        Prompted(Given((one({"input_ids": [1, 2]}),))).split("test")


def test_the_embedded_task_is_prompted():
    task = benchmark.build("task/prompted", "task.test=4")
    first = task.split("test")[0]
    plain = benchmark.build("task/planted", "test=4").split("test")[0]
    expected = [word for word, mark in zip(plain.inputs, plain.rationale, strict=True) if mark]
    assert marked(first, first.rationale) == expected != []
    assert task.name == "planted-prompted"


def test_units_of_the_texts_stay_what_they_are():
    """Words of a list that hold blanks, sentences, and words that the template joins to its own."""
    listed = one(["New York", "is", "fine"], marks=[1, 0, 0])
    (found,) = Prompted(Given((listed,))).split("test")
    assert marked(found, found.rationale) == ["New York"]
    assert marked(found, found.rated) == ["New York", "is", "fine"]
    sentences = one(benchmark.in_units("A dull plot. Fine actors!", "sentences"), marks=[0, 1])
    (found,) = Prompted(Given((sentences,))).split("test")
    assert marked(found, found.rationale) == ["Fine actors!"]
    (found,) = Prompted(Given((one("a film"),)), template="({text})\nSentiment:").split("test")
    assert marked(found, found.rated) == ["a", "film"]
    (found,) = Prompted(Given((one("a film"),)), template="Sentiment of {text}").split("test")
    assert marked(found, found.rated) == ["a"], "the last word of the prompt is where the model is read"
    assert found.meta == {}


def test_marks_that_do_not_fit_are_one_line():
    with pytest.raises(UserError, match="has 2 words, and its rationale says of 3"):
        Prompted(Given((one("a film", marks=[1, 0, 1]),))).split("test")
    with pytest.raises(UserError, match="has 2 words, and rated says of 1"):
        Prompted(Given((one("a film", rated=np.array([True])),))).split("test")
    with pytest.raises(UserError, match="units=tokens"):
        Prompted(Given((one(benchmark.in_units("a film", "tokens")),))).split("test")


def test_multiple_choice_is_asked_option_by_option():
    choice = MultipleChoice(train=4, validation=2, test=3)
    task = Prompted(choice, template="{first}\nIs this right: {second}\nAnswer:", words=("no", "yes"))
    for asked, option in zip(task.split("test"), choice.split("test"), strict=True):
        passage, question = (" ".join(part) for part in option.inputs)
        assert asked.inputs == f"{passage}\nIs this right: {question}\nAnswer:"
        assert asked.candidates == (("no", "yes") if option.label == 0 else ("yes", "no"))
        words = [*option.inputs[0], *option.inputs[1]]
        assert marked(asked, asked.rated) == words[option.query_units :]
