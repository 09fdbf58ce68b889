"""What all evaluations share: building rows, and reducing rows to figures."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import ClassVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from benchmark.errors import NotApplicable
from benchmark.results import statistics
from benchmark.results.record import Derivation, Figure, Metric
from benchmark.types import Attribution, Batch, Evaluation
from benchmark.units import Pool, pool

Column = NDArray[np.float64]
Columns = Mapping[tuple[str, float | None], tuple[tuple[str, ...], Column]]
"""By metric and x (None for scalars) the uids of the examples, and their values."""


SHARE = (0.0, 1.0)
"""The bounds of a share, and of a probability."""

SIGNED = (-1.0, 1.0)
"""Those of a correlation, and of a difference of two shares."""

UNBOUNDED = (0.0, float("inf"))
"""Those of a number of things, and of a distance."""


def _metric(
    title: str,
    meaning: str,
    *,
    higher_is_better: bool | None,
    short: str = "",
    bounds: statistics.Range = SHARE,
    x: str | None = None,
    headline: bool = False,
    scale: str = "numeric",
    without: str = "",
) -> Metric:
    """A metric in few words: its title, its meaning, and what differs from a share without an axis."""
    return Metric(higher_is_better, bounds, x, headline, title, short, meaning, scale, without)


higher, lower, described = (partial(_metric, higher_is_better=better) for better in (True, False, None))
"""A metric of which more is better, one of which less is, and one that describes and ranks nothing."""


@dataclass(frozen=True)
class Derived:
    """A figure that is no mean over examples: `statistic` of the means of the row columns named `columns`.

    A column is taken at the x of the figure. One in `scalars` is taken at x = NaN instead, and a pair (name, x) at that x.
    A figure without a column of the first kind is a scalar.

    Attributes:
        columns: names of row columns, or pairs.
        statistic: of their means [r, k].
        scalars: columns without an x.
        ranges: least and largest possible value of each column, where the statistic is monotone in each of them. The
            interval of a sample that hardly varies rests on them; None: such a sample has no interval.
    """

    columns: tuple[str | tuple[str, float], ...]
    statistic: statistics.Statistic
    scalars: tuple[str, ...] = ()
    ranges: tuple[tuple[float, float], ...] | None = None


class Rows:
    """Rows `uid, metric, x, value` of B examples, gathered metric by metric and made into one table at the end."""

    def __init__(self, uids: Sequence[str]) -> None:
        self._uids = np.asarray(uids, dtype=object)
        self._example: list[NDArray[np.intp]] = []
        self._metric: list[tuple[str, int]] = []
        self._x: list[Column] = []
        self._value: list[Column] = []

    def add(
        self,
        metric: str,
        values: Tensor | NDArray,
        *,
        x: Sequence[float | int] | None = None,
        defined: Tensor | NDArray | None = None,
    ) -> None:
        """The rows of one metric.

        Args:
            metric: its name.
            values: [B] for a scalar, [B, X] for a curve.
            x: X positions of a curve.
            defined: which values get a row, Bool of the same shape or [B]; a NaN that is defined gets one, and shows.
        """
        positions = np.asarray([np.nan] if x is None else x, dtype=np.float64)
        shape = len(self._uids), len(positions)
        value = np.asarray(torch.as_tensor(values).detach().cpu(), dtype=np.float64).reshape(shape)
        keep = np.asarray(torch.as_tensor(True if defined is None else defined).cpu(), dtype=bool)
        kept = np.broadcast_to(keep[:, None] if keep.ndim == 1 else keep, shape)
        example, place = np.nonzero(kept)
        self._example.append(example)
        self._metric.append((metric, len(example)))
        self._x.append(positions[place])
        self._value.append(value[kept])

    def frame(self) -> pd.DataFrame:
        """What was added, in that order; of each metric example by example."""
        names, counts = zip(*self._metric, strict=True) if self._metric else ((), ())
        columns = {
            "uid": self._uids[np.concatenate([np.zeros(0, dtype=np.intp), *self._example])],
            "metric": np.repeat(np.asarray(names, dtype=object), counts),
            "x": np.concatenate([np.zeros(0), *self._x]),
            "value": np.concatenate([np.zeros(0), *self._value]),
        }
        frame = pd.DataFrame(columns)
        return frame.astype({"uid": str, "metric": str}) if frame.empty else frame


def table(
    uids: Sequence[str],
    metric: str,
    values: Tensor | NDArray,
    *,
    x: Sequence[float | int] | None = None,
    defined: Tensor | NDArray | None = None,
) -> pd.DataFrame:
    """Rows of one metric, see `Rows.add`."""
    rows = Rows(uids)
    rows.add(metric, values, x=x, defined=defined)
    return rows.frame()


def token_scores(batch: Batch, attribution: Attribution) -> Float[Tensor, "B T"]:
    """The attribution's token scores, where the batch lies; NotApplicable where the method gives none."""
    if attribution.tokens is None:
        raise NotApplicable("the method gives no token scores")
    return attribution.tokens.to(batch.units.device)


def correctness(logits: Float[Tensor, "*n C"], label: Int[Tensor, "*m"]) -> Float[Tensor, "*n"]:
    """1 where the label has the largest logit, else 0, in float64; NaN where a logit is NaN, which is no prediction."""
    correct = (logits.argmax(-1) == label).double()
    return torch.where(logits.isnan().any(-1), torch.nan, correct)


def rated_units(batch: Batch, visible: Bool[Tensor, "B U"]) -> Bool[Tensor, "B U"]:
    """Visible units that are rated: others, as those of a query (the first `query_units`), are never ranked or removed."""
    marks = [
        torch.as_tensor(batch.rated_units(b)[: visible.shape[1]], device=visible.device) for b in range(len(batch))
    ]
    rated = visible.clone()
    for row, own in zip(rated, marks, strict=True):
        row[: len(own)] &= own
    return rated


