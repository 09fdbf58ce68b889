"""What a method gives is checked before anything is computed from it: one line with the method and what was expected."""

import re
import sys
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
import torch

import benchmark
from benchmark.errors import UserError
from benchmark.run.explaining import Checked
from benchmark.targets import ClassTarget
from benchmark.types import Attribution, Method
from tests import text_models

TARGET = ClassTarget(torch.tensor([0, 1]))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return benchmark.load_model(text_models.save_bert(tmp_path_factory.mktemp("model") / "bert"), device="cpu")


@pytest.fixture(scope="module")
def batch(model):
    return model.encode(["the film was good", "a dull plot"])  # 6 tokens


@dataclass(frozen=True)
class Gives(Method):
    """Answers with what it is told."""

    answer: Any
    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = True

    def explain(self, model, batch, target):
        return self.answer

    def edge_scores(self, model, batch, target):
        return self.answer

    def with_edges(self, model, batch, target):
        return self.answer


def scores(**fields):
    return Attribution(target=TARGET, **fields)


GOOD = scores(
    tokens=torch.zeros(2, 6), heads=torch.zeros(2, 2, 2), layers=torch.zeros(2, 2, 6), totals=torch.zeros(2, 2)
)


def test_what_is_right_comes_through(model, batch):
    assert Checked("mine", Gives(GOOD))(model, batch, TARGET) is GOOD
    edges = torch.zeros(2, 2, 1, 6, 6)
    assert Checked("mine", Gives(edges)).edge_scores(model, batch, TARGET) is edges
    assert Checked("mine", Gives(GOOD)).class_specific


FLOATS = "a torch tensor of floating-point numbers"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ([0.1, 0.2], "gave a list of 2 items; expected is benchmark.types.Attribution(target=target, tokens=...)"),
        (None, "gave None; expected is benchmark.types.Attribution"),
        (torch.zeros(2, 6), "gave a tensor of shape [2, 6]; expected is benchmark.types.Attribution"),
        (torch.zeros(2, 6, dtype=torch.complex64), "gave a tensor of complex64 of shape [2, 6]; expected is benchmark"),
        (scores(tokens=torch.zeros(2, 4)), f"tokens a tensor of shape [2, 4]; expected is {FLOATS} of shape [2, 6]"),
        (scores(tokens=torch.zeros(6)), f"tokens a tensor of shape [6]; expected is {FLOATS} of shape [2, 6]"),
        (scores(tokens=torch.zeros(2, 6).cfloat()), f"a tensor of complex64 of shape [2, 6]; expected is {FLOATS} of shape"),
        (scores(tokens=torch.zeros(2, 6).long()), f"as tokens a tensor of int64 of shape [2, 6]; expected is {FLOATS} of"),
        (scores(tokens=[[0.0] * 6] * 2), f"tokens a list of 2 items; expected is {FLOATS} of shape [2, 6]"),
        (scores(tokens=torch.zeros(2, 6).numpy()), "tokens a ndarray"),
        (scores(heads=torch.zeros(2, 4)), f"heads a tensor of shape [2, 4]; expected is {FLOATS} of shape [2, 2, 2]"),
        (scores(layers=torch.zeros(1, 2, 6)), "as layers"),
        (scores(totals=torch.zeros(2)), "as totals"),
        (scores(edges=torch.zeros(2, 2, 6)), "as edges"),
        (replace(GOOD, target=[0, 1]), "target a list of 2 items; expected is a torch tensor of shape [2]"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("asked", ["__call__", "with_edges"])
def test_another_form_is_one_line_that_names_the_method(model, batch, answer, expected, asked):
    with pytest.raises(UserError) as caught:
        getattr(Checked("mine", Gives(answer)), asked)(model, batch, TARGET)
    assert str(caught.value).startswith("methods.mine: ")
    assert expected in str(caught.value)
    assert "benchmark/types.py" in str(caught.value)


@pytest.mark.parametrize(
    "answer",
    [
        [1.0],
        torch.zeros(2, 2, 2, 6, 6).cfloat(),
        torch.zeros(2, 2, 6, 6),
        torch.zeros(2, 2, 3, 6, 6),
        torch.zeros(2, 2, 2, 6, 5),
    ],
)
def test_edge_scores_of_another_form(model, batch, answer):
    with pytest.raises(UserError, match=r"methods.mine: edge_scores gave .* of shape \[2, 2, 2 or 1, 6, 6\]"):
        Checked("mine", Gives(answer)).edge_scores(model, batch, TARGET)


@dataclass(frozen=True)
class Ends(Gives):
    """Ends the program, as a script does that was made a method."""

    def explain(self, model, batch, target):
        sys.exit(self.answer)


@pytest.mark.parametrize(("status", "said"), [(0, "0"), (None, ""), ("no such file", "'no such file'")])
def test_a_method_that_ends_the_program_is_told(model, batch, status, said):
    """Else nothing would be printed, and the command's status would be the method's: 0."""
    with pytest.raises(
        UserError, match=re.escape(f"methods.mine: it ended the program (sys.exit({said})); return scores")
    ):
        Checked("mine", Ends(status))(model, batch, TARGET)
