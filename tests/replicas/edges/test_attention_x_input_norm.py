"""Attention times the norm of what it attends to, one cell at a time."""

import numpy as np
import torch

from methods.edges.attention_x_input_norm import AttentionTimesInputNorm
from tests.replicas.blocks_by_hand import compare
from tests.replicas.registry import replicates


@replicates(AttentionTimesInputNorm)
def test_attention_times_input_norm(case):
    def slow(_, x, attention):
        scores = torch.zeros_like(attention)
        for h, i, j in np.ndindex(*attention.shape):
            scores[h, i, j] = attention[h, i, j] * x[j].square().sum().sqrt()
        return scores

    compare(AttentionTimesInputNorm(), case, slow, heads=4)
