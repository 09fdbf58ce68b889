"""Rules with settings against their equations, one number at a time; and what each rule set conserves, and what it does not.

A bias takes a share of relevance in every rule that puts it into its denominators, so conservation is tested with biases
at 0, where it is exact up to ε. The sets of Chefer 2021a ignore biases and are tested with them.
"""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import benchmark
from benchmark.errors import UserError
from methods.edges.product import FactorProduct
from methods.relevance import RULE_SETS, Conservative, relevance_pass, rule_set, rule_sets
from methods.relevance import rules as R
from methods.relevance import signed_rules as S
from methods.relevance.propagation import propagating
from tests import tiny_models
from tests.replicas.conftest import assert_same

EPSILON = 1e-3


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def divide(a, z, epsilon):
    return 0.0 if z == 0 else a / (z + epsilon * np.sign(z))


@pytest.fixture
def layer():
    """x [2, 5], W [3, 5], b [3], R [2, 3]; one input is 0, and one output of the second input has no contribution."""
    x, weight, bias, relevance = numbers(2, 5), numbers(3, 5, seed=1), numbers(3, seed=3), numbers(2, 3, seed=2)
    x[0, 2] = 0
    x[1, 1:] = 0
    weight[1, 0] = bias[1] = 0.0
    return x, weight, bias, relevance


def relevance_of(rule, relevance, *inputs):
    active = inputs[0].clone().requires_grad_()
    return torch.autograd.grad(rule.apply(active, *inputs[1:]), active, relevance)[0]


def by_hand(layer, shares):
    """R_i = Σ_j shares(c_1j … c_nj, b_j)_i R_j, where c_ij = x_i w_ji."""
    x, weight, bias, relevance = layer
    slow = torch.zeros_like(x)
    for n, j in np.ndindex(*relevance.shape):
        contributions = [float(x[n, i] * weight[j, i]) for i in range(x.shape[1])]
        for i, part in enumerate(shares(contributions, float(bias[j]))):
            slow[n, i] += part * relevance[n, j]
    return slow


def epsilon_shares(contributions, bias):
    return [divide(c, sum(contributions) + bias, EPSILON) for c in contributions]


def alpha_beta_shares(alpha, beta):
    def shares(contributions, bias):
        inputs = [*contributions, bias]
        above, below = sum(c for c in inputs if c > 0), sum(c for c in inputs if c < 0)
        return [
            alpha * divide(max(c, 0.0), above, EPSILON) - beta * divide(min(c, 0.0), below, EPSILON)
            for c in contributions
        ]

    return shares


def gamma_shares(gamma):
    def shares(contributions, bias):
        inputs = [*contributions, bias]
        sign = 1 if sum(inputs) > 0 else -1
        raised = [c * (1 + gamma) if c * sign > 0 else c for c in inputs]
        return [divide(c, sum(raised), EPSILON) for c in raised[:-1]]

    return shares


@pytest.mark.parametrize(
    ("rule", "options", "shares"),
    [
        (S.EpsilonLinear, (), epsilon_shares),
        (S.AlphaBetaLinear, (2.0, 1.0), alpha_beta_shares(2, 1)),
        (S.AlphaBetaLinear, (1.0, 0.0), alpha_beta_shares(1, 0)),
        (S.GammaLinear, (0.25,), gamma_shares(0.25)),
        (S.GammaLinear, (3.0,), gamma_shares(3)),
    ],
)
@pytest.mark.parametrize("with_bias", [True, False])
def test_linear(layer, rule, options, shares, with_bias):
    x, weight, bias, relevance = layer
    used = bias if with_bias else None
    found = relevance_of(rule, relevance, x, weight, used, *options, EPSILON)
    assert_same(found, by_hand((x, weight, bias if with_bias else torch.zeros(3), relevance), shares))
    assert_same(rule.apply(x, weight, used, *options, EPSILON), nn.functional.linear(x, weight, used))


def test_matmul_gives_half_to_each_factor():
    """R_ik = Σ_j a_ik b_kj R_ij / (2 (z_ij + ε sign z_ij))."""
    a, b, relevance = numbers(3, 4), numbers(4, 2, seed=1), numbers(3, 2, seed=2)
    a[0] = 0
    slow_a, slow_b = torch.zeros_like(a), torch.zeros_like(b)
    for i, j, k in np.ndindex(3, 2, 4):
        z = sum(float(a[i, m] * b[m, j]) for m in range(4))
        part = divide(float(a[i, k] * b[k, j] * relevance[i, j]), z, EPSILON) / 2
        slow_a[i, k] += part
        slow_b[k, j] += part
    a.requires_grad_(), b.requires_grad_()
    found = torch.autograd.grad(S.EpsilonMatmul.apply(a, b, EPSILON), (a, b), relevance)
    assert_same(found[0], slow_a)
    assert_same(found[1], slow_b)


