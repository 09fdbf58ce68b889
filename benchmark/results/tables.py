"""Tables that an analysis leaves: figures with intervals, in long form, with how they are drawn."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args, get_type_hints

import pandas as pd

from benchmark.errors import UserError

FIGURE_COLUMNS = ("metric", "value", "low", "high", "n", "note")
BOUNDS = ("least", "most")
"""The least and the largest possible value of a figure; NaN where it has no such end, or where it is not known."""
KEY = "figure_key"
"""The column of keys, by which code finds figures; no printed table has it. What tables say is for people, and may be
reworded."""
P_KEY = "p"
"""The key of every p-value, of whatever table."""
_OWN_COLUMNS = (*FIGURE_COLUMNS, *BOUNDS, KEY)
NO_INTERVAL = "no interval: "
"""How a note begins that says why a figure has none."""
PROBABILITY = f"{NO_INTERVAL}a probability"
"""The note of a p-value that comes from no resampling, and is printed as a probability."""
FORECAST = f"{NO_INTERVAL}a forecast"
"""The note of a number of examples that would be enough, which is printed as a whole number."""
TOO_SMALL = "n too small"
"""The note of a figure whose interval is wide (`is_wide`), or how it begins."""
_WIDE = 0.5  # of the range


@dataclass(frozen=True)
class Drawing:
    """How a table is drawn.

    Attributes:
        kind: `curves` (x is a numeric label column, a line per series), `points` (likewise, with a point per row and, in
            files, a line through the mean of each x), `scatter` (x and y are metrics, a point per
            row), `bars` (a bar per row), `violins` (the distribution of the rows of each x and series), `heat` (x and y
            are label columns, the colour is the metric), or `words` (x is a label column of words in the order of the
            table, which each metric shades in a row of its own, all rows of a panel on one scale; a line without a value
            stands beside them with its note), or `circuit` (edges of a computation graph: x is the label column of nodes,
            series that of the slots that they lead to). Words are drawn in the page alone.
        x: label column, or metric for a scatter.
        y: metrics that are drawn, one panel each; for a scatter the metric on the y axis; for heat the label column of
            the rows; for words a row each.
        series: label column that names lines and bars, or None.
        panels: label columns; one panel per combination of their values.
        value: the metric of a heat map; None where the metrics themselves are its columns (x is "metric").
        logarithmic: axes with a logarithmic scale, "x", "y", "xy" or "".
        alike: groups of metrics that are drawn on one scale, as they are of one kind. All panels of a metric are.
        differences: values of panel columns whose heat maps are signed differences, with a scale of their own around 0.
        turned: values of panel columns whose y axis is turned, as low figures are the better ones there: the better end is
            up in all panels.
    """

    kind: Literal["curves", "points", "scatter", "bars", "heat", "violins", "words", "circuit"]
    x: str
    y: tuple[str, ...]
    series: str | None = None
    panels: tuple[str, ...] = ()
    value: str | None = None
    logarithmic: Literal["", "x", "y", "xy"] = ""
    alike: tuple[tuple[str, ...], ...] = ()
    differences: tuple[str, ...] = ()
    turned: tuple[str, ...] = ()

    def check(self, table: "Table") -> None:
        """TypeError or ValueError where the drawing asks for what the table does not have."""
        for name in ("kind", "logarithmic"):
            if getattr(self, name) not in get_args(get_type_hints(Drawing)[name]):
                raise ValueError(f"the drawing has the {name} {getattr(self, name)!r}")
        labels, metrics = {*table.labels, "metric"}, {*table.rows["metric"]}
        columns = {*self.panels, *([] if self.series is None else [self.series])}
        columns |= {self.x} if self.kind != "scatter" else set()
        columns |= {self.y[0]} if self.kind == "heat" else set()
        figures = ({self.x} if self.kind == "scatter" else set()) | ({*self.y} if self.kind != "heat" else set())
        if not columns <= labels or not (figures | {self.value or min(metrics)}) <= metrics:
            raise ValueError("the drawing asks for columns or metrics that the table does not have")
        if self.kind in ("curves", "points"):
            pd.to_numeric(table.rows[self.x])


@dataclass(frozen=True)
class Table:
    """A table of figures.

    Attributes:
        name: stem of its files.
        title: what it says, in one line.
        labels: the leading columns of `rows`; together they name a line of the printed table.
        rows: one line per figure: the label columns, then `metric`, `value`, `low`, `high` (the 95 % interval, NaN where
            there is none), `n` (examples; 0 where the figure counts none) and `note` (stands in place of the value, or
            is empty). `line` adds the figure's range and its key where it has them; see `keyed`.
        sentences: what the figures mean, each a full sentence.
        drawing: how it is drawn, or None.
        printed: shown as a table; the points of a scatter plot are not (their CSV is written all the same).
        first: stands before the tables of all other analyses, as what they come to.
    """

    name: str
    title: str
    labels: tuple[str, ...]
    rows: pd.DataFrame
    sentences: tuple[str, ...] = ()
    drawing: Drawing | None = None
    printed: bool = True
    first: bool = False

    def __post_init__(self) -> None:
        if missing := [column for column in (*self.labels, *FIGURE_COLUMNS) if column not in self.rows.columns]:
            raise ValueError(f"table '{self.name}' lacks the column {', '.join(missing)}")

    @property
    def keys(self) -> "pd.Series[str]":
        """The key of each row; empty where a figure has none."""
        given = self.rows.get(KEY, pd.Series("", index=self.rows.index)).astype(object)
        return given.where(given.notna(), "")

    def keyed(self, *keys: str) -> pd.DataFrame:
        """The rows with the first of these keys that any row has; none where no figure was given one of them.

        Several figures of one kind may share a key: they come in the order of the table.

        Raises:
            ValueError: a key is empty, as is that of figures that nobody is to find.
        """
        if not all(keys):
            raise ValueError("figures without a key cannot be found by one")
        given = self.keys
        return self.rows[given == next((key for key in keys if (given == key).any()), None)]

    def to_json(self) -> dict[str, Any]:
        """What `from_json` reads; NaN becomes null, and figures without a key are written without one."""
        rows = self.rows.reindex(columns=[*self.labels, *FIGURE_COLUMNS, *BOUNDS])
        rows[[*BOUNDS]] = rows[[*BOUNDS]].astype(float).replace([-math.inf, math.inf], math.nan)
        facts = {name: value for name, value in asdict(self).items() if name != "rows"}
        keys = [{KEY: key} if key else {} for key in self.keys]
        return facts | {"rows": [row | key for row, key in zip(rows.to_dict(orient="records"), keys, strict=True)]}

    @staticmethod
    def from_json(facts: Mapping[str, Any]) -> "Table":
        """Read what `to_json` wrote; UserError where it is something else."""
        try:
            drawing = facts["drawing"] and facts["drawing"] | {
                **{key: tuple(facts["drawing"].get(key, ())) for key in ("y", "panels", "differences", "turned")},
                "alike": tuple(map(tuple, facts["drawing"].get("alike", ()))),
            }
            labels = tuple(facts["labels"])
            rows = pd.DataFrame(facts["rows"], columns=[*labels, *_OWN_COLUMNS])
            table = Table(
                name=facts["name"],
                title=facts["title"],
                labels=labels,
                rows=rows.astype(
                    {"value": float, "low": float, "high": float, "n": int} | dict.fromkeys(BOUNDS, float)
                ),
                sentences=tuple(facts["sentences"]),
                drawing=None if drawing is None else Drawing(**drawing),
                printed=facts["printed"],
                first=facts.get("first", False),
            )
            table.check()
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UserError(f"a table of an analysis cannot be read ({error})") from error
        return table

    def check(self) -> None:
        """TypeError or ValueError where the table cannot be shown: no texts, or a drawing of what is not there."""
        texts = (self.name, self.title, *self.labels, *self.sentences, *self.rows["metric"], *self.rows["note"])
        if not all(isinstance(text, str) for text in (*texts, *self.keys)):
            raise TypeError("something else than a text stands for a text")
        if not self.labels or len({*self.labels, *_OWN_COLUMNS}) < len(self.labels) + len(_OWN_COLUMNS):
            raise ValueError("the label columns are none, or share a name")
        if self.drawing is not None:
            self.drawing.check(self)


def line(
    labels: Mapping[str, Any],
    metric: str,
    value: float = float("nan"),
    low: float = float("nan"),
    high: float = float("nan"),
    n: int = 0,
    note: str = "",
    bounds: tuple[float, float] | None = None,
    key: str = "",
) -> dict[str, Any]:
    """One figure as a row of a table; a `note` without a value stands where the figure would.

    `key` names the figure for other code: `Table.keyed` finds it by nothing else, whatever `metric` and the labels say. It
    is made of code names (`read_row.change`, `rollout.over_random`), never of texts that are printed, and need not be given
    where nothing reads the figure but people; that of a p-value is `P_KEY`.

    `bounds`, the least and the largest possible value, are kept in columns of their own, which no printed table has: whoever
    puts figures of several tables together needs them. Where the interval spans too much of them (`is_wide`), the note
    says so, and stands in place of the figure wherever it is printed.
    """
    if bounds is not None and is_wide(low, high, bounds, n) and not note.startswith(TOO_SMALL):
        note = f"{TOO_SMALL}: {note.removeprefix(NO_INTERVAL)}" if note else TOO_SMALL
    figure = {**labels, "metric": metric, "value": value, "low": low, "high": high, "n": n, "note": note}
    return figure | ({} if bounds is None else dict(zip(BOUNDS, bounds, strict=True))) | ({KEY: key} if key else {})


def frame(rows: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> pd.DataFrame:
    """Lines as the rows of a table, with all of its columns where there is no line, too, or none with a range."""
    return pd.DataFrame(rows, columns=[*labels, *_OWN_COLUMNS])


def reach_of(row: Mapping[Any, Any]) -> tuple[float, float]:
    """The least and the largest possible value of a row's figure; infinite where there is none, or it is not known."""
    least, most = (float(row.get(end, math.nan)) for end in BOUNDS)
    return (-math.inf if math.isnan(least) else least, math.inf if math.isnan(most) else most)


