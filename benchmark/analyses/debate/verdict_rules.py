"""What each figure of the debate says of attention: the sides of a threshold. Defined in docs/protocols.md, section 16."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
import scipy

from benchmark.results.statistics import ALPHA, Interval, holm, least_examples
from benchmark.results.tables import Table, reach_of

FOR, AGAINST, UNDECIDED = "for attention", "against attention", "undecided"

MODEL, ROW = "this model", "the row that is read"
"""What is judged: all attention of the comparison's model; the row of the last layer that the classifier reads."""
TOLERANCE = 0.05
"""ε: a change of the output, or of the accuracy, up to which the model counts as unchanged."""

Tables = Mapping[str, Table]


@dataclass(frozen=True)
class Reading:
    """A figure, what it says, and the note that stands beside it in its own table.

    Attributes:
        figure: the value with its interval.
        says: the side on which it speaks, or that it is undecided; empty without a threshold.
        note: what its own table says of it.
        p: two-sided, of no distance from the threshold (`p_of`), corrected where `corrected` made the reading; NaN without
            a threshold or an interval.
    """

    figure: Interval
    says: str
    note: str
    p: float = math.nan


@dataclass(frozen=True)
class Rule:
    """A question, the figure that answers it, and what it says on either side of a threshold.

    Attributes:
        question: about attention.
        measured: the figure and its threshold, in words.
        table: that holds the figure.
        keys: of the figure: the first of these that the table has. "{attention}" is the method that stands for attention.
        above: what an interval above the threshold says.
        below: what one below it says; `UNDECIDED` where the figure is a lower bound, so that a low one says nothing.
        threshold: None where the literature has none, so that the figure stands without a verdict.
        beside: key of the figures whose intervals stand in place of the threshold; empty where there is one.
        about: what is judged.
        trained: models were trained for it, once each.
    """

    question: str
    measured: str
    table: str
    keys: Sequence[str]
    above: str
    below: str
    threshold: float | None = 0.0
    beside: str = ""
    about: str = MODEL
    trained: bool = False

    def read(self, tables: Tables, attention: str) -> Reading | None:
        """The figure and what it says; None where there is no such figure, or none beside it."""
        table = tables.get(self.table)
        if table is None:
            return None
        rows = table.keyed(*(key.format(attention=attention) for key in self.keys))
        others = table.keyed(self.beside) if self.beside else rows
        if rows.empty or others.empty:
            return None
        line = self.line(rows, tables)
        if line is None:
            return Reading(Interval(float("nan"), float("nan"), float("nan"), 0), UNDECIDED, "no such model")
        figure = Interval(line["value"], line["low"], line["high"], int(line["n"]), reach_of(line.to_dict()))
        limits = None if self.threshold is None else (self.threshold, self.threshold)
        if self.beside:
            limits = (others["low"].min(), others["high"].max())
        return read_against(figure, limits, self.above, self.below, line["note"])

    def line(self, rows: pd.DataFrame, tables: Tables) -> "pd.Series[Any] | None":
        """The line that is read, of those that are found: the first."""
        return rows.iloc[0]


@dataclass(frozen=True)
class OfAdversary(Rule):
    """The line of the adversary with the largest weight on divergence, of those whose mean TVD is at most `TOLERANCE`."""

    def line(self, rows: pd.DataFrame, tables: Tables) -> "pd.Series[Any] | None":
        """None where no adversary predicts alike."""
        distances = tables[self.table].keyed("adversary.tvd")
        alike = rows[(distances["value"] <= TOLERANCE).to_numpy()]
        return None if alike.empty else alike.iloc[-1]


@dataclass(frozen=True)
class OfDeceiver(Rule):
    """The line of attention on a deceptive model, if its mass on the words fell."""

    def line(self, rows: pd.DataFrame, tables: Tables) -> "pd.Series[Any] | None":
        """None where the training did not take attention off the words."""
        read = tables["deception_mass"].keyed("read_token.difference")
        return rows.iloc[0] if not read.empty and read.iloc[-1]["high"] < 0 else None


def said(figure: Interval, limits: tuple[float, float] | None, above: str, below: str) -> str:
    """What an interval says that lies above the higher limit, or below the lower one; empty without limits."""
    if limits is None:
        return ""
    return above if figure.low > limits[1] else below if figure.high < limits[0] else UNDECIDED


def p_of(figure: Interval, limits: tuple[float, float] | None) -> float:
    """Two-sided p-value of a figure that lies at its threshold, from its 95 % interval.

    t = t_.975 · (v − θ) / (v − low) of a value v above the threshold θ, and likewise with the upper end where v lies below
    it; p = 2 T(−|t|), with Student's distribution T of n − 1 degrees of freedom and its quantile t_.975. So p < .05 exactly
    where the interval lies on one side, and the heavier tails are those that few examples need. Where an interval stands in
    place of the threshold, θ is its end that is nearer to v; p is 1 where v lies within it.
    """
    if limits is None or figure.n < 2 or not all(map(math.isfinite, (figure.value, figure.low, figure.high))):
        return math.nan
    lowest, highest = limits
    if lowest <= figure.value <= highest:
        return 1.0
    above = figure.value > highest
    distance = figure.value - highest if above else lowest - figure.value
    spread = figure.value - figure.low if above else figure.high - figure.value
    freedom = figure.n - 1
    edge = float(scipy.stats.t.ppf(1 - ALPHA / 2, freedom))
    return float(2 * scipy.stats.t.cdf(-edge * distance / spread, freedom)) if spread > 0 else 0.0


