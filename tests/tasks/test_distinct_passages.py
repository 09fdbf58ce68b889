"""Of each passage one example is left, drawn by the seed, and models learn from all."""

from dataclasses import dataclass

import pytest

from benchmark.annotations import KnowsShortcuts
from benchmark.errors import UserError
from benchmark.types import Example
from benchmark.words import in_units
from tasks.distinct_passages import DistinctPassages
from tasks.listed_options import ListedOptions
from tasks.multiple_choice import MultipleChoice
from tasks.planted import Planted
from tests.conftest import shared


@dataclass(frozen=True)
class Given:
    """Examples as they are."""

    examples: tuple[Example, ...]
    labels: tuple[str, ...] = ("no", "yes")
    name: str = "given"
    version: int = 1
    fingerprint: str = "given"

    def split(self, name):
        return self.examples


def asked(passages, questions=3):
    """Questions about each passage."""
    return Given(
        tuple(
            Example(f"{number}-{question}", (["what", str(question)], passage.split()), question % 2, query_units=2)
            for number, passage in enumerate(passages)
            for question in range(questions)
        )
    )


PASSAGES = [f"passage {letter} says so" for letter in "abcdefghijklmnopqrst"]


def test_one_question_of_each_passage_in_their_order():
    task = DistinctPassages(asked(PASSAGES))
    found = [example.uid for example in task.split("test")]
    assert [uid.split("-")[0] for uid in found] == [str(number) for number in range(20)]
    assert task.name == "given-distinct"
    assert task.labels == ("no", "yes")


def test_which_question_is_left_is_drawn_by_the_seed():
    def drawn(seed):
        return tuple(example.uid.split("-")[1] for example in DistinctPassages(asked(PASSAGES), seed).split("test"))

    assert drawn(0) == drawn(0) != drawn(1)
    assert set(drawn(0)) == {"0", "1", "2"}  # neither always the first nor the last


def test_what_is_drawn_of_a_passage_does_not_hang_on_the_others():
    few, all_of_them = (DistinctPassages(asked(passages)).split("test") for passages in (PASSAGES[:5], PASSAGES))
    assert [example.uid for example in few] == [example.uid for example in all_of_them[:5]]


def test_a_sentence_stays_and_its_phrases_go():
    texts = ["fine film", "A fine film , dull plot", "dull plot", "another plot", "a FINE film , dull plot"]
    given = Given(tuple(Example(str(place), text, 0) for place, text in enumerate(texts)))
    found = [example.uid for example in DistinctPassages(given).split("train")]
    assert found in (["1", "3"], ["3", "4"])


def test_settings_are_in_the_fingerprint():
    task = asked(PASSAGES)
    assert len({task.fingerprint, DistinctPassages(task).fingerprint, DistinctPassages(task, 1).fingerprint}) == 3


def test_models_learn_from_all_examples():
    task = asked(PASSAGES)
    assert DistinctPassages(task).learned_from is task
    options = ListedOptions(task, "right")
    assert DistinctPassages(options).learned_from == options.learned_from != options


def test_planted_shortcuts_are_still_known():
    task = Planted(shortcuts=2, train=20, validation=2, test=2)
    found = DistinctPassages(task)
    assert isinstance(found, KnowsShortcuts)
    assert found.planted_shortcuts == task.planted_shortcuts
    assert not DistinctPassages(asked(PASSAGES)).planted_shortcuts


@pytest.mark.parametrize("inputs", [{"pixel_values": 1}, in_units("a film", "tokens")])
def test_what_is_no_text_of_words_is_refused(inputs):
    with pytest.raises(UserError, match="example 'x' is no text of words"):
        DistinctPassages(Given((Example("x", inputs, 0),))).split("test")


def test_on_published_dialogues():
    task = MultipleChoice(root=str(shared("data/dream")))
    found = DistinctPassages(task).split("test")
    assert len({tuple(example.inputs[0]) for example in found}) == len(found)
    assert len(found) < len(task.split("test")) / 3
