"""What each figure of the debate says of attention: the sides of a threshold. Defined in docs/protocols.md, section 16."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pandas as pd

from benchmark.results.statistics import Interval
from benchmark.results.tables import Table

Side = Literal["for attention", "against attention"]
FOR: Side = "for attention"
AGAINST: Side = "against attention"
UNDECIDED = "undecided"

ALL_OR_READ = ("all layers", "last layer, read row")
"""Scopes of an edit, the wider one first."""
TOLERANCE = 0.05
"""ε: a change of the output, or of the accuracy, up to which the model counts as unchanged."""


@dataclass(frozen=True)
class Reading:
    """A figure, what it says of attention, and the note that stands beside it in its own table."""

    figure: Interval
    says: str
    note: str


@dataclass(frozen=True)
class Rule:
    """A question, the figure that answers it, and what it says of attention on either side of a threshold.

    Attributes:
        question: about the model's attention.
        measured: the figure and its threshold, in words.
        table: that holds the figure.
        metric: how the figure's name begins.
        above: what an interval above the threshold says; one below it says the opposite.
        threshold: None where the literature has none, so that the figure stands without a verdict.
        where: the line of the table, by label: the first of these values that occurs. "{attention}" is the method that
            stands for attention, "{last}" the last layer.
        beside: the lines, by label, whose intervals stand in place of the threshold.
        about: what is judged, where it is not the attention of the comparison's model.
    """

    question: str
    measured: str
    table: str
    metric: str
    above: Side
    threshold: float | None = 0.0
    where: Mapping[str, Sequence[str]] = field(default_factory=dict)
    beside: Mapping[str, Sequence[str]] = field(default_factory=dict)
    about: str = ""

    def read(self, table: Table, names: Mapping[str, str]) -> Reading | None:
        """The figure and what it says; None where the table lacks its line, or those beside it."""
        if not {*self.where, *self.beside} <= set(table.labels):  # the analysis could not serve
            return None
        named = {label: [value.format(**names) for value in values] for label, values in self.where.items()}
        rows, others = self._lines(table, named), self._lines(table, self.beside)
        if rows.empty or others.empty:
            return None
        line = self.line(rows, table)
        if line is None:
            return Reading(Interval(float("nan"), float("nan"), float("nan"), 0), UNDECIDED, "no such model")
        figure = Interval(line["value"], line["low"], line["high"], int(line["n"]))
        limits = None if self.threshold is None else (self.threshold, self.threshold)
        if self.beside:
            limits = (others["low"].min(), others["high"].max())
        return Reading(figure, said(figure, limits, self.above), line["note"])

    def line(self, rows: pd.DataFrame, table: Table) -> "pd.Series[Any] | None":
        """The line that is read, of those that are found: the first."""
        return rows.iloc[0]

    def _lines(self, table: Table, where: Mapping[str, Sequence[str]]) -> pd.DataFrame:
        rows = table.rows[table.rows["metric"].str.startswith(self.metric)]
        for label, values in where.items():
            found = next((value for value in values if (rows[label] == value).any()), None)
            rows = rows[rows[label] == found]
        return rows


@dataclass(frozen=True)
class OfAdversary(Rule):
    """The line of the adversary with the largest weight on divergence, of those whose mean TVD is at most `TOLERANCE`."""

    def line(self, rows: pd.DataFrame, table: Table) -> "pd.Series[Any] | None":
        """None where no adversary predicts alike."""
        distances = table.rows[table.rows["metric"] == "TVD"].set_index("model")
        alike = rows[rows["model"].map(distances["value"]) <= TOLERANCE]
        return None if alike.empty else alike.iloc[-1]


def said(figure: Interval, limits: tuple[float, float] | None, above: Side) -> str:
    """What an interval says that lies above the higher limit, or below the lower one; empty without limits."""
    if limits is None:
        return ""
    if figure.low > limits[1]:
        return above
    if figure.high < limits[0]:
        return AGAINST if above == FOR else FOR
    return UNDECIDED


RULES: tuple[Rule, ...] = (
    Rule(
        "do its ranks agree with leave-one-out as well as gradient's do?",
        "τ_b of attention less τ_b of gradient, both with leave-one-out; 0",
        "agreement_with_references",
        "τ_b with leave-one-out less",
        FOR,
        where={"method": ("{attention}",)},
    ),
    Rule(
        "do states that know their context agree less with it?",
        "τ_b with gradient of word classifiers without contextual layers, less that with most; 0",
        "contextualisation_differences",
        "difference",
        AGAINST,
        about="word classifiers",
    ),
    Rule(
        "does agreement with leave-one-out tell of faithfulness?",
        "Spearman's ρ over methods between agreement and the first test; 0",
        "agreement_and_quality",
        "Spearman ρ over methods",
        FOR,
        where={"agreement with": ("leave-one-out",)},
        about="agreement as a test",
    ),
    Rule(
        "does another order of its weights give another output?",
        f"median total variation under permutations; ε = {TOLERANCE:g}",
        "permutation",
        "median change of the output",
        FOR,
        TOLERANCE,
        {"scope": ALL_OR_READ, "predicted class": ("all",), "largest weight": ("any",)},
    ),
    Rule(
        "is there another attention with the same output?",
        "share of examples in which one is found; ½",
        "adversarial_attention",
        "share with JSD >",
        AGAINST,
        0.5,
        {"scope": ALL_OR_READ, "predicted class": ("all",)},
    ),
    Rule(
        "do its largest weights matter more than random ones?",
        "JSD of the output without the largest weights, less that without random ones; 0",
        "weight_removal",
        "difference of JSD",
        FOR,
        where={"scope": ALL_OR_READ, "rows": ("renormalised",)},
    ),
    Rule(
        "do fewer weights flip the decision in its order than in a random one?",
        "share of weights removed, in its order less in a random one; 0",
        "smallest_sets",
        "share less that of random",
        AGAINST,
        where={"scope": ALL_OR_READ, "order": ("attention",)},
    ),
    Rule(
        "does the finished model need it?",
        f"accuracy with uniform attention less that of the model; −{TOLERANCE:g}",
        "uniform_attention",
        "difference of accuracy",
        AGAINST,
        -TOLERANCE,
        {"uniform in": ALL_OR_READ},
    ),
    Rule(
        "does the model need it where it is trained without?",
        f"accuracy of a model trained with uniform attention less that of the model; −{TOLERANCE:g}",
        "trained_uniform",
        "accuracy less",
        AGAINST,
        -TOLERANCE,
        {"attention": ("uniform",), "layers": ("all",)},
    ),
    Rule(
        "is it less a matter of the training's seed than gradient is?",
        "share of the seed in its word scores; that of gradient × input",
        "seeds_explainers",
        "share of the seed",
        AGAINST,
        where={"explainer": ("{attention}",)},
        beside={"explainer": ("gradient_x_input",)},
    ),
    Rule(
        "do its weights tell a classifier without context which words matter?",
        "accuracy guided by its weights, less that by the same weights in another order; 0",
        "guide_differences",
        "difference",
        FOR,
        where={
            "guide": ("{attention}",),
            "explained class": ("none", "drawn"),
            "question": ("more than its weights in another order",),
        },
    ),
    OfAdversary(
        "can a model be trained to predict alike with attention beyond that of other seeds?",
        f"JSD, heads matched, of the last adversary with a mean TVD ≤ {TOLERANCE:g}; that of the seeds",
        "adversarial_training",
        "JSD, heads matched",
        AGAINST,
        where={"kind": ("adversary",)},
        beside={"kind": ("seed",)},
    ),
    Rule(
        "does it find the words where training drives it away from them?",
        "AUPRC on a deceptive model less that of random scores; 0",
        "deception",
        "over random, deceptive model",
        FOR,
        where={"explainer": ("{attention}",)},
        about="the deceptive model",
    ),
    Rule(
        "can the states that it weighs be told apart?",
        "conicity of the states that the last layer reads; no threshold is published",
        "layers_agreement",
        "conicity",
        AGAINST,
        None,
        {"layer": ("{last}",)},
    ),
)
"""In the order of the questions in docs/protocols.md, section 16."""
