"""Questions are read as DREAM and ERASER's MultiRC write them; generated ones are decided by what they say decides."""

import json
import re
from collections import Counter

import numpy as np
import pytest

from benchmark.annotations import Option, annotation
from benchmark.errors import NoSplit, UserError
from tasks.choice_files import read_questions
from tasks.dialogue_grammar import NO_TOPIC, TOPICS
from tasks.multiple_choice import MultipleChoice
from tests.conftest import shared

TURNS = ["M: The bus is late .", "W: It always is."]
ASKED = {"question": "What is late?", "choice": ["A train.", "The bus.", "She."], "answer": "The bus."}
ROW = {
    "annotation_id": "story.txt:0:1",
    "query": "Who is late ? || the bus",
    "classification": "True",
    "evidences": [[{"docid": "story.txt", "text": "", "start_token": 0, "end_token": 1}]],
}


def dream(folder, *dialogues):
    (folder / "test.json").write_text(json.dumps(dialogues))
    return folder


def multirc(folder, *rows):
    (folder / "docs").mkdir()
    (folder / "docs" / "story.txt").write_text("The bus is late .\nIt always is .\n")
    (folder / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_a_dialogue_of_dream(tmp_path):
    task = MultipleChoice(root=str(dream(tmp_path, [TURNS, [ASKED], "4-1"])))
    examples = task.split("test")
    passage = ["M:", "The", "bus", "is", "late", ".", "W:", "It", "always", "is."]
    assert [example.inputs for example in examples] == [
        (passage, ["What", "is", "late?", *option]) for option in (["A", "train."], ["The", "bus."], ["She."])
    ]
    assert [example.label for example in examples] == [0, 1, 0]
    assert [annotation(example.meta, Option) for example in examples] == [Option("4-1-0", i, 3, 3) for i in range(3)]
    with pytest.raises(NoSplit, match=r"has neither dev\.json \(DREAM\) nor val\.jsonl"):
        task.split("validation")


def test_options_of_multirc_are_put_together(tmp_path):
    other = ROW | {"annotation_id": "story.txt:0:2", "query": "Who is late ? || all", "classification": "False"}
    (question,) = read_questions(multirc(tmp_path, ROW, other), "test")
    assert question.uid == "story.txt:0"
    assert question.passage == ("The", "bus", "is", "late", ".", "It", "always", "is", ".")
    assert question.question == ("Who", "is", "late", "?")
    assert (question.options, question.right) == ((("the", "bus"), ("all",)), (True, False))


@pytest.mark.parametrize(
    ("dialogues", "message"),
    [
        ([[TURNS, [ASKED]]], "dialogue 1: a dialogue is a list of its turns, its questions and its id"),
        ([[TURNS, [{"question": "?", "choice": []}], "1"]], "dialogue 1: a question has the keys question, choice"),
        ([[TURNS, ["What?"], "1"]], "it lacks everything"),
        ([[TURNS, [ASKED | {"answer": "The tram."}], "1"]], "the answer 'The tram.' is 0 of the choices, not one"),
        ([[TURNS, [ASKED | {"choice": ["The bus."]}], "1"]], "a question has at least two choices, not 1"),
        ([[[], [ASKED], "1"]], "a question needs a passage"),
        ([], "has no question"),
        ([[TURNS, [ASKED | {"choice": None}], "1"]], "a question is a text, and its choice a list of texts"),
        ([[TURNS, [ASKED | {"choice": "The bus."}], "1"]], "a question is a text, and its choice a list of texts"),
        ([[TURNS, [ASKED | {"question": None}], "1"]], "a question is a text, and its choice a list of texts"),
        ([["M: The bus is late .", [ASKED], "1"]], "the turns of a dialogue are a list of texts"),
        ([[TURNS, [ASKED], "1"], [TURNS, [ASKED], "1"]], "dialogue 2: the id '1' is that of dialogue 1 already"),
    ],
)  # fmt: skip
def test_an_ill_formed_dialogue_is_one_line(tmp_path, dialogues, message):
    with pytest.raises(UserError, match=re.escape(message)) as error:
        read_questions(dream(tmp_path, *dialogues), "test")
    assert str(tmp_path / "test.json") in str(error.value)
    assert "\n" not in str(error.value)


def test_what_is_no_json_names_its_line(tmp_path):
    (tmp_path / "test.json").write_text("[[\n[}")
    with pytest.raises(UserError, match=r"test\.json is no JSON \(line 2: "):
        read_questions(tmp_path, "test")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [ROW | {"query": "Who is late ?"}],
            "line 1: a query is `question || option`, its classification True or False",
        ),
        ([ROW, ROW | {"classification": "maybe"}], "line 2: a query is `question || option`"),
        ([ROW | {"evidences": None}], "line 1: an option has an annotation_id and one document, not 0"),
        ([ROW | {"evidences": ["story.txt"]}], "line 1: evidences are lists of spans with a docid, and docids a list"),
        ([ROW, ROW | {"query": "Who is it ? || all"}], "line 2: an option of 'story.txt:0' with another question or"),
        ([ROW | {"evidences": []}], "line 1: an option has an annotation_id and one document, not 0"),
        ([{k: v for k, v in ROW.items() if k != "annotation_id"}], "line 1: an option has an annotation_id"),
        ([ROW | {"evidences": [[{"docid": "lost.txt"}]]}], "lost.txt is missing, the document of a question"),
        ([ROW | {"query": "Who is late ? ||"}], "a question needs a passage, words, and options with words"),
    ],
)
def test_an_ill_formed_option_is_one_line(tmp_path, rows, message):
    with pytest.raises(UserError, match=re.escape(message)) as error:
        read_questions(multirc(tmp_path, *rows), "test")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("name", "split"), [("dream", "test"), ("eraser_multirc", "validation")])
