"""Blocks taken apart: what the parts sum to, in every family, and what is refused."""

import numpy as np
import pytest
import torch

from benchmark.errors import NotApplicable
from methods.edges.alti import Alti
from methods.edges.attention_norm import AttentionNorm, AttentionNormResidual
from methods.edges.attention_x_input_norm import AttentionTimesInputNorm
from methods.edges.value_zeroing import ValueZeroing
from methods.propagation.block_parts import decompose_block, head_vectors, mixed
from tests.replicas.blocks_by_hand import Case
from tests.replicas.conftest import assert_same


@pytest.mark.parametrize("edges", [ValueZeroing(), AttentionNorm(), Alti(), AttentionNormResidual("block")])
def test_small_chunks_give_the_same(case, edges):
    small = type(case.model)(**{**vars(case.model), "memory_budget": 1})
    found = edges(small, case.batch, case.target)
    for one, other in zip(edges(case.model, case.batch, case.target), found, strict=True):
        assert_same(one, other)


def test_what_the_first_token_of_a_decoder_mixes_is_itself(tmp_path):
    case = Case("gpt2", tmp_path)
    for edges in (ValueZeroing(), Alti()):
        for layer in edges(case.model, case.batch, case.target):
            assert torch.allclose(layer[:, 0, 0, 0], torch.ones(3, dtype=torch.float64))


def gathered(model, batch, layer, trace, through):
    pairs = list(decompose_block(model, batch, layer, trace.hidden[layer], trace.attentions[layer], through))
    return pairs[0][0], torch.cat([parts for _, parts in pairs])


def test_parts_and_one_bias_sum_to_the_whole_in_every_family(any_model):
    """What no token has of a sublayer is the bias of its projection: the same vector at every token of every example."""
    model, batch = any_model
    trace = model.run(batch, record=("attentions", "hidden"))
    n = batch.units.shape[1]
    for layer, hidden in enumerate(trace.hidden):
        vectors = head_vectors(model, batch, layer, hidden)
        parts = torch.cat(list(mixed(model, trace.attentions[layer], vectors)))
        whole, with_residual = gathered(model, batch, layer, trace, "residual")
        rest = (whole - with_residual.sum(0))[batch.attention_mask]
        assert torch.allclose(rest, rest[:1].expand_as(rest), atol=1e-12, rtol=0)
        own = with_residual - parts
        for i, j in np.ndindex(n, n):
            assert torch.allclose(
                own[j, :, i], hidden[:, i] if i == j else torch.zeros(()).double(), atol=1e-12, rtol=0
            )
        if layer + 1 < model.n_layers:
            block = gathered(model, batch, layer, trace, "block")[0]
            assert torch.allclose(block, trace.hidden[layer + 1], atol=1e-12, rtol=0)


def test_without_norms_on_the_stream_the_depths_agree(any_model):
    model, batch = any_model
    trace = model.run(batch, record=("attentions", "hidden"))
    pre_norm = model.config.model_type in ("gpt2", "llama", "qwen3", "vit", "deit", "dinov2", "beit", "modernbert")
    for layer in range(model.n_layers):
        depths = [gathered(model, batch, layer, trace, through)[1] for through in ("residual", "layer_norm", "block")]
        assert torch.allclose(depths[0], depths[1]) == pre_norm
        assert torch.allclose(depths[1], depths[2]) == pre_norm


@pytest.mark.parametrize(
    "edges",
    [
        ValueZeroing(),
        AttentionNorm(),
        AttentionNorm(heads="each"),
        Alti(),
        AttentionNormResidual("block"),
        AttentionTimesInputNorm(),
    ],
)
def test_cross_attention_is_refused(case, edges, monkeypatch):
    monkeypatch.setattr(case.model.config, "is_encoder_decoder", True)
    with pytest.raises(NotApplicable, match="cross-attention mixes two sequences"):
        edges(case.model, case.batch, case.target)


@pytest.mark.parametrize("edges", [AttentionNorm(), AttentionNorm(heads="each"), Alti()])
def test_a_norm_before_the_residual_sum_is_refused(case, edges, monkeypatch):
    """The vectors of the heads are projected without the example's attention, whose deviation such a norm needs."""
    for layer in range(case.model.n_layers):
        block = case.block_type(case.model.model, layer).block
        dropout = block.attention.output.dropout if case.block_type.post_norms else block.attn.resid_dropout
        monkeypatch.setattr(dropout, "forward", lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]))
    with pytest.raises(NotApplicable, match="normalises what attention gives before the residual sum"):
        edges(case.model, case.batch, case.target)
