"""Learning which option of a question is right: the loss, whole questions in a batch, and what it needs."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import BertModel

from benchmark.annotations import KEYS, Option
from benchmark.errors import UserError
from benchmark.models import load_model
from benchmark.training.finetune import Recipe, _by_length, _Order, finetune
from benchmark.training.options import choice_loss, choices_right, options_of
from benchmark.types import Example
from tasks.multiple_choice import MultipleChoice
from tasks.planted import Planted
from tests.text_models import save_bert

TASK = MultipleChoice(train=60, validation=20, test=10)
RECIPE = Recipe(epochs=2, batch_size=10, learning_rate=1e-3, checks_per_epoch=1, loss="options")


class Given:
    """A task of given examples."""

    name = "given"

    def __init__(self, *examples):
        self.examples = examples

    def split(self, name):
        return self.examples


def question(name, right, options=3):
    return [
        Example(
            f"{name}-{number}", ["a", "b"], int(number in right), meta={KEYS[Option]: Option(name, number, options, 1)}
        )
        for number in range(options)
    ]


@pytest.fixture
def base(tmp_path):
    folder = save_bert(tmp_path / "base", window=64)
    BertModel.from_pretrained(folder).save_pretrained(folder)
    return folder


def test_the_loss_is_that_of_the_right_option_among_all():
    logits = torch.randn(6, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    right = torch.tensor([0, 1, 0, 0, 0, 1])
    score = [float(wrong_right[1] - wrong_right[0]) for wrong_right in logits]
    by_hand = [
        -np.log(np.exp(score[1]) / sum(np.exp(score[:3]))),
        -np.log(np.exp(score[5]) / sum(np.exp(score[3:]))),
    ]
    assert float(choice_loss(logits, right, 3)) == pytest.approx(np.mean(by_hand), rel=1e-12)
    assert choices_right(logits.numpy(), right.numpy(), 3).tolist() == [
        score[1] == max(score[:3]),
        score[5] == max(score[3:]),
    ]


@pytest.mark.parametrize("by_length", [False, True])
def test_a_batch_holds_whole_questions(by_length):
    lengths = np.random.default_rng(0).integers(4, 60, size=99).tolist()
    order = _Order(lengths, 3, 9, by_length=by_length, seed=0)
    first = list(order)
    assert len(order) == len(first) == 99
    assert sorted(first) == list(range(99))
    assert all(first[at] % 3 == 0 and first[at + 2] == first[at + 1] + 1 == first[at] + 2 for at in range(0, 99, 3))
    assert first == list(_Order(lengths, 3, 9, by_length=by_length, seed=0))
    order.set_epoch(1)
    assert first != list(order)


def test_texts_of_a_question_stay_together_where_they_are_sorted():
    items = [{"input_ids": [0] * length, "labels": place} for place, length in enumerate([5, 9, 1, 2, 3, 4])]
    assert [item["labels"] for item in _by_length(items, 3)] == [3, 4, 5, 0, 1, 2]
    assert [item["labels"] for item in _by_length(items, 1)] == [2, 3, 4, 5, 0, 1]


def test_what_is_learned_is_which_option_is_right(base, tmp_path):
    record = finetune(TASK, str(base), tmp_path / "out", replace(RECIPE, epochs=1, group_by_length=True))
    assert record["recipe"]["loss"] == "options"
    assert record["steps"] == 20  # three questions of three options in a step of at most ten
    model = load_model(tmp_path / "out", device="cpu")
    examples = TASK.split("validation")
    batch = model.encode_examples(list(examples), model.label_map(TASK.labels))
    logits = model.run(batch).logits.numpy()
    found = choices_right(logits, np.array([example.label for example in examples]), 3)
    assert record["accuracy"]["validation"] == pytest.approx(found.mean())
    once = replace(RECIPE, epochs=1, freeze=1, read_once=True)
    assert finetune(TASK, str(base), tmp_path / "once", once)["steps"] == 20
    plain = finetune(TASK, str(base), tmp_path / "plain", replace(RECIPE, epochs=1, loss="examples"))
    assert "loss" not in plain["recipe"]


def test_the_number_of_options_is_that_of_every_question():
    assert options_of(Given(*question("a", {0}), *question("b", {2}))) == 3


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        ([Example("a", ["a", "b"], 0)], "the examples of given are not the options of questions"),
        ([*question("a", {0}), Example("b", ["a"], 0)], "the examples of given are not the options of questions"),
        ([*question("a", {0}), *question("b", {0}, 2)], "question 'b' of given does not have 3 options"),
        (question("a", {0})[:2], "question 'a' of given does not have 3 options"),
        (question("a", {0, 1}), "question 'a' of given has 2 right options, not one"),
        (question("a", set()), "question 'a' of given has 0 right options, not one"),
    ],
)
def test_what_is_no_choice_of_one_is_named(examples, message):
    with pytest.raises(UserError, match=f"^recipe.loss=options: .*{message}"):
        options_of(Given(*examples))


def test_splits_with_other_numbers_of_options_are_named():
    class Uneven(Given):
        def split(self, name):
            return question("a", {0}, 3 if name == "train" else 4)

    with pytest.raises(UserError, match="the questions of given have 3 or 4 options by split"):
        options_of(Uneven())


def test_a_task_without_options_is_named_before_anything_is_loaded(tmp_path, base):
    with pytest.raises(UserError, match="the examples of planted are not the options of questions"):
        finetune(Planted(train=8, validation=4, test=4), str(base), tmp_path / "out", RECIPE)
