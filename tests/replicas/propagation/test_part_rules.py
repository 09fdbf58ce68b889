"""Operations on parts that have no affine map, and those that a model of ours does not use."""

import pytest
import torch
from torch import nn

from benchmark.errors import NotApplicable
from methods.propagation.decomposed import decomposed
from methods.propagation.mode import propagating
from methods.propagation.part_rules import Parts
from tests.replicas.conftest import assert_same, numbers


@pytest.fixture
def carried():
    x = numbers(3, 2, 3)
    return decomposed(x.sum(0), x)


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        (torch.sin, "torch.sin"),
        (lambda x: torch.cumsum(x, -1), "torch.cumsum"),
        (torch.sigmoid, "torch.sigmoid"),
        (lambda x: torch.max(x, -1), "torch.max"),
        (torch.detach, "torch.detach"),
        (lambda x: torch.div(1.0, x), "division by an activation"),
        (lambda x: torch.ones(2, 3) / x, "division by an activation"),
        (lambda x: torch.cat([x, torch.ones(2, 3)]), "joining an activation and a constant"),
        (lambda x: torch.add(x, x, alpha=2), "a scaled addition"),
        (nn.Sigmoid(), "an activation that is not 0 at 0"),
    ],
)
def test_what_has_no_map_is_refused(carried, operation, reason):
    module = operation if isinstance(operation, nn.Module) else nn.Identity()
    with propagating(module, Parts()), pytest.raises(NotApplicable, match=f"decomposition has no rule for .*{reason}"):
        operation(carried)


@pytest.mark.parametrize(
    "operation",
    [
        lambda x: 2.0 - x,
        lambda x: torch.sub(x, torch.ones(2, 3)),
        lambda x: -x * 3 + 1,
        lambda x: x + x,
        lambda x: nn.functional.rms_norm(x, (3,), torch.arange(3.0).double()),
        lambda x: nn.functional.layer_norm(x, (3,), torch.arange(3.0).double(), torch.ones(3).double()),
        lambda x: nn.functional.dropout(x, 0.5, training=False),
        lambda x: x.sum(-1),
        lambda x: x * x,
    ],
)
def test_parts_sum_to_the_whole_which_is_the_operations(carried, operation):
    whole = operation(carried.as_subclass(torch.Tensor))
    with propagating(nn.Identity(), Parts()):
        made = operation(carried)
    assert_same(made.as_subclass(torch.Tensor), whole)
    assert_same(made.parts.sum(0), whole)


def test_outside_of_the_mode_it_is_a_tensor_like_any_other(carried):
    assert type(torch.sin(carried)) is torch.Tensor
