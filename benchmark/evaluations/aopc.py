"""Comprehensiveness and sufficiency (DeYoung et al. 2020, ERASER; docs/protocols.md, section 8)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from benchmark.evaluations import curves, ranks
from benchmark.evaluations.base import SIGNED, Averaged, Rows, higher, lower
from benchmark.evaluations.perturbation import rank_units
from benchmark.evaluations.rationale.documents import rationale_share
from benchmark.models.classifier import Classifier
from benchmark.models.removal import OperatorName, logits_without, operator_for
from benchmark.results.record import About, Metric
from benchmark.settings.declared import Natural, Share, Shares, configurable
from benchmark.targets import ClassTarget, Target, TargetName
from benchmark.types import Attribution, Batch, Reads
from benchmark.units import Pool

THRESHOLDS = (0.01, 0.05, 0.1, 0.2, 0.5)


@dataclass(frozen=True)
class Erasure:
    """Class probabilities of an input, without its best units, and with nothing but them, for each of Q shares.

    Attributes:
        whole: of the unperturbed input.
        without: after the best share of the units is removed.
        only: after all other rated units are removed.
        rated: whether the example has a rated unit at all.
        target: what is followed: the predicted class, or the contrast that is explained.
        hard: `without` and `only` [2 B C] at the task's mean rationale share, or None.

    With `target=log_probability` all of them hold logarithms of probabilities, of which none is 0.
    """

    whole: Float[Tensor, "B C"]
    without: Float[Tensor, "Q B C"]
    only: Float[Tensor, "Q B C"]
    rated: Bool[Tensor, "B"]
    target: Target
    hard: Float[Tensor, "2 B C"] | None = None

    def drops(self) -> tuple[Float[Tensor, "B Q"], Float[Tensor, "B Q"]]:
        """Comprehensiveness p(ŷ|x) − p(ŷ|without) and sufficiency p(ŷ|x) − p(ŷ|only) at each share."""
        return self._drop(self.without), self._drop(self.only)

    def hard_drops(self) -> tuple[Float[Tensor, "B 1"], ...]:
        """The same at the mean rationale share; nothing where that is not known."""
        return () if self.hard is None else tuple(self._drop(after[None]) for after in self.hard)

    def _drop(self, after: Float[Tensor, "Q B C"]) -> Float[Tensor, "B Q"]:
        return self.target.among(self.whole)[:, None] - self.target.among(after).T


@configurable
class Aopc(Averaged):
    """Comprehensiveness and sufficiency, averaged over the shares q (the area over the perturbation curve).

    comprehensiveness = mean_q p(ŷ|x) − p(ŷ|x without its best q), higher is better;
    sufficiency = mean_q p(ŷ|x) − p(ŷ|only the best q of x), lower is better; ŷ is the predicted class of x.
    The best q are ⌈q · n⌉ of the n visible, rated units, so at least one. Units of a query are never rated, and stay.

    Where all examples are ERASER's annotations, `comprehensiveness_hard` and `sufficiency_hard` are the two at a single q,
    the mean share of words in the rationales. ERASER's scorer calls these comprehensiveness and sufficiency, and those
    above their AOPC.

    Attributes:
        target: what is explained. Where it is a class, ŷ is the predicted one in any case; where it is a contrast, its
            probability stands in place of p(ŷ). With `log_probability` it is ln p of the annotated class, and the drops
            have no bound.
        operator: `auto`, or a name in `removal.OPERATORS`.
        fractions: the shares q, increasing.
        hard_share: the one q; None for the mean share of the annotations that are scored (`over`).
        pool: from the scores of a unit's tokens to its own.
        seed: of the tie-breaking permutations.
    """

    version: ClassVar[int] = 2
    reads: ClassVar[Reads] = "tokens"
    about: ClassVar[About] = About("faithfulness", 20, "Comprehensiveness and sufficiency")

    target: TargetName = "predicted"
    operator: OperatorName = "auto"
    fractions: Shares = THRESHOLDS
    hard_share: Share | None = None
    pool: Pool = "max"
    seed: Natural = 0

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """Both means, both by share, and both at the mean rationale share."""
        logarithm = self.target == "log_probability"
        followed = "annotated class's log-probability" if logarithm else "predicted class's probability"
        removed = f"drop of the {followed} when the best words or patches are removed"
        kept = f"drop of the {followed} when only the best words or patches are kept"
        some, this, marked = "mean over several shares", "at this share", "at the rationales' mean share"
        bounds = (-math.inf, math.inf) if logarithm else SIGNED
        more, less = partial(higher, bounds=bounds), partial(lower, bounds=bounds)
        unmarked = (
            "the length is that of annotated rationales, and not all examples are annotations of ERASER (task=eraser)"
        )
        return {
            "comprehensiveness": more("comprehensiveness", f"{removed}, {some}", short="compr.", headline=True),
            "sufficiency": less("sufficiency", f"{kept}, {some}", short="suff.", headline=True),
            "comprehensiveness_at": more("comprehensiveness", f"{removed}, {this}", x="share removed", headline=True),
            "sufficiency_at": less("sufficiency", f"{kept}, {this}", x="share kept", headline=True),
            "comprehensiveness_hard": more(
                "comprehensiveness, rationale length", f"{removed}, {marked}", short="compr. (rat.)", without=unmarked
            ),
            "sufficiency_hard": less(
                "sufficiency, rationale length", f"{kept}, {marked}", short="suff. (rat.)", without=unmarked
            ),
        }

    def alternatives(self, metric: str) -> Mapping[str, tuple[str, bool]]:
        """What else a mean could be of: the first half of the shares (`which_test`)."""
        return {"the first half of the shares": (f"{metric}_at", True)}

    def over(self, batches: Sequence[Batch]) -> "Aopc":
        """The same evaluation with the share of the annotations known, where all examples are annotations of ERASER."""
        share_given = self.hard_share is not None or not all(_are_annotations(batch) for batch in batches)
        return self if share_given else replace(self, hard_share=rationale_share(batches))

    def erase(self, model: Classifier, batch: Batch, attribution: Attribution) -> Erasure:
        """The probabilities that both measures compare; the ERASER export writes them out."""
        ranking = rank_units(batch, attribution, how=self.pool, seed=self.seed)
        operator = operator_for(self.operator, model, batch, "evaluations.aopc.operator")
        hard_shares = [] if self.hard_share is None else [self.hard_share]
        top = ranks.best(ranking.ranks, curves.counts(ranking.n, [*self.fractions, *hard_shares], "up"))
        none_removed = torch.zeros_like(top[:1])
        removed = torch.cat([none_removed, top, ranking.rated[None] & ~top])
        logits = logits_without(model, batch, removed, operator)
        exact, q = logits.double(), len(self.fractions)
        probabilities = exact.log_softmax(-1) if self.target == "log_probability" else model.probabilities(exact)
        without, only = probabilities[1 : len(top) + 1], probabilities[len(top) + 1 :]
        hard_probabilities = torch.stack([without[-1], only[-1]]) if hard_shares else None
        predicted = ClassTarget(probabilities[0].argmax(-1))
        watched = predicted if isinstance(attribution.target, ClassTarget) else attribution.target
        return Erasure(probabilities[0], without[:q], only[:q], ranking.n > 0, watched, hard_probabilities)

    def rows(self, model: Classifier, batch: Batch, attribution: Attribution) -> pd.DataFrame:
        """Both measures of each example; NotApplicable where the method scores no tokens.

        Annotations of ERASER also get rows of the probabilities themselves, which their export writes out.
        """
        erasure = self.erase(model, batch, attribution)
        rows = Rows(batch.uids)
        for name, values in zip(("comprehensiveness", "sufficiency"), erasure.drops(), strict=True):
            rows.add(name, values.mean(1), defined=erasure.rated)
            rows.add(f"{name}_at", values, x=self.fractions, defined=erasure.rated)
        for name, values in zip(("comprehensiveness", "sufficiency"), erasure.hard_drops(), strict=False):
            rows.add(f"{name}_hard", values, defined=erasure.rated)
        if _are_annotations(batch) and self.target != "log_probability":
            _add_probabilities(rows, erasure, self.fractions)
        return rows.frame()


def _are_annotations(batch: Batch) -> bool:
    return all("annotation_id" in meta for meta in batch.meta)


def _add_probabilities(rows: Rows, erasure: Erasure, shares: Sequence[float | int]) -> None:
    """Rows `whole:<class>`, and `without:<class>` and `only:<class>` at each share; `stored_erasure` reads them.

    Those at the mean rationale share begin with `hard_`.
    """
    for c in range(erasure.whole.shape[1]):
        rows.add(f"whole:{c}", erasure.whole[:, c])
        for name, values in (("without", erasure.without), ("only", erasure.only)):
            rows.add(f"{name}:{c}", values[:, :, c].T, x=shares)
        for name, after in zip(("without", "only"), erasure.hard if erasure.hard is not None else (), strict=False):
            rows.add(f"hard_{name}:{c}", after[:, c])


def stored_erasure(
    rows: pd.DataFrame, uids: Sequence[str], shares: Sequence[float | int], n_classes: int
) -> Erasure | None:
    """What `erase` gave for these examples, from the rows of all; None where the rows do not hold it."""
    values = rows.set_index(["metric", "x", "uid"])["value"]

    def column(name: str, x: float = float("nan")) -> Tensor:
        parts = [values.reindex([(f"{name}:{c}", x, uid) for uid in uids]) for c in range(n_classes)]
        return torch.stack([torch.from_numpy(part.to_numpy(dtype="float64", copy=True)) for part in parts], dim=-1)

    whole, hard = column("whole"), torch.stack([column("hard_without"), column("hard_only")])
    without, only = (torch.stack([column(name, float(q)) for q in shares]) for name in ("without", "only"))
    if any(bool(part.isnan().any()) for part in (whole, without, only, hard)):
        return None
    return Erasure(whole, without, only, torch.ones(len(uids), dtype=torch.bool), ClassTarget(whole.argmax(-1)), hard)
