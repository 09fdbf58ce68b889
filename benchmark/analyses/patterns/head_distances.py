"""How far the heads of a model lie apart: Jensen–Shannon divergences between their attention."""

import torch
from jaxtyping import Float
from torch import Tensor

from benchmark.models.classifier import Classifier
from benchmark.models.divergences import LARGEST_JSD, entropy
from benchmark.types import Batch

SMOOTHING = 1e-3


def head_distances(model: Classifier, batch: Batch) -> Float[Tensor, "B K K"]:
    """Distance of every two of the K = L · H heads in each document, in [0, ln 2], the mean over its n queries i of

        JSD(a_i, b_i) = H((a_i + b_i) / 2) − (H(a_i) + H(b_i)) / 2,    a = (1 − ε) A + ε / n, ε = 0.001

    with A the attention of a head over the n tokens, special ones included.

    Source: Clark et al. 2019, section 6, whose code (`head_distances.py`) sums over queries and documents. Their sum is that
    of n times this mean over documents (`HeadClusters.weigh`).
    """
    found = []
    for part, _ in model.parts(batch, 2 * model.n_layers):
        attentions = model.run(part, record=("attentions",)).attentions
        lengths = part.attention_mask.sum(1)
        for row in range(len(part)):
            n = int(lengths[row])
            heads = torch.cat([layer[row, :, :n, :n] for layer in attentions]).to(model.scores_dtype)
            found.append(_between(heads, model.memory_budget))
    return torch.stack(found)


def _between(heads: Float[Tensor, "K n n"], budget: int) -> Float[Tensor, "K K"]:
    """Of one document; as many heads at a time as fit the budget."""
    count, n = heads.shape[0], heads.shape[1]
    smoothed = (1 - SMOOTHING) * heads + SMOOTHING / n
    own = entropy(smoothed)
    at_once = max(1, budget // (4 * heads.element_size() * count * n * n))
    rows = []
    for start in range(0, count, at_once):
        first = smoothed[start : start + at_once, None]
        mixed = entropy((first + smoothed[None]) / 2) - (own[start : start + at_once, None] + own[None]) / 2
        rows.append(mixed.mean(-1))
    distances = torch.cat(rows).clamp(0, LARGEST_JSD)
    return (distances + distances.T) / 2