def test_add():
    a, b, relevance = numbers(2, 3), numbers(1, 3, seed=1), numbers(2, 3, seed=2)
    a[0, 0] = -b[0, 0]
    slow_a, slow_b = torch.zeros_like(a), torch.zeros_like(b)
    for n, k in np.ndindex(2, 3):
        z = float(a[n, k] + b[0, k])
        slow_a[n, k] = divide(float(a[n, k] * relevance[n, k]), z, EPSILON)
        slow_b[0, k] += divide(float(b[0, k] * relevance[n, k]), z, EPSILON)
    a.requires_grad_(), b.requires_grad_()
    found = torch.autograd.grad(S.EpsilonAdd.apply(a, b, EPSILON), (a, b), relevance)
    assert_same(found[0], slow_a)
    assert_same(found[1], slow_b)


def test_softmax():
    """R_i = x_i (R_i − s_i Σ_k R_k), which is x ⊙ Jᵀ(R / s); and 0 for a masked key."""
    x, relevance = numbers(2, 4), numbers(2, 4, seed=1)
    x[1, 3] = torch.finfo(torch.float64).min
    s = x.softmax(-1)
    slow = torch.zeros_like(x)
    for n, i in np.ndindex(2, 4):
        if s[n, i] > 0:
            slow[n, i] = x[n, i] * (relevance[n, i] - s[n, i] * sum(float(r) for r in relevance[n]))
    assert_same(relevance_of(S.TaylorSoftmax, relevance, x, s, -1), slow)
    active = x[:1].clone().requires_grad_()
    (jacobian,) = torch.autograd.grad(active.softmax(-1), active, relevance[:1] / s[:1])
    assert_same(x[:1] * jacobian, slow[:1])


@pytest.mark.parametrize("mean", [True, False])
def test_norm(mean):
    """R_i = Σ_j x_i J_ji R_j / (y_j + ε sign y_j), J_ji = γ_j (δ_ij − 1/n)/σ, without 1/n where no mean is subtracted."""
    norm = (nn.LayerNorm(5, eps=0.1) if mean else nn.RMSNorm(5, eps=0.1)).double().requires_grad_(requires_grad=False)
    x, relevance, gain, bias = numbers(2, 5), numbers(2, 5, seed=1), numbers(5, seed=2), numbers(5, seed=3)
    norm.weight.copy_(gain)
    if mean:
        norm.bias.copy_(bias)
    slow = torch.zeros_like(x)
    for n in range(2):
        values = [float(v) for v in x[n]]
        centre = sum(values) / 5 if mean else 0.0
        deviation = (sum((v - centre) ** 2 for v in values) / 5 + 0.1) ** 0.5
        for i, j in np.ndindex(5, 5):
            y = float(gain[j]) * (values[j] - centre) / deviation + (float(bias[j]) if mean else 0.0)
            slope = float(gain[j]) * ((i == j) - (1 / 5 if mean else 0)) / deviation
            slow[n, i] += values[i] * slope * divide(float(relevance[n, j]), y, EPSILON)
    assert_same(relevance_of(S.FrozenNorm, relevance, x, norm, EPSILON), slow)
    assert_same(S.FrozenNorm.apply(x, norm, EPSILON), norm(x))
    if not mean:
        assert_same(relevance_of(S.FrozenNorm, relevance, x, norm, 0.0), relevance)
    else:
        norm.bias.zero_()
        total = relevance_of(S.FrozenNorm, relevance, x, norm, 0.0).sum(1)
        assert_same(total, relevance.sum(1))


WEIGHTS = st.lists(st.floats(-10, 10).filter(lambda v: v == 0 or abs(v) > 1e-3), min_size=12, max_size=12)