def rated_scores(batch: Batch, tokens: Float[Tensor, "B T"], how: Pool) -> list[Column]:
    """The scores of each example's rated units, from those of its tokens."""
    scores, visible = pool(tokens.to(batch.units.device), batch.units, how)
    rated = rated_units(batch, visible)
    return [row[keep].detach().double().cpu().numpy() for row, keep in zip(scores, rated, strict=True)]


def _by_metric_and_x(rows: pd.DataFrame) -> Columns:
    """The columns that rows hold, sorted by uid."""
    ordered = rows.sort_values("uid", kind="stable")
    columns = {}
    for (metric, x), part in ordered.groupby(["metric", "x"], dropna=False, sort=True):
        position = float(str(x))
        key = (str(metric), None if np.isnan(position) else position)
        columns[key] = (tuple(part["uid"]), part["value"].to_numpy(dtype=np.float64))
    return columns


class Averaged(Evaluation):
    """A test whose `reduce` averages rows over examples, per metric and x, with intervals (`benchmark.results.statistics`).

    Metrics in `derived` are statistics of several row columns. Rows of a name that is no metric only feed those.
    Examples are sorted by uid first, so that the figures do not depend on the order of the rows.
    """

    nothing: ClassVar[str] = "no example has a value"
    averaged: ClassVar[bool] = True

    @property
    def derived(self) -> Mapping[str, Derived]:
        """Metrics that are no mean of their own rows."""
        return {}

    @property
    def parts(self) -> Mapping[str, Derivation]:
        """What a report needs to compute a derived scalar again: the name of its statistic, and its columns with their x."""
        return {
            name: Derivation(statistic, tuple(c if isinstance(c, tuple) else (c, None) for c in rule.columns))
            for name, rule in self.derived.items()
            if (statistic := statistics.name_of(rule.statistic)) is not None and self.metrics[name].x is None
        }

    def divided(self, metrics: Sequence[str]) -> list[list[str]]:
        """Names of rows in groups that `reduce` may be given one at a time.

        Together are those that a derived metric is computed from, and all of them where a class has a `reduce` of its own.
        """
        if type(self).reduce is not Averaged.reduce:
            return [list(metrics)]
        return connected(
            metrics, [[c if isinstance(c, str) else c[0] for c in d.columns] for d in self.derived.values()]
        )

    def reduce(self, rows: pd.DataFrame) -> list[Figure]:
        """One figure per metric and x: the mean over the examples that have a row, and its interval. Pure.

        Raises:
            NotApplicable: there is no row at all.
        """
        if rows.empty:
            raise NotApplicable(self.nothing)
        columns = _by_metric_and_x(rows)
        bounds = {name: metric.bounds for name, metric in self.metrics.items()}
        figures = _means({key: value for key, value in columns.items() if key[0] in bounds}, bounds)
        for name, rule in self.derived.items():
            figures += _statistics(name, rule, columns, bounds[name])
        place = {name: i for i, name in enumerate(self.metrics)}
        return sorted(figures, key=lambda f: (place[f.metric], -np.inf if np.isnan(f.x) else f.x))


def connected(names: Sequence[str], together: Iterable[Sequence[str]]) -> list[list[str]]:
    """The names in groups, so that those that stand together somewhere are in one."""
    group = {name: [name] for name in names}
    for members in together:
        first, *others = [name for name in members if name in group] or [""]
        for name in others:
            if group[name] is not group[first]:
                group[first] += group[name]
                group |= dict.fromkeys(group[name], group[first])
    return list({id(members): members for members in group.values()}.values())


def _means(columns: Columns, bounds: Mapping[str, statistics.Range]) -> list[Figure]:
    """Means with intervals; columns over the same examples share one bootstrap."""
    figures = []
    ordered = sorted(columns.items(), key=lambda item: item[1][0])
    for _, group in groupby(ordered, key=lambda item: item[1][0]):
        members = list(group)
        values = np.stack([values for _, (_, values) in members], axis=1)
        intervals = statistics.intervals(values, bounds=[bounds[metric] for (metric, _), _ in members])
        figures += [as_figure(*key, interval) for (key, _), interval in zip(members, intervals, strict=True)]
    return figures


def _statistics(name: str, rule: Derived, columns: Columns, bounds: statistics.Range) -> list[Figure]:
    """The derived figure `name` at every x at which all its columns have rows."""
    varying = next((c for c in rule.columns if isinstance(c, str) and c not in rule.scalars), None)
    figures = []
    for x in [None] if varying is None else [x for metric, x in columns if metric == varying]:
        keys = [c if isinstance(c, tuple) else (c, None if c in rule.scalars else x) for c in rule.columns]
        if any(key not in columns for key in keys):
            continue
        values = [dict(zip(*columns[key], strict=True)) for key in keys]
        common = sorted(set.intersection(*(set(value) for value in values)))
        matrix = np.array([[value[uid] for value in values] for uid in common], dtype=np.float64)
        matrix = matrix.reshape(-1, len(keys))
        interval = statistics.interval(matrix, rule.statistic, bounds=bounds, ranges=rule.ranges)
        figures.append(as_figure(name, x, interval))
    return figures


def as_figure(metric: str, x: float | None, interval: statistics.Interval) -> Figure:
    """The figure of a metric at x (None for a scalar)."""
    return Figure(metric, float("nan") if x is None else x, interval.value, interval.low, interval.high, interval.n)
