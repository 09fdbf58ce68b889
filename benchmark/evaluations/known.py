"""Does an explanation name what causes the answer, where that is known? (docs/protocols.md, section 8)"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float
from numpy.typing import NDArray

from benchmark.errors import NotApplicable
from benchmark.evaluations.base import Averaged, Rows, higher, lower, rated_units, token_scores
from benchmark.evaluations.edges import unpadded
from benchmark.evaluations.rationale.documents import average_precision
from benchmark.models.classifier import Classifier
from benchmark.models.written.truth import known_edges, known_heads
from benchmark.results.record import About, Metric
from benchmark.settings.declared import configurable
from benchmark.targets import TargetName
from benchmark.types import Attribution, Batch, Reads
from benchmark.units import Pool, pool

NOISE = 1e-4
"""Of the largest score and of 1: by less than this two scores do not differ. Written models are exact up to 10⁻⁶, and rules
of relevance up to a stabiliser that is some times as large."""

Scores = Float[NDArray, "N"]
Truth = Bool[NDArray, "N"]


def outcome(truth: Truth, scores: Scores, noise: float | None = None) -> tuple[float, float, float, float]:
    """Average precision, and whether the parts that count were found, missed, or others were taken for them.

    Found: each of them is above all others. Fooled: another one is above each of them. Missed: neither.

    Args:
        truth: which parts count; some do, and some do not.
        scores: of the parts.
        noise: by less than this two scores do not differ; None for `NOISE` of the largest and of 1.
    """
    step = NOISE * max(1.0, float(np.abs(scores).max())) if noise is None else noise
    rounded = np.round(scores / step)
    own, others = rounded[truth], rounded[~truth]
    found, fooled = own.min() > others.max(), others.max() > own.max()
    return average_precision(truth, rounded), float(found), float(not found and not fooled), float(fooled)


class Known(Averaged):
    """What the tests of known causes share: the four figures of each example."""

    version: ClassVar[int] = 1
    nothing: ClassVar[str] = "of no example it is known which parts cause the answer and which do not"
    parts_called: ClassVar[str]

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """Average precision, and shares of examples."""
        parts = self.parts_called
        return {
            "average_precision": higher(
                f"average precision of {parts}",
                f"mean precision at the {parts} that cause the answer, in the order of scores, and over all orders of equal "
                "ones",
                short="avg. prec.",
                headline=True,
            ),
            "found": higher(
                f"{parts} found",
                f"share of examples in which all {parts} that count are above all others",
                short="found",
            ),
            "missed": lower(
                f"{parts} missed",
                f"share of examples in which the {parts} that count are told from the others neither way",
                short="missed",
            ),
            "fooled": lower(
                f"fooled by other {parts}",
                f"share of examples in which another one is above all {parts} that count",
                short="fooled",
            ),
        }

    @abstractmethod
    def compared(
        self, model: Classifier, batch: Batch, attribution: Attribution
    ) -> Iterator[tuple[Truth, Scores] | None]:
        """Of each example which parts count, and their scores; None where that is not known."""

    def rows(self, model: Classifier, batch: Batch, attribution: Attribution) -> pd.DataFrame:
        """The four figures of each example; NotApplicable where the method scores no such parts, or none are known."""
        found = np.zeros((len(batch), 4))
        defined = np.zeros(len(batch), dtype=bool)
        for b, pair in enumerate(self.compared(model, batch, attribution)):
            if pair is not None and pair[0].any() and not pair[0].all():
                found[b], defined[b] = outcome(*pair), True
        rows = Rows(batch.uids)
        for name, values in zip(self.metrics, found.T, strict=True):
            rows.add(name, values, defined=defined)
        return rows.frame()


@configurable
class KnownWords(Known):
    """Of the rated words: those of the rationale, where that is known by construction, by their signed scores.

    Attributes:
        target: what is explained.
        pool: from the scores of a word's tokens to its own.
    """

    reads: ClassVar[Reads] = "tokens"
    about: ClassVar[About] = About("known causes", 10, "Words that are known to decide")
    parts_called: ClassVar[str] = "words"

    target: TargetName = "predicted"
    pool: Pool = "max"

    def compared(
        self, model: Classifier, batch: Batch, attribution: Attribution
    ) -> Iterator[tuple[Truth, Scores] | None]:
        """The rationale and the scores of the rated words."""
        scores, visible = pool(token_scores(batch, attribution), batch.units, self.pool)
        rated = rated_units(batch, visible).cpu().numpy()
        for own, counts, rationale in zip(scores.double().cpu().numpy(), rated, batch.rationale, strict=True):
            marks = None if rationale is None else np.asarray(rationale)[: len(counts)]
            places = np.flatnonzero(counts)
            yield None if marks is None else (marks[places].astype(bool), own[places])


@configurable
class KnownHeads(Known):
    """Of all heads: those that take part in the answer, by the size of their scores in each example (`|s|`).

    Of random orders each figure is the mean over those that there are.

    Attributes:
        target: what is explained.
        calibration: scores are those of each example by itself.
    """

    reads: ClassVar[Reads] = "heads"
    about: ClassVar[About] = About("known causes", 20, "Heads that are known to take part")
    parts_called: ClassVar[str] = "heads"
    target: TargetName = "predicted"
    calibration: Literal["each"] = "each"

    def compared(
        self, model: Classifier, batch: Batch, attribution: Attribution
    ) -> Iterator[tuple[Truth, Scores] | None]:
        """The heads of each example."""
        if attribution.heads is None:
            raise NotApplicable("the method does not score heads")
        known = known_heads(model, batch).flatten(1).numpy()
        yield from zip(known, attribution.heads.abs().double().cpu().flatten(1).numpy(), strict=True)

    def rows(self, model: Classifier, batch: Batch, attribution: Attribution) -> pd.DataFrame:
        """As of all parts."""
        first = super().rows(model, batch, attribution)
        if attribution.orders is None or first.empty:
            return first
        drawn = [
            super(KnownHeads, self).rows(model, batch, replace(attribution, heads=order.expand(len(batch), -1, -1)))
            for order in attribution.orders
        ]
        return first.assign(value=np.mean([frame["value"] for frame in (first, *drawn)], axis=0))


@configurable
class KnownEdges(Known):
    """Of all attention edges of all layers: those that carry something to the answer, by the size of their scores.

    Attributes:
        target: what is explained.
    """

    reads: ClassVar[Reads] = "edges"
    about: ClassVar[About] = About("known causes", 30, "Attention edges that are known to carry something")
    parts_called: ClassVar[str] = "edges"

    target: TargetName = "predicted"

    def compared(
        self, model: Classifier, batch: Batch, attribution: Attribution
    ) -> Iterator[tuple[Truth, Scores] | None]:
        """The edges between the tokens of each example."""
        known = known_edges(model, batch).numpy()
        for truth, scores in zip(known, unpadded(batch, attribution), strict=True):
            length = scores.shape[-1]
            yield truth[:, :length, :length].flatten(), np.abs(scores).flatten()
