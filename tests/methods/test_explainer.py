"""The classes to explain are given as a tensor or as a list, to every method."""

import pytest
import torch

from benchmark.checking import small_models
from benchmark.checking.subject import difference
from benchmark.errors import NotApplicable, UserError
from tests.checking.cheap import METHODS, built
from tests.covering import one_in


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return small_models.load("bert", tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def batch(model):
    return small_models.encoded(model, small_models.inputs("bert", (4, 3)))


@pytest.mark.parametrize("name", one_in(3, METHODS))
def test_a_list_is_as_good_as_a_tensor(name, model, batch):
    method = built(name)
    try:
        expected = method(model, batch, torch.tensor([2, 1]))
    except NotApplicable:
        with pytest.raises(NotApplicable):
            method(model, batch, target=[2, 1])
        return
    found = method(model, batch, target=[2, 1])
    assert found.target.classes.tolist() == [2, 1]
    assert difference(found, expected)[0] == 0


def test_edge_scores_take_a_list(model, batch):
    method = built("transformer_attribution")
    found = method.edge_scores(model, batch, [2, 1])
    assert torch.equal(found, method.edge_scores(model, batch, torch.tensor([2, 1])))


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ([1], "must hold one class for each of the 2 examples"),
        (torch.tensor([0, 1, 2]), "must hold one class for each of the 2 examples"),
        ([0, 3], "target holds 3, but the model's classes are 0 to 2"),
        ([-1, 0], "target holds -1, but the model's classes are 0 to 2"),
    ],
)
def test_targets_that_fit_no_example_or_class(model, batch, target, message):
    with pytest.raises(UserError, match=message):
        built("raw_attention")(model, batch, target)
