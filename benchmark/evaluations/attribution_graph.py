"""How large an attribution graph is, and whether its words are the rationale's (Hao 2021).

Defined in docs/protocols.md, section 4.
"""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import pandas as pd

from benchmark.evaluations.base import UNBOUNDED, Averaged, Rows, described, higher
from benchmark.evaluations.curves import TENTHS
from benchmark.evaluations.edges import terminals, unpadded
from benchmark.models.classifier import Classifier
from benchmark.results.graph import Construction, agreement, attribution_graph
from benchmark.results.record import About, Metric
from benchmark.settings.declared import Shares, configurable
from benchmark.targets import TargetName
from benchmark.types import Attribution, Batch, Reads

_SIZES = {
    "nodes": "number of tokens in the attribution graph",
    "edges": "number of edges of the attribution graph",
    "depth": "edges from the graph's top token to its deepest leaf",
}
_AGREEMENT = {"recall": "recall", "precision": "precision", "f1": "F1"}


@configurable
class AttributionGraphs(Averaged):
    """Size and words of the attribution graph at growing thresholds τ (`benchmark.results.graph`).

    Against τ: `nodes` (tokens that appeared), `edges` and `depth` (edges from the top node to the deepest leaf). None of
    them counts the terminal edge. For examples with a rationale also `rationale_recall`, `rationale_precision` and
    `rationale_f1` of the units that have a token in the graph. A graph without a top node has 0 everywhere. Scalars are
    the means over τ, `nodes_mean` and `rationale_f1_mean`.

    Units beyond the model's window count as missed; those of a query are left out. Examples without a rationale unit
    get no row for the agreement.

    Attributes:
        target: the class that is explained.
        construction: `paper` or `script`.
        thresholds: increasing, within [0, 1].

    Source: Hao et al. 2021, section "Attribution tree"; statistics over τ are ours.
    """

    version: ClassVar[int] = 1
    reads: ClassVar[Reads] = "edges"
    about: ClassVar[About] = About("plausibility", 20, "Attribution graph")

    target: TargetName = "predicted"
    construction: Construction = "paper"
    thresholds: Shares = TENTHS

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """F1 with the rationale is ranked; the others describe."""
        metrics = {
            "rationale_f1_mean": higher(
                "F1 of the graph's words",
                "F1 of the attribution graph's words against the rationale's, mean over thresholds",
                short="graph F1",
                headline=True,
                without="no example has a rationale",
            ),
            "nodes_mean": described(
                "tokens in the graph",
                "number of tokens in the attribution graph, mean over thresholds",
                short="graph tokens",
                bounds=UNBOUNDED,
                headline=True,
            ),
        }
        for name, meaning in _SIZES.items():
            metrics[name] = described(f"{name} of the graph", meaning, bounds=UNBOUNDED, x="threshold")
        for name, title in _AGREEMENT.items():
            metrics[f"rationale_{name}"] = (higher if name == "f1" else described)(
                f"{title} of the graph's words",
                f"{title} of the graph's words against the rationale's",
                x="threshold",
            )
        return metrics

    def rows(self, model: Classifier, batch: Batch, attribution: Attribution) -> pd.DataFrame:
        """One row per example, metric and τ; NotApplicable where the method scores no edges."""
        sizes = np.zeros((len(batch), len(self.thresholds), len(_SIZES)))
        agreements = np.full((len(batch), len(self.thresholds), len(_AGREEMENT)), np.nan)
        annotated = np.zeros(len(batch), dtype=bool)
        ends = terminals(model, batch)
        for b, scores in enumerate(unpadded(batch, attribution)):
            units = batch.units[b, : scores.shape[1]].tolist()
            rationale, query_units = batch.rationale[b], batch.query_units[b]
            annotated[b] = rationale is not None and bool(rationale[query_units:].any())
            for t, threshold in enumerate(self.thresholds):
                graph = attribution_graph(
                    scores, threshold, construction=self.construction, terminal=ends[b], units=units
                )
                sizes[b, t] = len(graph.nodes), len(graph.edges), graph.depth
                if annotated[b]:
                    shared = agreement(graph, np.asarray(rationale, dtype=bool), query_units)
                    agreements[b, t] = shared.recall, shared.precision, shared.f1
        x = [float(threshold) for threshold in self.thresholds]
        rows = Rows(batch.uids)
        for k, name in enumerate(_SIZES):
            rows.add(name, sizes[..., k], x=x)
        for k, name in enumerate(_AGREEMENT):
            rows.add(f"rationale_{name}", agreements[..., k], x=x, defined=annotated)
        rows.add("nodes_mean", sizes[..., 0].mean(axis=1))
        rows.add("rationale_f1_mean", agreements[..., 2].mean(axis=1), defined=annotated)
        return rows.frame()
