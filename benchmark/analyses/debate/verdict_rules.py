"""What each figure of the debate says of attention: the sides of a threshold. Defined in docs/protocols.md, section 16."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

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
        about: what is judged, where it is not the attention of the comparison's model.
    """

    question: str
    measured: str
    table: str
    metric: str
    above: Side
    threshold: float | None = 0.0
    where: Mapping[str, Sequence[str]] = field(default_factory=dict)
    about: str = ""

    def read(self, table: Table, names: Mapping[str, str]) -> Reading | None:
        """The figure and what it says; None where the table has no such line."""
        if not self.where.keys() <= set(table.labels):  # the analysis could not serve
            return None
        rows = table.rows[table.rows["metric"].str.startswith(self.metric)]
        for label, values in self.where.items():
            wanted = [value.format(**names) for value in values]
            found = next((value for value in wanted if (rows[label] == value).any()), None)
            rows = rows[rows[label] == found]
        if rows.empty:
            return None
        first = rows.iloc[0]
        figure = Interval(first["value"], first["low"], first["high"], int(first["n"]))
        limits = None if self.threshold is None else (self.threshold, self.threshold)
        return Reading(figure, said(figure, limits, self.above), str(first["note"]))


@dataclass(frozen=True)
class BeyondSeeds(Rule):
    """Attention of the strongest adversary that predicts alike, against that of other seeds.

    Of the adversaries whose TVD has an interval that ends below `threshold`, the one with the largest weight on divergence
    is read. It lies beyond the seeds where its interval does not meet that of any seed.
    """

    def read(self, table: Table, names: Mapping[str, str]) -> Reading | None:
        """As `Rule.read`."""
        if "kind" not in table.labels:  # the analysis could not serve
            return None
        kinds = {kind: dict(iter(part.groupby("metric"))) for kind, part in table.rows.groupby("kind")}
        if not {"adversary", "seed"} <= kinds.keys():
            return None
        distance, divergence = (kinds["adversary"][metric] for metric in ("TVD", self.metric))
        alike = divergence[(distance["high"] <= self.threshold).to_numpy()]
        if alike.empty:
            nothing = Interval(float("nan"), float("nan"), float("nan"), 0)
            return Reading(nothing, UNDECIDED, "no adversary predicts alike")
        last, seeds = alike.iloc[-1], kinds["seed"][self.metric]
        figure = Interval(last["value"], last["low"], last["high"], int(last["n"]))
        return Reading(figure, said(figure, (seeds["low"].min(), seeds["high"].max()), self.above), str(last["model"]))


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
        "is it the same under another seed?",
        "share of the seed in its word scores: 0 where seeds agree, 1 where they agree by chance; ½",
        "seeds_explainers",
        "share of the seed",
        AGAINST,
        0.5,
        {"explainer": ("{attention}",)},
    ),
    BeyondSeeds(
        "can a model be trained to predict alike with attention beyond that of other seeds?",
        f"JSD, heads matched, of the last adversary with TVD ≤ {TOLERANCE:g}; that of the seeds",
        "adversarial_training",
        "JSD, heads matched",
        AGAINST,
        TOLERANCE,
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
