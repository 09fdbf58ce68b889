"""How far attention edges reach, layer by layer (Hao 2021, "receptive field")."""

from collections.abc import Mapping
from functools import partial
from typing import ClassVar

import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy.typing import NDArray

from benchmark.evaluations.base import UNBOUNDED, Averaged, Rows, described
from benchmark.evaluations.edges import terminals, unpadded
from benchmark.models.classifier import Classifier
from benchmark.results.graph import THRESHOLD, layer_shares
from benchmark.results.record import About, Metric
from benchmark.settings.declared import Share, Shares, configurable
from benchmark.targets import TargetName
from benchmark.types import Attribution, Batch, Reads

QUANTILES = (0.25, 0.5, 0.75, 0.9)


def _quantile(share: float) -> str:
    return f"distance_q{100 * share:02.0f}"


@configurable
class ReceptiveField(Averaged):
    """Distribution over edges (i, j) above τ of the distance |i − j| in tokens, for every layer l.

    An edge counts where `E_l[i,j] > τ · max_{i ≠ terminal, j} E_l[i,j]` and i is not the terminal, the token that the
    classifier reads. These are the cells and the normalisation of attribution graphs. Queries and keys are content and
    special tokens alike; padding is neither. Self edges (distance 0) count unless `self_edges` is false. The terminal's
    own row is left out because it reads the whole sentence in every layer. Where the classifier reads several tokens,
    there is no terminal and every row counts.

    Against the layer (from 0), each as a mean over examples: `distance_mean`, `distance_q25`, `distance_q50`, … (linear
    interpolation) and `edges`, how many edges are above τ. An example without such an edge in a layer, as ATTATTR's in
    the last, gets no row of distances there. Scalar: `distance`, the mean over the layers that have an edge. Attention and
    attribution are compared as two methods.

    Attributes:
        target: the class that is explained.
        threshold: τ, within [0, 1].
        quantiles: increasing, within [0, 1].
        self_edges: count the edges of a token to itself.

    Source: Hao et al. 2021, section "Receptive field" (τ = 0.4); it leaves open which cells count.
    """

    version: ClassVar[int] = 1
    reads: ClassVar[Reads] = "edges"
    about: ClassVar[About] = About("descriptive", 40, "Receptive field")
    nothing: ClassVar[str] = "no example has an edge above the threshold"

    target: TargetName = "predicted"
    threshold: Share = THRESHOLD
    quantiles: Shares = QUANTILES
    self_edges: bool = True

    @property
    def _names(self) -> tuple[str, ...]:
        return "distance_mean", *(_quantile(q) for q in self.quantiles)

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """All of them describe."""
        above = "in tokens from query to key of the edges above the threshold"
        by_layer = partial(described, bounds=UNBOUNDED, x="layer")
        metrics = {
            "distance": described(
                "distance of strong edges",
                f"mean distance {above}, mean over layers",
                short="edge distance",
                bounds=UNBOUNDED,
                headline=True,
            ),
            "distance_mean": by_layer("distance of strong edges by layer", f"mean distance {above}"),
        }
        for q in self.quantiles:
            quantile = f"{100 * q:g} % quantile of the distance"
            metrics[_quantile(q)] = by_layer(f"{quantile} by layer", f"{quantile} {above}")
        metrics["edges"] = by_layer("strong edges by layer", "number of edges above the threshold")
        return metrics

    def rows(self, model: Classifier, batch: Batch, attribution: Attribution) -> pd.DataFrame:
        """One row per example, metric and layer; NotApplicable where the method scores no edges."""
        figures = np.full((len(batch), model.n_layers, len(self._names)), np.nan)
        counts = np.zeros((len(batch), model.n_layers))
        ends = terminals(model, batch)
        for b, scores in enumerate(unpadded(batch, attribution)):
            for layer, distances in enumerate(self._distances(scores, ends[b])):
                counts[b, layer] = len(distances)
                if len(distances):
                    figures[b, layer] = distances.mean(), *np.quantile(distances, self.quantiles)
        rows, layers, defined = Rows(batch.uids), range(model.n_layers), np.asarray(counts > 0)
        for k, name in enumerate(self._names):
            rows.add(name, figures[..., k], x=layers, defined=defined)
        rows.add("edges", counts, x=layers)
        mean_over_layers = np.where(defined, figures[..., 0], 0.0).sum(axis=1) / defined.sum(axis=1).clip(min=1)
        rows.add("distance", mean_over_layers, defined=np.asarray(defined.any(axis=1)))
        return rows.frame()

    def _distances(self, scores: Float[NDArray, "L T T"], terminal: int | None) -> list[NDArray]:
        """|i − j| of each layer's edges above τ."""
        above = layer_shares(scores, terminal) > self.threshold
        if terminal is not None:
            above[:, terminal] = False
        if not self.self_edges:
            above &= ~np.eye(scores.shape[1], dtype=bool)
        return [np.abs(np.subtract(*np.nonzero(layer))) for layer in above]
