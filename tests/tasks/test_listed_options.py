"""Questions that list their options are put option by option: which is right, what may be removed, whose the marks are."""

import json
from dataclasses import dataclass

import pytest

from benchmark.annotations import Option, annotation
from benchmark.errors import UserError
from benchmark.training.options import options_of
from benchmark.types import Example
from tasks.attacked import Attacked
from tasks.eraser import Eraser
from tasks.listed_options import ListedOptions
from tasks.text_classification import TextClassification
from tests.conftest import shared

QUESTION = "Where do you keep a boat ?"
OPTIONS = "a dry [SEP] the harbour [SEP] shop"


@dataclass(frozen=True)
class Given:
    """Questions as they are."""

    examples: tuple[Example, ...]
    labels: tuple[str, ...] = ("A", "B")
    name: str = "given"
    version: int = 1
    fingerprint: str = "given"

    def split(self, name):
        return self.examples


def table(folder, query=OPTIONS, label="B", rationale="[0, 0, 0, 1, 0, 1, 0]", **settings):
    header = "text\tlabel\tquery\trationale\n"
    unmarked = "Who ?\tA\tI [sep] you [SEP] she\t\nWho ?\tC\tI [SEP] you [SEP] she\t\n"
    rows = f"{QUESTION}\t{label}\t{query}\t{rationale}\n{unmarked}"
    (folder / "test.tsv").write_text(header + rows)
    for split in ("train", "validation"):
        (folder / f"{split}.tsv").write_text(header + rows)
    names = {"label_names": ["A", "B", "C"], "rationale": "rationale"}
    return ListedOptions(TextClassification(root=str(folder), query="query", name="asked", **names), **settings)


def test_an_example_for_each_option(tmp_path):
    task = table(tmp_path)
    examples = task.split("test")
    assert [example.inputs for example in examples[:3]] == [
        (QUESTION, option) for option in (["a", "dry"], ["the", "harbour"], ["shop"])
    ]
    assert [example.label for example in examples] == [0, 1, 0, 1, 0, 0, 0, 0, 1]
    assert task.labels == ("wrong", "right")
    assert task.name == "asked-options"
    assert annotation(examples[1].meta, Option) == Option("test-000000", 1, 3, query_words=0)
    assert options_of(task) == 3


def test_words_of_the_question_alone_are_rated_and_the_right_option_has_the_marks(tmp_path):
    wrong, right, last, *unmarked = table(tmp_path).split("test")
    assert right.rated.tolist() == [True] * 7 + [False] * 2
    assert right.rationale.tolist() == [False, False, False, True, False, True, False, False, False]
    assert last.rated.tolist() == [True] * 7 + [False]
    assert [example.rationale for example in (wrong, last, *unmarked)] == [None] * 8


def test_right_options_alone_are_tested_by_a_model_that_learned_from_all(tmp_path):
    every, right = table(tmp_path), table(tmp_path, tested="right")
    assert [example.uid for example in right.split("test")] == ["test-000000-1", "test-000001-0", "test-000002-2"]
    assert all(example.label == 1 for example in right.split("test"))
    assert [example.uid for example in right.split("validation")] == [e.uid for e in every.split("validation")]
    assert right.fingerprint != every.fingerprint == right.learned_from.fingerprint
    assert every.learned_from is every


def test_cos_e_as_eraser_distributes_it(tmp_path):
    (tmp_path / "docs").mkdir()
    for number, answer in enumerate("AB"):
        (tmp_path / "docs" / f"q{number}").write_text(QUESTION)
        row = {
            "annotation_id": f"q{number}",
            "classification": answer,
            "query": "a lake [sep] a pond",
            "evidences": [[{"docid": f"q{number}", "text": "boat", "start_token": 5, "end_token": 6}]],
        }
        with (tmp_path / "test.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")
    examples = ListedOptions(Eraser(root=str(tmp_path), query="always")).split("test")
    assert [(example.uid, example.label) for example in examples] == [
        ("q0-0", 1),
        ("q0-1", 0),
        ("q1-0", 0),
        ("q1-1", 1),
    ]
    assert examples[0].inputs == (QUESTION.split(), ["a", "lake"])
    assert examples[0].rationale.tolist() == [False] * 5 + [True] + [False] * 3


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"query": "a dry [SEP] the harbour"}, "lists 2 options .* 3 classes"),
        ({"query": "a dry [SEP] the harbour [SEP]"}, "lists an option without words"),
        ({"query": "[SEP] dry [SEP] the harbour [SEP] shop"}, "lists an option without words"),
    ],
)
def test_options_that_do_not_fit_the_classes(tmp_path, changed, said):
    with pytest.raises(UserError, match=f"'test-000000' of asked {said}"):
        table(tmp_path, **changed).split("test")


