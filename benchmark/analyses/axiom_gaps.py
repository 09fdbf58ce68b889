"""How far edge scores are from an axiom: functions from scores to one gap per example.

Scores are [B L H' T T]. H' is the number of the model's heads, or 1 for a method that scores edges of all heads together.
They are 0 where query or key is padding, which is no part of an example; that methods score it 0 is tested elsewhere.
`model` is meant to be a float64 copy, so that a gap is the method's and not rounding's.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from benchmark.errors import NotApplicable
from benchmark.evaluations.completeness import layer_contributions
from benchmark.models.classifier import Classifier
from benchmark.models.variants import chunks, take
from benchmark.randomness import generator
from benchmark.targets import Target
from benchmark.types import Batch

StackedEdges = Float[Tensor, "B L H T T"]
_EQUAL = 1e-10
"""Largest difference of logits between models that count as the same function (relative to the largest logit)."""


def own_edges(scores: StackedEdges, batch: Batch) -> StackedEdges:
    """The scores, 0 at padding."""
    return scores * batch.cells[:, None, None]


def relative(gaps: Float[Tensor, "*n"], scale: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
    """`gaps / scale`, and 0 where the scale is 0 (nothing is scored, so nothing differs)."""
    return torch.where(scale > 0, gaps / scale.clamp(min=torch.finfo(scale.dtype).tiny), torch.zeros_like(gaps))


def require_equal(logits: Tensor, others: Tensor, what: str) -> None:
    """NotApplicable unless two sets of logits are equal to 1e-10 of the largest."""
    scale = max(1.0, float(logits.abs().max()))
    if not (difference := float((logits - others).abs().max()) / scale) <= _EQUAL:
        raise NotApplicable(f"{what} changes the logits by {difference:.1e} of the largest (> {_EQUAL:.0e})")


def require_equal_heads(attentions: Sequence[Float[Tensor, "B H T T"]]) -> None:
    """NotApplicable unless heads 0 and 1 of every layer attend equally, to 1e-10."""
    if not (difference := max(float((a[:, 0] - a[:, 1]).abs().max()) for a in attentions)) <= _EQUAL:
        raise NotApplicable(f"heads with equal parameters attend differently, by {difference:.1e} (> {_EQUAL:.0e})")


def completeness(
    model: Classifier, batch: Batch, target: Target, scores: StackedEdges
) -> tuple[Float[Tensor, "B"], Float[Tensor, "B"]]:
    """Mean over layers of `|Σ E_l − (F(A_l) − F(0·A_l))|` and of `|F(A_l) − F(0·A_l)|`; their ratio is the gap."""
    contributions = layer_contributions(model, batch, target)
    return (scores.sum((2, 3, 4)) - contributions).abs().mean(1), contributions.abs().mean(1)


def null_edges(model: Classifier, batch: Batch) -> Bool[Tensor, "B L H T T"]:
    """Edges that provably cannot change F: attention of exactly 0, and in the last layer the rows that are not read.

    Raises:
        NotApplicable: taking all of them out changes the logits, so that the family is not understood.
    """
    trace = model.run(batch, record=("attentions",))
    null = torch.stack([layer == 0 for layer in trace.attentions], dim=1)
    null[:, -1] |= (model.read_weights(batch) == 0)[:, None, :, None]
    removed = model.run(batch, edits=[lambda layer, p: p.masked_fill(null[:, layer], 0)])
    require_equal(trace.logits, removed.logits, "taking out the edges that should not matter")
    return null


def dummy(
    scores: StackedEdges, null: Bool[Tensor, "B L all_heads T T"], batch: Batch
) -> tuple[Float[Tensor, "B"], Float[Tensor, "B"]]:
    """Largest |score| on a null edge over the largest of its layer, in the worst layer; and how many null edges there are.

    Null edges are counted among an example's own tokens.
    """
    null = null.all(2, keepdim=True) if scores.shape[2] == 1 else null
    size = own_edges(scores, batch).abs()
    gaps = relative((size * null).amax((2, 3, 4)), size.amax((2, 3, 4))).amax(1)
    return gaps, own_edges(null.to(scores.dtype), batch).sum((1, 2, 3, 4))


def difference(scores: StackedEdges, others: StackedEdges) -> Float[Tensor, "B"]:
    """`max |E − E'| / max |E|`, over all edges of an example."""
    return relative((scores - others).abs().amax((1, 2, 3, 4)), scores.abs().amax((1, 2, 3, 4)))


def head_difference(scores: StackedEdges, a: int, b: int) -> Float[Tensor, "B"]:
    """`max |E_a − E_b| / max |E_l|` of two heads of every layer; the worst layer."""
    gaps = (scores[:, :, a] - scores[:, :, b]).abs().amax((2, 3))
    return relative(gaps, scores.abs().amax((2, 3, 4))).amax(1)


@dataclass(frozen=True)
class Removals:
    """Single edges, one per row: `example[r]`'s edge from query to key in one head of one layer."""

    example: Int[Tensor, "R"]
    layer: Int[Tensor, "R"]
    head: Int[Tensor, "R"]
    query: Int[Tensor, "R"]
    key: Int[Tensor, "R"]


