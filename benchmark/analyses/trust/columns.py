"""The figures that tests give explanations of single examples, as a table of examples and methods for each test.

Notation: N examples, M methods, K controls of one kind.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy.typing import NDArray

from benchmark.analyses.context import Context
from benchmark.analyses.differences import columns
from benchmark.analyses.measured import tested
from benchmark.results.control_names import control_order
from benchmark.results.record import Record, too_constant
from benchmark.results.rows import StoredRows
from benchmark.types import Evaluation

ORACLE, RANDOM, INVERTED = "oracle", "random", "inverted"

Figures = Float[NDArray[np.float64], "N M"]


@dataclass(frozen=True)
class Column:
    """One headline figure of a test for every example and method, turned so that more is better.

    Attributes:
        test: the test's name.
        metric: that of the figure.
        title: what the test's tables call it.
        kind: of the test (`About.kind`).
        uids: of the examples that have a figure of every method.
        methods: names of the methods that are no controls.
        values: of each example and method.
        controls: of each example, by kind of control; of several random ones their mean.
        sign: −1 where the test's own figure is better when it is lower.
        alternatives: the same figures under other settings of the test, by what they are, turned likewise.
    """

    test: str
    metric: str
    title: str
    kind: str
    uids: tuple[str, ...]
    methods: tuple[str, ...]
    values: Figures
    controls: Mapping[str, Float[NDArray[np.float64], " N"]]
    sign: float = 1.0
    alternatives: Mapping[str, Figures] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Names it in the analysis's keys."""
        return f"{self.test}.{self.metric}"

    @property
    def shown(self) -> str:
        """Names it where people read."""
        return f"{self.title} ({self.test})"


def columns_of(context: Context) -> Iterator[Column]:
    """Every headline scalar that has a figure of each example, for at least two methods whose maps are not constant."""
    stored = {name: tested(cell, context.tests) for name, cell in context.cells.items()}
    for name, evaluation in context.evaluations.items():
        rows = {method: own for method, (record, own) in stored.items() if not _says_nothing(record, method, name)}
        for metric, about in evaluation.metrics.items():
            if not about.headline or about.x is not None or about.higher_is_better is None:
                continue
            sign = 1.0 if about.higher_is_better else -1.0
            column = _column(rows, name, metric, sign=sign)
            if column is not None:
                uids, methods, *_ = column
                others = {
                    told: figures
                    for told, (other, is_half) in _alternatives(evaluation, metric).items()
                    if (figures := _again(rows, name, other, sign=sign, of=(uids, methods), half=is_half)) is not None
                }
                yield Column(name, metric, about.title or metric, evaluation.about.kind, *column, sign, others)


def _alternatives(evaluation: Evaluation, metric: str) -> Mapping[str, tuple[str, bool]]:
    """Metrics that the test would have had in the figure's place, and whether it is the first half of a curve; see tests."""
    asked = getattr(evaluation, "alternatives", None)
    return {} if asked is None else asked(metric)


def _again(
    stored: Mapping[str, StoredRows],
    test: str,
    metric: str,
    *,
    sign: float,
    of: tuple[Sequence[str], Sequence[str]],
    half: bool,
) -> Figures | None:
    """Figures of another metric for the same examples and methods, of a curve its mean height over the first half."""
    uids, methods = of
    found = []
    for method in methods:
        table = columns(stored[method], test, metric)
        if half:
            removed = [place for place, x in enumerate(table.columns.to_numpy(dtype=np.float64)) if x > 0]
            table = table.iloc[:, removed[: -(-len(removed) // 2)]]
        found.append(sign * table.mean(axis=1).reindex(list(uids)).to_numpy(dtype=np.float64))
    values = np.stack(found, axis=1)
    return values if np.isfinite(values).all() else None


def _says_nothing(record: Record, method: str, test: str) -> bool:
    """Whether nothing rests on a method in a test, as its maps are constant; controls are what they are."""
    own = record.evaluations.get(test)
    return control_order(method) == 0 and own is not None and too_constant(own.constant)


def _column(
    stored: Mapping[str, StoredRows], test: str, metric: str, *, sign: float
) -> tuple[tuple[str, ...], tuple[str, ...], Figures, dict[str, NDArray[np.float64]]] | None:
    found: dict[str, pd.Series[float]] = {}
    for method, values in stored.items():
        table = columns(values, test, metric)
        if table.shape[1] == 1 and len(table):
            found[method] = sign * table.iloc[:, 0]
    methods = [name for name in found if control_order(name) == 0]
    if len(methods) < 2:
        return None
    most = max(len(found[name]) for name in methods)
    methods = [name for name in methods if 2 * len(found[name]) > most]  # one that fails on most texts hides no others
    whole = pd.concat({name: found[name] for name in methods}, axis=1, join="inner")
    controls: dict[str, NDArray[np.float64]] = {}
    for kind in (ORACLE, RANDOM, INVERTED):
        own = [found[name] for name in found if control_order(name) == control_order(kind)]
        if own:
            controls[kind] = pd.concat(own, axis=1).mean(axis=1).reindex(whole.index).to_numpy(dtype=np.float64)
    return tuple(map(str, whole.index)), tuple(methods), whole.to_numpy(dtype=np.float64), controls


def common(first: Column, second: Column) -> tuple[Figures, Figures]:
    """The figures of two tests for the methods and examples that both have."""
    methods, uids = set(first.methods) & set(second.methods), set(first.uids) & set(second.uids)
    return within(first, methods, uids), within(second, methods, uids)


def within(column: Column, methods: Collection[str], uids: Collection[str]) -> Figures:
    """The figures of some methods and examples, in one order."""
    table = pd.DataFrame(column.values, index=list(column.uids), columns=list(column.methods))
    return table.loc[sorted(uids), sorted(methods)].to_numpy(dtype=np.float64)
