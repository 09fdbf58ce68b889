"""LIME against ridge regression on what it drew."""

import math

import numpy as np
import pytest
import torch

from benchmark.errors import UserError
from methods.lime import Lime
from tests.replicas.games_by_hand import TARGET, TEXTS, to_tokens, value, weighted_ridge
from tests.replicas.registry import replicates


@replicates(Lime)
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


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Lime(samples=1), "samples=1: allowed are whole numbers from 2"),
        (lambda: Lime(kernel_width=0), "kernel_width=0: allowed are numbers above 0"),
        (lambda: Lime(alpha=-1), "alpha=-1: allowed are numbers above 0"),
    ],
)
def test_settings_out_of_range(make, message):
    with pytest.raises(UserError, match=message):
        make()
