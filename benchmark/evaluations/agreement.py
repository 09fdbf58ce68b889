"""Rank agreement with gradient and leave-one-out importance (Jain & Wallace 2019; docs/protocols.md, section 10)."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar

import numpy as np
import pandas as pd

from benchmark.evaluations import ranks
from benchmark.evaluations.base import SIGNED, Averaged, Column, as_figure, described, rated_scores, token_scores
from benchmark.models.classifier import Classifier
from benchmark.randomness import generator
from benchmark.results import statistics
from benchmark.results.record import About, Figure, Metric
from benchmark.settings.declared import Count, Natural, configurable
from benchmark.targets import Target, TargetName
from benchmark.types import Attribution, Batch, Method, Reads
from benchmark.units import Pool

REFERENCES = {
    "gradient": "gradient",
    "gradient_attached": "gradient through attention",
    "leave_one_out": "leave-one-out",
}
"""Field of each reference -> what it is called."""

TAUS = {f"{name}_tau": name for name in REFERENCES}
"""Metric that is the mean τ_b with a reference -> field of the reference."""

_SHORT = {"gradient": "grad.", "gradient_attached": "grad. (att.)", "leave_one_out": "LOO"}
SIGNIFICANT = 0.05
_tau = partial(
    described, bounds=SIGNED, without="in no example do both the scores and what they are compared with order words"
)
_MOST_REFERENCES = 10_000


@dataclass(frozen=True)
class Reference:
    """What does not depend on the method: by reference the importance of the rated units, and the predicted class."""

    importance: Mapping[str, Column]
    predicted: int


@configurable
class Agreement(Averaged):
    """Kendall's τ_b between a method's unit scores and gradient importance, and leave-one-out importance.

    The references are three methods. Published are |gradient × input| of the probability with attention held constant
    (`gradient`), the same with the gradient through attention as well (`gradient_attached`), and `leave_one_out` by total
    variation. The τ_b is over the visible, rated units of each example. It is undefined where a row of scores is constant,
    or where there are fewer than two units: such an example is counted in `…_undefined` and is in no mean.

    `…_significant` is the share of defined examples with p ≤ .05. `…_by_class` splits by predicted class (x: its index in
    the model's labels). `…_std` is the standard deviation over examples. `…_null` is the τ_b of randomly permuted scores of
    the same example (mean of `permutations`), near 0 by construction. Where the method scores edges, `…_layer` is the same
    for the read token's row of each layer, and `…_layer_mean` its mean over the layers that are defined.

    τ_b is an agreement, not a measure of quality: it is no ranked metric.

    The references of an example do not depend on the method, so the instance keeps those of the last 10,000 examples (one
    number per unit and reference).

    Attributes:
        gradient: a method.
        gradient_attached: a method.
        leave_one_out: a method that gives every token the score of its unit, whatever `pool` is.
        target: class that is explained, by the references too.
        pool: from the scores of a unit's tokens to its own, for the method and the gradients alike.
        permutations: of the null.
        seed: of the permutations.
    """

    version: ClassVar[int] = 2
    reads: ClassVar[Reads] = "tokens"
    about: ClassVar[About] = About("descriptive", 10, "Rank agreement with gradients and leave-one-out")

    gradient: Method
    gradient_attached: Method
    leave_one_out: Method
    target: TargetName = "predicted"
    pool: Pool = "max"
    permutations: Count = 10
    seed: Natural = 0

    @cached_property
    def _memory(self) -> OrderedDict[tuple[str, str, tuple[int, ...]], Reference]:
        """Not a field: what is remembered is no setting."""
        return OrderedDict()

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """τ_b and what describes it, per reference."""
        metrics: dict[str, Metric] = {}
        for name, called in REFERENCES.items():
            title, tau = f"τ with {called}", f"Kendall's τ between a method's word scores and importance by {called}"
            headline, short = name != "gradient_attached", f"τ {_SHORT[name]}"
            layers = (
                f"Kendall's τ between a layer's edges to the words, from the token read, and importance by {called}"
            )
            no_order = f"share of examples in which the method's scores or importance by {called} order no words"
            metrics |= {
                f"{name}_tau": _tau(title, f"mean of {tau}", headline=headline, short=short),
                f"{name}_tau_std": described(f"{title}, spread", f"standard deviation of {tau}", short=f"{short} std"),
                f"{name}_tau_null": _tau(
                    f"{title}, permuted",
                    f"{tau} after the scores are permuted at random, near 0 by construction",
                    short=f"{short} null",
                ),
                f"{name}_significant": described(f"significant {title}", f"share of examples with p ≤ .05 for {tau}"),
                f"{name}_undefined": described(f"undefined {title}", no_order),
                f"{name}_tau_by_class": _tau(
                    f"{title} by class", f"mean of {tau}, by class", x="predicted class", scale="class"
                ),
                f"{name}_tau_layer": _tau(f"{title} by layer", layers, x="layer", headline=headline),
                f"{name}_tau_layer_mean": _tau(f"{title}, mean over layers", f"{layers}, mean over layers"),
                f"{name}_undefined_layer": described(f"undefined {title} by layer", no_order, x="layer"),
            }
        return metrics

    def rows(self, model: Classifier, batch: Batch, attribution: Attribution) -> pd.DataFrame:
        """Correlations of each example; NotApplicable where the method scores no tokens."""
        values = rated_scores(batch, token_scores(batch, attribution), self.pool)
        by_layer = () if attribution.layers is None else attribution.layers.unbind(1)
        layers = [rated_scores(batch, scores, self.pool) for scores in by_layer]
        references = self._references(model, batch, attribution.target)
        records = []
        for b, uid in enumerate(batch.uids):
            for name, importance in references[b].importance.items():
                records += self._tokens(uid, name, values[b], importance, references[b].predicted)
                if layers:
                    records += _rows_of_layers(uid, name, np.stack([scores[b] for scores in layers]), importance)
        return pd.DataFrame(records, columns=["uid", "metric", "x", "value"]).astype({"x": float, "value": float})

    def divided(self, metrics: Sequence[str]) -> list[list[str]]:
        """Each metric by itself: a standard deviation comes from the rows of its mean."""
        return [[name] for name in metrics]

    def reduce(self, rows: pd.DataFrame) -> list[Figure]:
        """Means with intervals, and the standard deviation of each τ_b over examples."""
        figures = super().reduce(rows)
        for name in REFERENCES:
            taus = rows[rows["metric"] == f"{name}_tau"].sort_values("uid")["value"].to_numpy(dtype=np.float64)
            if len(taus):
                moments = np.stack([taus, taus**2], axis=1)
                deviation = statistics.interval(moments, _standard_deviation, bounds=(0.0, 1.0))
                figures.append(as_figure(f"{name}_tau_std", None, deviation))
        return figures

    def _tokens(self, uid: str, name: str, scores: Column, importance: Column, predicted: int) -> list[tuple]:
        correlation = ranks.kendall(scores, importance)
        records = [(uid, f"{name}_undefined", np.nan, float(correlation.undefined))]
        if correlation.undefined:
            return records
        permuted = generator(self.seed, "permutations", uid).permuted(np.tile(scores, (self.permutations, 1)), axis=1)
        null = ranks.tau_b(permuted, importance)
        significant = np.nan if np.isnan(correlation.p) else float(correlation.p <= SIGNIFICANT)
        return [
            *records,
            (uid, f"{name}_tau", np.nan, correlation.tau),
            (uid, f"{name}_tau_by_class", float(predicted), correlation.tau),
            (uid, f"{name}_significant", np.nan, significant),
            (uid, f"{name}_tau_null", np.nan, float(np.mean(null))),
        ]

    def _references(self, model: Classifier, batch: Batch, target: Target) -> list[Reference]:
        keys = [(model.fingerprint, uid, chosen) for uid, chosen in zip(batch.uids, target.ids, strict=True)]
        if not all(key in self._memory for key in keys):
            for key, reference in zip(keys, self._computed(model, batch, target), strict=True):
                self._memory[key] = reference
        references = [self._memory[key] for key in keys]
        while len(self._memory) > _MOST_REFERENCES:
            self._memory.popitem(last=False)
        return references

    def _computed(self, model: Classifier, batch: Batch, target: Target) -> list[Reference]:
        importance = {}
        for name, pool in zip(REFERENCES, (self.pool, self.pool, "max"), strict=True):
            attribution = getattr(self, name)(model, batch, target.to(batch.units.device))
            importance[name] = rated_scores(batch, token_scores(batch, attribution), pool)
        predicted = model.predict(batch).tolist()
        return [Reference({name: importance[name][b] for name in REFERENCES}, c) for b, c in enumerate(predicted)]


def _rows_of_layers(uid: str, name: str, layers: Column, importance: Column) -> list[tuple]:
    """Rows of one example: τ_b of each layer's scores [L n], and their mean."""
    undefined = ranks.constant(layers) | ranks.constant(importance[None])
    taus = ranks.tau_b(layers, importance)
    records = [(uid, f"{name}_undefined_layer", float(layer), float(flag)) for layer, flag in enumerate(undefined)]
    defined = [(uid, f"{name}_tau_layer", float(layer), float(taus[layer])) for layer in np.flatnonzero(~undefined)]
    if defined:
        records.append((uid, f"{name}_tau_layer_mean", np.nan, float(taus[~undefined].mean())))
    return records + defined


def _standard_deviation(means: Column) -> Column:
    """√(E[τ²] − E[τ]²)."""
    deviation: Column = np.sqrt(np.maximum(means[..., 1] - means[..., 0] ** 2, 0.0))
    return deviation
