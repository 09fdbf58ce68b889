"""Of each passage one example is left, drawn by the seed, and models learn from all."""

import json
from dataclasses import dataclass

import pytest

from benchmark.annotations import KnowsShortcuts
from benchmark.errors import UserError
from benchmark.types import Example, KnowsEvidence, KnowsTruth
from tasks.attacked import Attacked
from tasks.distinct_passages import DistinctPassages
from tasks.eraser import Eraser
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


def test_truth_and_evidence_are_still_known():
    task = Planted(train=2, validation=2, test=5)
    found = DistinctPassages(task)
    assert isinstance(found, KnowsTruth)
    assert isinstance(found, KnowsEvidence)
    assert found.rationale_is_truth is task.rationale_is_truth is True
    evidence, of_task = found.evidence("test"), task.evidence("test")
    assert set(evidence) == set(of_task)
    assert all((evidence[uid] == of_task[uid]).all() for uid in evidence)
    stranger = DistinctPassages(asked(PASSAGES))
    assert not stranger.rationale_is_truth
    assert not stranger.evidence("test")


@pytest.mark.parametrize("attack", ["p_shuffle", "p_remove", "add_sent2pas_shuffle", "sent2opt_shuffle"])
def test_attacked_examples_share_the_passage_that_they_had(attack):
    clean = MultipleChoice(train=4, validation=4, test=30)
    found = DistinctPassages(Attacked(clean, attack)).split("test")
    assert [example.uid for example in found] == [example.uid for example in DistinctPassages(clean).split("test")]


def test_claims_about_one_document_that_the_query_repeats(tmp_path):
    """As ERASER's e-SNLI has them: the claim is the query and a document of its own."""
    documents = {"p": "a man sleeps", "q": "a dog runs", "h1": "he rests", "h2": "it moves", "h3": "nobody is there"}
    claims = [("p", "h1"), ("p", "h2"), ("q", "h2"), ("q", "h3")]
    (tmp_path / "docs").mkdir()
    for name, text in documents.items():
        (tmp_path / "docs" / name).write_text(text)
    rows = [
        {"annotation_id": f"{p}-{h}", "classification": "no", "evidences": [], "docids": [p, h], "query": documents[h]}
        for p, h in claims
    ]
    (tmp_path / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = Eraser(root=str(tmp_path), name="claims")
    assert task.split("test")[0].inputs == (["he", "rests"], ["a", "man", "sleeps"])
    found = DistinctPassages(task).split("test")
    assert [example.uid[0] for example in found] == ["p", "q"]


def test_what_is_no_text_is_refused():
    with pytest.raises(UserError, match="example 'x' is no text"):
        DistinctPassages(Given((Example("x", {"pixel_values": 1}, 0),))).split("test")


def test_on_published_dialogues():
    task = MultipleChoice(root=str(shared("data/dream")))
    found = DistinctPassages(task).split("test")
    assert len({tuple(example.inputs[0]) for example in found}) == len(found)
    assert len(found) < len(task.split("test")) / 3
