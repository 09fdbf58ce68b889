"""Gradients at points around the embeddings: chunks and baselines."""

import torch

import benchmark
from methods.gradient_norm import GradientNorm
from methods.integrated_gradients import IntegratedGradients
from methods.shared.input_gradients import baseline_embeddings, embeddings_of
from methods.smoothgrad import SmoothGrad
from tests import text_models
from tests.replicas.conftest import assert_same


def test_small_chunks_give_the_same(model, batch, target):
    small = type(model)(**{**vars(model), "memory_budget": 1})
    for method in (GradientNorm(), IntegratedGradients(5), SmoothGrad(3)):
        assert_same(method(small, batch, target).tokens, method(model, batch, target).tokens)


def test_a_mask_baseline_is_the_mask_tokens_embedding(tmp_path):
    model = benchmark.load_model(text_models.save_bert(tmp_path), dtype="float64", device="cpu")
    batch = model.encode(["the untoldly film was good"])
    embeddings = embeddings_of(model, batch.tensors)
    start = baseline_embeddings(model, batch, embeddings, "mask")
    mask = model.model.get_input_embeddings().weight[model.mask_token_id]
    assert torch.equal(start[0, 1:-1], mask.expand(batch.units.shape[1] - 2, -1))
    assert torch.equal(start[0, [0, -1]], embeddings[0, [0, -1]])
