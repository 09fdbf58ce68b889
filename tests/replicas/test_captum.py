"""Shapley sampling, KernelSHAP, LIME and captum by name: what is drawn, fitted by hand; relations to our own methods."""

import math
import random
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch
from torch import nn

import benchmark
from benchmark.errors import UserError
from benchmark.models.classifier import Classifier, Cost
from benchmark.models.families import Family
from benchmark.models.streams import ENCODER, Streams
from methods.captum import Captum
from methods.gradient_norm import GradientNorm
from methods.gradient_x_input import GradientXInput
from methods.integrated_gradients import IntegratedGradients
from methods.kernel_shap import KernelShap
from methods.lime import Lime
from methods.occlusion import Occlusion
from methods.shapley_sampling import ShapleySampling
from methods.shared.seeds import seeded
from methods.shared.unit_game import UnitGame, settled
from tests import text_models, tiny_models
from tests.replicas.conftest import assert_same

TEXTS = ["the untoldly film was good", "a dull plot", "bad"]
TARGET = torch.tensor([0, 1, 1])


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    return benchmark.load_model(text_models.save_bert(tmp_path_factory.mktemp("captum")), dtype="float64", device="cpu")


class Sum(nn.Module):
    """Logits are a sum over tokens: what a unit adds does not depend on the others."""

    def __init__(self, config):
        super().__init__()
        torch.manual_seed(3)
        self.config = config
        self.embedding = nn.Embedding(60, 3).double()

    def get_input_embeddings(self):
        return self.embedding

    def forward(self, input_ids, attention_mask, token_type_ids):
        logits = (self.embedding(input_ids) * attention_mask[:, :, None]).sum(1)
        return type("Output", (), {"logits": logits})()


@pytest.fixture(scope="module")
def additive(reader):
    model = Sum(reader.config)
    return Classifier(
        name="sum", model=model, encoder=reader.encoder, labels=("a", "b", "c"), family=Family("first", (1, 1)),
        attention_modules=(model,), streams=Streams(("0",), (ENCODER,), (ENCODER,)), n_heads=1, fingerprint="",
    )  # fmt: skip


@pytest.mark.parametrize("operator", ["mask", "delete", "zero_embedding"])
def test_on_an_additive_model_shapley_values_are_leave_one_out(additive, operator):
    batch = additive.encode(TEXTS)
    settings = {"operator": operator, "output": "logit"}
    expected = Occlusion(**settings)(additive, batch, TARGET).tokens
    sampled = ShapleySampling(samples=3, **settings)(additive, batch, TARGET).tokens
    regressed = KernelShap(samples=60, **settings)(additive, batch, TARGET).tokens
    fitted = Lime(samples=200, alpha=1e-6, **settings)(additive, batch, TARGET).tokens
    assert torch.allclose(sampled, expected, atol=1e-5)  # captum sums in float32
    assert torch.allclose(regressed, expected, atol=1e-3)
    assert torch.allclose(fitted, expected, atol=1e-3)
    assert not any(tokens[batch.units < 0].any() for tokens in (sampled, regressed, fitted))


def value(model, batch, row, kept):
    """Probability of the target with these units of one example, the others masked."""
    units = batch.units[row].tolist()
    ids = [
        token if unit < 0 or unit in kept else model.mask_token_id
        for token, unit in zip(batch.tensors["input_ids"][row].tolist(), units, strict=True)
    ]
    tensors = {name: tensor[row : row + 1] for name, tensor in batch.tensors.items()}
    logits = model.run({**tensors, "input_ids": torch.tensor([ids])}).logits[0]
    return float(logits.softmax(0)[TARGET[row]])


def to_tokens(batch, row, scores):
    return torch.tensor([scores[u] if u >= 0 else 0.0 for u in batch.units[row].tolist()], dtype=torch.float64)


