"""One graph gives the plain gradient and the relevance, each as if it had been computed alone."""

import pytest
import torch

from benchmark.checking import small_models
from benchmark.models.read_rows import everywhere
from benchmark.targets import ClassTarget
from methods.edges.base import attention_and_gradient
from methods.propagation.relevance import relevance_pass
from methods.propagation.rule_sets import RULE_SETS, RuleSet
from tests.replicas.conftest import assert_same


@pytest.fixture(scope="module", params=small_models.FAMILIES)
def family(request, tmp_path_factory):
    model = small_models.load(request.param, tmp_path_factory.mktemp("model"))
    batch = model.encode(small_models.inputs(request.param))
    target = torch.tensor([0, 1, 2])
    return model, batch, target, attention_and_gradient(model, batch, ClassTarget(target))[1]


@pytest.mark.parametrize("name", [name for name, rules in RULE_SETS.items() if isinstance(rules, RuleSet)])
def test_gradient_and_relevance_of_one_graph(family, name):
    model, batch, target, gradient = family
    both = relevance_pass(model, batch, ClassTarget(target), RULE_SETS[name], "attentions", gradient=True)
    alone = relevance_pass(model, batch, ClassTarget(target), RULE_SETS[name], "attentions")
    assert any(layer.any() for layer in both.layers)
    for one, other in zip(both.layers, alone.layers, strict=True):
        assert torch.equal(one, other)
    for one, other in zip(everywhere(model.read_rows(batch.tensors), both.gradients), gradient, strict=True):
        assert_same(one, other)
