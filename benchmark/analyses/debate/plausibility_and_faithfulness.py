"""Plausible and faithful? The explanations that deceive are those that people would believe and the model does not follow.

Defined in docs/protocols.md, section 16.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmark.analyses.base import Analysis
from benchmark.analyses.context import Context
from benchmark.analyses.debate.method_values import MethodValues, Values, method_values, named_measures, oriented, shown
from benchmark.analyses.layouts import Measure
from benchmark.analyses.measured import figure_line
from benchmark.errors import NotApplicable
from benchmark.results.control_names import control_order
from benchmark.results.statistics import (
    ALPHA,
    TOO_SKEWED,
    holm,
    intervals,
    least_examples,
    sign_flip_p,
    too_skewed,
    vary_alike,
)
from benchmark.results.tables import Drawing, Table, line
from benchmark.settings.declared import configurable

_PLAUSIBLE, _FAITHFUL, _QUADRANT = "plausibility", "faithfulness", "quadrant"
_SAID = {
    (_PLAUSIBLE, True): "plausible", (_PLAUSIBLE, False): "not plausible", (_PLAUSIBLE, None): "plausibility undecided",
    (_FAITHFUL, True): "faithful", (_FAITHFUL, False): "not faithful", (_FAITHFUL, None): "faithfulness undecided",
}  # fmt: skip
DANGEROUS = f"{_SAID[_PLAUSIBLE, True]}, {_SAID[_FAITHFUL, False]}"
"""The quadrant of explanations that people would believe and that the model does not follow."""


@configurable
class PlausibilityAndFaithfulness(Analysis):
    """Every method on the plane of plausibility and faithfulness, each beside random scores.

    It is part of every comparison by default, and leaves no table in those that it cannot serve: of a task without
    rationales, or without the tests or the control.

    Plausibility is agreement with human rationales; faithfulness a headline metric of a test that removes words. On each
    axis a method's advantage is its paired difference from the control, the sign turned where lower is better.

    - It has the quality where the advantage is above 0: sign flips over the examples, Holm's correction over all methods
      and both axes, p < .05. Where the differences are too skewed for that (docs/statistics.md), it says so.
    - It lacks it where the upper end of the advantage's 95 % interval lies below half of the largest mean advantage of a
      method that has it. The half is a convention, and the largest of several means is somewhat too large.
    - Otherwise it is undecided on these examples. An advantage that was not found is no proof that there is none.

    A method of which more than a tenth of the explanations are constant is shown and not judged: what it gets there is what
    the test gives to equal scores.

    Attributes:
        plausibility: TEST.METRIC.
        faithfulness: TEST.METRIC, a plane each; what the comparison lacks is left out. By default those of
            `perturbation`, `aopc`, and `perturbation_target` with the published area.
        control: the method that both are held to.
    """

    plausibility: str = "rationale.average_precision"
    faithfulness: Sequence[str] = (
        "perturbation.positive_auc_mean",
        "perturbation_target.positive_auc_published",
        "aopc.comprehensiveness",
    )
    control: str = "random"
    version: ClassVar[int] = 2  # 2: average precision; constant methods are not judged
    says_nothing: ClassVar[bool] = True

    def __call__(self, context: Context) -> Sequence[Table]:
        """A line per method and plane, and the points.

        Raises:
            NotApplicable: the comparison lacks one of the two axes or the control, or the task has no rationales.
        """
        named = named_measures(context)
        plausible, faithful = named.get(self.plausibility), [named[name] for name in self.faithfulness if name in named]
        if plausible is None or not faithful:
            raise NotApplicable(f"it needs {self.plausibility} and one of {', '.join(self.faithfulness)}")
        rows: list[dict[str, Any]] = []
        misleading: list[str] = []
        turned = [shown(context, measure) for measure in faithful if measure.higher_is_better is False]
        for measure in faithful:
            found = method_values(context, [plausible, measure])
            if self.control not in found.methods:
                raise NotApplicable(f"it needs values of the control {self.control} in {plausible} and {measure}")
            quadrants = self._quadrants(found, plausible, measure)
            for name in found.methods:
                labels = {
                    "test": shown(context, measure),
                    "method": name,
                    "kind": "control" if control_order(name) else "method",
                }
                rows.append(figure_line(labels, _PLAUSIBLE, found.figures[plausible][name]))
                rows.append(figure_line(labels, _FAITHFUL, found.figures[measure][name]))
                rows.append(line(labels, _QUADRANT, n=found.n, note=quadrants.get(name, "control")))
            misleading.append(_sentence(shown(context, measure), quadrants, found))
        return [
            Table(
                name="plausibility_and_faithfulness",
                title="Plausible and faithful? Agreement with human rationales, and what removing words shows",
                labels=("test", "method", "kind"),
                rows=pd.DataFrame(rows),
                sentences=tuple(misleading),
                drawing=Drawing(
                    "scatter", x=_PLAUSIBLE, y=(_FAITHFUL,), series="method", panels=("test",), turned=tuple(turned)
                ),
            )
        ]

    def _quadrants(self, found: MethodValues, plausible: Measure, faithful: Measure) -> dict[str, str]:
        """What each method is called; controls are not judged."""
        silent = {name: f"no verdict: {why}" for name, why in found.silent.items() if not control_order(name)}
        judged = [place for place, name in enumerate(found.methods) if not control_order(name) and name not in silent]
        if found.n < least_examples(2 * len(judged)) or not judged:
            return silent | {found.methods[place]: f"no verdict: n = {found.n}" for place in judged}
        control = found.methods.index(self.control)
        advantages: dict[str, Values] = {}
        skewed: dict[str, NDArray[np.bool_]] = {}
        for axis, measure in ((_PLAUSIBLE, plausible), (_FAITHFUL, faithful)):
            values = oriented(measure, found.values[measure])
            advantages[axis] = values[:, judged] - values[:, [control]]
            alike = vary_alike(values[:, judged], values[:, [control]])
            skewed[axis] = too_skewed(advantages[axis], 2 * len(judged), alike=alike)
        p_values = {(axis, i): float(p) for axis, a in advantages.items() for i, p in enumerate(sign_flip_p(a))}
        adjusted = holm(p_values)
        untold = {place for place, p in adjusted.items() if p < ALPHA and skewed[place[0]][place[1]]}
        said = {
            axis: verdicts(a, [1.0 if (axis, i) in untold else adjusted[axis, i] for i in range(len(judged))])
            for axis, a in advantages.items()
        }

        def told(axis: str, i: int) -> str:
            verdict = said[axis][i]
            return f"{axis} {TOO_SKEWED}" if (axis, i) in untold and verdict is None else _SAID[axis, verdict]

        return silent | {
            found.methods[place]: f"{told(_PLAUSIBLE, i)}, {told(_FAITHFUL, i)}" for i, place in enumerate(judged)
        }


def verdicts(advantages: Values, p_values: Sequence[float]) -> list[bool | None]:
    """Whether each method [N M] has the quality (True), lacks it (False), or is undecided (None)."""
    means = advantages.mean(axis=0)
    has = [bool(mean > 0 and p < ALPHA) for mean, p in zip(means, p_values, strict=True)]
    half = max((mean / 2 for mean, yes in zip(means, has, strict=True) if yes), default=-np.inf)
    highs = [figure.high for figure in intervals(advantages)]
    return [True if yes else False if high < half else None for yes, high in zip(has, highs, strict=True)]


def _sentence(measure: str, quadrants: dict[str, str], found: MethodValues) -> str:
    names = [name for name, quadrant in quadrants.items() if quadrant == DANGEROUS]
    silent = [f"{name} ({why})" for name, why in found.silent.items() if name in quadrants]
    said = ", ".join(names) if names else "none"
    not_judged = f" Not judged: {', '.join(silent)}." if silent else ""
    return f"Plausible, not faithful by {measure} (n = {found.n}): {said}.{not_judged}"
