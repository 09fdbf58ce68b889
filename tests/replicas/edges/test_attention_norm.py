"""Norms of what attention mixes, and of what a block makes of it, by loops over tokens and heads."""

import numpy as np
import pytest
import torch

from methods.edges.attention_norm import AttentionNorm, AttentionNormResidual
from tests.replicas.blocks_by_hand import (
    by_cell,
    compare,
    norm_by_hand,
    normed_part,
    output_part,
    residual_part,
    sublayer_part,
)
from tests.replicas.registry import replicates


@replicates(AttentionNorm, heads="sum")
def test_attention_norm(case):
    compare(AttentionNorm(), case, lambda *block: by_cell(*block, norm_by_hand(sublayer_part)))


@replicates(AttentionNorm, heads="each")
def test_attention_norm_of_each_head(case):
    def slow(block, x, attention):
        scores = torch.zeros_like(attention)
        for h, i, j in np.ndindex(*attention.shape):
            scores[h, i, j] = (attention[h, i, j] * block.project(h, block.value(x[j])[h])).square().sum().sqrt()
        return scores

    compare(AttentionNorm(heads="each"), case, slow, heads=4)


@replicates(AttentionNormResidual, through={"residual", "layer_norm"})
@pytest.mark.parametrize(("through", "part"), [("residual", residual_part), ("layer_norm", normed_part)])
def test_attention_norm_residual(case, through, part):
    compare(AttentionNormResidual(through), case, lambda *block: by_cell(*block, norm_by_hand(part)))


@replicates(AttentionNormResidual, through="block")
def test_globenc(case):
    compare(AttentionNormResidual("block"), case, lambda *block: by_cell(*block, norm_by_hand(output_part)))
