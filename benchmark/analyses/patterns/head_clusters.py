"""Which heads behave alike? Heads in the plane by how far their attention lies apart (Clark et al. 2019).

Defined in docs/protocols.md, section 17.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy.typing import NDArray
from sklearn.manifold import MDS

from benchmark.analyses.base import ModelsAnalysis
from benchmark.analyses.context import Context
from benchmark.analyses.measured import figure_line
from benchmark.analyses.patterns.attention_patterns import pattern_arrays
from benchmark.analyses.patterns.head_distances import head_distances
from benchmark.analyses.patterns.pattern_sums import PATTERNS
from benchmark.analyses.resumed import Arrays
from benchmark.models import Classifier
from benchmark.models.divergences import LARGEST_JSD
from benchmark.results import statistics
from benchmark.results.tables import Drawing, Table, line
from benchmark.run.workbench import Setting
from benchmark.settings.declared import Count, Natural, Share, configurable
from benchmark.types import Batch

NEIGHBOURS = ("previous token", "next token", "same token")
SPECIAL = ("to the start token", "to separators", "to punctuation")
BROAD, NOTHING = "attends broadly", "other"
_STARTS = 5


@configurable
class HeadClusters(ModelsAnalysis):
    """The distances between heads (`head_distances`), as two tables.

    `head_map`: the heads in the plane, by multidimensional scaling of their mean distances (metric MDS,
    SMACOF, the best of 5 starts), with what each does by the thresholds below; the normalised stress says how much of the
    distances the plane cannot show (0: nothing).

    `head_distances`: the mean distance of two heads of one layer, of two heads of different layers, and their difference,
    with intervals over documents: heads of a layer are alike where it is below 0.

    With `weigh=queries` the mean distance is Σ_d n_d D_d / Σ_d n_d over documents d of n_d queries (tokens), D_d the mean
    over the document's queries: every query weighs alike, as in the authors' sum over queries and documents. With
    `weigh=documents` it is the mean of D_d.

    A head does what it gives most attention to, where that is at least the threshold; else it attends broadly where its
    entropy is at least `broad` of that of uniform attention.

    Attributes:
        weigh: what weighs alike in a mean distance, "queries" or "documents".
        neighbours: least mean attention to the previous, next or same token.
        special: least mean attention to the start token, to separators or to punctuation.
        broad: least share of the entropy of uniform attention.
        seed: of the starts of the scaling.

    Source: Clark et al. 2019, section 6, figure 6; the authors' thresholds are .5, .6 and 3.8 nats, which is .78 of the
    entropy of uniform attention over their 128 tokens.
    Cost: two forward passes, and (L · H)² n² operations for a document of n tokens.
    """

    version: ClassVar[int] = 2

    limit: Count | None = 100
    weigh: Literal["queries", "documents"] = "queries"
    neighbours: Share = 0.5
    special: Share = 0.6
    broad: Share = 0.78
    seed: Natural = 0

    def __call__(self, context: Context) -> Sequence[Table]:
        """Distances and the map."""
        found = {name: self._of(context, setting) for name, setting in self.looked_at(context).items()}
        return [self._distances(found), self._map(found)]

    def _of(self, context: Context, setting: Setting) -> Arrays:
        compute = lambda batch: _arrays(setting.model, batch)  # noqa: E731  # a closure of one line
        return self.by_example(context, setting, compute, "distances of heads").arrays

    def _map(self, found: Mapping[str, Arrays]) -> Table:
        rows: list[dict[str, Any]] = []
        stresses = []
        for name, arrays in found.items():
            distances = np.average(arrays["distances"], axis=0, weights=self._weights(arrays))
            n_heads = arrays["shares"].shape[3]
            points, stress = plane(distances, self.seed)
            stresses.append(f"{name}: normalised stress {stress:.3f} over {len(arrays['distances'])} documents.")
            does = self.behaviours(arrays)
            for number, (x, y) in enumerate(points):
                layer, head = divmod(number, n_heads)
                place = {"model": name, "layer": layer, "head": head, "behaviour": does[number]}
                rows += [line(place, "x", float(x)), line(place, "y", float(y))]
        return Table(
            name="head_map",
            title="Heads in the plane: the nearer, the more alike is their attention",
            labels=("model", "layer", "head", "behaviour"),
            rows=pd.DataFrame(rows),
            sentences=("Axes have no meaning of their own, and points no interval.", *stresses),
            drawing=Drawing("scatter", x="x", y=("y",), series="behaviour", panels=("model",)),
            printed=False,
        )

    def behaviours(self, arrays: Arrays) -> list[str]:
        """What each of the K heads does, in the order of layers and heads."""
        with np.errstate(invalid="ignore"):
            shares = np.nan_to_num(_mean(arrays["shares"])).reshape(len(PATTERNS), -1)
            spread = _mean(arrays["entropies"][:, 0]) / _mean(arrays["uniform"][:, 0])[:, None]
        found = []
        for number, broad in enumerate(spread.reshape(-1)):
            least = dict.fromkeys(NEIGHBOURS, self.neighbours) | dict.fromkeys(SPECIAL, self.special)
            over = {name: shares[PATTERNS.index(name), number] for name in least}
            reached = {name: share for name, share in over.items() if share >= least[name]}
            found.append(
                max(reached, key=reached.__getitem__) if reached else BROAD if broad >= self.broad else NOTHING
            )
        return found

    def _weights(self, arrays: Arrays) -> NDArray[np.float64]:
        """Of each document in a mean distance."""
        queries: NDArray[np.float64] = arrays["queries"]
        return queries if self.weigh == "queries" else np.ones_like(queries)

    def _distances(self, found: Mapping[str, Arrays]) -> Table:
        rows: list[dict[str, Any]] = []
        for name, arrays in found.items():
            weights, n_heads = self._weights(arrays), arrays["shares"].shape[3]
            layer = np.arange(arrays["distances"].shape[1]) // n_heads
            first, second = np.triu_indices(len(layer), 1)
            same = layer[first] == layer[second]
            of_pairs = arrays["distances"][:, first, second]
            for metric, chosen in (("same layer", same), ("different layers", ~same)):
                if chosen.any():
                    mean = _weighed(of_pairs[:, chosen].mean(1), weights, 0.0)
                    rows.append(figure_line({"model": name}, metric, mean))
                else:
                    rows.append(line({"model": name}, metric, note="there is no such pair of heads"))
            if same.any() and (~same).any():
                less = of_pairs[:, same].mean(1) - of_pairs[:, ~same].mean(1)
                rows.append(figure_line({"model": name}, "same less different", _weighed(less, weights, -LARGEST_JSD)))
        over = "all queries" if self.weigh == "queries" else "the queries of a document, and over documents"
        return Table(
            name="head_distances",
            title="How far the attention of two heads lies apart (Jensen–Shannon, nats)",
            labels=("model",),
            rows=pd.DataFrame(rows),
            sentences=(f"Means over pairs of heads and over {over}; intervals over documents; at most ln 2.",),
        )


def _weighed(values: NDArray[np.float64], weights: NDArray[np.float64], least: float) -> statistics.Interval:
    """The weighted mean of one value per document; documents are what is resampled."""
    bounds = (least, LARGEST_JSD)
    if np.ptp(weights) == 0:
        return statistics.interval(values, bounds=bounds)
    shares = weights / weights.mean()
    largest = float(shares.max())
    columns = np.stack([shares * values, shares], axis=1)
    ranges = ((min(0.0, largest * least), largest * LARGEST_JSD), (float(shares.min()), largest))
    return statistics.interval(columns, _ratio, bounds=bounds, ranges=ranges)


def _ratio(means: NDArray[np.float64]) -> NDArray[np.float64]:
    found: NDArray[np.float64] = means[..., 0] / means[..., 1]
    return found


def _arrays(model: Classifier, batch: Batch) -> Arrays:
    queries = batch.attention_mask.sum(1).double().cpu().numpy()
    distances = head_distances(model, batch).double().cpu().numpy()
    return {**pattern_arrays(model, batch), "distances": distances, "queries": queries}


def _mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Over the documents that have a value; NaN where none has."""
    present = ~np.isnan(values)
    count = present.sum(0)
    total: NDArray[np.float64] = np.where(present, values, 0.0).sum(0) / np.where(count, count, np.nan)
    return total


def plane(distances: Float[NDArray[np.float64], "K K"], seed: int) -> tuple[Float[NDArray[np.float64], "K 2"], float]:
    """Points whose distances are near the given ones, and the normalised stress √(Σ (d − d̂)² / Σ d²) over pairs, in [0, 1].

    The points are centred and turned so that the first axis has the largest variance, and its largest value is positive.
    """
    scaling = MDS(
        2, n_init=_STARTS, init="random", max_iter=1000, eps=1e-9, random_state=seed, metric="precomputed",
        normalized_stress=False,
    )  # fmt: skip
    points = scaling.fit_transform(distances)
    points = points - points.mean(0)
    turned = points @ np.linalg.svd(points, full_matrices=False)[2].T
    turned *= np.where(np.abs(turned).max(0) == turned.max(0), 1.0, -1.0)
    upper = np.triu_indices(len(distances), 1)
    shown = np.linalg.norm(turned[:, None] - turned[None], axis=-1)[upper]
    return turned, float(np.sqrt(((distances[upper] - shown) ** 2).sum() / max((distances[upper] ** 2).sum(), 1e-300)))
