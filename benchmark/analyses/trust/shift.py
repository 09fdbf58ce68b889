"""How far do removals lead out of what the model knows? (docs/protocols.md, section 14)"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

from benchmark.analyses.base import Analysis
from benchmark.analyses.context import Context
from benchmark.analyses.measured import figure_line
from benchmark.analyses.resumed import Arrays
from benchmark.analyses.trust.columns import INVERTED, ORACLE, RANDOM
from benchmark.analyses.trust.strange import NATURAL, TRAINING, Strange, told_apart, verdict
from benchmark.errors import NotApplicable
from benchmark.evaluations import curves, ranks
from benchmark.evaluations.base import correctness, rated_units
from benchmark.models.history import told as told_masks
from benchmark.models.removal import OperatorName, operator_for
from benchmark.progress.spent import Spent
from benchmark.results.statistics import interval
from benchmark.results.tables import Table, frame, line
from benchmark.settings.declared import AtLeast, Count, Natural, Share, Shares, configurable
from benchmark.types import Batch, KnowsTruth
from benchmark.units import pool

AS_TRAINED, AS_NATURAL = "stranger, by hidden states, training-like", "stranger, by hidden states, natural"
LOGIT = "stranger, by the largest logit"
_SIGNED = (-1.0, 1.0)


def removals(
    batch: Batch, fractions: Sequence[float | int], seed: int, *, marked: bool
) -> Mapping[str, Bool[Tensor, "K B U"]]:
    """By order, what is removed at each share: ⌊f n⌋ of the n visible, rated units; `marked`: all have a rationale.

    Orders are called as the controls whose scores they follow.
    """
    _, visible = pool(torch.zeros(batch.units.shape, device=batch.units.device), batch.units)
    rated = rated_units(batch, visible)
    keys = ranks.tie_keys(batch.uids, visible.shape[1], seed)
    counts = curves.counts(rated.sum(1), fractions)
    marks = [np.zeros(0) if own is None else np.asarray(own, dtype=np.float64) for own in batch.rationale]
    scores = {RANDOM: torch.zeros(visible.shape, dtype=torch.float64, device=visible.device)}
    if marked:
        known = torch.zeros_like(scores[RANDOM])
        for b, own in enumerate(marks):
            known[b, : min(len(own), known.shape[1])] = torch.from_numpy(own[: known.shape[1]])
        scores |= {ORACLE: known, INVERTED: -known}
    return {name: ranks.best(ranks.descending_ranks(own, rated, keys), counts) for name, own in scores.items()}


@configurable
class Shift(Analysis):
    """How far does removing words or patches lead out of what the model knows?

    The states of held-out examples before and after a removal are held against those of training examples
    (`benchmark.models.typicality`): how often is an example stranger after the removal than a natural one (the area under
    the ROC curve)? .5: they cannot be told apart. Two references: natural training examples, and such as they were in
    training, masked where the model was trained with masks (`training.json` beside the checkpoint, or `mask_share`). The
    verdict is of hidden states against the second: *in distribution* where the upper end is at most .6, *out* where the
    lower end is at least .75. Against natural examples a model that was trained with masks looks as strange as any other.

    What it does not see: it reads the largest value of each dimension over an example's tokens, and so finds states that are
    new. In the test with a small BERT (an area below .65) reviews whose words are in a new order, or in new company, hardly
    look stranger than natural ones.

    The largest logit is shown as a contrast: it falls when evidence is removed, so that it cannot tell strangeness from
    lost evidence, and nothing is concluded from it. Where the task knows what causes an answer, the simplest figure needs no
    states: the accuracy that is lost when what does not count is removed.

    Attributes:
        operators: what removes, as the tests name it.
        fractions: shares of the units that are removed, in a random order, and where rationales are known with their units
            first and last.
        reference: training examples, the first that are not scored.
        mask_share: the largest share that was masked in training; None for what the checkpoint says.
        limit: how many of the scored examples are used.
        seed: of the random order, the reference's masks and the resamples.

    Source: Madsen et al. 2024, with the training-like reference of this project.
    Cost: reference + limit · operators · fractions · orders forward passes.
    """

    version: ClassVar[int] = 1

    operators: Sequence[OperatorName] = ("auto",)
    fractions: Shares = (0.2, 0.5, 0.9)
    reference: Annotated[int, AtLeast(8)] = 600
    mask_share: Share | None = None
    limit: Count | None = 200
    seed: Natural = 0

    def __call__(self, context: Context) -> Sequence[Table]:
        """The table; NotApplicable without a training split."""
        setting = context.setting.limited(self.limit)
        strange = Strange.of(setting, self.reference, self.mask_share, self.seed)

        marked = all(own is not None for batch in setting.data.batches for own in batch.rationale)

        def compute(batch: Batch) -> Arrays:
            found = _figures(batch, "whole", *strange.whole(batch))
            for operator in self.operators:
                made = operator_for(operator, setting.model, batch, "analyses.shift.operators")
                for order, masks in removals(batch, self.fractions, self.seed, marked=marked).items():
                    found |= _figures(batch, f"{operator} {order}", *strange.removed(batch, masks, made))
            return found

        arrays = self.by_example(context, setting, compute, "shift of removals").arrays
        if np.ptp(arrays[f"whole {TRAINING}"]) == 0:
            raise NotApplicable(
                "all examples are equally strange to the model: its states tell nothing of what is typical"
            )
        task = context.setting.task
        truth = isinstance(task, KnowsTruth) and task.rationale_is_truth
        return [self._table(arrays, strange, known=truth)]

    def foretold(self, spent: Spent, context: Context) -> float:
        """The reference, and every example after each removal."""
        removed = 3 * len(self.operators) * len(self.fractions)  # where rationales are known: first and last, too
        return spent.forward * (2 * self.reference + spent.used(self.limit) * (1 + removed))

    def _table(self, arrays: Arrays, strange: Strange, *, known: bool) -> Table:
        lines: list[dict[str, Any]] = []
        verdicts: dict[str, list[str]] = {}
        for operator in self.operators:
            for order in (RANDOM, ORACLE, INVERTED):
                if f"{operator} {order} logit" not in arrays:
                    continue
                for place, share in enumerate(self.fractions):
                    labels = {"operator": operator, "removed first": order, "share": share}
                    own = self._lines(arrays, labels, f"{operator} {order}", place, lost=known and order == INVERTED)
                    lines += own
                    said = next(one["note"] for one in own if one["metric"] == "so")
                    verdicts.setdefault(said, []).append(f"{operator}, {order} first, {share:g}")
        labels_of = ("operator", "removed first", "share")
        return Table(
            name="shift",
            title="How far removals lead out of what the model knows",
            labels=labels_of,
            rows=frame(lines, labels_of),
            sentences=(
                *(f"{said[0].upper()}{said[1:]}: {'; '.join(where)}." for said, where in verdicts.items()),
                f"{told_masks(strange.share).capitalize()}. A figure is the chance that an example is stranger after the "
                f"removal than a natural one, .5 where nothing tells them apart; {len(arrays['whole logit'])} held-out "
                f"examples, by the states of {self.reference} training examples at most. In distribution: the upper end by "
                "hidden states against the training-like reference is at most .6; out: the lower end is at least .75.",
                "The largest logit falls when evidence is removed: it is a contrast, from which nothing is concluded.",
            ),
        )

    def _lines(
        self, arrays: Arrays, labels: Mapping[str, Any], name: str, place: int, *, lost: bool
    ) -> list[dict[str, Any]]:
        def chance(kind: str) -> Any:
            told = f"{name} {kind} {labels['share']}"
            return told_apart(arrays[f"whole {kind}"][:, 0], [arrays[f"{name} {kind}"][:, place]], self.seed, told)

        training = chance(TRAINING)
        key = f"{labels['operator']}.{labels['removed first']}.{labels['share']:g}"
        found = [
            line(labels, "so", note=verdict(training), key=f"{key}.verdict"),
            figure_line(labels, AS_TRAINED, training, key=f"{key}.shift"),
            figure_line(labels, AS_NATURAL, chance(NATURAL)),
            figure_line(labels, LOGIT, chance("logit")),
        ]
        right = np.stack([arrays["whole right"][:, 0], arrays[f"{name} right"][:, place]], axis=1)
        right = right[np.isfinite(right).all(1)]
        if len(right):
            found.append(figure_line(labels, "accuracy", interval(right[:, 1], bounds=(0.0, 1.0))))
        if lost and len(right):
            loss = interval(right[:, 0] - right[:, 1], bounds=_SIGNED)
            found.append(figure_line(labels, "accuracy lost", loss, key=f"{key}.lost"))
        return found


def _figures(
    batch: Batch, name: str, told: Mapping[str, Float[NDArray[np.float64], "K B"]], logits: Float[Tensor, "K B C"]
) -> dict[str, NDArray[np.float64]]:
    """By name what is known of each example after K removals [B K]: strangeness, the logit, and whether it is right."""
    label = batch.label.to(logits.device)
    right = torch.where(label[:, None] >= 0, correctness(logits.double(), label).T, torch.nan)
    return {f"{name} {reference}": values.T for reference, values in told.items()} | {
        f"{name} logit": -logits.double().amax(-1).T.cpu().numpy(),
        f"{name} right": right.cpu().numpy(),
    }
