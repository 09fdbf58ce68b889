"""Integrated gradients, one step and dimension at a time, and their completeness in every family."""

import numpy as np
import pytest
import torch

from benchmark.checking import small_models
from benchmark.errors import UserError
from methods.integrated_gradients import IntegratedGradients
from methods.shared.input_gradients import baseline_embeddings, embeddings_of
from methods.shared.quadrature import nodes_and_weights
from tests.replicas.embeddings_by_hand import check, embedded, gradient
from tests.replicas.registry import replicates


def start_of(example, baseline):
    """The embeddings of [CLS] x' ... x' [SEP]."""
    e = embedded(example)
    start = torch.zeros_like(e) if baseline == "zero" else embedded(example, torch.zeros_like(example.ids))
    start[:, [0, -1]] = e[:, [0, -1]]
    return start


@replicates(IntegratedGradients, quadrature={"right", "left", "gauss_legendre"}, baseline={"zero", "pad"})
@pytest.mark.parametrize("output", ["logit", "probability"])
@pytest.mark.parametrize("baseline", ["zero", "pad"])
@pytest.mark.parametrize("rule", ["right", "left", "gauss_legendre"])
def test_integrated_gradients(model, batch, target, plain, baseline, rule, output):
    def slow(example, _):
        e, start = embedded(example), start_of(example, baseline)
        nodes = {"right": [0.25, 0.5, 0.75, 1.0], "left": [0.0, 0.25, 0.5, 0.75]}.get(rule)
        nodes, weights = (nodes, [0.25] * 4) if nodes else nodes_and_weights(rule, 4)
        scores = [0.0] * example.length
        for alpha, weight in zip(nodes, weights, strict=True):
            g = gradient(example, start + alpha * (e - start), output)
            for token, dimension in np.ndindex(*g.shape):
                way = float(e[0, token, dimension] - start[0, token, dimension])
                scores[token] += float(weight) * way * float(g[token, dimension])
        return scores

    check(IntegratedGradients(4, rule, baseline, output), model, batch, target, plain, slow)


@pytest.fixture(scope="module", params=small_models.FAMILIES)
def any_model(request, tmp_path_factory):
    return request.param, small_models.load(request.param, tmp_path_factory.mktemp("completeness"), scale=4.0)


def completeness_gap(model, batch, target, method):
    """Largest |Σ s − (y(e) − y(e'))|, as a share of the largest |y(e) − y(e')|."""
    start = baseline_embeddings(model, batch, embeddings_of(model, batch.tensors), method.baseline)
    logits = model.run(batch).logits - model.run(batch, embedding_edit=lambda _: start).logits
    difference = logits.gather(1, target[:, None])[:, 0]
    gap = method(model, batch, target).tokens.sum(1) - difference
    return float(gap.abs().max() / difference.abs().max())


def test_integrated_gradients_complete(any_model):
    """To the precision of the norms: those of llama and ModernBERT are computed in float32."""
    family, model = any_model
    batch, target = model.encode(small_models.inputs(family)), torch.tensor([0, 1, 2])
    baseline = "zero" if family in small_models.IMAGE_FAMILIES else "pad"
    few = completeness_gap(model, batch, target, IntegratedGradients(1, "left", baseline))
    many = completeness_gap(model, batch, target, IntegratedGradients(100, "gauss_legendre", baseline))
    assert many < 1e-5
    assert many < few / 1000


def test_integrated_gradients_score_what_moves_and_special_tokens_do_not(model, batch, target):
    """A path of no length scores nothing; [CLS] and [SEP] do not move."""
    found = IntegratedGradients(3, baseline="pad")(model, batch, target).tokens
    assert not found[batch.units < 0].any()
    padded = {
        **batch.tensors,
        "input_ids": torch.where(batch.units >= 0, model.pad_token_id, batch.tensors["input_ids"]),
    }
    same = type(batch)(**{**vars(batch), "tensors": padded})
    assert not IntegratedGradients(3, baseline="pad")(model, same, target).tokens.any()


def test_a_number_of_steps_that_does_not_exist():
    with pytest.raises(UserError, match="steps=0: allowed are whole numbers from 1"):
        IntegratedGradients(0)


def test_baselines_that_a_model_does_not_have(model, batch, target, any_model):
    with pytest.raises(
        UserError, match=r"baseline=mask needs a mask token and '.*' has none; use baseline=pad or zero"
    ):
        IntegratedGradients(2, baseline="mask")(model, batch, target)
    family, other = any_model
    if family in small_models.IMAGE_FAMILIES:
        images = other.encode(small_models.inputs(family))
        with pytest.raises(UserError, match="baseline=pad replaces tokens, and images have none; use baseline=zero"):
            IntegratedGradients(2, baseline="pad")(other, images, target)
