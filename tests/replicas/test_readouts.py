"""Readouts against transcriptions of docs/protocols.md, section 3, on random edges and on a model with padding."""

import numpy as np
import pytest
import torch

from benchmark.errors import UserError
from methods.attention_explainer import AttentionExplainer
from methods.edges.product import FactorProduct
from methods.readouts.column_sum import ColumnSum
from methods.readouts.read_row import ReadRow
from methods.readouts.rollout import Rollout
from tests.replicas.conftest import assert_same

B, L, H, T = 2, 3, 4, 5


@pytest.fixture(scope="module")
def edges():
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(B, H, T, T, generator=generator, dtype=torch.float64) for _ in range(L))


@pytest.fixture(scope="module", params=["first", "last", "mean"])
def read(request):
    weights = torch.zeros(B, T, dtype=torch.float64)
    if request.param == "mean":
        return weights + 1 / T
    weights[:, 0 if request.param == "first" else -1] = 1
    return weights


def mean_over_heads(edges, b, layer, i, j):
    return sum(float(edges[layer][b, h, i, j]) for h in range(H)) / H


def row(edges, read, b, layer, j):
    """Σ_i read_i mean_h E[l,h,i,j]."""
    return sum(float(read[b, i]) * mean_over_heads(edges, b, layer, i, j) for i in range(T))


def by_token(score):
    return torch.tensor([[score(b, j) for j in range(T)] for b in range(B)], dtype=torch.float64)


@pytest.mark.parametrize("layer", [-1, 0, 1])
@pytest.mark.parametrize("part", ["signed", "positive"])
def test_the_read_row_of_a_layer(edges, read, layer, part):
    def slow(b, j):
        value = row(edges, read, b, layer % L, j)
        return value if part == "signed" else max(value, 0.0)

    assert_same(ReadRow(layer, part)(edges, read), by_token(slow))


@pytest.mark.parametrize("part", ["signed", "positive"])
@pytest.mark.parametrize("how", ["mean", "max"])
def test_the_read_row_over_all_layers(edges, read, how, part):
    def slow(b, j):
        rows = [row(edges, read, b, layer, j) for layer in range(L)]
        value = max(rows) if how == "max" else sum(rows) / L
        return value if part == "signed" else max(value, 0.0)

    assert_same(ReadRow(how, part)(edges, read), by_token(slow))


def test_the_read_row_of_one_head_over_all_layers(edges, read):
    single = tuple(layer[:, 2:3].expand(-1, H, -1, -1) for layer in edges)
    assert_same(ReadRow("mean", head=2)(edges, read), ReadRow("mean")(single, read))


@pytest.mark.parametrize("part", ["signed", "positive"])
def test_column_sum(edges, read, part):
    def slow(b, j):
        cells = [float(edges[layer][b, h, i, j]) for layer in range(L) for h in range(H) for i in range(T)]
        return sum(cell for cell in cells if part == "signed" or cell > 0)

    assert_same(ColumnSum(part)(edges, read), by_token(slow))


@pytest.mark.parametrize("part", ["signed", "positive"])
def test_column_sum_of_queries_sums_rows(edges, read, part):
    def slow(b, i):
        cells = [float(edges[layer][b, h, i, j]) for layer in range(L) for h in range(H) for j in range(T)]
        return sum(cell for cell in cells if part == "signed" or cell > 0)

    assert_same(ColumnSum(part, scored="query")(edges, read), by_token(slow))


def product(a, b):
    """A matrix product, cell by cell."""
    return [[sum(a[i][k] * b[k][j] for k in range(T)) for j in range(T)] for i in range(T)]


def mixing(edges, b, layer, normalize, residual):
    """Â_l = I + mean_h E_l or mean_h E_l alone, rows divided by their sums or not."""
    matrix = [[(residual and i == j) + mean_over_heads(edges, b, layer, i, j) for j in range(T)] for i in range(T)]
    return matrix if normalize == "none" else [[cell / sum(line) for cell in line] for line in matrix]


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


@pytest.mark.parametrize("readout", [ReadRow(layer=3), ReadRow(layer=-4), Rollout(start_layer=3)])
def test_a_layer_that_does_not_exist(edges, read, readout):
    with pytest.raises(UserError, match=r"readout\.(layer|start_layer)=-?\d is out of range: the model has 3 layers"):
        readout(edges, read)


@pytest.mark.parametrize("edge_score", [FactorProduct(), FactorProduct(("attention", "gradient"))])
def test_heads_layers_totals_and_padding(model, batch, target, plain, edge_score):
    """Heads are the signed maximum over the example's own cells; padding enters nothing."""
    result = AttentionExplainer(edge_score, ColumnSum())(model, batch, target)
    assert result.heads.shape == (len(batch), model.n_layers, model.n_heads)
    for b, example in enumerate(plain):
        attention, gradient = example.attentions_and_gradients()
        scores = attention if edge_score == FactorProduct() else attention * gradient
        n = example.length
        for layer, head in np.ndindex(*scores.shape[:2]):
            cells = [float(scores[layer, head, i, j]) for i in range(n) for j in range(n)]
            assert float(result.heads[b, layer, head]) == pytest.approx(max(cells), abs=1e-9)
        for layer in range(model.n_layers):
            means = torch.stack([scores[layer, :, 0, j].mean() for j in range(n)])
            assert_same(result.layers[b, layer, :n], means)
            assert float(result.totals[b, layer]) == pytest.approx(float(scores[layer].sum()), abs=1e-9)
        column = torch.stack([scores[:, :, :, j].sum() for j in range(n)])
        assert_same(result.tokens[b, :n], column)
        assert not result.tokens[b, n:].any()
        assert not result.layers[b, :, n:].any()


def test_small_chunks_of_a_batch_give_the_same(model, batch, target):
    explainer = AttentionExplainer(FactorProduct(("attention", "gradient")), Rollout(normalize="none"))
    one_by_one = type(model)(**{**vars(model), "memory_budget": 1})
    whole, chunked = explainer(model, batch, target), explainer(one_by_one, batch, target)
    for name in ("tokens", "heads", "layers", "totals"):
        assert_same(getattr(chunked, name), getattr(whole, name))
