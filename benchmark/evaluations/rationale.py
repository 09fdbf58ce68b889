"""Agreement with human rationales (DeYoung et al. 2020, ERASER; Chefer 2021a; PROTOCOLS section 6)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch

from benchmark.errors import NotApplicable, UserError
from benchmark.evaluations import curves
from benchmark.evaluations import rationale_scores as scores
from benchmark.evaluations.base import Averaged, Column, Derived, derived_figures, table
from benchmark.evaluations.documents import documents, rationale_share, rationales
from benchmark.models.classifier import Classifier
from benchmark.types import Attribution, Batch, Figure, Metric, Reads, Target
from benchmark.units import Pool

TOP = (10, 20, 30, 40, 50, 60, 70, 80)
HARD_SHARES = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)

WEIGHTS: Mapping[str, str] = {
    "auprc": "documents",
    "auprc_marked": "marked_documents",
    "unmarked_documents": "documents",
    "average_precision": "mixed_documents",
    "token_f1": "token_documents",
    "token_precision": "token_documents",
    "token_recall": "token_documents",
    "hard_token_f1": "hard_token_documents",
    "hard_token_f1_at": "token_documents_at",
}
"""Means over documents, and the column that says how many of an example's documents each is a mean of."""


@dataclass(frozen=True)
class Rationale(Averaged):
    """How well a method's best words are the rationale's, by the rules of ERASER's scorer.

    Words are selected among all those of an example. What is selected is scored document by document, where an example
    has several, and means are over all documents of all examples ("macro"); sums are over all of them too ("micro").

    - `token_f1` at k = 10 … 80: the k best words against the rationale's; mean of the documents' F1, its mean over k
      (`token_f1_mean`), and `token_f1_micro`, F1 of the summed counts. A document counts where it has a rationale word
      or a selected one.
    - `auprc`: area under the precision-recall curve of the soft scores, mean over all documents; one without a rationale
      word counts as 1/2, whatever the scores (`documents.precision_recall_area`). `auprc_marked` leaves those out;
      `average_precision` also those that are rationale throughout.
    - `iou_f1`: spans match where intersection over union ≥ 0.5. Predicted spans are maximal runs of selected words
      within a document; the rationale's are the annotated ones, adjacent ones apart and empty ones included (these match
      nothing), or the maximal runs of its words where the task names no spans. Precision is the share of predicted
      spans that match, its mean over the documents with a predicted span; recall the matching predicted spans over the
      annotated ones, its mean over the documents with an annotated span; F1 is taken of the two means.
      `iou_f1_micro` is the F1 of the sums.
    - `hard_token_f1`: the token F1 of the selection that `iou_f1` is taken of. It holds the best ⌈s · n⌉ of an example's
      n words. s is `hard_share`: a number, or `task`, the mean over the examples of the share of words in the rationale
      (`rationale_share`), exactly. ERASER's paper sets s so for each data set, on which split it does not say; here
      it is that of the scored examples, and the export (`eraser_export`) uses the same one. `iou_f1_at`,
      `iou_f1_micro_at` and `hard_token_f1_at` are the same at each of `hard_shares`.
    - `documents`: their number per example; `unmarked_documents`: share of all documents without a rationale word.
      `coverage`: share of the words that lie within the model's window; `truncated_rationale_share`: share of the
      rationale's words that do not. Those are never selected and count as missed everywhere.

    Words of a query are left out. Examples that are not annotated get no row; one whose annotation marks no word is
    scored as any other. With fewer than k words within the window all of them are selected. Ties are broken by a
    permutation seeded by the example.

    Args:
        target: the class that is explained.
        pool: from the scores of a word's tokens to its own.
        clamp: set negative scores to 0 before ranking, where the method's protocol says so.
        top: the k, increasing.
        hard_shares: shares of the curves, increasing.
        hard_share: a number, or `task`. `task` is that of the batch where `rows` is called without `over`.
        seed: of the permutations.
    """

    version: ClassVar[int] = 2
    reads: ClassVar[Reads] = "tokens"
    nothing: ClassVar[str] = "no example has a rationale"

    target: Target = "predicted"
    pool: Pool = "max"
    clamp: bool = False
    top: Sequence[int] = TOP
    hard_shares: Sequence[float | int] = HARD_SHARES
    hard_share: float | int | str = "task"
    seed: int = 0

    def __post_init__(self) -> None:
        shares = curves.check_fractions(self.hard_shares, "evaluations.rationale.hard_shares")
        object.__setattr__(self, "hard_shares", shares)
        object.__setattr__(self, "top", tuple(self.top))
        if not self.top or any(k < 1 for k in self.top):
            raise UserError(f"evaluations.rationale.top={list(self.top)}: allowed are positive numbers of words")
        if self.hard_share != "task":
            try:
                share = float(self.hard_share)
            except ValueError:
                share = -1.0
            curves.check_fractions([share], "evaluations.rationale.hard_share (a number, or task)")

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """All but the number of documents lie between 0 and 1."""
        bounds, words, share = (0.0, 1.0), "words selected", "share of words selected"
        found = {
            name: Metric(higher_is_better=True, bounds=bounds, headline=True) for name in ("auprc", "token_f1_mean")
        }
        for name in ("auprc_marked", "average_precision", "iou_f1", "iou_f1_micro", "hard_token_f1"):
            found[name] = Metric(higher_is_better=True, bounds=bounds, headline=name == "iou_f1")
        for name in ("token_f1", "token_precision", "token_recall", "token_f1_micro"):
            found[name] = Metric(higher_is_better=True, bounds=bounds, x=words)
        for name in ("iou_f1_at", "iou_f1_micro_at", "hard_token_f1_at"):
            found[name] = Metric(higher_is_better=True, bounds=bounds, x=share)
        found["documents"] = Metric(higher_is_better=None, bounds=(1.0, np.inf))
        for name in ("unmarked_documents", "hard_share", "rationale_share", "coverage", "truncated_rationale_share"):
            found[name] = Metric(higher_is_better=None, bounds=bounds)
        return found

    @property
    def derived(self) -> Mapping[str, Derived]:
        """F1 of sums and of means, from the counts of each example."""
        macro = ("iou_precision", "predicted_documents", "iou_recall", "span_documents")
        return {
            "token_f1_micro": Derived(("token_hits", "token_selected", "token_gold"), _f1_of_sums, ("token_gold",)),
            "iou_f1_micro_at": Derived(("iou_matched", "iou_selected", "iou_gold"), _f1_of_sums, ("iou_gold",)),
            "iou_f1_at": Derived(macro, _f1_of_ratios, ("span_documents",)),
            "iou_f1_micro": Derived(("hard_iou_matched", "hard_iou_selected", "iou_gold"), _f1_of_sums),
            "iou_f1": Derived(
                ("hard_iou_precision", "hard_predicted_documents", "hard_iou_recall", "span_documents"), _f1_of_ratios
            ),
        }

    def over(self, batches: Sequence[Batch]) -> "Rationale":
        """The same evaluation with the `task`'s share known: the mean over all annotated examples of all batches.

        Raises:
            NotApplicable: no example is annotated.
        """
        if self.hard_share != "task":
            return self
        if (share := rationale_share(batches)) is None:
            raise NotApplicable(self.nothing)
        return replace(self, hard_share=share)

    def rows(self, model: Classifier, batch: Batch, attribution: Attribution) -> pd.DataFrame:
        """Scores and counts of each annotated example; NotApplicable where the method scores no tokens."""
        every = documents(batch, attribution, how=self.pool, clamp=self.clamp, seed=self.seed)
        wanted = rationales(batch)
        if not wanted:
            return table((), "auprc", torch.zeros(0))
        share = float(self.over([batch]).hard_share)
        found = {uid: part for uid, part in zip(batch.uids, every, strict=True) if uid in wanted}
        shares = [float(s) for s in self.hard_shares]
        frames = []
        for positions, score in (
            (None, lambda part: scores.scalars(part) | scores.at_share(part, share)),
            (self.top, lambda part: scores.by_words(part, self.top)),
            (shares, lambda part: scores.by_share(part, shares)),
        ):
            frames += _frames(found, positions, score)
        return pd.concat(frames, ignore_index=True)

    def reduce(self, rows: pd.DataFrame) -> list[Figure]:
        """Means over documents, micro-averages, and the share of the hard selection.

        Raises:
            NotApplicable: there is no row, or no annotation marks a word.
            ValueError: the rows' hard selections are of different shares.
        """
        if rows.empty or not rows.loc[rows["metric"] == "token_gold", "value"].any():
            raise NotApplicable(self.nothing)
        of_share = rows["metric"] == "hard_share"
        if len(share := rows.loc[of_share, "value"].unique()) > 1:
            raise ValueError(f"hard selections of {len(share)} different shares: take rows of `over(all batches)`")
        rows = rows[~of_share]
        nan, n = float("nan"), rows["uid"].nunique()
        figures = [*super().reduce(rows), Figure("hard_share", nan, float(share[0]), nan, nan, n)]
        if (rows.loc[rows["metric"] == "documents", "value"] > 1).any():
            over = derived_figures(rows_with_sums(rows), self._over_documents)
            figures = [figure for figure in figures if figure.metric not in self._over_documents]
            figures += [figure for figure in over if not np.isnan(figure.value)]  # NaN: no document counts
        return self.ordered(figures)

    @property
    def _over_documents(self) -> Mapping[str, Derived]:
        """Means over all documents; where every example has one, they are the means over examples."""
        found = {name: Derived((f"{name}_sum", weight), _ratio) for name, weight in WEIGHTS.items()}
        sums, counts = ([(name, float(k)) for k in self.top] for name in ("token_f1_sum", "token_documents"))
        return found | {"token_f1_mean": Derived((*sums, *counts), _mean_of_ratios)}


