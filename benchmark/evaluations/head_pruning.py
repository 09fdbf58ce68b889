"""Accuracy against the share of pruned attention heads (Hao 2021; Michel 2019; PROTOCOLS section 4)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from benchmark.errors import NotApplicable, UserError
from benchmark.evaluations import curves, ranks
from benchmark.evaluations.base import Averaged, table
from benchmark.identity import costs_only
from benchmark.models.attention import PruneHeads
from benchmark.models.classifier import Classifier
from benchmark.models.expansion import Variants, check_budget, run_variants
from benchmark.types import Attribution, Batch, Metric, Reads, Target

Scope = Literal["global", "layer"]
SHARES = tuple(k / 10 for k in range(11))


@dataclass(frozen=True)
class Calibration:
    """Where head importance comes from: the mean over the first `examples` of a split that is not scored."""

    split: str = "validation"
    examples: int = 100

    def __post_init__(self) -> None:
        if self.examples < 1:
            raise UserError(f"evaluations.*.calibration.examples={self.examples}: allowed are positive numbers")


def pruning_masks(
    importance: Float[Tensor, "B L H"],
    shares: Sequence[float | int],
    *,
    scope: Scope = "global",
    descending: bool = False,
    seed: int = 0,
) -> Bool[Tensor, "K B L H"]:
    """Which heads stay (True) when a share of them is pruned in the order of importance.

    ⌊share · L·H⌋ heads of the model are pruned (`global`: the paper's "pruning" experiment), or ⌊share · H⌋ of every
    layer (`layer`: its "effectiveness" experiment), as the published script rounds.

    Args:
        importance: one score per head.
        shares: K shares between 0 and 1.
        scope: rank all heads of the model together, or those of each layer.
        descending: prune the most important first instead of the least.
        seed: of the permutation that breaks ties, the same for all examples.
    """
    n_examples, n_layers, n_heads = importance.shape
    groups = 1 if scope == "global" else n_layers
    scores = importance.reshape(n_examples * groups, -1)
    size = scores.shape[1]
    keys = torch.cat([ranks.tie_keys([f"layer {group}"], size, seed) for group in range(groups)]).repeat(n_examples, 1)
    order = ranks.descending_ranks(scores if descending else -scores, torch.ones_like(scores, dtype=torch.bool), keys)
    pruned = ranks.best(order, curves.counts(torch.full_like(order[:, 0], size), shares))
    return ~pruned.reshape(len(pruned), n_examples, n_layers, n_heads)


def pruned_logits(
    model: Classifier, batch: Batch, keep: Bool[Tensor, "K B L H"], *, max_tokens: int | None = None
) -> Float[Tensor, "K B C"]:
    """Logits when only the heads `keep` stay; equal masks of one example are run once."""
    heads = keep.shape[2:]

    def run(tensors: Mapping[str, Tensor], units: Tensor, mask: Tensor) -> Tensor:
        return model.run(tensors, edits=[PruneHeads(mask.reshape(-1, *heads))]).logits

    def lengths(variants: Variants) -> Int[Tensor, "N"]:
        return batch.attention_mask.sum(1)[variants.example]

    return run_variants(model, batch, keep.flatten(2), run, lengths=lengths, max_tokens=max_tokens)


@dataclass(frozen=True)
class HeadPruning(Averaged):
    """Prune 0, 10 % … 100 % of the heads, least important first (`low_first`) or most important first (`high_first`).

    A pruned head's attention probabilities are multiplied by 0 after the softmax. Per direction, against the pruned
    share: top-1 accuracy, its gain over the smallest share (0: the whole model; the interval is of the paired difference,
    so that a rise is a rise), and the probability of the label; the area under the accuracy (trapezoid over the shares,
    divided by their range). A good importance keeps accuracy when unimportant heads go and loses it when important
    heads go: `auc_difference` = area of low_first − area of high_first, higher is better. Examples without a label get
    no row.

    `Attribution.heads` is the importance: the runner averages it over the calibration examples and repeats it for every
    scored one. With `calibration=same` the runner averages over the scored examples themselves (the published script);
    with `calibration=each` every example is pruned in the order of its own importance, and nothing is averaged.

    Args:
        target: the class that is explained; the published script takes the label's.
        scope: rank heads over the whole model or within every layer.
        shares: increasing, within [0, 1].
        calibration: read by the runner; `Calibration`, a mapping with its fields, `same` or `each`.
        seed: of the tie-breaking permutation.
        max_tokens: tokens of one forward pass; None for what suits the device.
    """

    version: ClassVar[int] = 2
    reads: ClassVar[Reads] = "heads"

    target: Target = "label"
    scope: Scope = "global"
    shares: Sequence[float | int] = SHARES
    calibration: Calibration | Mapping[str, Any] | str = Calibration()
    seed: int = 0
    max_tokens: int | None = costs_only(None)

    def __post_init__(self) -> None:
        object.__setattr__(self, "shares", curves.check_fractions(self.shares, "evaluations.head_pruning.shares"))
        if self.scope not in ("global", "layer"):
            raise UserError(f"evaluations.head_pruning.scope={self.scope}: allowed are global and layer")
        check_budget(self.max_tokens, "evaluations.head_pruning.max_tokens")
        object.__setattr__(self, "calibration", _calibration(self.calibration))

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """Curves, areas and their difference."""
        found = {"auc_difference": Metric(higher_is_better=True, bounds=(-1.0, 1.0), headline=True)}
        for direction, higher in (("low_first", True), ("high_first", False)):
            found[f"{direction}_auc"] = Metric(higher, (0.0, 1.0))
            for name in ("accuracy", "probability"):
                found[f"{direction}_{name}"] = Metric(higher, (0.0, 1.0), x="share of heads pruned")
            found[f"{direction}_gain"] = Metric(higher, (-1.0, 1.0), x="share of heads pruned")
        return found

    def rows(self, model: Classifier, batch: Batch, attribution: Attribution) -> pd.DataFrame:
        """Curves and areas of each example; NotApplicable where the method scores no heads."""
        if attribution.heads is None:
            raise NotApplicable("the method gives no head scores")
        importance = attribution.heads.to(model.device)
        directions = ("low_first", "high_first")
        keep = torch.cat(
            [
                pruning_masks(importance, self.shares, scope=self.scope, descending=d == "high_first", seed=self.seed)
                for d in directions
            ]
        )
        logits = pruned_logits(model, batch, keep, max_tokens=self.max_tokens).transpose(0, 1)
        known, column = batch.label >= 0, batch.label.clamp(min=0)[:, None]
        correct = (logits.argmax(-1) == column).double()
        correct = torch.where(logits.isnan().any(-1), torch.nan, correct)
        probability = logits.softmax(-1).gather(2, column[:, None].expand(-1, logits.shape[1], 1)).squeeze(2)
        frames, areas = [], []
        for part, direction in enumerate(directions):
            at = slice(part * len(self.shares), (part + 1) * len(self.shares))
            areas.append(curves.area(correct[:, at], self.shares))
            for name, values in (("accuracy", correct), ("probability", probability)):
                frames.append(table(batch.uids, f"{direction}_{name}", values[:, at], x=self.shares, defined=known))
            gain = correct[:, at] - correct[:, at.start : at.start + 1]
            frames.append(table(batch.uids, f"{direction}_gain", gain, x=self.shares, defined=known))
            frames.append(table(batch.uids, f"{direction}_auc", areas[-1], defined=known))
        frames.append(table(batch.uids, "auc_difference", areas[0] - areas[1], defined=known))
        return pd.concat(frames, ignore_index=True)


def _calibration(value: Calibration | Mapping[str, Any] | str) -> Calibration | Literal["same", "each"]:
    if isinstance(value, Calibration):
        return value
    if value in ("same", "each"):
        return cast(Literal["same", "each"], value)
    if isinstance(value, Mapping) and set(value) <= {"split", "examples"}:
        return Calibration(**{str(name): setting for name, setting in value.items()})
    raise UserError(f"evaluations.*.calibration={value}: allowed are same, each, or a mapping of split and examples")