def sample_edges(
    attentions: Sequence[Float[Tensor, "B H T T"]], read: Float[Tensor, "B T"], batch: Batch, count: int, seed: int
) -> Removals:
    """`count` edges per example.

    Layer, head and query are drawn uniformly, in the last layer a query that the classifier reads. The key is drawn with its
    attention as probability, since hardly any other edge changes the prediction by itself.
    """
    n_layers, n_heads = len(attentions), attentions[0].shape[1]
    edges: list[list[int]] = []
    for example, uid in enumerate(batch.uids):
        draw = generator(seed, "edges", uid)
        tokens = batch.attention_mask[example].nonzero()[:, 0].tolist()
        read_tokens = (read[example] > 0).nonzero()[:, 0].tolist()
        for _ in range(count):
            layer, head = int(draw.integers(n_layers)), int(draw.integers(n_heads))
            queries = read_tokens if layer == n_layers - 1 else tokens
            query = queries[int(draw.integers(len(queries)))]
            row = attentions[layer][example, head, query].double().cpu().numpy()
            edges.append([example, layer, head, query, int(draw.choice(len(row), p=row / row.sum()))])
    return Removals(*torch.tensor(edges, device=read.device).unbind(1))


def removal_effects(
    model: Classifier,
    batch: Batch,
    target: Target,
    edges: Removals,
    *,
    all_heads: bool = False,
) -> Float[Tensor, "R"]:
    """`F(A) − F(A with that edge at 0)` of each edge by itself; F is the target's probability (its logarithm where that is
    explained).

    With `all_heads` the edge is taken out of every head of its layer, for methods that score heads together.
    """
    before = model.likelihood(model.run(batch).logits, target)
    effects = torch.zeros(len(edges.layer), dtype=before.dtype, device=before.device)
    lengths = batch.attention_mask.sum(1)[edges.example]
    for rows in chunks(lengths, model):
        tensors, _ = take(batch, edges.example[rows])

        def remove(layer: int, probabilities: Tensor, rows: Tensor = rows) -> Tensor:
            places = (edges.layer[rows] == layer).nonzero()[:, 0]
            edge = rows[places]
            edited = probabilities.clone()
            if all_heads:
                edited[places, :, edges.query[edge], edges.key[edge]] = 0
            else:
                edited[places, edges.head[edge], edges.query[edge], edges.key[edge]] = 0
            return edited

        after = model.run(tensors, edits=[remove]).logits
        example = edges.example[rows]
        effects[rows] = before[example] - model.likelihood(after, target[example])
    return effects


def unscored(
    scores: StackedEdges, edges: Removals, effects: Float[Tensor, "R"], threshold: float | int, zero: float = 1e-12
) -> tuple[Float[Tensor, "B"], Float[Tensor, "B"]]:
    """How many of an example's edges with `|ΔF| > threshold` have a score of 0, and how many such edges there are.

    A score counts as 0 up to `zero` times the largest |score| of the edge's layer.
    """
    head = edges.head.clamp(max=scores.shape[2] - 1)
    score = scores[edges.example, edges.layer, head, edges.query, edges.key].abs()
    largest = scores.abs().amax((2, 3, 4))[edges.example, edges.layer]
    influential = effects.abs() > threshold
    missed = influential & (score <= zero * largest)

    def count(flags: Tensor) -> Tensor:
        return torch.zeros(len(scores), dtype=torch.float64, device=scores.device).index_add_(
            0, edges.example, flags.double()
        )

    return count(missed), count(influential)
