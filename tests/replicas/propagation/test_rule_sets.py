"""What each rule set conserves, and what it does not.

A bias takes a share of relevance in every rule that puts it into its denominators, so conservation is tested with biases
at 0, where it is exact up to ε. The sets of Chefer 2021a ignore biases and are tested with them.
"""

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn

import benchmark
from benchmark.checking import small_models
from benchmark.errors import UserError
from benchmark.models.read_rows import everywhere
from benchmark.targets import ClassTarget
from methods.edges.product import FactorProduct
from methods.propagation import rule_sets
from methods.propagation.mode import propagating
from methods.propagation.relevance import relevance_pass
from methods.propagation.relevance_mode import RelevancePropagation
from methods.propagation.rule_sets import RULE_SETS, Conservative, rule_set
from tests.replicas.conftest import numbers


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
        with propagating(network, RelevancePropagation(rule_sets.epsilon(value))):
            ruled = network(x)
        found = torch.autograd.grad(ruled, x, output.detach())[0]
        errors.append(float((found - wanted).abs().max() / wanted.abs().max()))
    assert errors[0] > errors[1] > errors[2]
    assert errors[1] < 2e-3 * errors[0]  # a thousandth of ε, about a thousandth of the error
    assert errors[2] < 1e-12


@pytest.fixture(scope="module", params=small_models.FAMILIES)
def family(request):
    return request.param


@pytest.fixture(scope="module")
def model(family, tmp_path_factory):
    return small_models.load(family, tmp_path_factory.mktemp("rule_sets"))


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
    batch = network.encode(small_models.inputs(family))
    part = relevance_pass(network, batch, ClassTarget(TARGET), EXACT[name], "hidden")
    trace, relevance = part.trace, part.layers
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
    batch = unbiased.encode(small_models.inputs(family))
    part = relevance_pass(unbiased, batch, ClassTarget(TARGET), EXACT["attnlrp"], "hidden")
    trace, hidden = part.trace, part.layers
    kept, magnitude = totals(trace, hidden)
    part = relevance_pass(unbiased, batch, ClassTarget(TARGET), EXACT["attnlrp"], "attentions")
    trace, relevance = part.trace, part.layers
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
    batch = model.encode(small_models.inputs(family))
    for name in ("epsilon", "conservative") if biased else ("conservative",):
        part = relevance_pass(model, batch, ClassTarget(TARGET), EXACT[name], "hidden")
        trace, relevance = part.trace, part.layers
        seed = trace.logits.detach()[torch.arange(3), TARGET]
        assert float((totals(trace, relevance)[0][0] - seed).abs().max()) > 1e-3


@pytest.mark.parametrize("name", ["epsilon", "alpha_beta", "gamma", "attnlrp"])
def test_the_seed_is_the_logit_with_its_sign(name, model, family):
    """Seeded with 1, a class and its opposite would be explained alike: R / y_t is the same for both."""
    batch = model.encode(small_models.inputs(family))
    part = relevance_pass(model, batch, ClassTarget(TARGET), EXACT[name], "hidden")
    trace, relevance = part.trace, part.layers
    shares = relevance_pass(model, batch, ClassTarget(TARGET), replace(EXACT[name], seed="one"), "hidden").layers
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
    batch = model.encode(small_models.inputs(family))
    edges = FactorProduct(("relevance",), rules=rule_set(name))(model, batch, TARGET)
    named = FactorProduct(("relevance",), rules=name)(model, batch, TARGET)
    assert all(torch.equal(one, other) for one, other in zip(edges, named, strict=True))
    part = relevance_pass(model, batch, ClassTarget(TARGET), rule_set(name), "attentions")
    attentions, relevance = (
        everywhere(model.read_rows(batch.tensors), layers) for layers in (part.trace.attentions, part.layers)
    )
    assert len(edges) == len(attentions)
    for layer, attention, own in zip(edges, attentions, relevance, strict=True):
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
        pytest.param(
            "lrp",
            "rules={_target_: methods.propagation.rule_sets.lrp, mask: no}",
            "rules.mask=no is unknown; allowed: pass, sum",
            marks=pytest.mark.mistyped,
        ),
        ("attnlrp", "rules.epsilon=-1", "rules.epsilon=-1 is out of range: a number of 0 or more is allowed"),
    ],
)
def test_wrong_settings(name, override, message):
    with pytest.raises(UserError, match=message):
        benchmark.build(f"methods/{name}", override)
