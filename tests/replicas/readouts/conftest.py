"""Random edge scores, and the weights of the tokens that a classifier reads."""

import pytest
import torch

from tests.replicas.readouts.by_hand import B, H, T, random_edges


@pytest.fixture(scope="module")
def edges():
    return random_edges()


@pytest.fixture(scope="module", params=[H, 1])
def any_edges(request):
    """Those of each head, and those of all heads together."""
    return random_edges(n_heads=request.param)


@pytest.fixture(scope="module", params=["first", "last", "mean"])
def read(request):
    weights = torch.zeros(B, T, dtype=torch.float64)
    if request.param == "mean":
        return weights + 1 / T
    weights[:, 0 if request.param == "first" else -1] = 1
    return weights
