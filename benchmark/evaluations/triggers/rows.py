"""Figures of each attacked example: drops in correctness, averaged over what was inserted into it."""

from collections.abc import Sequence

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from benchmark.evaluations.base import table
from benchmark.evaluations.triggers.attacks import Attack
from benchmark.types import Batch


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
