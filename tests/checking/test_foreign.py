"""Implementations of others, by stand-ins of their forms, and captum's own."""

import os
import subprocess
import sys

import pytest
import torch
from torch import nn

from benchmark.checking import foreign
from tests.conftest import REPOSITORY


class Rescaled(torch.autograd.Function):
    """A linear layer whose backward pass is the ε-rule without ε, times a factor: as LXT and zennit replace gradients."""

    @staticmethod
    def forward(ctx, x, weight, factor):
        ctx.save_for_backward(x, weight)
        ctx.factor = factor
        return x @ weight.T

    @staticmethod
    def backward(ctx, relevance):
        x, weight = ctx.saved_tensors
        return ctx.factor * x * ((relevance / (x @ weight.T)) @ weight), None, None


class Layer(nn.Module):
    def __init__(self, size, factor=1.0):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(size, size), requires_grad=False)
        self.factor = factor

    def forward(self, x):
        return Rescaled.apply(x, self.weight, self.factor)


def stack(*factors):
    torch.manual_seed(0)
    return nn.Sequential(*(Layer(4, factor) for factor in factors))


@pytest.mark.parametrize("factors", [(1.0, 1.0, 1.0), (1.0, 1.5, 1.0)])
def test_gradients_that_are_relevance(factors):
    model, x = stack(*factors), torch.rand(3, 4, requires_grad=True)
    before = dict(model[1].__dict__)
    with foreign.watching_gradients(model, 3) as ledger:
        y = model(x)
    y.backward(y.detach())
    found = foreign.report(ledger, "rescaled layers")
    assert found.ok == (factors[1] == 1)
    assert model[1].__dict__.keys() == before.keys(), "the modules are what they were"
    if not found.ok:
        assert str(found.first) == (
            "conserved (somebody's model): FAIL: 1: module: 1.0000 reaches it, 1.5000 leaves it (examples 3 of 3)"
        )


def test_gradient_times_input_of_a_model_without_biases():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2))
    x = torch.rand(3, 4, requires_grad=True)
    for one, ok in ((model, False), (foreign.without_biases(model), True)):
        with foreign.watching_gradients(one, 3, by_value=True) as ledger:
            y = one(x)
        y[:, 0].sum().backward()
        assert foreign.report(ledger, "gradient times input").ok is ok
    assert bool(model[0].bias.any()), "the copy alone has none"


class Relprop(nn.Module):
    """A layer as Chefer's model classes have it, which keeps its input and is asked for relevance."""

    def __init__(self, size, factor=1.0):
        super().__init__()
        self.weight, self.factor = torch.rand(size, size), factor

    def forward(self, x):
        self.x = x
        return x @ self.weight.T

    def relprop(self, relevance, **_):
        return self.factor * self.x * ((relevance / (self.x @ self.weight.T)) @ self.weight)


@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_modules_with_relprop(factor):
    torch.manual_seed(0)
    model = nn.Sequential(Relprop(4), Relprop(4, factor), Relprop(4))
    relevance = model(torch.rand(2, 4))
    with foreign.watching_relprop(model) as ledger:
        for module in reversed(model):
            relevance = module.relprop(relevance, alpha=1)
    found = foreign.report(ledger, "relprop")
    assert [entry.module for entry in ledger.entries] == ["0", "1", "2"], "in the order of the forward pass"
    assert found.ok is (factor == 1)
    assert found.ok or found.first.where == "1"
    assert "relprop" not in model[0].__dict__


def test_rules_of_captum():
    lrp = pytest.importorskip("captum.attr", reason="the extra `captum` is not installed")
    from captum.attr._utils.lrp_rules import EpsilonRule

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5, bias=False), nn.ReLU(), nn.Linear(5, 2, bias=False))
    for wrong in (False, True):
        rules = {name: EpsilonRule(1e-9) for name in ("0", "2")}
        for name, rule in rules.items():
            model[int(name)].rule = rule
        lrp.LRP(model).attribute(torch.rand(3, 4), target=0)
        if wrong:
            device = next(iter(rules["2"].relevance_input))
            rules["2"].relevance_input[device] = 2 * rules["2"].relevance_input[device]
        found = foreign.report(foreign.of_rules(rules), "captum")
        assert found.ok is not wrong
        assert found.ok or found.first.where == "2"


def test_nothing_noted_is_not_applicable():
    (outcome,) = foreign.report(foreign.of_pairs([]), "nothing").outcomes
    assert outcome.status == "not applicable"


LXT = """
import torch
from lxt.explicit.modules import LinearEpsilon
from torch import nn

from benchmark.checking import foreign

torch.manual_seed(0)
model = nn.Sequential(LinearEpsilon(4, 5, bias=False), nn.ReLU(), LinearEpsilon(5, 2, bias=False))
x = torch.rand(3, 4, requires_grad=True)
with foreign.watching_gradients(model, 3) as ledger:
    y = model(x)
y.backward(y.detach())
print(foreign.report(ledger, "LXT").summary)
"""


@pytest.mark.thorough
def test_layers_of_lxt(tmp_path):
    """Installed into a folder of its own, without what it depends on."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(tmp_path), "lxt==2.1"]
    try:
        installed = subprocess.run(pip, capture_output=True, timeout=60, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        installed = False
    if not installed:
        pytest.skip("no package index has lxt")
    path = os.pathsep.join((str(tmp_path), str(REPOSITORY)))
    done = subprocess.run(
        [sys.executable, "-c", LXT], env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert done.stdout == "1 pass\n", done.stderr
