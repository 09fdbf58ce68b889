"""Attacks change what they say they change, and nothing else."""

import itertools
import random
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from benchmark import load_model
from benchmark.annotations import KEYS, OPTION_ATTACKS, SEGMENT_ATTACKS, Moved, Option, PlantedWords, annotation
from benchmark.errors import UserError
from benchmark.evaluations.rationale.documents import documents
from benchmark.types import Attribution, Example
from benchmark.words import in_units
from tasks.attacked import Attacked
from tasks.eraser import Eraser
from tasks.multiple_choice import MultipleChoice
from tasks.word_attacks import (
    LEAST_DEGREE,
    added,
    edit_distance,
    reads,
    sentences,
    shuffled,
)
from tests import text_models
from tests.conftest import shared
from tests.tasks.test_eraser import line, span, write

PASSAGE = ["the", "bus", "is", "late", "today", ".", "it", "always", "comes", "at", "noon", "!"]
QUESTION = ["what", "is", "late"]
OPTIONS = {"the slow train": 0, "the bus": 1, "a big ship": 0}


@dataclass(frozen=True)
class Given:
    """Examples as they are."""

    examples: tuple[Example, ...]
    name: str = "given"
    version: int = 1
    labels: tuple[str, ...] = ("wrong", "right")
    fingerprint: str = "given"

    def split(self, name):
        return self.examples


def question():
    return Given(
        tuple(
            Example(f"q-{i}", (PASSAGE, [*QUESTION, *text.split()]), label, meta={KEYS[Option]: Option("q", i, 3, 3)})
            for i, (text, label) in enumerate(OPTIONS.items())
        )
    )


def pair(first="a b c d e f", second="g h i j", **more):
    return Given((Example("p", (first, second), 0, **more),))


def attacked(attack, task=None, **settings):
    return Attacked(task=task or question(), attack=attack, **settings).split("test")


def option(example):
    return example.inputs[1][annotation(example.meta, Option).query_words :]


def by_definition(first, second):
    """Levenshtein's distance by its recursion."""
    if not first or not second:
        return len(first) + len(second)
    return min(
        by_definition(first[1:], second) + 1,
        by_definition(first, second[1:]) + 1,
        by_definition(first[1:], second[1:]) + (first[0] != second[0]),
    )


def test_edit_distance_by_hand():
    assert edit_distance(["a", "b", "c", "d"], ["b", "c", "d", "a"]) == 2
    for first, second in itertools.product(("", "a", "ab", "aab", "baba", "bbaab"), repeat=2):
        assert edit_distance(first, second) == by_definition(first, second)


def test_shuffles_are_far_from_what_they_were():
    draw = random.Random(0)
    for length in range(2, 30):
        words = added([f"w{i}" for i in range(length)])
        found = shuffled(words, draw)
        assert sorted(found.words) == sorted(words.words)
        assert found.degree == edit_distance(words.words, found.words) / length >= LEAST_DEGREE


def test_words_that_cannot_get_far_get_as_far_as_they_can():
    assert shuffled(added(["so"]), random.Random(0)).degree == 0
    found = shuffled(added(["no", "no", "no", "yes"]), random.Random(0))
    assert found.degree == 0.5  # "yes" elsewhere: two substitutions
    assert found.words != ("no", "no", "no", "yes")


def test_sentences_end_where_their_marks_are():
    assert sentences(["Hi", ".", "Who", "is", "it?", "me"]) == [("Hi", "."), ("Who", "is", "it?"), ("me",)]


@pytest.mark.parametrize("attack", SEGMENT_ATTACKS)
def test_segments_are_shuffled_or_removed(attack):
    """The words that are left have the numbers that they had."""
    which, how = attack.split("_")
    clean = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]
    (example,) = attacked(attack, pair())
    moved = annotation(example.meta, Moved)
    for name, words, segment in zip("pq", example.inputs, (clean[:6], clean[6:]), strict=True):
        if name not in which:
            assert words == segment
        elif how == "remove":
            assert words == ["."]
        else:
            assert words != segment
            assert Counter(words) == Counter(segment)
    words = [word for segment in example.inputs for word in segment]
    assert [clean[place] if place >= 0 else "." for place in moved.origin] == words
    assert (moved.degree is None) == (how == "remove")


