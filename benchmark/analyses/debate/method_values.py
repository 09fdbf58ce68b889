"""The values of a comparison's methods under its tests, example by example."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmark.analyses.context import Context
from benchmark.analyses.layouts import Measure, Value, value_of
from benchmark.analyses.measured import tested
from benchmark.results.record import Metric, Record
from benchmark.results.statistics import Interval
from benchmark.results.wording import arrow
from benchmark.types import Evaluation

Values = NDArray[np.float64]


@dataclass(frozen=True)
class MethodValues:
    """What several methods reached under several measures, on the examples that have all values.

    Attributes:
        methods: M names; those that lack a measure, or more than half of its examples, are left out.
        figures: by measure, the figure of each method.
        values: by measure, [N M].
        silent: methods on whose values no verdict may rest, and why (`EvaluationRecord.silence`).
    """

    methods: tuple[str, ...]
    figures: Mapping[Measure, Mapping[str, Interval]]
    values: Mapping[Measure, Values]
    silent: Mapping[str, str] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """How many examples have all values."""
        return len(next(iter(self.values.values()), np.empty(0)))


def measures(context: Context, wanted: Callable[[str, Evaluation, str, Metric], bool]) -> list[Measure]:
    """The scalar metrics of tests that read token scores which are `wanted`, given test, metric and what they declare."""
    return [
        Measure(name, metric, declared.higher_is_better)
        for name, test in context.evaluations.items()
        if test.reads == "tokens"
        for metric, declared in test.metrics.items()
        if declared.x is None and wanted(name, test, metric, declared)
    ]


def named_measures(context: Context) -> dict[str, Measure]:
    """All of `measures` by TEST.METRIC, as settings name them."""
    return {f"{measure.evaluation}.{measure.metric}": measure for measure in measures(context, lambda *_: True)}


def method_values(context: Context, wanted: Sequence[Measure]) -> MethodValues:
    """The values of these measures; a figure that is no mean over examples leaves the method out."""
    read = {name: tested(cell, context.tests) for name, cell in context.cells.items()}
    found = {name: [value_of(*stored, measure) for measure in wanted] for name, stored in read.items()}
    whole: dict[str, list[Value]] = {}
    for name, values in found.items():
        usable = [value for value in values if isinstance(value, Value) and value.examples is not None]
        if len(usable) == len(wanted):
            whole[name] = usable
    most = max((len(_examples(value)) for values in whole.values() for value in values), default=0)
    whole = {n: values for n, values in whole.items() if all(2 * len(_examples(v)) >= most for v in values)}
    columns = {
        (place, name): _examples(values[place]) for name, values in whole.items() for place in range(len(wanted))
    }
    table = pd.DataFrame(columns).dropna().sort_index()
    return MethodValues(
        methods=tuple(whole),
        figures={measure: {n: values[i].figure for n, values in whole.items()} for i, measure in enumerate(wanted)},
        values={measure: table[[(i, n) for n in whole]].to_numpy(dtype=np.float64) for i, measure in enumerate(wanted)},
        silent={name: text for name in whole if (text := _silence(read[name][0], wanted)) is not None},
    )


def _silence(record: Record, wanted: Sequence[Measure]) -> str | None:
    return next((text for measure in wanted if (text := record.evaluations[measure.evaluation].silence)), None)


def _examples(value: Value) -> "pd.Series[float]":
    return pd.Series(dtype=float) if value.examples is None else value.examples


def shown(context: Context, measure: Measure) -> str:
    """A measure in the field's terms, with the direction of better."""
    declared = context.evaluations[measure.evaluation].metrics[measure.metric]
    return f"{declared.title or measure} {arrow(declared.higher_is_better)}".rstrip()


def oriented(measure: Measure, values: Values) -> Values:
    """The values, with their sign turned where lower is better."""
    return -values if measure.higher_is_better is False else values