@settings(max_examples=60, deadline=None)
@given(weights=WEIGHTS, inputs=st.lists(st.floats(-10, 10), min_size=4, max_size=4), gamma=st.floats(0, 10))
def test_a_linear_layer_conserves_the_relevance_of_every_output_that_has_a_share(weights, inputs, gamma):
    """Σ_i R_i = Σ_j R_j ρ_j with ρ_j = z_j/(z_j + ε sign z_j); for α-β each sign with its own."""
    x, weight = torch.tensor([inputs], dtype=torch.float64), torch.tensor(weights, dtype=torch.float64).view(3, 4)
    relevance = torch.tensor([[1.0, -2.0, 3.0]], dtype=torch.float64)

    def kept(z):
        return torch.where(z == 0, 0.0, z.abs() / (z.abs() + EPSILON))

    contributions = x[0] * weight
    above, below = contributions.clamp(min=0).sum(1), contributions.clamp(max=0).sum(1)
    z = nn.functional.linear(x, weight)[0]
    raised = z + gamma * torch.where(z > 0, above, below)
    for rule, options, share in (
        (S.EpsilonLinear, (), kept(z)),
        (S.AlphaBetaLinear, (2.5, 1.5), 2.5 * kept(above) - 1.5 * kept(below)),
        (S.GammaLinear, (gamma,), kept(raised)),
    ):
        total = relevance_of(rule, relevance, x, weight, None, *options, EPSILON).sum()
        scale = float(1 + contributions.abs().sum() * (1 + gamma) / EPSILON)
        assert float(total - (relevance[0] * share).sum()) == pytest.approx(0, abs=1e-13 * scale)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_matmul_add_and_softmax_conserve_what_they_say(seed):
    a, b, relevance = numbers(3, 4, seed=seed), numbers(4, 2, seed=seed + 1), numbers(3, 2, seed=seed + 2)
    a.requires_grad_(), b.requires_grad_()
    halves = torch.autograd.grad(S.EpsilonMatmul.apply(a, b, 0.0), (a, b), relevance)
    magnitude = float((relevance / (a @ b)).abs().sum().detach())
    for half in halves:
        assert float(half.sum()) == pytest.approx(float(relevance.sum()) / 2, abs=1e-12 * (1 + magnitude))
    scores, own = numbers(3, 5, seed=seed), numbers(3, 5, seed=seed + 1)
    result = scores.softmax(-1)
    found = relevance_of(S.TaylorSoftmax, own, scores, result, -1)
    shifted = relevance_of(S.TaylorSoftmax, own, scores + 7.5, result, -1)
    assert_same(
        shifted.sum(-1), found.sum(-1)
    )  # a constant in the scores changes who gets it, but not how much there is
    assert_same((result.log() * (own - result * own.sum(-1, keepdim=True))).sum(-1), found.sum(-1))


def test_relations_between_rules(layer):
    x, weight, bias, relevance = layer
    one = relevance_of(S.AlphaBetaLinear, relevance, x, weight, None, 1.0, 0.0, 1e-9)
    assert_same(one, relevance_of(R.PositiveLinear, relevance, x, weight, None))
    none = relevance_of(S.GammaLinear, relevance, x, weight, bias, 0.0, EPSILON)
    assert_same(none, relevance_of(S.EpsilonLinear, relevance, x, weight, bias, EPSILON))


def test_epsilon_to_zero_is_gradient_times_input_in_a_relu_network_without_biases():
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Linear(6, 8, bias=False), nn.ReLU(), nn.Linear(8, 8, bias=False), nn.ReLU(), nn.Linear(8, 1, bias=False)
    ).double()
    for parameter in network.requires_grad_(requires_grad=False).parameters():
        parameter.normal_()
    x = numbers(5, 6).requires_grad_()
    output = network(x)
    (gradient,) = torch.autograd.grad(output.sum(), x)
    wanted = (x * gradient).detach()
    errors = []
    for value in (1e-3, 1e-6, 0.0):
        with propagating(network, rule_sets.epsilon(value)):
            found = torch.autograd.grad(network(x), x, output.detach())[0]
        errors.append(float((found - wanted).abs().max() / wanted.abs().max()))
    assert errors[0] > errors[1] > errors[2]
    assert errors[1] < 2e-3 * errors[0]  # a thousandth of ε, about a thousandth of the error
    assert errors[2] < 1e-12


@pytest.fixture(scope="module", params=tiny_models.FAMILIES)
def family(request):
    return request.param


@pytest.fixture(scope="module")
def model(family, tmp_path_factory):
    folder = tiny_models.save(family, tmp_path_factory.mktemp("rule_sets"))
    return benchmark.load_model(folder, dtype="float64", device="cpu")