def test_shapley_sampling(reader):
    batch, method = reader.encode(TEXTS), ShapleySampling(samples=4, seed=2)
    found = method(reader, batch, TARGET).tokens
    for row, uid in enumerate(batch.uids):
        n = int(batch.n_units[row])
        with seeded(uid, 2, reader.device):
            orders = [torch.randperm(n).tolist() for _ in range(4)]
        scores = [0.0] * n
        for order in orders:
            for place, unit in enumerate(order):
                added = value(reader, batch, row, order[: place + 1]) - value(reader, batch, row, order[:place])
                scores[unit] += added / 4
        assert torch.allclose(found[row], to_tokens(batch, row, scores), atol=1e-6)
        total = value(reader, batch, row, range(n)) - value(reader, batch, row, [])
        assert sum(scores) == pytest.approx(total, abs=1e-9)


@pytest.fixture
def played(monkeypatch):
    """What the games of a run were asked and what they answered."""
    games = []
    call = UnitGame.__call__

    def kept(self, present):
        answer = call(self, present)
        games.append((present.double(), answer.double()))
        return answer

    monkeypatch.setattr(UnitGame, "__call__", kept)
    return games


def weighted_ridge(present, answers, weights, alpha):
    """argmin Σ_z w (v − w_0 − Σ_u w_u z_u)² + α Σ_u w_u², by its normal equations."""
    design = np.concatenate([np.ones((len(present), 1)), present.numpy()], axis=1)
    penalty = alpha * np.diag([0.0] + [1.0] * present.shape[1])
    left = design.T @ (weights[:, None] * design) + penalty
    return np.linalg.solve(left, design.T @ (weights * answers.numpy()))[1:]


def test_lime(reader, played):
    batch, method = reader.encode(TEXTS), Lime(samples=40, kernel_width=0.4, alpha=0.5)
    found = method(reader, batch, TARGET).tokens
    assert len(played) == len(TEXTS)
    for row, (present, answers) in enumerate(played):
        assert len(present) == 40
        for z, answer in list(zip(present, answers, strict=True))[:5]:
            kept = [u for u in range(len(z)) if z[u]]
            assert float(answer) == pytest.approx(value(reader, batch, row, kept), abs=1e-9)
        share = [float(z.sum()) / math.sqrt(len(z) * max(1.0, float(z.sum()))) for z in present]  # cosine to all ones
        weights = np.array([math.exp(-((1 - c) ** 2) / (2 * 0.4**2)) for c in share])
        slow = weighted_ridge(present, answers, weights, 0.5)
        assert torch.allclose(found[row], to_tokens(batch, row, slow), atol=1e-5)


def shapley_by_hand(v, n):
    """φ_u = Σ_S |S|! (n − |S| − 1)! / n! (v(S ∪ u) − v(S)) over the sets S without u."""
    scores = []
    for unit in range(n):
        others = [u for u in range(n) if u != unit]
        sets = [some for size in range(n) for some in combinations(others, size)]
        share = [math.factorial(len(some)) * math.factorial(n - len(some) - 1) / math.factorial(n) for some in sets]
        gains = [v([*some, unit]) - v(list(some)) for some in sets]
        scores.append(sum(w * gain for w, gain in zip(share, gains, strict=True)))
    return scores


@pytest.mark.parametrize("samples", [32, 50])
def test_kernel_shap_of_few_units_is_exact(reader, played, samples):
    """5, 3 and 1 units: 32, 8 and 2 coalitions, each run once."""
    batch = reader.encode(TEXTS)
    found = KernelShap(samples=samples)(reader, batch, TARGET).tokens
    assert [len(present) for present, _ in played] == [32, 8, 2]
    for row in range(len(TEXTS)):
        slow = shapley_by_hand(lambda kept, row=row: value(reader, batch, row, kept), int(batch.n_units[row]))
        assert_same(found[row], to_tokens(batch, row, slow))