def _frames(
    found: Mapping[str, Any], positions: Sequence[float | int] | None, score: Callable[[Any], Mapping[str, Any]]
) -> list[pd.DataFrame]:
    """Rows of all columns that `score` gives; what is undefined for an example gets none."""
    scored = [score(part) for part in found.values()]
    frames = []
    for name in scored[0]:
        values = np.array([example[name] for example in scored], dtype=np.float64)
        frames.append(table(tuple(found), name, values, x=positions, defined=~np.isnan(values)))
        if name == "token_f1":  # undefined at every k or at none
            mean = values.mean(axis=1)
            frames.append(table(tuple(found), "token_f1_mean", mean, defined=~np.isnan(mean)))
    return frames


def rows_with_sums(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows, and for each mean over an example's documents the sum over them, as `<name>_sum`."""
    sums = []
    for name, weight in WEIGHTS.items():
        counted, mean = rows[rows["metric"] == weight], rows[rows["metric"] == name]
        both = counted.merge(mean[["uid", "x", "value"]], on=["uid", "x"], how="left", suffixes=("", "_mean"))
        value = (both["value"] * both["value_mean"]).fillna(0.0)
        sums.append(pd.DataFrame({"uid": both["uid"], "metric": f"{name}_sum", "x": both["x"], "value": value}))
    return pd.concat([rows, *sums], ignore_index=True)


def _ratio(means: Column) -> Column:
    """Mean over documents, from means over examples of [sum over documents, documents]; NaN without a document."""
    n = means[..., 1]
    found: Column = np.where(n > 0, means[..., 0] / np.where(n > 0, n, 1.0), np.nan)
    return found


def _mean_of_ratios(means: Column) -> Column:
    """Mean over k of the ratios of [sums at each k, documents at each k]."""
    sums, counts = np.split(means, 2, axis=-1)
    found: Column = _ratio(np.stack([sums, counts], axis=-1)).mean(axis=-1)
    return found


def _f1_of_sums(means: Column) -> Column:
    """2 · matched / (selected + gold), from means of [matched, selected, gold]."""
    total = means[..., 1] + means[..., 2]
    found: Column = np.where(total > 0, 2 * means[..., 0] / np.where(total > 0, total, 1.0), 0.0)
    return found


def _f1_of_ratios(means: Column) -> Column:
    """F1 of mean precision and mean recall, from means of [precision sum, its documents, recall sum, its documents]."""
    parts = [np.nan_to_num(_ratio(means[..., i : i + 2])) for i in (0, 2)]
    total = parts[0] + parts[1]
    found: Column = np.where(total > 0, 2 * parts[0] * parts[1] / np.where(total > 0, total, 1.0), 0.0)
    return found
