"""Rank agreement with gradient and leave-one-out importance (Jain & Wallace 2019; docs/protocols.md, section 10)."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from benchmark.evaluations import ranks
from benchmark.evaluations.base import Averaged, rated_units, token_scores
from benchmark.models.attention_interface import AttentionEdit, hold_constant
from benchmark.models.classifier import Classifier
from benchmark.models.removal import logits_without, operator_for
from benchmark.models.variants import chunks, take
from benchmark.results import statistics
from benchmark.results.record import Figure, Metric
from benchmark.settings import randomness
from benchmark.settings.declared import Count, configurable
from benchmark.types import Attribution, Batch, Reads, Target
from benchmark.units import Pool, pool

Row = NDArray[np.float64]
REFERENCES = ("gradient", "gradient_attached", "leave_one_out")
SIGNIFICANT = 0.05
_REMEMBERED = 10_000


@dataclass(frozen=True)
class Reference:
    """What does not depend on the method: one importance per rated unit of an example, and the predicted class."""

    importance: Mapping[str, Row]
    predicted: int


def gradient_importance(
    model: Classifier,
    batch: Batch,
    target: Int[Tensor, "B"],
    *,
    edits: Sequence[AttentionEdit] = (),
) -> Float[Tensor, "B T"]:
    """|Σ_d ∂p_t/∂e_{jd} · e_{jd}| per token j: gradient × input of the target's probability at the token embeddings.

    With `edits=[hold_constant]` the gradient does not flow through the attention probabilities.
    """
    found = torch.zeros(batch.units.shape, dtype=model.scores_dtype, device=batch.units.device)
    for rows in chunks(batch.attention_mask.sum(1), model, layers=model.n_layers):
        tensors, units = take(batch, rows)
        trace = model.run(tensors, edits=edits, record=("embeddings",), grad=True)
        if trace.embeddings is None:
            raise RuntimeError("the model recorded no embeddings")
        probability = trace.logits.softmax(-1).gather(1, target[rows, None].clamp(min=0)).squeeze(1)
        (gradient,) = model.gradients(probability, [trace.embeddings])
        product = (gradient * trace.embeddings.detach()).sum(-1).abs()
        if product.shape == units.shape:
            found[rows, : units.shape[1]] = product
        else:  # the embedding module of an image model knows patches only, no CLS token
            scores = torch.zeros_like(units, dtype=product.dtype)
            scores[units >= 0] = product.flatten()
            found[rows] = scores
    return found


def leave_one_out(
    model: Classifier, batch: Batch, rated: Tensor, operator: str
) -> tuple[Float[Tensor, "B U"], Int[Tensor, "B"]]:
    """Total variation ½ Σ_c |p_c(x) − p_c(x without j)| of each rated unit j (0 elsewhere), and the predicted class."""
    chosen = operator_for(operator, model, batch, "evaluations.agreement.operator")
    n_units = rated.shape[1]
    single = torch.eye(n_units, dtype=torch.bool, device=rated.device)[:, None] & rated[None]
    removed = torch.cat([torch.zeros_like(rated)[None], single])
    probabilities = logits_without(model, batch, removed, chosen).softmax(-1)
    variation = 0.5 * (probabilities[1:] - probabilities[:1]).abs().sum(-1)
    return variation.T, probabilities[0].argmax(-1)


@configurable
class Agreement(Averaged):
    """Kendall's τ_b between a method's unit scores and gradient importance, and leave-one-out importance.

    References: `gradient` with attention held constant, `gradient_attached` with the gradient through attention as
    well, `leave_one_out`. The τ_b is over the visible, rated units of each example. Where a row of scores is constant,
    or there are fewer than two units, it is undefined: counted in `…_undefined`, in no mean. `…_significant` is the
    share of defined examples with p ≤ .05; `…_by_class` splits by predicted class (x: its index in the model's labels);
    `…_std` is the standard deviation over examples; `…_null` is the τ_b of randomly permuted scores of the same example
    (mean of `permutations`), near 0 by construction. Where the method scores edges, `…_layer` is the same for the read
    token's row of each layer, `…_layer_mean` its mean over the layers that are defined.

    τ_b is an agreement, not a measure of quality: it is no ranked metric.

    The references of an example do not depend on the method, so the instance keeps those of the last 10,000 examples (one
    number per unit and reference).

    Args:
        target: class t of the gradient.
        operator: how leave-one-out removes a unit.
        pool: from the scores of a unit's tokens to its own, for the method and the gradient alike.
        permutations: of the null.
        seed: of the permutations.
    """

    version: ClassVar[int] = 1
    reads: ClassVar[Reads] = "tokens"

    target: Target = "predicted"
    operator: str = "auto"
    pool: Pool = "max"
    permutations: Count = 10
    seed: int = 0

    @cached_property
    def _memory(self) -> OrderedDict[tuple[str, str, int], Reference]:
        """Not a field: what is remembered is no setting."""
        return OrderedDict()

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """τ_b and what describes it, per reference."""
        found = {}
        share, correlation = (0.0, 1.0), (-1.0, 1.0)
        for name in REFERENCES:
            found[f"{name}_tau"] = Metric(None, correlation, headline=name != "gradient_attached")
            found[f"{name}_tau_std"] = Metric(None, share)
            found[f"{name}_tau_null"] = Metric(None, correlation)
            found[f"{name}_significant"] = Metric(None, share)
            found[f"{name}_undefined"] = Metric(None, share)
            found[f"{name}_tau_by_class"] = Metric(None, correlation, x="predicted class")
            found[f"{name}_tau_layer"] = Metric(None, correlation, x="layer")
            found[f"{name}_tau_layer_mean"] = Metric(None, correlation)
            found[f"{name}_undefined_layer"] = Metric(None, share, x="layer")
        return found

    def rows(self, model: Classifier, batch: Batch, attribution: Attribution) -> pd.DataFrame:
        """Correlations of each example; NotApplicable where the method scores no tokens."""
        scores, visible = pool(token_scores(batch, attribution), batch.units, self.pool)
        rated = rated_units(batch, visible)
        references = self._references(model, batch, attribution.target, rated)
        layers = np.zeros((len(batch), 0, scores.shape[1]))
        if attribution.layers is not None:
            by_layer = attribution.layers.to(batch.units.device).unbind(1)
            layers = np.stack([_numpy(pool(s, batch.units, self.pool)[0]) for s in by_layer], axis=1)
        values, kept = _numpy(scores), rated.cpu().numpy()
        records = []
        for b, uid in enumerate(batch.uids):
            for name, importance in references[b].importance.items():
                here = kept[b]
                records += self._tokens(uid, name, values[b][here], importance, references[b].predicted)
                records += _layers(uid, name, layers[b][:, here], importance)
        return pd.DataFrame(records, columns=["uid", "metric", "x", "value"]).astype({"x": float, "value": float})

    def reduce(self, rows: pd.DataFrame) -> list[Figure]:
        """Means with intervals, and the standard deviation of each τ_b over examples."""
        figures = super().reduce(rows)
        for name in REFERENCES:
            taus = rows[rows["metric"] == f"{name}_tau"].sort_values("uid")["value"].to_numpy(dtype=np.float64)
            if len(taus):
                found = statistics.interval(np.stack([taus, taus**2], axis=1), _deviation, bounds=(0.0, 1.0))
                figures.append(Figure(f"{name}_tau_std", float("nan"), found.value, found.low, found.high, found.n))
        return figures

    def _tokens(self, uid: str, name: str, scores: Row, importance: Row, predicted: int) -> list[tuple]:
        found = ranks.kendall(scores, importance)
        records = [(uid, f"{name}_undefined", np.nan, float(found.undefined))]
        if found.undefined:
            return records
        generator = randomness.generator(uid, self.seed, "permutations")
        null = ranks.tau_b(generator.permuted(np.tile(scores, (self.permutations, 1)), axis=1), importance)
        return [
            *records,
            (uid, f"{name}_tau", np.nan, found.tau),
            (uid, f"{name}_tau_by_class", float(predicted), found.tau),
            (uid, f"{name}_significant", np.nan, np.nan if np.isnan(found.p) else float(found.p <= SIGNIFICANT)),
            (uid, f"{name}_tau_null", np.nan, float(np.mean(null))),
        ]

    def _references(self, model: Classifier, batch: Batch, target: Tensor, rated: Tensor) -> list[Reference]:
        keys = [(model.fingerprint, uid, int(t)) for uid, t in zip(batch.uids, target, strict=True)]
        if not all(key in self._memory for key in keys):
            for key, reference in zip(keys, self._computed(model, batch, target, rated), strict=True):
                self._memory[key] = reference
        found = [self._memory[key] for key in keys]
        while len(self._memory) > _REMEMBERED:
            self._memory.popitem(last=False)
        return found

    def _computed(self, model: Classifier, batch: Batch, target: Tensor, rated: Tensor) -> list[Reference]:
        t = target.to(batch.units.device)
        held = gradient_importance(model, batch, t, edits=[hold_constant])
        attached = gradient_importance(model, batch, t)
        variation, predicted = leave_one_out(model, batch, rated, self.operator)
        units = [pool(scores, batch.units, self.pool)[0] for scores in (held, attached)] + [variation]
        arrays, kept = [_numpy(scores) for scores in units], rated.cpu().numpy()
        return [
            Reference(
                {name: array[b][kept[b]] for name, array in zip(REFERENCES, arrays, strict=True)}, int(predicted[b])
            )
            for b in range(len(batch))
        ]


def _layers(uid: str, name: str, layers: Row, importance: Row) -> list[tuple]:
    """Rows of one example: τ_b of each layer's scores [L n], and their mean."""
    undefined = ranks.constant(layers) | ranks.constant(importance[None])
    taus = ranks.tau_b(layers, importance)
    records = [(uid, f"{name}_undefined_layer", float(layer), float(flag)) for layer, flag in enumerate(undefined)]
    defined = [(uid, f"{name}_tau_layer", float(layer), float(taus[layer])) for layer in np.flatnonzero(~undefined)]
    if defined:
        records.append((uid, f"{name}_tau_layer_mean", np.nan, float(taus[~undefined].mean())))
    return records + defined


def _deviation(means: Row) -> Row:
    """√(E[τ²] − E[τ]²)."""
    deviation: Row = np.sqrt(np.maximum(means[..., 1] - means[..., 0] ** 2, 0.0))
    return deviation


def _numpy(values: Tensor) -> Row:
    array: Row = values.detach().double().cpu().numpy()
    return array