@pytest.fixture(scope="module")
def unbiased(model):
    """The same with all biases at 0, those of normalisation layers included."""
    network = copy.deepcopy(model)
    for module in network.model.modules():
        if isinstance(bias := getattr(module, "bias", None), torch.Tensor):
            bias.data.zero_()
    return network


@pytest.fixture
def rectified(unbiased, monkeypatch):
    """And every activation a ReLU, for which f(x) = x f'(x)."""
    network = copy.deepcopy(unbiased)
    for parent in list(network.model.modules()):
        for name, child in parent.named_children():
            if type(child).__module__ in ("transformers.activations", "torch.nn.modules.activation"):
                setattr(parent, name, nn.ReLU())
    monkeypatch.setattr(torch, "tanh", torch.relu)
    return network


def totals(trace, relevance):
    """Σ R of every cut through the model that the recorded inputs of blocks make, and Σ |R| of each.

    Where a second stream of tokens enters (the decoder of BART), its first input belongs to every cut before it; cuts from
    there on would miss what reaches the encoder by cross-attention.
    """
    first = {id(hidden): index for index, hidden in reversed(list(enumerate(trace.hidden)))}
    leaves = sorted(index for key, index in first.items() if trace.hidden[index].is_leaf)
    assert leaves[0] == 0
    levels = range(len(trace.hidden)) if len(leaves) == 1 else range(leaves[-1])
    cuts = [[level, *(leaf for leaf in leaves if leaf > level)] for level in levels]
    signed = torch.stack([sum(relevance[index].sum((1, 2)) for index in cut) for cut in cuts])
    return signed, torch.stack([sum(relevance[index].abs().sum((1, 2)) for index in cut) for cut in cuts])


TARGET = torch.tensor([0, 1, 2])
TINY = 1e-12
EXACT = {
    "chefer2021": rule_sets.chefer2021(),
    "lrp": rule_sets.lrp(),
    "epsilon": rule_sets.epsilon(TINY),
    "alpha_beta": rule_sets.alpha_beta(2.0, 1.0, TINY),
    "alpha_beta, α = 1": rule_sets.alpha_beta(1.0, 0.0, TINY),
    "gamma": rule_sets.gamma(0.25, TINY),
    "attnlrp": rule_sets.attnlrp(TINY),
    "conservative": Conservative(),
}
IGNORE_BIASES = ("chefer2021", "lrp")
CONSERVED_WITHIN = 1e-5  # the stabiliser takes 1e-9/|denominator| at every division; measured: below 5e-7


def rounding(network):
    """Float64's, which a small denominator magnifies; but decoders write their RMS norm in float32."""
    return 1e-6 if any(type(module).__name__.endswith("RMSNorm") for module in network.model.modules()) else 1e-8


def test_every_rule_set_is_held_to_what_it_says():
    assert {name.split(",")[0] for name in EXACT} == set(RULE_SETS)
    assert all(EXACT[name].conserves == RULE_SETS[name].conserves for name in RULE_SETS)


@pytest.mark.parametrize("name", EXACT)
def test_relevance_is_conserved_at_the_input_of_every_block_where_the_rule_set_says_so(name, family, request):
    """From the seed at the target's logit, 1 or y_t, down to every block. Where it says no, it is not."""
    conditions = "model" if name in IGNORE_BIASES else "rectified" if name == "conservative" else "unbiased"
    network = request.getfixturevalue(conditions)
    batch = network.encode(tiny_models.inputs(family))
    trace, relevance = relevance_pass(network, batch, TARGET, EXACT[name], "hidden")
    assert len(relevance) == network.n_layers
    signed, magnitude = totals(trace, relevance)
    seed = torch.ones(3).double() if name in IGNORE_BIASES else trace.logits.detach()[torch.arange(3), TARGET]
    if EXACT[name].conserves:
        drift = (signed - seed).abs()
        if name in IGNORE_BIASES:
            assert float(drift.max()) < CONSERVED_WITHIN
        else:
            assert float((drift / magnitude).max()) < rounding(network)
    else:
        assert float((signed[0] - seed).abs().max()) > (0.5 if name == "lrp" else 0.01)


