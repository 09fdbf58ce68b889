"""Does agreement with gradient or leave-one-out importance predict what the tests find? (Neely et al. 2022).

Defined in docs/protocols.md, section 16.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from benchmark.analyses.base import Analysis
from benchmark.analyses.context import Context
from benchmark.analyses.debate.method_values import MethodValues, measures, method_values, oriented, shown
from benchmark.analyses.layouts import Measure
from benchmark.analyses.measured import figure_line
from benchmark.errors import NotApplicable
from benchmark.evaluations.agreement import REFERENCES, TAUS, Agreement
from benchmark.results.control_names import control_order
from benchmark.results.record import Metric
from benchmark.results.statistics import Interval, spread_interval
from benchmark.results.tables import Drawing, Table, line
from benchmark.settings.declared import Natural, configurable
from benchmark.types import Evaluation

Values = NDArray[np.float64]

_RHO = "Spearman ρ over methods"
_AGREEMENT, _QUALITY = "agreement", "quality"
_RESAMPLES = 1000
_LEAST_METHODS = 4


@configurable
class AgreementAndQuality(Analysis):
    """Spearman's ρ, over methods, between their mean agreement with a reference and their mean result in a test.

    `ρ = corr(rank_m x̄_m, rank_m ± ȳ_m)` with x̄_m the mean τ_b of method m with the reference (the test `agreement`) and
    ȳ_m its mean under a headline metric of faithfulness or plausibility, its sign turned where lower is better: ρ > 0 says
    that methods that agree more are better. Tied methods share their mean rank. Controls are shown and are not in ρ, and
    neither are methods of which more than a tenth of the explanations are constant.

    Intervals: the examples are resampled, the same for all methods and both measures. The methods are those of the
    comparison and no sample of others, so that ρ is one of these methods.

    Attributes:
        seed: of the resampling.

    Source: Neely et al. 2022 (arXiv 2205.04559) ask that agreement no longer be taken for quality.
    """

    seed: Natural = 0
    version: ClassVar[int] = 2  # 2: average precision; without constant methods

    def __call__(self, context: Context) -> Sequence[Table]:
        """The correlations and the points.

        Raises:
            NotApplicable: no test of agreement, no ranked test that reads token scores, or fewer than four methods.
        """
        references = measures(context, _is_agreement)
        ranked = measures(context, lambda _, test, metric, declared: declared.headline and _is_ranked(declared))
        if not references or not ranked:
            raise NotApplicable("it needs the test agreement, and a test of faithfulness or plausibility beside it")
        rows: list[dict[str, Any]] = []
        points: list[dict[str, Any]] = []
        for reference in references:
            for measure in ranked:
                of = TAUS[reference.metric]
                labels = {"agreement with": REFERENCES[of], "test": shown(context, measure)}
                found = method_values(context, [reference, measure])
                key = f"{of}.{measure.evaluation}.{measure.metric}"
                rows.append(self._correlation(labels, found, reference, measure, key))
                points += _points(labels, found, reference, measure)
        if not points:
            raise NotApplicable("no method has values of single examples in both tests")
        return [
            Table(
                name="agreement_and_quality",
                title="Does agreement predict quality? Rank correlation over the methods of the comparison",
                labels=("agreement with", "test"),
                rows=pd.DataFrame(rows),
                sentences=("Positive: methods that agree more with the reference are better in the test.",),
            ),
            Table(
                name="agreement_and_quality_points",
                title="Agreement of each method with a reference, and its result in a test",
                labels=("agreement with", "test", "method", "kind"),
                rows=pd.DataFrame(points),
                drawing=Drawing(
                    "scatter", x=_AGREEMENT, y=(_QUALITY,), series="kind", panels=("agreement with", "test")
                ),
                printed=False,
            ),
        ]

    def _correlation(
        self, labels: dict[str, str], found: MethodValues, reference: Measure, measure: Measure, key: str = ""
    ) -> dict[str, Any]:
        real = [place for place, name in enumerate(found.methods) if control_order(name) == 0]
        chosen = [place for place in real if found.methods[place] not in found.silent]
        silent = [
            f"{found.methods[place]}, {found.silent[found.methods[place]]}" for place in real if place not in chosen
        ]
        without = f"; without {'; '.join(silent)}" if silent else ""
        if len(chosen) < _LEAST_METHODS or found.n == 0:
            note = f"{len(chosen)} methods have both; at least {_LEAST_METHODS} are needed{without}"
            return line(labels, _RHO, note=note, key=key)
        agreement = found.values[reference][:, chosen]
        quality = oriented(measure, found.values[measure][:, chosen])
        rho = rank_correlation(agreement, quality, self.seed)
        return figure_line(labels, _RHO, rho, f"{len(chosen)} methods{without}", key=key)


def _is_agreement(_: str, test: Evaluation, metric: str, declared: Metric) -> bool:
    """Whether a metric is agreement with a reference: of the test that measures that, not of whatever else has a τ."""
    return isinstance(test, Agreement) and metric in TAUS and declared.headline


def _is_ranked(declared: Any) -> bool:
    return declared.higher_is_better is not None


def rank_correlation(first: Values, second: Values, seed: int) -> Interval:
    """Spearman's ρ between the column means of two tables [N M], and its interval over the N examples."""
    weights = np.random.default_rng(seed).multinomial(len(first), np.full(len(first), 1 / len(first)), _RESAMPLES)
    value = float(_spearman(first.mean(0)[None], second.mean(0)[None])[0])
    return spread_interval(value, _spearman(weights @ first, weights @ second), len(first), (-1.0, 1.0))


def _spearman(first: Values, second: Values) -> Values:
    """ρ of every two rows [R M]; NaN where one is constant."""
    ranks = [scipy.stats.rankdata(rows, axis=1) for rows in (first, second)]
    a, b = (rows - rows.mean(axis=1, keepdims=True) for rows in ranks)
    norm = np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
    rho: Values = np.divide((a * b).sum(axis=1), norm, out=np.full(len(a), np.nan), where=norm > 0)
    return rho


def _points(labels: dict[str, str], found: MethodValues, reference: Measure, measure: Measure) -> list[dict[str, Any]]:
    """A point per method and control."""
    points = []
    for name in found.methods:
        own = labels | {"method": name, "kind": "control" if control_order(name) else "method"}
        points.append(figure_line(own, _AGREEMENT, found.figures[reference][name]))
        points.append(figure_line(own, _QUALITY, found.figures[measure][name]))
    return points
