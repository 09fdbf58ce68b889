"""Agreement with human rationales (DeYoung et al. 2020, ERASER; Chefer 2021a; docs/protocols.md, section 9)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import numpy as np
import pandas as pd

from benchmark.errors import NotApplicable
from benchmark.evaluations.base import SHARE, Averaged, Column, Derived, Rows, described, higher
from benchmark.evaluations.rationale import scores
from benchmark.evaluations.rationale.documents import documents, rationale_share, rationales
from benchmark.models.classifier import Classifier
from benchmark.results.record import About, Figure, Metric
from benchmark.results.statistics import f1_of_means, f1_of_ratios, f1_of_sums, mean_of_ratios, ratio
from benchmark.settings.declared import Count, Natural, Rising, Share, Shares, configurable
from benchmark.targets import TargetName
from benchmark.types import Attribution, Batch, Reads
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
"""Means over documents, and for each the column that counts the documents of an example that it is a mean of."""
COUNTS = {*WEIGHTS.values(), "predicted_documents", "hard_predicted_documents", "span_documents"} - {"documents"}
UNIT_RANGES = (SHARE, SHARE)

_AT_K = "of the k best words against the rationale's"
_SPANS = "spans that overlap by at least half, precision and recall as means over documents"
_SUMMED = "spans that overlap by at least half, counts summed over all documents"


@configurable
class Rationale(Averaged):
    """How well a method's best words are the rationale's, by the rules of ERASER's scorer.

    Words are selected among all those of an example. Where an example has several documents, the selection is scored
    document by document. Means are over all documents of all examples ("macro"), and so are sums ("micro").

    - `token_f1` at k = 10 … 80: the k best words against the rationale's; mean of the documents' F1, its mean over k
      (`token_f1_mean`), and `token_f1_micro`, F1 of the summed counts. A document counts where it has a rationale word
      or a selected one.
    - `average_precision`: mean precision at the rationale's words, of the documents with words in and out of it
      (`documents.average_precision`); words beyond the window come last.
    - `auprc`: area under the precision-recall curve of the soft scores by trapezoids, mean over all documents; one without a
      rationale word counts as 1/2, whatever the scores (`documents.precision_recall_area`). `auprc_marked` leaves those out.
      Both are ERASER's, for comparison with its papers: a map of equal scores has (1 + π)/2 there, above most explainers.
    - `iou_f1`: spans match where intersection over union ≥ 0.5. Predicted spans are maximal runs of selected words
      within a document. The rationale's spans are the annotated ones, adjacent ones apart and empty ones included (these
      match nothing); where the task names no spans, they are the maximal runs of its words. Precision is the share of
      predicted spans that match, as a mean over the documents with a predicted span. Recall is the number of matching
      predicted spans over that of annotated ones, as a mean over the documents with an annotated span. F1 is taken of the
      two means. `iou_f1_micro` is the F1 of the sums.
      Patches of an image have no spans, and no such figure: a run of them would go on at the other end of the next row.
    - `hard_token_f1`: the token F1 of the same selection. It holds the best ⌈s · n⌉ of an example's n words. s is
      `hard_share`: a number, or `task`, exactly the mean over the examples of the share of words in the rationale
      (`rationale_share`). ERASER's paper sets s in this way for each data set, but does not say on which split. Here it is
      that of the scored examples, and the export (`export`) uses the same one. `iou_f1_at`, `iou_f1_micro_at` and
      `hard_token_f1_at` are the same at each of `hard_shares`.
    - `documents`: their number per example; `unmarked_documents`: share of all documents without a rationale word.
      `coverage`: share of the words that lie within the model's window; `truncated_rationale_share`: share of the
      rationale's words that do not. Those are never selected and count as missed everywhere. A word that has no token
      wherever it stands, such as a zero-width space, is in neither share; in the rationale it counts as missed too.

    Words of a query are left out. Examples that are not annotated get no row; one whose annotation marks no word is
    scored as any other. With fewer than k words within the window all of them are selected.

    Equal scores have no order, and each figure but `auprc` is its expectation over all orders of them, so that a map of
    equal scores gets what random scores get on average. It is exact for what counts words. Spans are counted in 50 drawn
    orders where a selection parts the words of one score. That breaks runs, so that of spans the control `oracle`, whose
    scores are 0 and 1, is the most that can be had only where as many words are selected as the rationale has.

    Attributes:
        target: the class that is explained.
        pool: from the scores of a word's tokens to its own.
        clamp: set negative scores to 0 before ranking, where the method's protocol says so.
        top: the k, increasing.
        hard_shares: shares of the curves, increasing.
        hard_share: a number, or `task`. `task` is that of the batch where `rows` is called without `over`.
        seed: of the drawn orders of equal scores.
        even: whether every annotated example is one document with a rationale and a visible word. Means over documents are
            then means over examples, and rows hold them by example. Otherwise rows hold sums over an example's documents
            (`<name>_sum`) and the number of documents. None for what `over` finds.
    """

    version: ClassVar[int] = 4  # 4: words that are not rated are none outside the rationale
    reads: ClassVar[Reads] = "tokens"
    about: ClassVar[About] = About("plausibility", 10, "Agreement with human rationales")
    nothing: ClassVar[str] = "no example has a rationale"

    target: TargetName = "predicted"
    pool: Pool = "max"
    clamp: bool = False
    top: Annotated[Sequence[Count], Rising()] = TOP
    hard_shares: Shares = HARD_SHARES
    hard_share: Share | Literal["task"] = "task"
    seed: Natural = 0
    even: bool | None = None

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """All but the number of documents lie between 0 and 1."""
        at_k = partial(higher, x="words selected")
        at_share = partial(higher, x="share of words selected")
        return {
            "average_precision": higher(
                "average precision",
                "mean precision at the rationale's words in the order of scores, and over all orders of equal ones, of "
                "documents with words in and out of the rationale",
                short="avg. prec.",
                headline=True,
            ),
            "token_f1_mean": higher(
                "token F1, mean over k", f"token F1 {_AT_K}, mean over several k", short="token F1", headline=True
            ),
            "auprc": higher(
                "AUPRC",
                "area under the precision-recall curve by trapezoids, as ERASER's scorer has it; scores that are all equal "
                "have (1 + π) / 2 there, π the share of words in the rationale, more than random ones",
                short="AUPRC",
            ),
            "auprc_marked": higher(
                "AUPRC, documents with a rationale",
                "AUPRC over the documents that have a rationale word; scores that are all equal have (1 + π) / 2",
                short="AUPRC (marked)",
            ),
            "iou_f1": higher("IoU F1", f"F1 of selected and annotated {_SPANS}", short="IoU F1", headline=True),
            "iou_f1_micro": higher("IoU F1, micro", f"F1 of selected and annotated {_SUMMED}", short="IoU F1 (micro)"),
            "hard_token_f1": higher(
                "token F1 at rationale length",
                "token F1 of as many best words as the task's rationales hold on average",
                short="token F1 (rat.)",
            ),
            "token_f1": at_k("token F1", f"token F1 {_AT_K}", headline=True),
            "token_precision": at_k("token precision", f"token precision {_AT_K}"),
            "token_recall": at_k("token recall", f"token recall {_AT_K}"),
            "token_f1_micro": at_k("token F1, micro", f"token F1 {_AT_K}, counts summed over all documents"),
            "iou_f1_at": at_share("IoU F1", f"F1 of selected and annotated {_SPANS}"),
            "iou_f1_micro_at": at_share("IoU F1, micro", f"F1 of selected and annotated {_SUMMED}"),
            "hard_token_f1_at": at_share("token F1 by share", "token F1 of this share of best words"),
            "documents": described(
                "documents per example", "number of documents that an example has", bounds=(1.0, np.inf)
            ),
            "unmarked_documents": described(
                "documents without a rationale", "share of all documents that have no rationale word"
            ),
            "hard_share": described(
                "share of words selected", "share of an example's words that the one selection holds"
            ),
            "rationale_share": described(
                "share of words in the rationale", "share of an example's words in its rationale"
            ),
            "coverage": described("words within the window", "share of the words that the model sees"),
            "truncated_rationale_share": described(
                "rationale beyond the window", "share of the rationale's words that the model does not see"
            ),
        }

    @property
    def derived(self) -> Mapping[str, Derived]:
        """F1 of sums and of means, from the counts of each example."""
        derived = {
            "token_f1_micro": Derived(("token_hits", "token_selected", "token_gold"), f1_of_sums, ("token_gold",)),
            "iou_f1_micro_at": Derived(("iou_matched", "iou_selected", "iou_gold"), f1_of_sums, ("iou_gold",)),
            "iou_f1_micro": Derived(("hard_iou_matched", "hard_iou_selected", "iou_gold"), f1_of_sums),
        }
        if self.even:
            return derived | {
                "iou_f1_at": Derived(("iou_precision", "iou_recall"), f1_of_means, ranges=UNIT_RANGES),
                "iou_f1": Derived(("hard_iou_precision", "hard_iou_recall"), f1_of_means, ranges=UNIT_RANGES),
            }
        derived |= {name: Derived((f"{name}_sum", weight), ratio) for name, weight in WEIGHTS.items()}
        sums, counts = ([(name, float(k)) for k in self.top] for name in ("token_f1_sum", "token_documents"))
        macro = ("iou_precision", "predicted_documents", "iou_recall", "span_documents")
        hard = ("hard_iou_precision", "hard_predicted_documents", "hard_iou_recall", "span_documents")
        return derived | {
            "token_f1_mean": Derived((*sums, *counts), mean_of_ratios),
            "iou_f1_at": Derived(macro, f1_of_ratios, ("span_documents",)),
            "iou_f1": Derived(hard, f1_of_ratios),
        }

    def over(self, batches: Sequence[Batch]) -> "Rationale":
        """The same evaluation that knows the `task`'s share, the mean over all annotated examples of all batches.

        Raises:
            NotApplicable: no example is annotated.
        """
        if (share := rationale_share(batches)) is None:
            raise NotApplicable(self.nothing)
        chosen = share if self.hard_share == "task" else self.hard_share
        scoped = replace(self, hard_share=chosen, even=all(is_even(batch) for batch in batches))
        if any(batch.patch is None for batch in batches):
            return scoped
        return _RationaleOfPatches(**{part.name: getattr(scoped, part.name) for part in fields(scoped)})

    def rows(self, model: Classifier, batch: Batch, attribution: Attribution) -> pd.DataFrame:
        """Scores and counts of each annotated example; NotApplicable where the method scores no tokens."""
        documents_of_batch = documents(batch, attribution, how=self.pool, clamp=self.clamp, seed=self.seed)
        annotated = rationales(batch)
        if not annotated:
            return Rows(()).frame()
        evaluation = self if self.even is not None else self.over([batch])
        documents_of = {uid: part for uid, part in zip(batch.uids, documents_of_batch, strict=True) if uid in annotated}
        share, shares = float(evaluation.hard_share), [float(s) for s in self.hard_shares]
        rows = Rows(tuple(documents_of))
        for positions, score in (
            (None, lambda part: scores.scalars(part) | scores.at_share(part, share)),
            (self.top, lambda part: scores.by_words(part, self.top)),
            (shares, lambda part: scores.by_share(part, shares)),
        ):
            (_add_by_example if evaluation.even else _add_sums)(rows, _columns(documents_of, score), positions)
        frame = rows.frame()
        return frame if batch.patch is None else frame[~frame["metric"].isin(scores.OF_SPANS)].reset_index(drop=True)

    def reduce(self, rows: pd.DataFrame) -> list[Figure]:
        """Means over documents, micro-averages, and the share of the hard selection.

        Raises:
            NotApplicable: there is no row, or no annotation marks a word.
            ValueError: the rows' hard selections are of different shares, or only some hold sums.
        """
        if rows.empty:
            raise NotApplicable(self.nothing)
        if not rows.loc[rows["metric"] == "token_gold", "value"].any():
            raise NotApplicable("no rationale marks a word: all are empty")
        of_share, kinds = rows["metric"] == "hard_share", rows["metric"].isin(["auprc", "auprc_sum"])
        if len(share := rows.loc[of_share, "value"].unique()) > 1:
            raise ValueError(f"hard selections of {len(share)} different shares: take rows of `over(all batches)`")
        if len(kind := rows.loc[kinds, "metric"].unique()) > 1:
            raise ValueError("some rows are by example and some are sums: take rows of `over(all batches)`")
        figures = super(Rationale, replace(self, even=kind[0] == "auprc")).reduce(rows[~of_share])
        nan, n = float("nan"), rows["uid"].nunique()
        defined = [figure for figure in figures if not np.isnan(figure.value)]  # NaN: no document counts
        return [*defined, Figure("hard_share", nan, float(share[0]), nan, nan, n)]


class _RationaleOfPatches(Rationale):
    """The same without figures of spans."""

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """Those of single patches."""
        return _without_spans(super().metrics)

    @property
    def derived(self) -> Mapping[str, Derived]:
        """Those of single patches."""
        return _without_spans(super().derived)


Said = TypeVar("Said")


def _without_spans(named: Mapping[str, Said]) -> dict[str, Said]:
    return {name: said for name, said in named.items() if not name.startswith("iou_f1")}


Score = Callable[[Any], Mapping[str, Any]]


def is_even(batch: Batch) -> bool:
    """Whether every annotated example is a single document with a rationale word and a rated word in the window."""
    last = batch.units.amax(dim=1).tolist()
    gold = rationales(batch)
    return all(
        len(batch.meta[b].get("document_lengths", (1,))) == 1 and gold[uid].any() and last[b] >= batch.query_units[b]
        for b, uid in enumerate(batch.uids)
        if uid in gold
    )


def _columns(documents_of: Mapping[str, Any], score: Score) -> dict[str, Column]:
    scored = [score(part) for part in documents_of.values()]
    return {name: np.array([example[name] for example in scored], dtype=np.float64) for name in scored[0]}


def _add_by_example(rows: Rows, columns: Mapping[str, Column], positions: Sequence[float | int] | None) -> None:
    """Rows of all columns but those that count documents; what is undefined for an example gets none."""
    if "token_f1" in columns:
        rows.add("token_f1_mean", columns["token_f1"].mean(axis=1))
    for name, values in columns.items():
        if name not in COUNTS:
            rows.add(name, values, x=positions, defined=~np.isnan(values))


def _add_sums(rows: Rows, columns: Mapping[str, Column], positions: Sequence[float | int] | None) -> None:
    """Rows of all columns, the means over documents as sums."""
    for name, values in columns.items():
        if name in WEIGHTS:
            rows.add(f"{name}_sum", np.nan_to_num(values) * columns[WEIGHTS[name]], x=positions)
        else:
            rows.add(name, values, x=positions, defined=~np.isnan(values))
