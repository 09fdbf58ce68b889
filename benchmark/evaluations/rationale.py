"""Agreement with human rationales (DeYoung et al. 2020, ERASER; Chefer 2021a; PROTOCOLS section 6)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import torch
from sklearn.metrics import average_precision_score

from benchmark.errors import UserError
from benchmark.evaluations import curves
from benchmark.evaluations.base import Averaged, Derived, table
from benchmark.evaluations.documents import Document, documents, matched_spans, precision_recall_area, spans
from benchmark.models.classifier import Classifier
from benchmark.statistics import f1_of_means, f1_of_sums
from benchmark.types import Attribution, Batch, Figure, Metric, Reads, Target
from benchmark.units import Pool

TOP = (10, 20, 30, 40, 50, 60, 70, 80)
HARD_SHARES = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)


@dataclass(frozen=True)
class Rationale(Averaged):
    """How well a method's best words are the rationale's.

    - `token_f1` at k = 10 … 80: the k best words against the rationale's; mean over examples of the example's F1
      (ERASER's macro), its mean over k (`token_f1_mean`), and `token_f1_micro`, F1 of the summed counts.
    - `auprc`: area under the precision-recall curve of the soft scores, mean over examples; `average_precision`.
    - `iou_f1`: spans (adjacent selected words merged) match where intersection over union ≥ 0.5. Precision is the share
      of predicted spans that match, recall the matching predicted spans over the rationale's spans, both averaged over
      examples, and F1 taken of the averages (ERASER's macro); `iou_f1_micro` of the sums. The selection takes the best
      ⌈s · n⌉ of an example's n words, for each share s (`iou_f1_at`), and the scalar is the one at `hard_share`:
      a number, or `task`, the s nearest to the mean share of words in the rationales of all scored examples, as ERASER
      chooses. `hard_token_f1` is the token F1 of the same selection. No span crosses from one document of an example to
      the next; the rationale's own adjacent spans are merged too.
    - `coverage`: share of the words that lie within the model's window; `truncated_rationale_share`: share of the
      rationale's words that do not. Those are never selected and count as missed everywhere.

    Words of a query are left out. Examples without a rationale word get no row. With fewer than k words within the
    window all of them are selected. Ties are broken by a permutation seeded by the example.

    Args:
        target: the class that is explained.
        pool: from the scores of a word's tokens to its own.
        clamp: set negative scores to 0 before ranking, where the method's protocol says so.
        top: the k, increasing.
        hard_shares: the s, increasing.
        hard_share: a number, or `task`.
        seed: of the permutations.
    """

    version: ClassVar[int] = 1
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
        """All of them lie between 0 and 1."""
        bounds, words, share = (0.0, 1.0), "words selected", "share of words selected"
        found = {
            name: Metric(higher_is_better=True, bounds=bounds, headline=True) for name in ("auprc", "token_f1_mean")
        }
        for name in ("average_precision", "iou_f1", "iou_f1_micro", "hard_token_f1"):
            found[name] = Metric(higher_is_better=True, bounds=bounds, headline=name == "iou_f1")
        for name in ("token_f1", "token_precision", "token_recall", "token_f1_micro"):
            found[name] = Metric(higher_is_better=True, bounds=bounds, x=words)
        for name in ("iou_f1_at", "iou_f1_micro_at", "hard_token_f1_at"):
            found[name] = Metric(higher_is_better=True, bounds=bounds, x=share)
        for name in ("hard_share", "rationale_share", "coverage", "truncated_rationale_share"):
            found[name] = Metric(higher_is_better=None, bounds=bounds)
        return found

    @property
    def derived(self) -> Mapping[str, Derived]:
        """F1 of sums and of means, from the counts of each example."""
        return {
            "token_f1_micro": Derived(("token_hits", "token_selected", "token_gold"), f1_of_sums, ("token_gold",)),
            "iou_f1_micro_at": Derived(("iou_matched", "iou_selected", "iou_gold"), f1_of_sums, ("iou_gold",)),
            "iou_f1_at": Derived(("iou_precision", "iou_recall"), f1_of_means, ranges=((0.0, 1.0), (0.0, 1.0))),
        }

    def rows(self, model: Classifier, batch: Batch, attribution: Attribution) -> pd.DataFrame:
        """Scores and counts of each example that has a rationale; NotApplicable where the method scores no tokens."""
        every = documents(batch, attribution, how=self.pool, clamp=self.clamp, seed=self.seed)
        found = {uid: document for uid, document in zip(batch.uids, every, strict=True) if document.gold.any()}
        if not found:
            return table((), "auprc", torch.zeros(0))
        frames = []
        for positions, scored in (
            (None, [_scalars(document) for document in found.values()]),
            (self.top, [_by_words(document, self.top) for document in found.values()]),
            (self._shares, [_by_share(document, self._shares) for document in found.values()]),
        ):
            for name in scored[0]:
                values = np.array([example[name] for example in scored], dtype=np.float64)
                frames.append(table(tuple(found), name, values, x=positions))
                if name == "token_f1":
                    frames.append(table(tuple(found), "token_f1_mean", values.mean(axis=1)))
        return pd.concat(frames, ignore_index=True)

    def reduce(self, rows: pd.DataFrame) -> list[Figure]:
        """Means, micro-averages, and the scalars of the hard selection."""
        figures = super().reduce(rows)
        share = next(f.value for f in figures if f.metric == "rationale_share")
        wanted = share if self.hard_share == "task" else float(self.hard_share)
        chosen = min(self._shares, key=lambda s: (abs(s - wanted), s))
        n = len(rows["uid"].unique())
        scalars = [
            Figure(f.metric.removesuffix("_at"), float("nan"), f.value, f.low, f.high, f.n)
            for f in figures
            if f.metric.endswith("_at") and f.x == chosen
        ]
        nan = float("nan")
        return [*figures, *scalars, Figure("hard_share", nan, chosen, nan, nan, n)]

    @property
    def _shares(self) -> tuple[float, ...]:
        extra = () if self.hard_share == "task" else (float(self.hard_share),)
        return tuple(sorted({*map(float, self.hard_shares), *extra}))


def _scalars(document: Document) -> dict[str, float]:
    """Scores of one example that need no selection."""
    gold, n = document.gold, len(document.gold)
    truncated = gold & (document.rank >= document.n_ranked)
    return {
        "auprc": precision_recall_area(gold, document.scores),
        "average_precision": float(average_precision_score(gold, document.scores)),
        "rationale_share": float(gold.mean()),
        "coverage": document.n_ranked / n,
        "truncated_rationale_share": float(truncated.sum() / gold.sum()),
        "token_gold": float(gold.sum()),
        "iou_gold": float(len(spans(gold, document.breaks))),
    }


def _by_words(document: Document, top: Sequence[int]) -> dict[str, list[float]]:
    return _columns([_token_scores(document, k) for k in top])


def _by_share(document: Document, shares: Sequence[float | int]) -> dict[str, list[float]]:
    counts = curves.counts(torch.tensor([len(document.gold)]), shares, "up")[:, 0].tolist()
    return _columns([_span_scores(document, count) for count in counts])


def _columns(records: Sequence[Mapping[str, float]]) -> dict[str, list[float]]:
    return {name: [record[name] for record in records] for name in records[0]}


def _token_scores(document: Document, k: int) -> dict[str, float]:
    """Counts, precision, recall and F1 of the k best words."""
    selected = document.selected(k)
    hits, n_selected, n_gold = (float(flags.sum()) for flags in (selected & document.gold, selected, document.gold))
    return {
        "token_hits": hits,
        "token_selected": n_selected,
        "token_precision": hits / n_selected if n_selected else 0.0,
        "token_recall": hits / n_gold,
        "token_f1": 2 * hits / (n_selected + n_gold),
    }


def _span_scores(document: Document, count: int) -> dict[str, float]:
    """Counts, precision and recall of the spans, and the token F1, of the `count` best words."""
    selected = document.selected(count)
    predicted, gold = spans(selected, document.breaks), spans(document.gold, document.breaks)
    matched = matched_spans(predicted, gold)
    return {
        "iou_matched": float(matched),
        "iou_selected": float(len(predicted)),
        "iou_precision": matched / len(predicted) if predicted else 0.0,
        "iou_recall": matched / len(gold),
        "hard_token_f1_at": _token_scores(document, count)["token_f1"],
    }