def test_what_attnlrp_loses_is_what_its_softmax_rule_takes(unbiased, family):
    """y_t − Σ R = Σ_l Σ_hij (R − log A ⊙ (R − A Σ_k R)), with R the relevance of A: nothing else is lost anywhere."""
    batch = unbiased.encode(tiny_models.inputs(family))
    trace, hidden = relevance_pass(unbiased, batch, TARGET, EXACT["attnlrp"], "hidden")
    kept, magnitude = totals(trace, hidden)
    trace, relevance = relevance_pass(unbiased, batch, TARGET, EXACT["attnlrp"], "attentions")
    lost = torch.zeros(3, dtype=torch.float64)
    for attention, own in zip(trace.attentions, relevance, strict=True):
        a = attention.detach()
        onward = torch.where(a > 0, a.log(), 0.0) * (own - a * own.sum(-1, keepdim=True))
        lost += (own - onward).sum((1, 2, 3))
    logit = trace.logits.detach()[torch.arange(3), TARGET]
    assert float(((kept[0] + lost - logit).abs() / magnitude[0]).max()) < rounding(unbiased)


def test_biases_and_activations_take_their_share(model, family):
    """The conditions are conditions: with biases and GELU the same sets lose relevance."""
    biased = any(isinstance(module, nn.Linear) and module.bias is not None for module in model.model.modules())
    batch = model.encode(tiny_models.inputs(family))
    for name in ("epsilon", "conservative") if biased else ("conservative",):
        trace, relevance = relevance_pass(model, batch, TARGET, EXACT[name], "hidden")
        seed = trace.logits.detach()[torch.arange(3), TARGET]
        assert float((totals(trace, relevance)[0][0] - seed).abs().max()) > 1e-3


@pytest.mark.parametrize("name", ["epsilon", "alpha_beta", "gamma", "attnlrp"])
def test_the_seed_is_the_logit_with_its_sign(name, model, family):
    """Seeded with 1, a class and its opposite would be explained alike: R / y_t is the same for both."""
    batch = model.encode(tiny_models.inputs(family))
    trace, relevance = relevance_pass(model, batch, TARGET, EXACT[name], "hidden")
    _, shares = relevance_pass(model, batch, TARGET, replace(EXACT[name], seed="one"), "hidden")
    logit = trace.logits.detach()[torch.arange(3), TARGET]
    for own, share in zip(relevance, shares, strict=True):
        assert torch.allclose(
            own, share * logit[:, None, None], rtol=0, atol=100 * rounding(model) * float(own.abs().max())
        )
    for name_of_chefers in IGNORE_BIASES:
        assert EXACT[name_of_chefers].seed == "one"


@pytest.mark.parametrize("name", ["epsilon", "attnlrp", "conservative"])
def test_edges_take_the_same_rule_sets(name, model, family):
    """Half of what reaches the product A·V reaches A; the conservative set gives A ⊙ ∂y/∂A with the rest held constant."""
    batch = model.encode(tiny_models.inputs(family))
    edges = FactorProduct(("relevance",), rules=rule_set(name))(model, batch, TARGET)
    named = FactorProduct(("relevance",), rules=name)(model, batch, TARGET)
    assert all(torch.equal(one, other) for one, other in zip(edges, named, strict=True))
    trace, relevance = relevance_pass(model, batch, TARGET, rule_set(name), "attentions")
    assert len(edges) == len(trace.attentions)
    for layer, attention, own in zip(edges, trace.attentions, relevance, strict=True):
        assert torch.equal(layer, own)
        assert not layer[attention == 0].any()
        assert layer.isfinite().all()


@pytest.mark.parametrize(
    ("name", "override", "message"),
    [
        ("lrp_epsilon", "rules.epsilon=-1", "rules.epsilon=-1 is out of range: a number of 0 or more is allowed"),
        ("lrp_alpha_beta", "rules.alpha=3", "rules.alpha=3 and rules.beta=1.0 do not go together"),
        ("lrp_alpha_beta", "rules.beta=-1", "rules.beta=-1 is out of range: a number of 0 or more is allowed"),
        ("lrp_gamma", "rules.gamma=-0.5", "rules.gamma=-0.5 is out of range: a number of 0 or more is allowed"),
        (
            "lrp",
            "rules={_target_: methods.relevance.rule_sets.lrp, mask: no}",
            "rules.mask=no is unknown; allowed: pass, sum",
        ),
        ("attnlrp", "rules.epsilon=-1", "rules.epsilon=-1 is out of range: a number of 0 or more is allowed"),
    ],
)
def test_wrong_settings(name, override, message):
    with pytest.raises(UserError, match=message):
        benchmark.build(f"methods/{name}", override)