def test_a_task_without_a_query(tmp_path):
    table(tmp_path)
    task = ListedOptions(TextClassification(root=str(tmp_path), name="asked"))
    with pytest.raises(
        UserError, match=r"has no query that lists options; name its column with task\.task\.query=COLUMN"
    ):
        task.split("test")


def test_separators_need_no_blanks_and_scripts_may_have_none(tmp_path):
    task = table(tmp_path, query="好看[SEP]不好[sep] a dry", rationale="")
    assert [example.inputs[1] for example in task.split("test")[:3]] == [["好", "看"], ["不", "好"], ["a", "dry"]]


def test_a_class_named_like_another_option_is_refused(tmp_path):
    """Labels that are sorted as words are not in the order of the options."""
    (tmp_path / "test.csv").write_text("text,label,query\nis it wet ?,yes,yes [SEP] no\nis it dry ?,no,yes [SEP] no\n")
    with pytest.raises(UserError, match=r"the class 'no' for its option 1, which is another one; .*label_names"):
        ListedOptions(TextClassification(root=str(tmp_path), query="query")).split("test")
    named = TextClassification(root=str(tmp_path), query="query", label_names=["yes", "no"])
    assert [example.label for example in ListedOptions(named).split("test")] == [1, 0, 0, 1]


def test_an_unknown_answer_and_units_that_are_no_words(tmp_path):
    table(tmp_path)
    letters = TextClassification(root=str(tmp_path), query="query", units="characters", label_names=["A", "B", "C"])
    with pytest.raises(UserError, match=r"has other units than words; leave task\.task\.units at words"):
        ListedOptions(letters).split("test")
    unknown = Example("q", (["a", "[SEP]", "b"], ["which", "?"]), -1, query_units=3)
    with pytest.raises(UserError, match="does not say which option is right"):
        ListedOptions(Given((unknown,))).split("test")


def test_what_the_question_does_not_rate_stays_so():
    asked = Example("q", (["a", "[sep]", "b"], ["which", "one", "?"]), 1, rated=[0, 0, 0, 1, 1, 0], query_units=3)
    examples = ListedOptions(Given((asked,))).split("test")
    assert [example.rated.tolist() for example in examples] == [[True, True, False, False]] * 2
    assert [example.label for example in examples] == [0, 1]


@pytest.mark.parametrize("attack", ["add_sent2pas_shuffle", "ans2opt_shuffle"])
def test_attacks_on_tested_options_know_the_others(tmp_path, attack):
    right = Attacked(task=table(tmp_path, tested="right"), attack=attack)
    every = Attacked(task=table(tmp_path), attack=attack)
    of_all = {example.uid: example for example in every.split("test")}
    assert [e.inputs for e in right.split("test")] == [of_all[e.uid].inputs for e in right.split("test")]
    assert right.learned_from.fingerprint == every.learned_from.fingerprint


def test_options_of_attacked_questions_are_learned_from_clean_ones(tmp_path):
    questions = table(tmp_path).task
    options = ListedOptions(Attacked(task=questions, attack="q_shuffle"))
    assert options.learned_from.fingerprint == ListedOptions(questions).fingerprint


def test_the_fingerprint_is_of_the_questions(tmp_path):
    first, other = tmp_path / "first", tmp_path / "other"
    first.mkdir()
    other.mkdir()
    assert table(first).fingerprint == table(first).fingerprint != table(other, label="C").fingerprint


def test_cos_e_itself():
    folder = shared("data/cose")
    columns = {"query": "query", "label": "classification", "rationale": "rationale"}
    examples = ListedOptions(TextClassification(root=str(folder), **columns)).split("validation")
    assert len(examples) == 5 * 1086
    assert sum(example.label for example in examples) == 1086
    assert all((example.rationale is not None) == bool(example.label) for example in examples)
