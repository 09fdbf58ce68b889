"""Reduce a cell: the figures of a test from its rows, and what the record says of them."""

from dataclasses import replace

import numpy as np
import torch

from benchmark.errors import NotApplicable
from benchmark.evaluations.ties import ties_of
from benchmark.results import statistics
from benchmark.results.control_names import control_order
from benchmark.results.record import WORDS, About, EvaluationRecord, Figure, Metric
from benchmark.results.rows import NO_ROWS, NOTHING, Share
from benchmark.run.arrays import padded
from benchmark.run.cell import Cell
from benchmark.run.testing import rows_of_test
from benchmark.settings.identity import digest_of, identity
from benchmark.types import Evaluation

READ_TIES = ("tokens", "classes")
"""What a test reads of a method where its units may share a score."""

SAME_FOR_EVERY_CLASS = "1 by construction: the method does not look at the class"
NOT_OF_THE_CLASS = {
    "label": "the test explains the annotated class, and the method does not look at the class",
    "contrast": "the test explains why one class rather than another, and the method does not look at the class",
    "margin": "the test explains why the annotated class rather than another, and the method does not look at the class",
    "log_probability": "the test explains the probability of the annotated class, and the method does not look at the class",
}
SAID_OF_TARGET = {
    "contrast": (
        "contrast",
        "explained is why the predicted class rather than the one with the second largest logit, and the probability is "
        "that of the first where only these two are possible",
    ),
    "margin": (
        "margin",
        "explained is why the annotated class rather than the other one with the largest logit, and the probability is that "
        "of the first where only these two are possible",
    ),
    "log_probability": (
        "log-probability",
        "explained is the logarithm of the annotated class's probability, and the class that is followed is that one",
    ),
}
"""What a title says of a test that explains something else than a class, and how its metrics tell it."""


def evaluate(cell: Cell, name: str, evaluation: Evaluation, stored: Share | None) -> tuple[EvaluationRecord, Share]:
    """What the record says of one test, and its rows. Where it cannot serve, there are none, and `dash` is the reason.

    A `remark` says what must be known of its figures; tables show it as a footnote.

    Args:
        cell: what is tested.
        name: of the test in the comparison.
        evaluation: the test.
        stored: its rows; None: those that `rows_of_test` has left.

    Raises:
        ValueError: a figure is outside of the bounds of its metric, or counts more examples than there are.
    """
    figures: tuple[Figure, ...] = ()
    ties: dict[str, float] = {}
    dash, remark, rows = None, remark_of(cell, evaluation), NOTHING
    scoped = evaluation
    try:
        scoped = evaluation.over(cell.data.batches)
        tested = rows_of_test(cell, evaluation) if stored is None else stored
        figures = tuple(reduced(scoped, tested))
        rows, remark = tested, _joined(remark, scoped.caution(figures))
        ties = shares_of_ties(cell, scoped)
    except NotApplicable as answer:
        dash, remark = str(answer), None
    record = EvaluationRecord(
        name=name,
        version=evaluation.version,
        digest=digest_of(evaluation),
        identity=identity(evaluation),
        statistics=statistics.VERSION,
        target=evaluation.target,
        metrics=metrics_of(scoped),
        averaged=evaluation.averaged,
        figures=figures,
        dash=dash,
        remark=remark,
        derived={} if rows is NOTHING else scoped.parts,
        rows=rows.digest,
        about=about_of(evaluation),
        **ties,
    )
    record.check(name, cell.data.facts.n)
    return record, rows


def metrics_of(evaluation: Evaluation) -> dict[str, Metric]:
    """The metrics of a test as reports name them: those of explanations of something else than a class say so."""
    if (found := SAID_OF_TARGET.get(evaluation.target)) is None:
        return dict(evaluation.metrics)
    target, meant = found

    def named(metric: Metric) -> Metric:
        title, short = (said and f"{said}, {target}" for said in (metric.title, metric.short))
        meaning = f"{metric.meaning.rstrip('.')}; {meant}".removeprefix("; ")
        return replace(metric, title=title, short=short, meaning=meaning)

    return {name: named(metric) for name, metric in evaluation.metrics.items()}


def about_of(evaluation: Evaluation) -> About:
    """Kind, place and title of a test; that of explanations of something else than a class says so."""
    about, found = evaluation.about, SAID_OF_TARGET.get(evaluation.target)
    return about if found is None or not about.title else replace(about, title=f"{about.title}, {found[0]}")


def remark_of(cell: Cell, evaluation: Evaluation) -> str | None:
    """What must be known of a method's figures in a test for which the explained class matters; None where nothing.

    A method that does not look at the class has the same scores for each of them. Where a test compares classes, its figure
    is decided by that. Where it explains the annotated class, the scores are no explanation of that class in the examples
    that the model gets wrong. A control explains nothing, so that there it needs no remark.
    """
    if cell.compared.class_specific:
        return None
    if evaluation.reads == "classes":
        return SAME_FOR_EVERY_CLASS
    return None if control_order(cell.name) else NOT_OF_THE_CLASS.get(evaluation.target)


def _joined(*remarks: str | None) -> str | None:
    """Remarks as one, or None where there is none."""
    return "; ".join(filter(None, remarks)) or None


def shares_of_ties(cell: Cell, evaluation: Evaluation) -> dict[str, float]:
    """What a record says of `Ties`: means over the explanations that the test reads; nothing where it reads no ranking.

    Raises:
        NotApplicable: the method does not give what the test reads.
    """
    if evaluation.reads not in READ_TIES:
        return {}
    stored = cell.classes() if evaluation.reads == "classes" else cell.explain(evaluation.target)
    found = [
        ties_of(batch, padded(stored, cell.data.start(index), batch), evaluation)
        for index, batch in enumerate(cell.data.batches)
    ]
    constant, half, tied = (float(torch.cat(part).mean()) for part in zip(*found, strict=True))
    return {"constant": constant, "half_constant": half, "tied": tied}


def reworded(cell: Cell, test: EvaluationRecord, evaluation: Evaluation) -> EvaluationRecord:
    """The record with the words that the test has for itself, its metrics and its remark today; figures stay."""
    today = metrics_of(evaluation)
    metrics = {
        name: replace(metric, **{word: getattr(today[name], word) for word in WORDS}) if name in today else metric
        for name, metric in test.metrics.items()
    }
    told = _joined(remark_of(cell, evaluation), evaluation.caution(test.figures))
    remark = told if test.dash is None else None
    return replace(test, metrics=metrics, about=about_of(evaluation), remark=remark)


def reduced(evaluation: Evaluation, tested: Share) -> list[Figure]:
    """The figures of a test from its rows, by metric and x: of all at once, or where they are many of some metrics.

    Which are computed together changes their last digits, so it hangs on the rows alone.

    Raises:
        NotApplicable: the rows give no figure.
    """
    together = evaluation.divided(list(tested.counts))
    parts = [list(evaluation.reduce(rows)) for rows in tested.rows.chunks(tested.test, together)]
    figures = [figure for part in parts or [evaluation.reduce(NO_ROWS)] for figure in part]
    place = {name: number for number, name in enumerate(evaluation.metrics)}
    return sorted(figures, key=lambda figure: (place[figure.metric], -np.inf if np.isnan(figure.x) else figure.x))
