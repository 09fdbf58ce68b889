"""Is attention explanation, on this model? Every figure of the debate on one page, and what it says.

Defined in docs/protocols.md, section 16.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pandas as pd

from benchmark.analyses.base import Analysis
from benchmark.analyses.context import Context
from benchmark.analyses.debate.method_values import method_values, named_measures, oriented
from benchmark.analyses.debate.verdict_rules import (
    AGAINST,
    FOR,
    ROW,
    RULES,
    UNDECIDED,
    Reading,
    corrected,
    read_against,
)
from benchmark.analyses.differences import P_VALUE
from benchmark.analyses.measured import figure_line
from benchmark.errors import NotApplicable
from benchmark.results.statistics import interval, least_examples
from benchmark.results.tables import P_KEY, PROBABILITY, Table, is_wide, line
from benchmark.results.trust import NOT_HERE, USE, WITH_CARE, Trust, told_of
from benchmark.settings.declared import configurable
from benchmark.types import KnowsTruth

_SIDES = (FOR, AGAINST, UNDECIDED)
_FIGURE, _SAYS, _TRUE = "figure", "says", "agrees with the truth"


@dataclass(frozen=True)
class Answer:
    """A line of the page: a question, what was measured of what, and what it says."""

    question: str
    measured: str
    about: str
    reading: Reading
    trained: bool = False


@configurable
class Verdict(Analysis):
    """One table with a line per question of the debate: the figure, what it says of attention, and whether that is true.

    The figures are those of the comparison's other analyses, which are run before (`verdict_rules.RULES`), and two of its
    own: how much better than random scores the attention's scores agree with rationales, and do in a test of faithfulness.
    A figure speaks for or against attention where it lies on one side of a threshold after Holm's correction over all lines
    that have one (`verdict_rules.corrected`), else it is undecided. The lines are of one model and of the same examples, and
    some are of the same edits in two scopes: they are no votes, and nothing counts them. Where more than a tenth of the
    explanations are constant, a figure says nothing, nor does one of a test that `which_test` does not trust here; a
    sentence says of the page's tests what it says of them.

    Where the task knows the truth (`KnowsTruth`), attention finds the words or does not: its word scores agree better with
    them than random scores do. Lines about the same attention, the row that the classifier reads, are held to that.

    Attributes:
        attention: the method of the comparison that stands for attention.
        control: the method that it is held to.
        plausibility: TEST.METRIC, agreement with rationales.
        faithfulness: TEST.METRIC, of which the first that the comparison has is read.
    """

    attention: str = "raw_attention"
    control: str = "random"
    plausibility: str = "rationale.average_precision"
    faithfulness: Sequence[str] = ("perturbation.positive_auc_mean", "aopc.comprehensiveness")
    # 2: average precision; corrected over the page; nothing rests on constant explanations. 3: figures named, not counted.
    # 4: tests that cannot be trusted here have no verdict, and the page says which can.
    version: ClassVar[int] = 4
    reads_tables: ClassVar[bool] = True

    def __call__(self, context: Context) -> Sequence[Table]:
        """The page.

        Raises:
            NotApplicable: the comparison has none of the figures.
        """
        task = context.setting.task
        known = isinstance(task, KnowsTruth) and task.rationale_is_truth
        of_words = "planted words" if known else "words of the rationale"
        trusted = told_of([table for group in context.tables.values() for table in group])
        found = self._advantage(context, [self.plausibility], f"does it find the {of_words}?", trusted)
        removed = "does the output change where its words are removed?"
        own = self._advantage(context, self.faithfulness, removed, trusted)
        read, missing = self._read(context)
        answers = [*found, *own, *read]
        if not answers:
            raise NotApplicable("the comparison has no other analysis of the debate, nor values of its attention")
        judged = corrected([answer.reading for answer in answers])
        answers = [replace(answer, reading=reading) for answer, reading in zip(answers, judged, strict=True)]
        truth = answers[0].reading.says if known and found and answers[0].reading.says in _SIDES else None
        agreements = [None if truth is None else _agrees(answer, truth) for answer in answers]
        if truth is not None:
            agreements[0] = "it is the truth"
        rows = [row for answer, agreement in zip(answers, agreements, strict=True) for row in _lines(answer, agreement)]
        return [
            Table(
                name="verdict",
                title="Is attention explanation, on this model?",
                labels=("question", "measured; threshold", "about"),
                rows=pd.DataFrame(rows),
                sentences=tuple(_sentences(answers, truth, missing, trusted)),
                first=True,
            )
        ]

    def _advantage(
        self, context: Context, names: Sequence[str], question: str, trusted: Mapping[str, Trust]
    ) -> list[Answer]:
        """How much better than the control the attention's scores are; nothing where the comparison does not say."""
        pair = [self.attention, self.control]
        named = named_measures(context)
        measure = next((named[name] for name in names if name in named), None)
        if measure is None or not {*pair} <= context.cells.keys():
            return []
        values = method_values(replace(context, cells={name: context.cells[name] for name in pair}), [measure])
        if {*pair} != set(values.methods):
            return []
        declared = context.evaluations[measure.evaluation].metrics[measure.metric]
        good = oriented(measure, values.values[measure])
        figure = interval(good[:, values.methods.index(self.attention)] - good[:, values.methods.index(self.control)])
        measured = f"{declared.title or measure}: gain over random scores; 0"
        if silence := values.silent.get(self.attention):
            return [Answer(question, measured, ROW, Reading(figure, f"no verdict: {silence}", ""))]
        if doubt := trusted.get(f"{measure.evaluation}.{measure.metric}", Trust()).doubt:
            return [Answer(question, measured, ROW, Reading(figure, f"no verdict: the test is {doubt}", ""))]
        return [Answer(question, measured, ROW, read_against(figure, (0.0, 0.0), FOR, AGAINST))]

    def _read(self, context: Context) -> tuple[list[Answer], list[str]]:
        """What the tables answer, and the tables that should have answered and do not."""
        tables = {table.name: table for group in context.tables.values() for table in group}
        readings = [(rule, rule.read(tables, self.attention)) for rule in RULES]
        answered = {rule.table for rule, reading in readings if reading is not None}
        missing = dict.fromkeys(rule.table for rule in RULES if rule.table not in answered)
        answers = [
            Answer(rule.question, rule.measured, rule.about, reading, trained=rule.trained)
            for rule, reading in readings
            if reading is not None
        ]
        return answers, list(missing)


