"""The whole product of matrices, cell by cell."""

import pytest
import torch

from benchmark.errors import UserError
from methods.readouts.rollout import Rollout
from tests.replicas.conftest import assert_same
from tests.replicas.readouts.by_hand import (
    B,
    L,
    T,
    by_token,
    mean_over_heads,
)
from tests.replicas.registry import replicates


def product(a, b):
    """A matrix product, cell by cell."""
    return [[sum(a[i][k] * b[k][j] for k in range(T)) for j in range(T)] for i in range(T)]


def mixing(edges, b, layer, normalize, residual):
    """Â_l = I + mean_h E_l or mean_h E_l alone, rows divided by their sums or not."""
    matrix = [[(residual and i == j) + mean_over_heads(edges, b, layer, i, j) for j in range(T)] for i in range(T)]
    return matrix if normalize == "none" else [[cell / sum(line) for cell in line] for line in matrix]


@replicates(Rollout)
@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("normalize", ["row", "none"])
@pytest.mark.parametrize("start", [0, 1, -1])
def test_rollout_is_the_whole_matrix_product(edges, read, normalize, start, residual):
    positive = tuple(layer.abs() for layer in edges)

    def composed(b):
        matrix = mixing(positive, b, L - 1, normalize, residual)
        for layer in range(L - 2, start % L - 1, -1):
            matrix = product(matrix, mixing(positive, b, layer, normalize, residual))
        return matrix

    matrices = [composed(b) for b in range(B)]
    slow = by_token(lambda b, j: sum(float(read[b, i]) * matrices[b][i][j] for i in range(T)))
    found = Rollout(start_layer=start, normalize=normalize, residual=residual)(positive, read)
    assert_same(found, slow)
    if normalize == "row":  # rows sum to 1 at every stage, so the read row does
        assert torch.allclose(found.sum(1), torch.ones(B, dtype=torch.float64))


def test_rollout_without_the_identity_keeps_a_row_of_zeros(read):
    clamped = torch.full((B, 1, T, T), 0.25, dtype=torch.float64)
    clamped[:, :, 0] = 0  # no edge of the first token is positive
    mixing = torch.full((T, T), 1 / T, dtype=torch.float64)
    mixing[0] = 0
    assert_same(Rollout(residual=False)((clamped,), read), read @ mixing)


def test_rollout_of_one_layer_is_the_read_row_of_normalised_identity_plus_attention(edges, read):
    layer = edges[0].softmax(-1)
    mean = torch.eye(T, dtype=torch.float64) + layer.mean(1)
    expected = torch.einsum("bi,bij->bj", read, mean) / 2  # rows of A sum to 1, those of I + A to 2
    assert_same(Rollout()((layer,), read), expected)


def test_a_layer_that_does_not_exist(edges, read):
    with pytest.raises(UserError, match=r"readout\.start_layer=-?\d is out of range: the model has 3 layers"):
        Rollout(start_layer=3)(edges, read)