def is_wide(low: float, high: float, reach: tuple[float, float], n: int) -> bool:
    """Whether an interval spans more than half of a finite range: n is too small for the figure to be a result.

    A single example has no interval, and says no more than that the figure lies in its range.
    """
    span, width = reach[1] - reach[0], high - low
    if not math.isfinite(width):
        return math.isfinite(span) and n == 1
    return math.isfinite(span) and width > _WIDE * span


def no_interval(value: float, low: float, high: float, n: int) -> str:
    """Why a figure over n examples has no interval; empty where it has one, or there is no figure."""
    if n == 0 or math.isnan(value) or math.isfinite(high - low):
        return ""
    return f"{NO_INTERVAL}n is 1" if n == 1 else f"{NO_INTERVAL}too few of the examples differ"


def no_interval_of(row: Mapping[Any, Any]) -> str:
    """`no_interval` of a row's figure."""
    return no_interval(row["value"], row["low"], row["high"], row["n"])


def is_p_value(row: Mapping[Any, Any]) -> bool:
    """Whether a row holds a p-value."""
    return row.get(KEY) == P_KEY


def is_too_wide(row: Mapping[Any, Any]) -> bool:
    """Whether a row's interval is too wide for its figure to be a result, so that its note stands where it is printed."""
    return is_wide(row["low"], row["high"], reach_of(row), row["n"])


def not_applicable(name: str, reason: str) -> Table:
    """What stands in place of an analysis that cannot serve."""
    rows = pd.DataFrame([line({"analysis": name}, "not applicable", note=reason)])
    return Table(name, f"{name}: not applicable", ("analysis",), rows)