def _lines(answer: Answer, agreement: str | None) -> Iterator[Mapping[str, Any]]:
    labels = {"question": answer.question, "measured; threshold": answer.measured, "about": answer.about}
    figure = answer.reading.figure
    note = answer.reading.note if not figure.n or is_wide(figure.low, figure.high, figure.reach, figure.n) else ""
    yield figure_line(labels, _FIGURE, figure, note or ("" if figure.n else "no figure"))
    if not math.isnan(answer.reading.p):
        yield line(labels, P_VALUE, answer.reading.p, n=figure.n, note=PROBABILITY, key=P_KEY)
    yield line(labels, _SAYS, n=figure.n, note=answer.reading.says or "no threshold")
    if agreement is not None:
        yield line(labels, _TRUE, n=figure.n, note=agreement)


def _agrees(answer: Answer, truth: str) -> str:
    if answer.about != ROW or answer.reading.says not in (FOR, AGAINST):
        return "—"
    if truth == UNDECIDED:
        return UNDECIDED
    return "yes" if answer.reading.says == truth else "no"


def _sentences(
    answers: Sequence[Answer], truth: str | None, missing: Sequence[str], trusted: Mapping[str, Trust]
) -> Iterator[str]:
    family = sum(not math.isnan(answer.reading.p) for answer in answers)
    yield (
        f"A figure speaks where it lies on one side of its threshold after Holm's correction over the {family} figures that "
        f"have one, and where it is of at least {least_examples(family)} examples. The figures are of one model and of the "
        "same examples: they are no independent votes, so that their number says nothing."
    )
    yield _trusted(trusted)
    if any(answer.trained for answer in answers):
        yield "Figures of models that were trained for them hold for these trainings: intervals are over examples alone."
    if truth is not None and truth != UNDECIDED:
        yield from _held_to(answers[1:], truth)
    if missing:
        yield f"Not answered here, for want of a figure in these tables: {', '.join(missing)}."


def _trusted(trusted: Mapping[str, Trust]) -> str:
    """Which of the comparison's tests can be trusted here, as `which_test` says."""
    if not trusted:
        return "Which of the tests can be trusted here was not asked, or cannot be (`which_test`)."
    told = [
        f"{verdict}: {', '.join(names)}"
        for verdict in (USE, WITH_CARE, NOT_HERE)
        if (names := [name for name, one in trusted.items() if one.verdict == verdict])
    ]
    return f"Which of the tests can be trusted here (`which_test`): {'; '.join(told)}."


def _held_to(answers: Sequence[Answer], truth: str) -> Iterator[str]:
    agreements = {answer.question: _agrees(answer, truth) for answer in answers}
    agree, misled = ([question for question, said in agreements.items() if said == which] for which in ("yes", "no"))
    finds = (
        "finds the planted words better than random scores do" if truth == FOR else "does not find the planted words"
    )
    yield (
        f"The truth is known: the row that the classifier reads {finds}. Of the other figures of this row that speak, these "
        f"agree with that: {' '.join(agree) or 'none.'} These would mislead: {' '.join(misled) or 'none.'}"
    )
