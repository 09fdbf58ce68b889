"""The attention and the attribution of every head of an example, and how sparse each of the two maps is."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray

from benchmark.analyses.patterns.pattern_sums import permitted_keys
from benchmark.errors import NotApplicable
from benchmark.evaluations.complexity import entropy, gini, top_shares
from benchmark.models import Classifier
from benchmark.run.views import token_strings
from benchmark.targets import Target
from benchmark.types import Batch

SHARES = (0.01, 0.05, 0.1)
MEASURES = (
    "Gini index",
    "Gini index by query",
    "entropy (nats)",
    *(f"mass in the best {share * 100:g} %" for share in SHARES),
)
"""In the order of `sparsity`."""

_LENGTH = 12
"""Tokens of the example that is shown: more cannot be read in a picture."""


def sparsity(
    model: Classifier, batch: Batch, explainer: Any, target: Target
) -> Float[NDArray[np.float64], "B 2 L H M"]:
    """`MEASURES` of the attention and of the attribution of every head; NaN for a map of zeros."""
    found = []
    for maps, edges in _maps(model, batch, explainer, target):
        layers = []
        for layer, permitted in enumerate(edges):
            masses = maps[:, layer][..., permitted]  # [2 H n]
            scalars = np.stack([gini(masses), _by_query(maps[:, layer], permitted), entropy(masses)], axis=-1)
            layers.append(np.concatenate([scalars, top_shares(masses, SHARES)], axis=-1))
        found.append(np.stack(layers, axis=1))
    return np.stack(found)


def _by_query(
    maps: Float[NDArray[np.float64], "2 H n n"], permitted: Bool[NDArray[np.bool_], "n n"]
) -> Float[NDArray[np.float64], "2 H"]:
    """The mean Gini index of the rows that have a mass in both maps, each over its permitted keys; NaN without any."""
    rows = np.stack([gini(maps[:, :, query, keys]) for query, keys in enumerate(permitted)], axis=-1)
    defined = ~np.isnan(rows).any(0)
    return mean_of(rows, np.broadcast_to(defined, rows.shape), (-1,))


def _maps(
    model: Classifier, batch: Batch, explainer: Any, target: Target
) -> Iterator[tuple[Float[NDArray[np.float64], "2 L H n n"], Bool[NDArray[np.bool_], "L n n"]]]:
    """The magnitudes of each example's attention and attribution, and which edges each layer permits."""
    for part, rows in model.parts(batch, 4 * model.n_layers):
        trace = model.run(part, record=("attentions", "permitted"))
        scores = explainer.edge_scores(model, part, target[rows])
        attention = torch.stack([layer.to(scores) for layer in trace.attentions], dim=1)
        if scores.shape != attention.shape:
            raise NotApplicable("the explainer's edges know no heads")
        permitted = torch.stack([permitted_keys(each, part.attention_mask) for each in trace.permitted], dim=1)
        for b, n in enumerate(part.attention_mask.sum(1).tolist()):
            both = torch.stack([attention[b, ..., :n, :n], scores[b, ..., :n, :n]]).abs()
            yield both.detach().double().cpu().numpy(), permitted[b, :, :n, :n].cpu().numpy()


@dataclass(frozen=True)
class Shown:
    """One head's maps of one example, each over its largest value.

    Attributes:
        uid: the example's.
        layer: of the head.
        head: its number.
        tokens: names of the n tokens, each once.
        maps: attention and attribution [2 n n].
    """

    uid: str
    layer: int
    head: int
    tokens: Sequence[str]
    maps: Float[NDArray[np.float64], "2 n n"]


def shown(model: Classifier, batches: Sequence[Batch], explainer: Any, target_of: Callable[[Batch], Target]) -> Shown:
    """The head with the largest attribution, of the example whose length is nearest to `_LENGTH` tokens."""
    lengths = {
        (batch.uids[row], index, row): abs(length - _LENGTH)
        for index, batch in enumerate(batches)
        for row, length in enumerate(batch.attention_mask.sum(1).tolist())
    }
    uid, index, row = min(sorted(lengths), key=lambda key: lengths[key])
    batch = batches[index].select([row])
    ((maps, _),) = _maps(model, batch, explainer, target_of(batch))
    layer, head = np.unravel_index(int(maps[1].max((-1, -2)).argmax()), maps.shape[1:3])
    chosen = maps[:, layer, head]
    largest = chosen.max((-1, -2), keepdims=True)
    tokens = [f"{place} {name}" for place, name in enumerate(token_strings(model, batch, 0))]
    return Shown(uid, int(layer), int(head), tokens, chosen / np.where(largest > 0, largest, 1))


def mean_of(values: NDArray[np.float64], defined: NDArray[np.bool_], axes: tuple[int, ...]) -> NDArray[np.float64]:
    """The mean over axes of the values that are defined; NaN where none is."""
    counts = defined.sum(axes)
    totals = np.where(defined, values, 0).sum(axes)
    found: NDArray[np.float64] = np.divide(totals, counts, out=np.full(counts.shape, np.nan), where=counts > 0)
    return found
