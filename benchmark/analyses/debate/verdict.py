"""Is attention explanation, on this model? Every figure of the debate on one page, and what it says.

Defined in docs/protocols.md, section 16.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import pandas as pd

from benchmark.analyses.context import Context
from benchmark.analyses.debate.method_values import measures, method_values, oriented
from benchmark.analyses.debate.verdict_rules import AGAINST, FOR, RULES, UNDECIDED, Reading, said
from benchmark.analyses.layouts import Measure
from benchmark.analyses.measured import figure_line
from benchmark.errors import NotApplicable
from benchmark.results.statistics import interval
from benchmark.results.tables import Table, line
from benchmark.settings.declared import configurable
from benchmark.types import KnowsTruth

_FIGURE, _SAYS, _TRUE = "figure", "says", "agrees with the truth"
_MODEL, _IT = "this model", "it is the truth"


@dataclass(frozen=True)
class Answer:
    """A line of the page: a question, what was measured of what, and what it says."""

    question: str
    measured: str
    about: str
    reading: Reading


@configurable
class Verdict:
    """One table with a line per question of the debate: the figure, what it says of attention, and whether that is true.

    The figures are those of the comparison's other analyses, which are run before (`verdict_rules.RULES`), and two of its
    own: how much better than random scores the attention's scores agree with rationales, and do in a test of faithfulness.
    A figure speaks for or against attention where its 95 % interval lies on one side of a threshold, else it is undecided;
    no line is corrected for the number of lines. Where the task's rationales are known to be what the label depends on,
    the truth is known: attention finds these words, or does not, and each line about this model says so or is misled.

    Attributes:
        attention: the method of the comparison that stands for attention.
        control: the method that it is held to.
        plausibility: TEST.METRIC, agreement with rationales.
        faithfulness: TEST.METRIC.
    """

    attention: str = "raw_attention"
    control: str = "random"
    plausibility: str = "rationale.auprc"
    faithfulness: str = "perturbation.positive_auc_mean"
    version: ClassVar[int] = 1
    reads_tables: ClassVar[Literal[True]] = True

    def __call__(self, context: Context) -> Sequence[Table]:
        """The page.

        Raises:
            NotApplicable: the comparison has none of the figures.
        """
        known = isinstance(context.setting.task, KnowsTruth)
        of_words = "planted words" if known else "words of the rationale"
        found = self._advantage(context, self.plausibility, f"does it find the {of_words}?")
        answers = [*found, *self._own(context), *self._read(context)]
        if not answers:
            raise NotApplicable("the comparison has no other analysis of the debate, nor values of its attention")
        truth = found[0].reading.says if known and found else None
        agreements = [None] * len(answers) if truth is None else [_IT, *(_agrees(a, truth) for a in answers[1:])]
        rows = [row for answer, agreement in zip(answers, agreements, strict=True) for row in _lines(answer, agreement)]
        return [
            Table(
                name="verdict",
                title="Is attention explanation, on this model?",
                labels=("question", "measured; threshold", "about"),
                rows=pd.DataFrame(rows),
                sentences=tuple(_sentences(answers, truth, self._missing(context))),
            )
        ]

    def _own(self, context: Context) -> list[Answer]:
        return self._advantage(context, self.faithfulness, "does the output change where its words are removed?")

    def _advantage(self, context: Context, name: str, question: str) -> list[Answer]:
        """How much better than the control the attention's scores are; nothing where the comparison does not say."""
        named = {f"{m.evaluation}.{m.metric}": m for m in measures(context, lambda *_: True)}
        if name not in named:
            return []
        measure: Measure = named[name]
        values = method_values(context, [measure])
        if not {self.attention, self.control} <= set(values.methods):
            return []
        good = oriented(measure, values.values[measure])
        figure = interval(good[:, values.methods.index(self.attention)] - good[:, values.methods.index(self.control)])
        declared = context.evaluations[measure.evaluation].metrics[measure.metric]
        measured = f"{declared.title or measure}, better than that of random scores by; 0"
        return [Answer(question, measured, _MODEL, Reading(figure, said(figure, (0.0, 0.0), FOR), ""))]

    def _read(self, context: Context) -> list[Answer]:
        tables = {table.name: table for group in context.tables.values() for table in group}
        names = {"attention": self.attention, "last": str(context.setting.model.n_layers - 1)}
        answers = []
        for rule in RULES:
            reading = rule.read(tables[rule.table], names) if rule.table in tables else None
            if reading is not None:
                answers.append(Answer(rule.question, rule.measured, rule.about or _MODEL, reading))
        return answers

    def _missing(self, context: Context) -> list[str]:
        tables = {table.name for group in context.tables.values() for table in group}
        return [rule.table for rule in RULES if rule.table not in tables]


def _lines(answer: Answer, agreement: str | None) -> Iterator[Mapping[str, Any]]:
    labels = {"question": answer.question, "measured; threshold": answer.measured, "about": answer.about}
    figure = answer.reading.figure
    yield figure_line(labels, _FIGURE, figure, "" if figure.n else answer.reading.note or "no figure")
    yield line(labels, _SAYS, n=figure.n, note=answer.reading.says or "no threshold")
    if agreement is not None:
        yield line(labels, _TRUE, n=figure.n, note=agreement)


def _agrees(answer: Answer, truth: str) -> str:
    if answer.about != _MODEL or answer.reading.says not in (FOR, AGAINST):
        return "—"
    if truth == UNDECIDED:
        return UNDECIDED
    return "yes" if answer.reading.says == truth else "no"


def _sentences(answers: Sequence[Answer], truth: str | None, missing: Sequence[str]) -> Iterator[str]:
    of_model = [answer for answer in answers if answer.about == _MODEL]
    counts = {side: sum(answer.reading.says == side for answer in of_model) for side in (FOR, AGAINST, UNDECIDED)}
    yield (
        f"Of the questions about this model's attention {counts[FOR]} speak for it, {counts[AGAINST]} against it, and "
        f"{counts[UNDECIDED]} are undecided: a figure speaks where its 95 % interval lies on one side of its threshold, "
        "without correction for the number of questions."
    )
    if truth is not None and truth != UNDECIDED:
        others = of_model[1:]  # the first is the truth itself
        misled = [answer.question for answer in others if _agrees(answer, truth) == "no"]
        decided = [answer for answer in others if _agrees(answer, truth) != "—"]
        finds = "finds" if truth == FOR else "does not find"
        yield (
            f"The truth is known: its attention {finds} the planted words. {len(decided) - len(misled)} of "
            f"{len(decided)} other answers about this model agree with that."
        )
        if misled:
            yield f"These would mislead: {' '.join(misled)}"
    if missing:
        yield f"Not asked here, for want of these tables: {', '.join(missing)}."