def test_the_authors_files(name, split):
    questions = read_questions(shared(f"data/{name}"), split)
    if name == "dream":
        assert len(questions) == 2041  # Si et al., table 1
        assert all(sum(question.right) == 1 and len(question.options) == 3 for question in questions)
    assert all(question.passage and question.question for question in questions)


@pytest.fixture(scope="module")
def generated():
    return MultipleChoice(train=1, validation=1, test=300)


def test_a_seed_determines_the_questions(generated):
    again, other = (
        MultipleChoice(train=1, validation=1, test=300),
        MultipleChoice(seed=1, train=1, validation=1, test=300),
    )
    assert generated.fingerprint == again.fingerprint != other.fingerprint
    assert [e.inputs for e in generated.split("test")] == [e.inputs for e in again.split("test")]


def options(examples):
    return [examples[i : i + 3] for i in range(0, len(examples), 3)]


def topic(example):
    (found,) = TOPICS.keys() & set(example.inputs[1])
    return found


def told(example, *, negated):
    """Words of topics that follow "no", or that do not."""
    words = example.inputs[0]
    every = {word for topic in TOPICS.values() for word in topic} | {*NO_TOPIC}
    return [
        word for before, word in zip(["", *words], words, strict=False) if word in every and (before == "no") == negated
    ]


def test_what_is_there_is_the_right_option(generated):
    for question in options(generated.split("test")):
        assert len({topic(example) for example in question}) == 3
        for example in question:
            there = {word in TOPICS[topic(example)] for word in told(example, negated=False)}
            assert there == {bool(example.label)}


def test_order_decides_where_it_is_said_to(generated):
    """Counting words leaves two options where order decides, and one where words do."""
    for question in options(generated.split("test")):
        (ordered,) = {annotation(example.meta, Option).needs_order for example in question}
        counts = sorted(sum(word in TOPICS[topic(example)] for word in example.inputs[0]) for example in question)
        assert counts == ([0, 2, 2] if ordered else [0, 0, 2])


def test_neither_place_nor_length_of_an_option_tells():
    questions = options(MultipleChoice(train=1, validation=1, test=4000).split("test"))
    guesses = {str(number): [question[number].label for question in questions] for number in range(3)}
    guesses["longest"] = [max(question, key=lambda example: len(example.inputs[1])).label for question in questions]
    right = Counter(topic(example) for question in questions[:240] for example in question if example.label)
    offered = Counter(topic(example) for question in questions[:240] for example in question)
    assert right == dict.fromkeys(TOPICS, 80)
    assert offered == dict.fromkeys(TOPICS, 240)
    for labels in guesses.values():
        assert np.mean(labels) == pytest.approx(1 / 3, abs=4 * np.sqrt(2 / 9 / len(labels)))


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_the_share_of_ordered_questions(share):
    examples = MultipleChoice(ordered=share, train=1, validation=1, test=20).split("test")
    assert {annotation(example.meta, Option).needs_order for example in examples} == {bool(share)}