def test_kernel_shap_of_more_units_is_sampled(reader, played):
    batch = reader.encode(TEXTS[:1])
    found = KernelShap(samples=31)(reader, batch, TARGET[:1]).tokens
    ((present, answers),) = played
    sizes = present.sum(1)
    assert len(sizes) == 31
    assert sizes[0] == 5
    assert sizes[1] == 0
    assert not any(size in (0, 5) for size in sizes[2:].tolist())
    weights = np.array([1e6 if size in (0, 5) else 1.0 for size in sizes.tolist()])
    slow = weighted_ridge(present, answers, weights, 1e-9)
    assert torch.allclose(found[0], to_tokens(batch, 0, slow), atol=1e-4)


@pytest.mark.parametrize("name", ["shapley_sampling", "kernel_shap", "lime"])
def test_a_seed_is_all_that_changes_a_draw(reader, name):
    batch = reader.encode(TEXTS)
    torch.manual_seed(0), np.random.seed(0), random.seed(0)
    states = torch.get_rng_state(), np.random.get_state()[1].copy()
    one, other = (benchmark.build(f"methods/{name}", "samples=5", f"seed={seed}") for seed in (0, 1))
    first = one(reader, batch, TARGET).tokens
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.array_equal(np.random.get_state()[1], states[1])
    torch.manual_seed(5), np.random.seed(5)
    assert torch.equal(one(reader, batch, TARGET).tokens, first)
    assert not torch.allclose(other(reader, batch, TARGET).tokens, first)


def test_captums_integrated_gradients_are_ours(model, batch, target):
    method = Captum(algorithm="IntegratedGradients", arguments={"n_steps": 7}, baseline="pad")
    theirs = method(model, batch, target).tokens
    assert_same(theirs, IntegratedGradients(7, baseline="pad")(model, batch, target).tokens)
    small = type(model)(**{**vars(model), "memory_budget": 1})
    assert_same(method(small, batch, target).tokens, theirs)


def test_captums_gradients_are_ours(model, batch, target):
    saliency, product = (Captum(algorithm=name) for name in ("Saliency", "InputXGradient"))
    assert_same(saliency(model, batch, target).tokens, GradientNorm(1)(model, batch, target).tokens)
    assert_same(product(model, batch, target).tokens, GradientXInput()(model, batch, target).tokens)
    signed = replace(saliency, arguments={"abs": False})(model, batch, target).tokens
    assert not torch.allclose(signed, GradientNorm(1)(model, batch, target).tokens)


def test_captums_ablation_and_occlusion_are_ours(reader):
    batch = reader.encode(["a dull plot", "the story was good"])
    target = torch.tensor([1, 0])
    ablated = Captum(algorithm="FeatureAblation")(reader, batch, target).tokens
    assert torch.allclose(ablated, Occlusion(output="logit")(reader, batch, target).tokens, atol=1e-6)
    occluded = Captum(algorithm="Occlusion", arguments={"sliding_window_shapes": [2]})(reader, batch, target).tokens
    assert torch.allclose(occluded, Occlusion(2, output="logit")(reader, batch, target).tokens, atol=1e-6)


def test_sampled_gradients_belong_to_the_example(model, batch, target):
    method = Captum(algorithm="GradientShap", arguments={"n_samples": 4, "stdevs": 0.1})
    found = method(model, batch, target).tokens
    row = model.encode(tiny_models.inputs("bert", (7, 5, 9))[1:2])
    single = method(model, replace(row, uids=batch.uids[1:2]), target[1:2]).tokens
    assert_same(single[0], found[1, :5])
    assert not torch.allclose(replace(method, seed=1)(model, batch, target).tokens, found)


