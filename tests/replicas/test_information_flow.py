"""Information flow routes by a loop over parts, states and routes."""

import pytest
import torch
from scipy.stats import spearmanr

from benchmark import load_model
from benchmark.checking import small_models
from methods.information_flow import InformationFlow
from tests.replicas.blocks_by_hand import LENGTHS, residual_sum
from tests.replicas.registry import replicates


def importances(block, x, attention, i, threshold):
    """(of each head and token [H T], of the residual) for the state of token i."""
    whole = residual_sum(block, x, attention, i)

    def nearer(part):
        return max(0.0, float(whole.abs().sum() - (whole - part).abs().sum()))

    edges = torch.zeros(block.heads, len(x), dtype=torch.float64)
    for j in range(len(x)):
        value = block.value(x[j])
        for h in range(block.heads):
            edges[h, j] = nearer(attention[h, i, j] * block.project(h, value[h]))
    residual = nearer(x[i])
    total = float(edges.sum()) + residual
    kept = [(part / total) * ((part / total) > threshold) for part in (edges, torch.tensor(residual))]
    return kept[0], float(kept[1])


def flows(blocks, layer, i, threshold):
    """What one unit that begins at token i behind a layer brings to each token of the input."""
    n = len(blocks[0][1])
    if layer < 0:
        return torch.eye(n, dtype=torch.float64)[i]
    edges, residual = importances(*blocks[layer], i, threshold)
    found = torch.zeros(n, dtype=torch.float64)
    for j in range(n):
        weight = float(edges[:, j].sum()) + (residual if i == j else 0.0)
        if weight:
            found += weight * flows(blocks, layer - 1, j, threshold)
    return found


@replicates(InformationFlow)
@pytest.mark.parametrize("threshold", [0.0, 0.06])
def test_routes_are_followed_from_the_prediction(case, threshold):
    found = InformationFlow(threshold)(case.model, case.batch, case.target)
    with torch.no_grad():
        for row, n in enumerate(LENGTHS):
            blocks = case.layers(row)
            read = n - 1 if hasattr(case.plain, "score") else 0
            expected = flows(blocks, len(blocks) - 1, read, threshold)
            assert torch.allclose(found.tokens[row, :n], expected, atol=1e-9)
            assert not found.tokens[row, n:].any()
            last = importances(*blocks[-1], read, threshold)[0].sum(1)
            assert torch.allclose(found.heads[row, -1], last, atol=1e-9), "all flow passes the read token's heads"
    if threshold == 0:
        assert torch.allclose(found.tokens.sum(1), torch.ones(3, dtype=torch.float64)), "nothing is lost"
    else:
        assert bool((found.tokens.sum(1) < 1).all())


def test_half_precision_keeps_the_order_of_routes(tmp_path):
    """Small parts of a long state: importances are differences of sums, which a half has no digits for."""
    folder = small_models.save("llama", tmp_path)
    half = load_model(folder, dtype="bfloat16", device="cpu")
    exact = load_model(folder, dtype="float64", device="cpu")
    for weight, rounded in zip(exact.model.parameters(), half.model.parameters(), strict=True):
        weight.data.copy_(rounded.data)
    batch = half.encode(small_models.inputs("llama", (20,)))
    found, expected = (InformationFlow()(model, batch, torch.tensor([0])).tokens[0].double() for model in (half, exact))
    assert float((found - expected).abs().max() / expected.max()) < 0.05
    assert spearmanr(found, expected).statistic > 0.97
