"""Accuracy against the share of pruned attention heads (Hao 2021; Michel 2019; docs/protocols.md, section 7)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, cast

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from benchmark.errors import NotApplicable, UserError
from benchmark.evaluations import curves, ranks
from benchmark.evaluations.base import SIGNED, Averaged, Rows, connected, correctness, higher, lower
from benchmark.models.attention_interface import PruneHeads
from benchmark.models.classifier import Classifier
from benchmark.models.variants import run_variants
from benchmark.results.record import About, Figure, Metric
from benchmark.results.statistics import RESAMPLED, Interval, matrix, sources, widened
from benchmark.settings.declared import Count, Natural, SettingError, Shares, configurable
from benchmark.targets import ClassTarget, TargetName
from benchmark.types import Aggregate, Attribution, Batch, Reads

Scope = Literal["global", "layer"]
PRUNED_SHARES = tuple(k / 10 for k in range(11))


@configurable
class Calibration:
    """Where head importance comes from: the mean over the first `limit` examples of a split that is not scored."""

    split: Literal["train", "validation", "test"] = "validation"
    limit: Count = 100


def pruning_masks(
    importance: Float[Tensor, "B L H"],
    shares: Sequence[float | int],
    *,
    scope: Scope = "global",
    descending: bool = False,
    seed: int = 0,
    uids: Sequence[str] = (),
) -> Bool[Tensor, "K B L H"]:
    """Which heads stay (True) when a share of them is pruned in the order of importance.

    ⌊share · L·H⌋ heads of the model are pruned (`global`: the paper's "pruning" experiment), or ⌊share · H⌋ of every
    layer (`layer`: its "effectiveness" experiment), as the published script rounds.

    Args:
        importance: one score per head.
        shares: K shares between 0 and 1.
        scope: rank all heads of the model together, or those of each layer.
        descending: prune the most important first instead of the least.
        seed: of the permutation that breaks ties: one for all examples, whose order is one, unless `uids` are given.
        uids: of the examples, where each has an importance, and so a permutation, of its own.
    """
    n_examples, n_layers, n_heads = importance.shape
    groups = 1 if scope == "global" else n_layers
    scores = importance.reshape(n_examples * groups, -1)
    size = scores.shape[1]
    owners = [f"{uid} " for uid in uids] or [""]
    names = [f"{owner}layer {group}" for owner in owners for group in range(groups)]
    keys = ranks.tie_keys(names, size, seed).repeat(n_examples // len(owners), 1)
    order = ranks.descending_ranks(scores if descending else -scores, torch.ones_like(scores, dtype=torch.bool), keys)
    pruned = ranks.best(order, curves.counts(torch.full_like(order[:, 0], size), shares))
    return ~pruned.reshape(len(pruned), n_examples, n_layers, n_heads)


def pruned_logits(model: Classifier, batch: Batch, keep: Bool[Tensor, "K B L H"]) -> Float[Tensor, "K B C"]:
    """Logits when only the heads `keep` stay; equal masks of one example are run once."""
    heads = keep.shape[2:]

    def run(tensors: Mapping[str, Tensor], units: Tensor, mask: Tensor, example: Tensor) -> Tensor:
        return model.run(tensors, value_edits=[PruneHeads(mask.reshape(-1, *heads))]).logits

    return run_variants(model, batch, keep.flatten(2), run)


@configurable
class HeadPruning(Averaged):
    """Prune 0, 10 % … 100 % of the heads, least important first (`low_first`) or most important first (`high_first`).

    A pruned head's attention probabilities are multiplied by 0 after the softmax. Per direction, against the pruned
    share: top-1 accuracy, its gain over the smallest share, and the probability of the label. The smallest share is 0, the
    whole model; the gain's interval is of the paired difference. The area under the accuracy is the trapezoid over the
    shares, divided by their range. A good importance keeps accuracy when unimportant heads go and loses it when important
    heads go: `auc_difference` = area of low_first − area of high_first, higher is better. Examples without a label get no
    row.

    `Attribution.heads` is the importance. The runner averages it over the calibration examples and repeats it for every
    scored one. With `calibration=same` it averages over the scored examples themselves (the published script); with
    `calibration=each` every example is pruned in the order of its own importance, and nothing is averaged.

    Rows bear the number of their draw; draw 0 is that importance. Where it is one of several random orders
    (`Attribution.orders`), the others are draws 1, 2 …, and figures are means over examples and orders. Elsewhere the
    calibration examples are resampled with replacement. The rows under the importance of the resamples
    (`Attribution.resamples`) bear names that begin with "resampled". They are in no mean, but tell how far figures depend
    on these calibration examples. Intervals count both (`results.statistics.widened`), and so do comparisons with random
    orders.

    Attributes:
        target: the class that is explained; the published script takes the label's.
        scope: rank heads over the whole model or within every layer.
        fractions: increasing, within [0, 1].
        calibration: read by the runner; `Calibration`, a mapping with its fields, `same` or `each`.
        resamples: bootstrap resamples of the calibration examples; 0 for none, as always with `each`. Each costs as much
            again as the test itself, less what equal masks save.
        seed: of the resamples, and of the tie-breaking permutation: one for all examples, and with `each` one for each.
    """

    version: ClassVar[int] = 4  # 4: with calibration=each, ties are broken in each example by a permutation of its own
    reads: ClassVar[Reads] = "heads"

    target: TargetName = "label"
    scope: Scope = "global"
    fractions: Shares = PRUNED_SHARES
    calibration: Calibration | Mapping[str, Any] | Literal["same", "each"] = Calibration()
    resamples: Natural = 5
    seed: Natural = 0

    def __post_init__(self) -> None:
        if self.resamples == 1:
            raise SettingError("resamples", 1, "0, and whole numbers from 2")
        object.__setattr__(self, "calibration", checked_calibration(self.calibration))

    @property
    def about(self) -> About:
        """Pruning in the order of head scores shows whether they name what the model uses."""
        return About("faithfulness", 40, f"Head pruning{self._variant}")

    @property
    def _variant(self) -> str:
        each = ", each example's own order" if self.calibration == "each" else ""
        return f"{' within layers' if self.scope == 'layer' else ''}{each}"

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """Curves, areas and their difference."""
        of, axis, short = f"head pruning{self._variant}", "share of heads pruned", "layer " * (self.scope == "layer")
        metrics = {
            "auc_difference": higher(
                f"AUC gap of {of}",
                "mean accuracy with the least important heads pruned first, less that with the most important first",
                short=f"{short}pruning AUC gap",
                bounds=SIGNED,
                headline=True,
            )
        }
        for direction, better, first in (("low_first", higher, "least"), ("high_first", lower, "most")):
            order = f"the {first} important first"
            title, at_share = f"{of}, {first} important first", f"when this share of the heads is pruned, {order}"
            metrics[f"{direction}_auc"] = better(
                f"accuracy AUC, {title}",
                f"mean accuracy while growing shares of the heads are pruned, {order}",
                short=f"{short}pruning AUC, {first} imp. first",
            )
            for name in ("accuracy", "probability"):
                measured = name if name == "accuracy" else "probability of the label"
                metrics[f"{direction}_{name}"] = better(
                    f"{name}, {title}",
                    f"{measured} {at_share}",
                    short=f"{name}, {short}pruning, {first} important first",
                    x=axis,
                    headline=name == "accuracy",
                )
            metrics[f"{direction}_gain"] = better(
                f"change of accuracy, {title}",
                f"accuracy less that of the whole model {at_share}",
                bounds=SIGNED,
                x=axis,
            )
        return metrics

    def rows(self, model: Classifier, batch: Batch, attribution: Attribution) -> pd.DataFrame:
        """Curves and areas of each example; NotApplicable where the method scores no heads."""
        draws = _draws(attribution)
        importances = torch.cat([heads.to(model.device).expand(len(batch), -1, -1) for heads in draws.values()])
        uids = batch.uids if self.calibration == "each" else ()
        masks = [self._masks(heads, uids) for heads in importances.chunk(len(draws))]
        logits = pruned_logits(model, batch, torch.cat(masks)).transpose(0, 1)
        rows = Rows(batch.uids)
        for (prefix, _), logits_of_draw in zip(draws, logits.chunk(len(draws), dim=1), strict=True):
            self._add_curves(rows, model, batch, logits_of_draw, prefix)
        frame = rows.frame()
        return frame.assign(draw=np.repeat([number for _, number in draws], len(frame) // len(draws)))

    def divided(self, metrics: Sequence[str]) -> list[list[str]]:
        """Each metric with its rows of resampled orders."""
        return connected(metrics, [[name, RESAMPLED + name] for name in metrics])

    def reduce(self, rows: pd.DataFrame) -> list[Figure]:
        """Means over examples and orders; intervals count the errors of both, and of the calibration examples."""
        if "draw" not in rows or rows.empty:
            return super().reduce(rows)
        groups = rows.groupby(["metric", "x"], dropna=False, sort=False)
        parts = {(str(part["metric"].iloc[0]), _place(part["x"].iloc[0])): part for _, part in groups}
        means = []
        for (metric, _), part in parts.items():
            if metric in self.metrics:
                uids, values = matrix(part)
                x = part["x"].iloc[0]
                means.append(pd.DataFrame({"uid": uids, "metric": metric, "x": x, "value": values.mean(axis=1)}))
        figures = super().reduce(pd.concat(means, ignore_index=True))
        return [_widened(figure, parts, self.metrics[figure.metric].bounds) for figure in figures]

    def resampled(self, scores: Float[Tensor, "N L H"], aggregate: Aggregate) -> Float[Tensor, "R L H"] | None:
        """Importance from bootstrap resamples of the calibration examples; None where there are too few to resample."""
        if self.resamples < 2 or len(scores) < 2:
            return None
        resamples = np.random.default_rng(self.seed).integers(0, len(scores), size=(self.resamples, len(scores)))
        return torch.stack([aggregate(scores[rows]) for rows in resamples])

    def _masks(self, importance: Float[Tensor, "B L H"], uids: Sequence[str]) -> Bool[Tensor, "K B L H"]:
        """Which heads stay at each share, least important pruned first, then most important first."""
        return torch.cat(
            [
                pruning_masks(
                    importance, self.fractions, scope=self.scope, descending=descending, seed=self.seed, uids=uids
                )
                for descending in (False, True)
            ]
        )

    def _add_curves(
        self, rows: Rows, model: Classifier, batch: Batch, logits: Float[Tensor, "B K C"], prefix: str
    ) -> None:
        """Curves and areas of each example under one order; names begin with the prefix."""
        labelled, by_share = batch.label >= 0, logits.transpose(0, 1)
        correct = correctness(logits, batch.label.clamp(min=0)[:, None])
        probability = model.probability(by_share, ClassTarget(batch.label)).T.contiguous()
        areas = []
        for side, direction in enumerate(("low_first", "high_first")):
            at = slice(side * len(self.fractions), (side + 1) * len(self.fractions))
            areas.append(curves.area(correct[:, at], self.fractions))
            gain = correct[:, at] - correct[:, at.start : at.start + 1]
            for name, values in (("accuracy", correct[:, at]), ("probability", probability[:, at]), ("gain", gain)):
                rows.add(f"{prefix}{direction}_{name}", values, x=self.fractions, defined=labelled)
            rows.add(f"{prefix}{direction}_auc", areas[-1], defined=labelled)
        rows.add(f"{prefix}auc_difference", areas[0] - areas[1], defined=labelled)


def _draws(attribution: Attribution) -> dict[tuple[str, int], Tensor]:
    """Importance [·, L, H] by the prefix of its rows' metrics and the number of the draw; first the method's own."""
    if attribution.heads is None:
        raise NotApplicable("the method gives no head scores")
    importances = {("", 0): attribution.heads}
    for prefix, others in (("", attribution.orders), (RESAMPLED, attribution.resamples)):
        if others is not None:
            importances |= {(prefix, number): heads[None] for number, heads in enumerate(others, start=1)}
    return importances


def _place(x: float) -> float | None:
    return None if np.isnan(x) else float(x)


def _widened(
    figure: Figure, parts: Mapping[tuple[str, float | None], pd.DataFrame], bounds: tuple[float, float]
) -> Figure:
    """The figure with what orders and calibration examples add to its error; no interval reaches beyond the bounds."""
    place = _place(figure.x)
    values, resampled = parts[figure.metric, place], parts.get((RESAMPLED + figure.metric, place))
    alone = Interval(figure.value, figure.low, figure.high, figure.n)
    found = widened(alone, sources(values, resampled), bounds)
    return replace(figure, low=found.low, high=found.high)


def checked_calibration(value: Calibration | Mapping[str, Any] | str) -> Calibration | Literal["same", "each"]:
    """The setting as a `Calibration`, or a word; UserError where it is neither."""
    if isinstance(value, Calibration):
        return value
    if value in ("same", "each"):
        return cast(Literal["same", "each"], value)
    if isinstance(value, Mapping) and set(value) <= {"split", "limit"}:
        return Calibration(**{str(name): setting for name, setting in value.items()})
    raise UserError(f"evaluations.*.calibration={value}: allowed are same, each, or a mapping of split and limit")
