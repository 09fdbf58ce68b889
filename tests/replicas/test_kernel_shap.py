"""KernelSHAP against the definition of the Shapley value, and against the regression on what it drew."""

import math
from itertools import combinations

import numpy as np
import pytest
import torch

from benchmark.errors import UserError
from methods.kernel_shap import KernelShap
from tests.replicas.conftest import assert_same
from tests.replicas.games_by_hand import TARGET, TEXTS, to_tokens, value, weighted_ridge
from tests.replicas.registry import replicates


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


@replicates(KernelShap)
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


def test_settings_out_of_range():
    with pytest.raises(UserError, match="samples=2: allowed are whole numbers from 3"):
        KernelShap(samples=2)
