"""Does a method name the attention sink? The share of attention on the first token, and the words that methods call best.

Defined in docs/protocols.md, section 17.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmark.analyses.base import Analysis
from benchmark.analyses.context import Context
from benchmark.analyses.debate.word_scores import word_scores
from benchmark.analyses.measured import figure_line
from benchmark.analyses.patterns.attention_patterns import pattern_arrays
from benchmark.analyses.patterns.pattern_sums import PATTERNS, SINK
from benchmark.analyses.resumed import Arrays
from benchmark.errors import NotApplicable
from benchmark.results import statistics
from benchmark.results.control_names import CONTROLS
from benchmark.results.statistics import Interval
from benchmark.results.tables import Drawing, Table
from benchmark.results.wording import bounds, number
from benchmark.settings.declared import Count, configurable
from benchmark.targets import TargetName
from benchmark.types import Batch
from benchmark.units import Pool

FIRST, LAST = "best word is the first", "best word is the last"
_HALF, _SHARE = 0.5, (0.0, 1.0)


@configurable
class Sinks(Analysis):
    """How much attention the first token takes, and in how many examples a method's best word is the first one.

    Models that read from left to right lay attention that they have no use for on the first token. Where the tokenizer puts
    a token for the beginning before the text, that is no word; where it does not, the sink is a word, and a method that
    reads attention off names it whatever the text says.

    `sinks`: by method the share of examples whose best rated word is the first, and whose best is the last, of the rated
    words; k words that share the best score count 1/k each. `sinks_by_layer`: the mean over heads of the share of attention
    on the first token, over the queries from the second on. `sinks_heads`: the same for each head.

    Attributes:
        target: what is explained.
        pool: from the scores of a word's tokens to its own.

    Raises:
        NotApplicable: the model has an encoder and a decoder, whose calls attend to two sequences.

    Source: this project; attention sinks: Xiao et al. 2024.
    Cost: one forward pass.
    """

    version: ClassVar[int] = 1

    target: TargetName = "predicted"
    pool: Pool = "max"
    limit: Count | None = 300

    def __call__(self, context: Context) -> Sequence[Table]:
        """Methods, layers and heads."""
        if not any(any(words) for batch in context.setting.data.batches for words in batch.words):
            raise NotApplicable("the examples have no words")
        setting = context.setting.limited(self.limit)

        def compute(batch: Batch) -> Arrays:
            shares = pattern_arrays(setting.model, batch)["shares"][:, PATTERNS.index(SINK)]
            return {"sink": shares, "rated": _is_rated(batch).astype(np.int64)}

        found = self.by_example(context, setting, compute, "attention on the first token").arrays
        longer = ~np.isnan(found["sink"]).any((1, 2))  # an example of one token has no other that could attend to it
        if not longer.any():
            raise NotApplicable("every example is one token")
        sink = found["sink"][longer]
        told = Told(
            statistics.interval(sink.mean((1, 2)), bounds=_SHARE), bool(found["rated"].all()), int((~longer).sum())
        )
        return [self._by_method(context, told), _by_layer(sink), _heads(sink)]

    def _by_method(self, context: Context, told: "Told") -> Table:
        places: dict[str, list[tuple[float, float]]] = {}
        for example in word_scores(context, {}, self.target, self.pool, self.limit):
            for name, scores in example.scores.items():
                if len(scores) > 1 and np.isfinite(scores).all():
                    places.setdefault(name, []).append(best_at_the_ends(scores))
        rows: list[dict[str, Any]] = []
        shares: dict[str, Interval] = {}
        for name, found in places.items():
            first, last = statistics.intervals(np.array(found), bounds=_SHARE)
            shares[name] = first
            rows += [figure_line({"explainer": name}, FIRST, first), figure_line({"explainer": name}, LAST, last)]
        if not rows:
            raise NotApplicable("no method scores words")
        return Table(
            name="sinks",
            title="Which methods name the first word?",
            labels=("explainer",),
            rows=pd.DataFrame(rows),
            sentences=tuple(told.sentences(shares)),
        )


def best_at_the_ends(scores: NDArray[np.float64]) -> tuple[float, float]:
    """Whether the best of these words is the first, and the last: 1/k where k words share the best score."""
    best = scores == scores.max()
    return float(best[0]) / best.sum(), float(best[-1]) / best.sum()


def _is_rated(batch: Batch) -> NDArray[np.bool_]:
    """Whether the first token of each example belongs to the first of its rated words, which methods can then name."""
    first = batch.units[:, 0].tolist()
    rated = [np.flatnonzero(batch.rated_units(b)) for b in range(len(batch))]
    return np.array([bool(len(own)) and own[0] == unit for unit, own in zip(first, rated, strict=True)])


@dataclass(frozen=True)
class Told:
    """What is said of the sink.

    Attributes:
        attention: that the first token gets, mean over heads and layers.
        rated: whether it belongs to the first rated word in every example.
        short: examples of one token, which are left out.
    """

    attention: Interval
    rated: bool
    short: int

    def sentences(self, shares: Mapping[str, Interval]) -> list[str]:
        """Beside the table; of a method that names the first word in most examples, where that word is the sink."""
        what = "the first of the rated words" if self.rated else "not rated in some or all examples"
        left = f"; without {self.short} of a single token" if self.short else ""
        said = [
            f"The first token, which is {what}, gets {_figure(self.attention)} of the attention of the other tokens, "
            f"mean over heads and layers (n = {self.attention.n}{left}).",
            "Of the words that are rated; words that share the best score count in equal parts. Intervals: over examples.",
        ]
        for name, share in shares.items():
            if self.rated and name not in CONTROLS and share.low > _HALF:
                said.append(
                    f"{name} calls the first word, the sink, the best in {_figure(share)} of the examples, more than "
                    "half of them: it may name the place rather than what stands there."
                )
        return said


def _figure(interval: Interval) -> str:
    return f"{number(interval.value)} {bounds(interval.low, interval.high)}"


def _by_layer(shares: NDArray[np.float64]) -> Table:
    figures = statistics.intervals(shares.mean(-1), bounds=_SHARE)
    return Table(
        name="sinks_by_layer",
        title="Attention on the first token by layer, mean over heads",
        labels=("layer",),
        rows=pd.DataFrame([figure_line({"layer": layer}, SINK, figure) for layer, figure in enumerate(figures)]),
    )


def _heads(shares: NDArray[np.float64]) -> Table:
    n, layers, heads = shares.shape
    figures = statistics.intervals(shares.reshape(n, -1), bounds=_SHARE)
    places = [{"layer": layer, "head": head} for layer in range(layers) for head in range(heads)]
    return Table(
        name="sinks_heads",
        title="Attention on the first token by head",
        labels=("layer", "head"),
        rows=pd.DataFrame([figure_line(place, SINK, figure) for place, figure in zip(places, figures, strict=True)]),
        drawing=Drawing("heat", x="head", y=("layer",), value=SINK),
        printed=False,
    )