@pytest.mark.parametrize("attack", SEGMENT_ATTACKS)
def test_options_share_passage_and_question_and_keep_their_words(attack):
    examples = attacked(attack)
    which, how = attack.split("_")
    assert len({tuple(example.inputs[0]) for example in examples}) == 1
    assert len({tuple(example.inputs[1][: annotation(example.meta, Option).query_words]) for example in examples}) == 1
    assert [" ".join(option(example)) for example in examples] == list(OPTIONS)
    assert annotation(examples[0].meta, Option).query_words == (0 if (how, "q" in which) == ("remove", True) else 3)


def test_a_rationale_moves_with_its_words():
    rationale = np.array([False, True] + [False] * 7 + [True])  # b and j
    (example,) = attacked("pq_shuffle", pair(rationale=rationale))
    words = [word for segment in example.inputs for word in segment]
    assert {word for word, marked in zip(words, example.rationale, strict=True) if marked} == {"b", "j"}
    (example,) = attacked("q_remove", pair(rationale=rationale, query_units=6))
    assert example.rationale.tolist() == [False, False, False, False, True]
    assert example.query_units == 1  # the query is "." now


@pytest.mark.parametrize("attack", [*SEGMENT_ATTACKS, *OPTION_ATTACKS])
def test_words_stay_rated_or_unrated_wherever_they_go(attack):
    """Of an option beside its question, whose words alone are rated, as of `task=listed_options`."""
    given = Given(
        tuple(
            Example(
                f"q-{i}",
                (PASSAGE, text.split()),
                label,
                rated=np.arange(len(PASSAGE) + len(text.split())) < len(PASSAGE),
                meta={KEYS[Option]: Option("q", i, 3, 0)},
            )
            for i, (text, label) in enumerate(OPTIONS.items())
        )
    )
    for example in attacked(attack, given):
        first, second = example.inputs
        assert example.rated.tolist() == [True] * len(first) + [False] * len(second)


def test_a_rating_within_a_segment_moves_with_its_word():
    rated = np.array([True] * 9 + [False])  # all but j
    (example,) = attacked("pq_shuffle", pair(rated=rated))
    words = [word for segment in example.inputs for word in segment]
    assert [word for word, counts in zip(words, example.rated, strict=True) if not counts] == ["j"]


def test_marks_of_planted_and_of_hidden_words_move_with_them():
    marks = np.array([False, True] + [False] * 7 + [True])  # b and j
    planted = PlantedWords(marks, 0)
    (example,) = attacked("pq_shuffle", pair(meta={KEYS[PlantedWords]: planted}, hidden=marks))
    words = [word for segment in example.inputs for word in segment]
    for found in (annotation(example.meta, PlantedWords).marks, example.hidden):
        assert {word for word, mark in zip(words, found, strict=True) if mark} == {"b", "j"}


def test_units_that_are_no_words_are_not_attacked():
    with pytest.raises(UserError, match=r"other units than words, which are attacked; leave task\.units at words"):
        attacked("q_shuffle", pair(in_units("a b", "characters"), "c d"))


def test_units_of_unspaced_texts_are_attacked():
    (example,) = attacked("p_shuffle", pair("我喜欢看电影和书", "好看", rationale=np.array([True] + [False] * 9)))
    first, second = example.inputs
    assert sorted(first) == sorted("我喜欢看电影和书")
    assert second == ["好", "看"]
    assert [word for word, mark in zip(first + second, example.rationale, strict=True) if mark] == ["我"]


def test_a_shuffled_distractor_behind_the_passage():
    examples = attacked("add_sent2pas_shuffle")
    wrong = [text.split() for text, label in OPTIONS.items() if not label]
    behind = examples[0].inputs[0][len(PASSAGE) :]
    assert Counter(behind) == Counter([*QUESTION, *wrong[0], *wrong[1]])
    for example in examples:
        assert example.inputs[0] == [*PASSAGE, *behind]
        assert annotation(example.meta, Moved).degree >= LEAST_DEGREE
        assert annotation(example.meta, Moved).origin[len(PASSAGE) :][: len(behind)] == (-1,) * len(behind)
    assert [example.inputs[1] for example in examples] == [[*QUESTION, *text.split()] for text in OPTIONS]