@pytest.mark.parametrize(
    ("method", "forward", "backward"),
    [
        (GradientNorm(), 1, 1),
        (GradientXInput(), 1, 1),
        (IntegratedGradients(6), 7, 6),
        (benchmark.build("methods/smoothgrad", "samples=5"), 6, 5),
        (benchmark.build("methods/deeplift"), 3, 1),
        (benchmark.build("methods/attcat"), 1, 1),
        (benchmark.build("methods/leave_one_out"), 6, 0),
        (benchmark.build("methods/attention_masking"), 6, 0),
        (ShapleySampling(samples=3), 16, 0),
        (KernelShap(samples=7), 7, 0),
        (Lime(samples=4), 4, 0),
        (Captum(algorithm="Saliency"), 2, 1),
        (Captum(algorithm="IntegratedGradients", arguments={"n_steps": 6}), 7, 6),
    ],
    ids=lambda value: getattr(value, "algorithm", type(value).__name__),
)
def test_the_passes_that_are_named_are_counted(reader, method, forward, backward):
    """Five units; equal coalitions are run once."""
    model = replace(reader, cost=Cost())
    method(model, model.encode(["the story was good !"]), torch.tensor([0]))
    at_most = isinstance(method, KernelShap | Lime)
    assert model.cost.forward_passes == pytest.approx(forward) or (at_most and model.cost.forward_passes < forward)
    assert model.cost.backward_passes == pytest.approx(backward)


@pytest.mark.parametrize(
    ("algorithm", "settings", "message"),
    [
        ("Salience", {}, "algorithm=Salience is no class of captum.attr that can be served; did you mean Saliency"),
        ("Nothing", {}, "algorithm=Nothing is no class of captum.attr that can be served; allowed: FeatureAblation"),
        ("LayerGradCam", {}, "algorithm=LayerGradCam is no class of captum.attr that can be served"),
        ("DeepLift", {}, "algorithm=DeepLift is no class of captum.attr that can be served"),
        ("FeaturePermutation", {}, "algorithm=FeaturePermutation is no class of captum.attr that can be served"),
        ("Occlusion", {}, "arguments.sliding_window_shapes is not set, and captum's Occlusion needs it"),
        (
            "Saliency",
            {"arguments": {"abss": 1}},
            "arguments.abss is no argument of captum's Saliency that can be set; did you mean abs",
        ),
        (
            "Lime",
            {"arguments": {"baselines": 1}},
            "arguments.baselines is no argument of captum's Lime that can be set",
        ),
    ],
)
def test_what_captum_cannot_serve_says_so_in_one_line(algorithm, settings, message):
    with pytest.raises(UserError, match=message) as error:
        Captum(algorithm=algorithm, **settings)
    assert "\n" not in str(error.value)


def test_a_value_that_captum_refuses_is_no_trace(model, batch, target):
    with pytest.raises(UserError, match="captum's IntegratedGradients refuses its arguments"):
        Captum(algorithm="IntegratedGradients", arguments={"method": "simpson"})(model, batch, target)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ShapleySampling(samples=0), "samples=0: allowed are whole numbers from 1"),
        (lambda: KernelShap(samples=2), "samples=2: allowed are whole numbers from 3"),
        (lambda: Lime(samples=1), "samples=1: allowed are whole numbers from 2"),
        (lambda: Lime(kernel_width=0), "kernel_width=0: allowed are numbers above 0"),
        (lambda: Lime(alpha=-1), "alpha=-1: allowed are numbers above 0"),
    ],
)
def test_settings_out_of_range(make, message):
    with pytest.raises(UserError, match=message):
        make()


def test_arguments_are_set_from_a_configuration():
    built = benchmark.build("methods/captum", "algorithm=Occlusion", "arguments={sliding_window_shapes: [2]}")
    assert built == Captum(algorithm="Occlusion", arguments={"sliding_window_shapes": (2,)})
    assert benchmark.build("methods/captum", "arguments={n_steps: 5}").arguments == {"n_steps": 5}


def test_scores_are_settled_to_forty_binary_digits():
    values = torch.tensor([0.3, -0.1, 1e-3, 0.0], dtype=torch.float64)
    assert torch.allclose(settled(values), values, rtol=0, atol=2.0**-41)
    assert torch.equal(settled(values * (1 + 2.0**-50)), settled(values)), "last bits do not show"
    assert torch.equal(settled(settled(values)), settled(values))
    for odd in (torch.zeros(2, dtype=torch.float64), torch.tensor([torch.inf, 1.0], dtype=torch.float64)):
        assert torch.equal(settled(odd), odd)
