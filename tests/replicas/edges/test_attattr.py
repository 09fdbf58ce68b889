"""Self-attention attribution by a whole forward pass for every layer and step, and its completeness."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from benchmark.errors import UserError
from methods.edges.attattr import AttAttr
from tests.replicas.conftest import assert_same
from tests.replicas.edges.by_hand import compare
from tests.replicas.registry import replicates

RULES = ("left", "right", "midpoint", "trapezoid", "gauss_legendre")


def rule_by_hand(rule, m):
    """(α_k, w_k) for k = 1 … m, as written in docs/protocols.md, section 6."""
    if rule == "left":
        return [(k / m, 1 / m) for k in range(m)]
    if rule == "right":
        return [(k / m, 1 / m) for k in range(1, m + 1)]
    if rule == "midpoint":
        return [((2 * k + 1) / (2 * m), 1 / m) for k in range(m)]
    if rule == "trapezoid":
        return [(k / (m - 1), (0.5 if k in (0, m - 1) else 1.0) / (m - 1)) for k in range(m)]
    assert m == 3  # roots of the third Legendre polynomial
    root = np.sqrt(3 / 5)
    return [((1 - root) / 2, 5 / 18), (1 / 2, 8 / 18), ((1 + root) / 2, 5 / 18)]


def attribution_by_hand(model, single, target, rule, m):
    """Attr(A_l) = A_l ⊙ Σ_k w_k ∂F(α_k A_l)/∂A_l: a whole forward pass for every layer and step, nothing shared."""
    attention = model.run(single, record=("attentions",)).attentions
    result = []
    for layer in range(len(attention)):
        total = torch.zeros_like(attention[layer])
        for alpha, weight in rule_by_hand(rule, m):
            scaled = []

            def scale(index, probabilities, layer=layer, alpha=alpha, scaled=scaled):
                if index != layer:
                    return probabilities
                scaled.append((alpha * probabilities).detach().requires_grad_())
                return scaled[0]

            probability = model.run(single, edits=[scale], grad=True).probabilities[0, target]
            total += weight * torch.autograd.grad(probability, scaled)[0]
        result.append(attention[layer] * total)
    return torch.cat(result)


@replicates(AttAttr)
@pytest.mark.parametrize("rule", RULES)
def test_attribution(model, batch, target, plain, rule):
    def slow(row, example):
        single = model.encode([{"input_ids": example.ids[0]}])
        return attribution_by_hand(model, single, int(target[row]), rule, 3)

    compare(AttAttr(steps=3, quadrature=rule), model, batch, target, plain, slow)


def test_attribution_in_small_chunks_is_the_same(model, batch, target):
    whole = AttAttr(steps=7)(model, batch, target)
    tiny = type(model)(**{**vars(model), "memory_budget": 1})
    for one, other in zip(whole, AttAttr(steps=7)(tiny, batch, target), strict=True):
        assert_same(one, other)


def completeness_gaps(model, batch, target, edges):
    """Σ Attr(A_l) − (F(A_l) − F(0·A_l)) per layer and example."""
    chosen = torch.arange(len(batch))
    whole = model.run(batch).probabilities[chosen, target]
    gaps = []
    for layer, scores in enumerate(edges(model, batch, target)):
        without = model.run(batch, edits=[lambda index, a, layer=layer: 0 * a if index == layer else a])
        change = whole - without.probabilities[chosen, target]
        queries = batch.attention_mask[:, None, :, None]
        gaps.append((scores * queries).sum((1, 2, 3)) - change)
    return torch.stack(gaps)


def test_attribution_completes(model, batch, target):
    gaps = completeness_gaps(model, batch, target, AttAttr(steps=60, quadrature="gauss_legendre"))
    assert gaps.abs().max() < 1e-6
    coarse, fine = (
        completeness_gaps(model, batch, target, AttAttr(steps=m, quadrature="right")).abs().max() for m in (50, 400)
    )
    assert fine < coarse / 4  # a rule of first order: eight times the steps, about an eighth of the gap
    assert fine < 0.02


def test_nodes_are_raised_until_each_example_completes(model, batch, target):
    """The first of 2, 4, 8 … nodes whose gap is within the tolerance, example by example and layer by layer."""
    tolerance = 1e-4
    tried = [AttAttr(steps=m, quadrature="gauss_legendre") for m in (2, 4, 8, 16, 32, 64, 128)]
    gaps = [completeness_gaps(model, batch, target, edges).abs() for edges in tried]
    scores = [edges(model, batch, target) for edges in tried]
    assert (
        len(
            {
                int((torch.stack(gaps)[:, layer, row] <= tolerance).long().argmax())
                for layer in range(model.n_layers)
                for row in range(len(batch))
            }
        )
        > 1
    )
    found = AttAttr(steps="auto", quadrature="gauss_legendre", tolerance=tolerance)(model, batch, target)
    for layer, edges in enumerate(found):
        for row in range(len(batch)):
            first = next(i for i, gap in enumerate(gaps) if gap[layer, row] <= tolerance)
            assert_same(edges[row], scores[first][layer][row])


def test_what_does_not_complete_has_the_most_nodes(model, batch, target):
    found = AttAttr(steps="auto", quadrature="gauss_legendre", tolerance=1e-30)(model, batch, target)
    for one, other in zip(found, AttAttr(steps=128, quadrature="gauss_legendre")(model, batch, target), strict=True):
        assert_same(one, other)


@dataclass(frozen=True)
class Path:
    """A path whose attribution misses the contribution, 0.5, by `gaps` with 2, 4, 8 … nodes."""

    gaps: dict[int, float]
    attention = torch.zeros(1, 1, 1, 1, dtype=torch.float64)
    model = SimpleNamespace(scores_dtype=torch.float64)

    def without(self):
        return torch.tensor([0.25], dtype=torch.float64)

    def select(self, rows):
        return self

    def attribution(self, nodes, weights):
        return torch.full((1, 1, 1, 1), 0.5 + self.gaps.get(len(nodes), 0.0), dtype=torch.float64)


@pytest.mark.parametrize("sign", [1, -1])
def test_too_much_and_too_little_are_both_no_completeness(sign):
    """|Σ Attr − contribution| ≤ tolerance, whichever is larger."""
    edges = AttAttr(steps="auto", quadrature="gauss_legendre", tolerance=0.01)
    path = Path({2: sign * 0.2, 4: sign * 0.02, 8: sign * 0.005, 16: 0.0})
    found = edges._until_complete(path, torch.tensor([0.75], dtype=torch.float64))
    assert found.item() == pytest.approx(0.5 + sign * 0.005)


def test_only_gauss_legendre_nodes_are_raised():
    with pytest.raises(UserError, match="steps=auto needs quadrature=gauss_legendre, not left"):
        AttAttr(steps="auto")