def test_no_wrong_option_can_be_read_behind_the_passage():
    """Two words stand side by side in most shuffles of five; here in none."""
    given = Given(
        tuple(
            Example(f"{q}-{i}", (["so"], ["who", *text]), int(i == 1), meta={KEYS[Option]: Option(f"{q}", i, 2, 1)})
            for q in range(60)
            for i, text in enumerate((["a", "b"], ["c"]))
        )
    )
    found = [example.inputs[0][1:] for example in attacked("add_sent2pas_shuffle", given)]
    assert not any(reads(words, ["a", "b"]) for words in found)
    assert reads(["b", "a", "b"], ["a", "b"])


@pytest.mark.parametrize("attack", OPTION_ATTACKS[1:])
def test_distractors_in_place_of_wrong_options(attack):
    said = [Counter(sentence) for sentence in sentences(PASSAGE)]
    for clean, example in zip(question().examples, attacked(attack), strict=True):
        assert example.inputs[0] == PASSAGE
        assert example.inputs[1][:3] == QUESTION
        if example.label == 1:
            assert option(example) == option(clean)
            continue
        new = Counter(option(example))
        if attack.startswith("add_"):
            new.subtract(option(clean))
        assert new in (said if "sent2opt" in attack else [Counter(["the", "bus"])])
        degree = annotation(example.meta, Moved).degree
        if attack.endswith("shuffle"):
            assert degree >= LEAST_DEGREE
        else:
            assert degree is None
            assert option(example)[:3] == option(clean)


def test_questions_without_a_choice_stay():
    given = Given(tuple(e for e in question().examples if e.label == 0))
    for attack in OPTION_ATTACKS:
        assert [e.inputs for e in attacked(attack, given)] == [e.inputs for e in given.examples]


def test_a_seed_and_an_attack_determine_the_examples():
    one, again, other = (attacked("p_shuffle", seed=seed) for seed in (0, 0, 1))
    assert [e.inputs for e in one] == [e.inputs for e in again] != [e.inputs for e in other]
    tasks = [Attacked(task=question(), attack=attack) for attack in ("p_shuffle", "q_shuffle")]
    assert tasks[0].fingerprint != tasks[1].fingerprint
    assert tasks[0].name == "given-p_shuffle"


def test_models_learn_from_clean_examples_unless_told_otherwise():
    clean = question()
    assert Attacked(task=clean).learned_from is clean
    task = Attacked(task=clean, learned="attacked")
    assert task.learned_from is task


@pytest.mark.parametrize(
    ("attack", "given", "message"),
    [
        ("p_shuffle", Given((Example("t", "one text", 0),)), "example 't' is no pair of texts"),
        ("add_sent2opt", pair(), "example 'p' is no option of a question"),
    ],
)
def test_what_cannot_be_attacked_is_one_line(attack, given, message):
    with pytest.raises(UserError, match=f"task.attack={attack}: {message}"):
        attacked(attack, given)


@pytest.mark.thorough
def test_degrees_on_dream():
    """The paper's footnote: above .65 on average for every attack."""
    task = MultipleChoice(root=str(shared("data/dream")))
    for attack in ("q_shuffle", *(name for name in OPTION_ATTACKS if name.endswith("shuffle"))):
        moved = [annotation(example.meta, Moved).degree for example in attacked(attack, task)]
        assert np.mean([degree for degree in moved if degree is not None]) > LEAST_DEGREE


def eraser_pair(query, documents, spans):
    """An example as `tasks.eraser` makes it: a query that is not rated, and documents; or, without one, two documents."""
    words = [word for document in documents for word in document]
    marks = [any(a <= i < b for a, b in spans[d]) for d, document in enumerate(documents) for i in range(len(document))]
    meta = {"annotation_id": "e", "docids": tuple("de"[: len(documents)]), "evidence_spans": spans}
    meta["document_lengths"] = tuple(map(len, documents))
    inputs = (query, words) if query else (documents[0], documents[1])
    rationale = np.array([False] * len(query) + marks)
    return Given((Example("e", inputs, 0, rationale=rationale, query_units=len(query), meta=meta),))


