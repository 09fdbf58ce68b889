"""Conservative propagation against gradient × input of a model whose attention and standard deviations are written in."""

import numpy as np
import pytest
import torch
from torch import nn

from benchmark.errors import NotApplicable
from methods.edges.product import FactorProduct
from methods.lrp import Lrp
from methods.propagation.conservative import FrozenNorms
from methods.propagation.mode import propagating
from methods.propagation.rule_sets import Conservative
from tests.replicas.conftest import assert_same, numbers
from tests.replicas.registry import replicates


def recorded_deviations(norms, example):
    """√(var + ε) of what each layer norm reads in the plain model."""
    found = {}

    def record(module, args, _):
        found[module] = (args[0].var(-1, unbiased=False, keepdim=True) + module.eps).sqrt()

    handles = [norm.register_forward_hook(record) for norm in norms]
    example.logits()
    for handle in handles:
        handle.remove()
    return found


def by_hand(example):
    """x ∂y_t/∂x at the first block's input, and A ∂y_t/∂A, with contexts and layer norms computed from stored constants."""
    layers = example.model.bert.encoder.layer
    attentions = [a.detach().requires_grad_() for a in example.logits(output_attentions=True).attentions]
    norms = [module for module in example.model.modules() if isinstance(module, nn.LayerNorm)]
    deviations = {norm: value.detach() for norm, value in recorded_deviations(norms, example).items()}
    heads = example.model.config.num_attention_heads
    inputs = []

    def linear_norm(module, args, _):
        return (args[0] - args[0].mean(-1, keepdim=True)) / deviations[module] * module.weight + module.bias

    def first_input(_, args):
        inputs.append(args[0].detach().requires_grad_())
        return (inputs[0], *args[1:])

    def constant_attention(index):
        def context(module, args, output):
            hidden = args[0]
            values = module.value(hidden).view(*hidden.shape[:2], heads, -1).transpose(1, 2)
            return ((attentions[index] @ values).transpose(1, 2).reshape(hidden.shape), *output[1:])

        return context

    handles = [norm.register_forward_hook(linear_norm) for norm in norms]
    handles.append(layers[0].register_forward_pre_hook(first_input))
    handles += [layer.attention.self.register_forward_hook(constant_attention(i)) for i, layer in enumerate(layers)]
    try:
        logit = example.logits().logits[0, example.target]
    finally:
        for handle in handles:
            handle.remove()
    gradient, *of_attention = torch.autograd.grad(logit, [inputs[0], *attentions])
    slow = torch.zeros(example.length, dtype=torch.float64)
    for token, dimension in np.ndindex(*gradient.shape[1:]):
        slow[token] += (gradient[0, token, dimension] * inputs[0][0, token, dimension]).detach()
    return slow, [(a * g).detach()[0] for a, g in zip(attentions, of_attention, strict=True)]


@replicates(Conservative)
def test_token_scores(model, batch, target, plain):
    found = Lrp("conservative")(model, batch, target).tokens
    for row, example in enumerate(plain):
        assert_same(found[row, : example.length], by_hand(example)[0])
        assert not found[row, example.length :].any()


def test_edges(model, batch, target, plain):
    """A ⊙ ∂y_t/∂A along the values of later layers alone."""
    found = FactorProduct(("relevance",), rules="conservative")(model, batch, target)
    for row, example in enumerate(plain):
        for layer, slow in zip(found, by_hand(example)[1], strict=True):
            assert_same(layer[row, :, : example.length, : example.length], slow)


class Rms(nn.Module):
    """y = w x / √(mean x² + ε), as decoders write it."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(numbers(5), requires_grad=False)

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


@pytest.mark.parametrize("norm", [Rms(), nn.RMSNorm(5).double(), nn.LayerNorm(5, bias=False).double()])
def test_a_norm_keeps_its_result_and_conserves(norm):
    """Σ R_x = Σ R_y; an RMS norm, which mixes no features, keeps each feature's."""
    norm.requires_grad_(requires_grad=False)
    x, seed = numbers(3, 5, seed=1).requires_grad_(), numbers(3, 5, seed=2)
    plain = norm(x).detach()
    with propagating(norm, FrozenNorms()):
        frozen = norm(x)
    assert_same(frozen.detach(), plain)
    relevance = (torch.autograd.grad(frozen, x, seed)[0] * x).detach()
    assert_same(relevance.sum(-1), (seed * plain).sum(-1))
    if not isinstance(norm, nn.LayerNorm):
        assert_same(relevance, seed * plain)


def test_each_factor_of_a_gate_gets_half():
    a, b, seed = numbers(3, 5).requires_grad_(), numbers(1, 5, seed=1).requires_grad_(), numbers(3, 5, seed=2)
    with propagating(nn.Module(), FrozenNorms()):
        product = a * b
    whole = (seed * a * b).sum().detach()
    assert_same(product.detach(), (a * b).detach())
    for factor, gradient in zip((a, b), torch.autograd.grad(product, (a, b), seed), strict=True):
        assert float((gradient * factor).sum().detach()) == pytest.approx(float(whole) / 2)


def test_activation_modules_keep_their_derivative():
    """GELU is written with products that are no gates."""
    from transformers.activations import NewGELUActivation

    x = numbers(7).requires_grad_()
    gelu = NewGELUActivation()
    with propagating(gelu, FrozenNorms()):
        found = gelu(x)
    assert_same(torch.autograd.grad(found.sum(), x)[0], torch.autograd.grad(gelu(x).sum(), x)[0])
    assert "forward" not in gelu.__dict__


def test_a_norm_without_a_rule_is_not_passed_over():
    with (
        propagating(nn.Module(), FrozenNorms()),
        pytest.raises(NotApplicable, match="no rule for group or batch normalisation"),
    ):
        nn.functional.group_norm(numbers(2, 4).requires_grad_(), 2)
