"""Figures of each attacked example: drops in correctness, averaged over what was inserted into it."""

from collections.abc import Mapping, Sequence

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from benchmark.evaluations.base import table
from benchmark.evaluations.triggers.attacks import Attack
from benchmark.results.record import Metric
from benchmark.types import Batch

_DROP = (-1.0, 1.0)
_FALL = "fall of accuracy when a method's triggers are inserted into texts"
_CURVES = {
    "position": Metric(
        None, _DROP, x="relative position", title="accuracy drop by position", meaning=f"{_FALL}, all at this position"
    ),
    "tau": Metric(
        None,
        _DROP,
        x="threshold",
        title="accuracy drop by threshold",
        meaning=f"{_FALL}, with triggers of this threshold",
    ),
    "pairs": Metric(
        None,
        _DROP,
        x="inserted pairs",
        title="accuracy drop by edges",
        meaning=f"{_FALL}, with triggers of so many attention edges",
    ),
}


def drop_metrics(curves: Sequence[str], *, of_source: bool) -> Mapping[str, Metric]:
    """What is declared of the figures of `rows_of_drops`.

    Args:
        curves: which of `position`, `tau` and `pairs` are varied.
        of_source: whether triggers attack texts of the class that they come from, too.
    """
    metrics = {
        "accuracy_drop": Metric(
            higher_is_better=True,
            bounds=_DROP,
            headline=True,
            title="accuracy drop by triggers",
            short="trigger drop",
            meaning=_FALL,
        ),
        "success": Metric(
            higher_is_better=True,
            bounds=(0.0, 1.0),
            title="success of triggers",
            short="trigger succ.",
            meaning="share of the correctly classified examples that the triggers turn",
        ),
        "advantage": Metric(
            higher_is_better=True,
            bounds=(-2.0, 2.0),
            title="accuracy drop over random words",
            short="over random",
            meaning="accuracy drop by triggers less that by random words at the same places",
        ),
        "random_drop": Metric(
            None,
            _DROP,
            title="accuracy drop by random words",
            short="random drop",
            meaning="fall of accuracy when random words are inserted at the same places",
        ),
        "matched_drop": Metric(
            None,
            _DROP,
            title="accuracy drop by words of equal frequency",
            short="matched drop",
            meaning="fall of accuracy when words of similar frequency are inserted at the same places",
        ),
        "accuracy_drop_class": Metric(
            None,
            _DROP,
            x="class of the attacked examples",
            title="accuracy drop by class",
            scale="class",
            meaning=f"{_FALL} of this class",
        ),
        "drop_of_trigger": Metric(
            None,
            _DROP,
            x="trigger",
            title="accuracy drop by trigger",
            meaning=f"{_FALL}, each by itself",
            scale="nominal",
        ),
        **{f"drop_{'of' if name == 'pairs' else 'at'}_{name}": _CURVES[name] for name in curves},
    }
    if of_source:
        for name, whose in (("own_class_drop", "the trigger's own class"), ("other_class_drop", "the other classes")):
            metrics[name] = Metric(None, _DROP, title=f"accuracy drop, {whose}", meaning=f"{_FALL} of {whose}")
    return metrics


def rows_of_drops(
    batch: Batch,
    attacks: Sequence[Attack],
    drops: Float[Tensor, "B P"],
    attacked: Bool[Tensor, "B P"],
    before: Float[Tensor, "B"],
    of_source: Bool[Tensor, "B K"] | None,
) -> pd.DataFrame:
    """One row per example and figure.

    Args:
        batch: the attacked examples.
        attacks: what was inserted; the first is the K triggers themselves.
        drops: of each insertion, in the order of the attacks.
        attacked: whether the insertion attacks the example.
        before: 1 where the example is classified correctly without an insertion, else 0.
        of_source: whether the example is of the class that the trigger comes from; None where no trigger attacks that.
    """
    frames, start = [], 0
    means: dict[str, tuple[Tensor, Tensor]] = {}
    for attack in attacks:
        at = slice(start, start + len(attack.inserted))
        start = at.stop
        mean, defined = _mean(drops[:, at], attacked[:, at])
        x = None if attack.x is None else [attack.x]
        frames.append(table(batch.uids, attack.metric, mean, x=x, defined=defined))
        means.setdefault(attack.metric, (mean, defined))
    real, defined = means["accuracy_drop"]
    frames.append(table(batch.uids, "success", real, defined=defined & (before != 0)))
    random, has_random = means["random_drop"]
    frames.append(table(batch.uids, "advantage", real - random, defined=defined & has_random))
    count = len(attacks[0].inserted)
    frames.append(table(batch.uids, "drop_of_trigger", drops[:, :count], x=range(count), defined=attacked[:, :count]))
    for metric, chosen in (
        () if of_source is None else (("own_class_drop", of_source), ("other_class_drop", ~of_source))
    ):
        mean, defined_of_class = _mean(drops[:, :count], attacked[:, :count] & chosen)
        frames.append(table(batch.uids, metric, mean, defined=defined_of_class))
    by_class = table(batch.uids, "accuracy_drop_class", real, defined=defined)
    classes = dict(zip(batch.uids, batch.label.tolist(), strict=True))
    frames.append(by_class.assign(x=by_class["uid"].map(classes).astype(float)))
    return pd.concat([frame for frame in frames if len(frame)] or frames[:1], ignore_index=True)


def _mean(drops: Float[Tensor, "B P"], attacked: Bool[Tensor, "B P"]) -> tuple[Float[Tensor, "B"], Bool[Tensor, "B"]]:
    """The mean over the triggers that attack, and whether there is any."""
    total = torch.where(attacked, drops, 0.0).sum(1)
    return total / attacked.sum(1).clamp(min=1), attacked.any(1)