def marked_words(example):
    """The words of all spans, by the lengths of the documents."""
    words = [word for segment in example.inputs for word in segment][example.query_units :]
    found, start = [], 0
    for length, spans in zip(example.meta["document_lengths"], example.meta["evidence_spans"], strict=True):
        found.append([words[start + i] for a, b in spans for i in range(a, b)])
        start += length
    assert start == len(words)
    return found


QUERY = ["who", "is", "it"]
DOCUMENTS = (list("abcdefgh"), list("stuvw"))


@pytest.mark.parametrize("attack", SEGMENT_ATTACKS)
def test_the_passage_of_a_query_is_its_document(attack):
    """ERASER's pairs are (query, documents)."""
    which, how = attack.split("_")
    (example,) = attacked(attack, eraser_pair(QUERY, DOCUMENTS, (((1, 3), (3, 4)), ((0, 2),))))
    query, words = example.inputs
    if "q" not in which:
        assert query == QUERY
    assert example.query_units == len(query) == (1 if "q" in which and how == "remove" else 3)
    if "p" not in which:
        assert words == [*DOCUMENTS[0], *DOCUMENTS[1]]
        assert example.meta["evidence_spans"] == (((1, 3), (3, 4)), ((0, 2),))
        assert example.meta["annotation_id"] == "e"
        return
    assert "annotation_id" not in example.meta
    if how == "remove":
        assert words == ["."]
        assert example.meta["document_lengths"] == (1, 0)
        assert example.meta["evidence_spans"] == ((), ())
    else:
        assert sorted(words) == sorted([*DOCUMENTS[0], *DOCUMENTS[1]]) != words
        assert example.meta["document_lengths"] == (8, 5)
        assert sorted(itertools.chain(*marked_words(example))) == ["b", "c", "d", "s", "t"]


def test_a_document_in_each_segment_has_its_own_spans():
    """As of e-SNLI, where the query is the first document."""
    (example,) = attacked("q_shuffle", eraser_pair([], DOCUMENTS, (((1, 2), (2, 4)), ((0, 1), (2, 3)))))
    assert example.meta["evidence_spans"][0] == ((1, 2), (2, 4))
    assert sorted(marked_words(example)[1]) == ["s", "u"]
    (example,) = attacked("p_remove", eraser_pair([], DOCUMENTS, (((1, 2),), ((0, 1), (2, 3)))))
    assert example.meta["document_lengths"] == (1, 5)
    assert example.meta["evidence_spans"] == ((), ((0, 1), (2, 3)))
    assert example.inputs == (["."], DOCUMENTS[1])


@pytest.mark.parametrize("attack", SEGMENT_ATTACKS)
def test_rationale_tests_read_attacked_documents(tmp_path, attack):
    """From a data set of ERASER's form to what the tests compare: what was marked is marked, in spans that hold it."""
    evidences = [[span("a", 1, 3)], [span("b", 1, 2)]]
    root = write(tmp_path / "data", test=[line("x", "POS", evidences, query="is it good")])
    model = load_model(text_models.save_bert(tmp_path / "bert", labels=("NEG", "POS")))
    examples = attacked(attack, Eraser(root=str(root), query="always"))
    batch = model.encode_examples(examples, model.label_map(("NEG", "POS")))
    parts = documents(batch, Attribution(batch.label, torch.zeros(batch.units.shape)), how="max", clamp=False, seed=0)[
        0
    ]
    kept = [] if attack in ("p_remove", "pq_remove") else ["dull", "film", "fine"]
    words = examples[0].inputs[1]
    gold = np.concatenate([part.gold for part in parts])
    assert sorted(word for word, marked in zip(words, gold, strict=True) if marked) == kept
    assert sum(end - start for part in parts for start, end in part.spans) == len(kept)
    assert all(part.gold[start:end].all() for part in parts for start, end in part.spans)