def read_against(
    figure: Interval, limits: tuple[float, float] | None, above: str, below: str, note: str = ""
) -> Reading:
    """What a figure says by itself, before it is corrected for the others."""
    return Reading(figure, said(figure, limits, above, below), note, p_of(figure, limits))


def corrected(readings: Sequence[Reading]) -> list[Reading]:
    """The readings of one page: a figure speaks where its p is below .05 after Holm's correction over all with a threshold.

    None speaks that has too few examples for so many hypotheses, 2^(1−n) · k > .05, whatever its interval says.
    """
    adjusted = holm({place: reading.p for place, reading in enumerate(readings) if not math.isnan(reading.p)})
    least = least_examples(len(adjusted))

    def judged(place: int, reading: Reading) -> Reading:
        if place not in adjusted:
            return reading
        decided = adjusted[place] < ALPHA and reading.figure.n >= least
        return replace(reading, p=adjusted[place], says=reading.says if decided else UNDECIDED)

    return [judged(place, reading) for place, reading in enumerate(readings)]


def _edits(question: str, measured: str, table: str, key: str, above: str, below: str, **others: Any) -> list[Rule]:
    """A question about edited attention, of the row that is read and of all layers; `key` is of a scope's figure."""
    of_all = f"{question[:-1]}, in all layers?"
    return [
        Rule(question, measured, table, (f"read_row.{key}",), above, below, about=ROW, **others),
        Rule(of_all, measured, table, (f"all_layers.{key}",), above, below, about=MODEL, **others),
    ]


RULES: tuple[Rule, ...] = (
    Rule(
        "do its ranks agree with leave-one-out as well as gradient's do?",
        "τ_b of attention minus τ_b of gradient, both with leave-one-out; 0",
        "agreement_with_references",
        ("{attention}.less_gradient",),
        FOR,
        AGAINST,
        about=ROW,
    ),
    Rule(
        "do states that know their context agree less with it?",
        "τ_b with gradient of word classifiers with the fewest contextual layers minus τ_b with the most; 0",
        "contextualisation_differences",
        ("gradient",),
        AGAINST,
        FOR,
        about="word classifiers",
        trained=True,
    ),
    Rule(
        "does agreement with leave-one-out tell of faithfulness?",
        "Spearman's ρ over methods between agreement and what removing words shows; 0",
        "agreement_and_quality",
        ("leave_one_out.perturbation.positive_auc_mean", "leave_one_out.aopc.comprehensiveness"),
        "for agreement",
        "against agreement",
        about="agreement as a test",
    ),
    *_edits(
        "does another order of its weights give another output?",
        f"median total variation under permutations; {TOLERANCE:g}",
        "permutation",
        "change",
        FOR,
        AGAINST,
        threshold=TOLERANCE,
    ),
    *_edits(
        "is there another attention with the same output?",
        "share of examples in which the search finds one, a lower bound; ½",
        "adversarial_attention",
        "share_found",
        AGAINST,
        UNDECIDED,
        threshold=0.5,
    ),
    *_edits(
        "do its largest weights matter more than random ones?",
        "JSD of the output without the largest weights minus JSD without random ones; 0",
        "weight_removal",
        "renormalised.jsd_difference",
        FOR,
        AGAINST,
    ),
    *_edits(
        "do fewer weights flip the decision in its order than in a random one?",
        "share of weights removed in its order minus the share in a random order; 0",
        "smallest_sets",
        "attention.less_random",
        AGAINST,
        FOR,
    ),
    *_edits(
        "does the finished model need it?",
        f"accuracy with uniform attention minus accuracy of the model; −{TOLERANCE:g}",
        "uniform_attention",
        "accuracy_difference",
        AGAINST,
        FOR,
        threshold=-TOLERANCE,
    ),
    Rule(
        "does a model need it that is trained without?",
        f"accuracy of a model trained with uniform attention minus accuracy of one with learned attention; −{TOLERANCE:g}",
        "trained_uniform",
        ("uniform.all.less_learned",),
        AGAINST,
        FOR,
        -TOLERANCE,
        trained=True,
    ),
    Rule(
        "is it less a matter of the training's seed than gradient is?",
        "share of the seed in its word scores; the same share in gradient × input",
        "seeds_explainers",
        ("{attention}.share_of_seed",),
        AGAINST,
        FOR,
        beside="gradient_x_input.share_of_seed",
        about=ROW,
        trained=True,
    ),
    Rule(
        "do its weights tell a classifier without context which words matter?",
        "accuracy guided by its weights minus accuracy guided by the same weights in another order; 0",
        "guide_differences",
        ("{attention}.no_class.beyond_order", "{attention}.drawn.beyond_order"),
        FOR,
        AGAINST,
        about=ROW,
        trained=True,
    ),
    OfAdversary(
        "can a model be trained to predict alike with attention that differs more than between seeds?",
        f"JSD, heads matched, of the last adversary with a mean TVD ≤ {TOLERANCE:g}, a lower bound; JSD of the seeds",
        "adversarial_training",
        ("adversary.jsd_matched",),
        AGAINST,
        UNDECIDED,
        beside="seed.jsd_matched",
        trained=True,
    ),
    OfDeceiver(
        "does it find the words where training drives it away from them?",
        "agreement with the rationale on a deceptive model minus agreement of random scores; 0",
        "deception",
        ("{attention}.over_random",),
        FOR,
        AGAINST,
        about="a deceptive model",
        trained=True,
    ),
    Rule(
        "can the states that it weighs be told apart?",
        "conicity of the states that the last layer reads; no threshold is published",
        "layers_agreement",
        ("last_layer.conicity",),
        "",
        "",
        None,
    ),
)
"""In the order of the questions in docs/protocols.md, section 16."""
