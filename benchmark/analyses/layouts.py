"""Values of crossed combinations, per example: what is missing, and the balanced layout that is left."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy.typing import NDArray

from benchmark.results.record import Record
from benchmark.results.rows import StoredRows
from benchmark.results.statistics import Interval
from benchmark.results.wording import bounds, number

Place = tuple[str, str]
"""An edge score and a readout, by name."""


@dataclass(frozen=True)
class Measure:
    """A scalar metric of one test."""

    evaluation: str
    metric: str
    higher_is_better: bool | None

    def __str__(self) -> str:
        return f"{self.evaluation}: {self.metric}"


@dataclass(frozen=True)
class Value:
    """What a combination reached: its figure, and the values of the examples (None: the figure is no mean of any)."""

    figure: Interval
    examples: pd.Series | None


@dataclass(frozen=True)
class Layout:
    """All combinations of one measure.

    Attributes:
        shown: the figure of each combination, or why there is none.
        edges: edge scores of the balanced layout.
        readouts: its readouts.
        values: its values [N E F], or None where there is no such layout.
        reason: why there is none.
        left_out: one sentence, without its full stop, per edge score, readout or group of examples that is left out.
    """

    shown: Mapping[Place, Interval | str]
    edges: tuple[str, ...]
    readouts: tuple[str, ...]
    values: Float[NDArray, "N E F"] | None
    reason: str
    left_out: tuple[str, ...]


def read(cells: Mapping[Place, tuple[Record, StoredRows]], measure: Measure) -> dict[Place, Value | str]:
    """The value of one measure in each combination's record and rows, or the reason why there is none.

    A combination whose explanations mostly say nothing has none: its figure is that of the order of ties.
    """
    return {
        place: record.evaluations[measure.evaluation].silence or value_of(record, rows, measure)
        for place, (record, rows) in cells.items()
    }


def value_of(record: Record, rows: StoredRows, measure: Measure) -> Value | str:
    """One measure of one cell, or the reason why there is none."""
    test = record.evaluations[measure.evaluation]
    figure = test.scalar(measure.metric)
    if figure is None or not math.isfinite(figure.value):
        return test.dash or "the test reported no such figure"
    interval = Interval(figure.value, figure.low, figure.high, figure.n)
    of_measure = rows.read(measure.evaluation, measure.metric)
    examples = of_measure[of_measure["x"].isna()].set_index("uid")["value"].dropna().sort_index()
    mean = len(examples) == interval.n and math.isclose(examples.mean(), interval.value, rel_tol=1e-4, abs_tol=1e-6)
    return Value(interval, examples if mean else None)


def layout(values: Mapping[Place, Value | str]) -> Layout:
    """The balanced layout: edge scores and readouts that lack values are left out, then examples that lack some.

    A combination lacks its values where it could not serve, or where fewer than half of the examples have one. As long as
    there is such a combination, the edge score or readout with the largest share of them is left out; of equal shares, the
    edge score.
    """
    edges, readouts = (list(dict.fromkeys(place[side] for place in values)) for side in (0, 1))
    shown = {place: value if isinstance(value, str) else value.figure for place, value in values.items()}
    most = max((len(v.examples) for v in values.values() if isinstance(v, Value) and v.examples is not None), default=0)
    if most == 0:
        return Layout(
            shown, (), (), None, "no combination has values of single examples that the figure is the mean of", ()
        )
    missing = {place: text for place, value in values.items() if (text := _why_unusable(value, most)) is not None}
    left_out = list(_leave_out(edges, readouts, missing))
    if len(edges) < 2 or len(readouts) < 2:
        return Layout(shown, (), (), None, "fewer than two edge scores or readouts have all values", tuple(left_out))
    frames = [values[edge, readout] for edge in edges for readout in readouts]
    table = pd.concat([v.examples for v in frames if isinstance(v, Value) and v.examples is not None], axis=1)
    complete = table.dropna().sort_index()
    if len(complete) < len(table):
        left_out.append(f"{len(table) - len(complete)} of {len(table)} examples, without a value for some combination")
    array = complete.to_numpy(dtype=np.float64).reshape(len(complete), len(edges), len(readouts))
    reason = "fewer than two examples have a value everywhere" if len(complete) < 2 else ""
    return Layout(shown, tuple(edges), tuple(readouts), None if reason else array, reason, tuple(left_out))


def _why_unusable(value: Value | str, most: int) -> str | None:
    """Why a combination's values cannot be used, or None."""
    if isinstance(value, str):
        return value
    if value.examples is None:
        return "the figure is no mean over examples"
    if 2 * len(value.examples) < most:
        return "fewer than half of the examples have a value"
    return None


def _leave_out(edges: list[str], readouts: list[str], missing: Mapping[Place, str]) -> Iterator[str]:
    """Remove from both lists what lacks values; a sentence for each removal."""

    def lacking(name: str, side: int) -> list[Place]:
        others: Sequence[str] = readouts if side == 0 else edges
        return [place for place in missing if place[side] == name and place[1 - side] in others]

    while edges and readouts:
        shares = [(len(lacking(name, 0)) / len(readouts), 0, name) for name in edges]
        shares += [(len(lacking(name, 1)) / len(edges), 1, name) for name in readouts]
        share, side, name = max(shares, key=lambda entry: (entry[0], -entry[1]))
        if share == 0:
            return
        places = lacking(name, side)
        reasons = "; ".join(dict.fromkeys(missing[place] for place in places))
        kind, other = ("Edge score", "readouts") if side == 0 else ("Readout", "edge scores")
        (edges if side == 0 else readouts).remove(name)
        count = len(readouts if side == 0 else edges)
        yield f"{kind} {name} is left out of the shares: {len(places)} of {count} {other} lack values ({reasons})"


def best(measure: Measure, combinations: Layout) -> Iterator[str]:
    """The best combination in words; nothing where the measure is descriptive or there is no figure."""
    figures = {place: figure for place, figure in combinations.shown.items() if isinstance(figure, Interval)}
    if measure.higher_is_better is None or not figures:
        return
    sign = 1 if measure.higher_is_better else -1
    edge, readout = max(figures, key=lambda place: sign * figures[place].value)
    figure = figures[edge, readout]
    others = sum(math.isclose(other.value, figure.value, rel_tol=1e-9) for other in figures.values()) - 1
    tied = f" (and {others} more with the same value)" if others else ""
    yield f"{edge} with {readout}: {number(figure.value)} {bounds(figure.low, figure.high)}".rstrip() + tied
