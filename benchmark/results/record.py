"""`record.json` as objects: what a finished cell is, what it cost, and the figures of its tests.

What is read is held to the annotations: every field is there and of its type. JSON has no numbers that are not finite: null
stands for NaN, and in `bounds` for an infinite end.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmark.results.annotated import as_dataclass, as_json

SCHEMA = 3
_TOLERANCE = 1e-6  # of a value beyond its bounds

Version = int | float | str


KINDS = ("faithfulness", "known causes", "plausibility", "descriptive")
"""What a test of explanations asks, in the order of the tables: what the model uses, what is known to cause its answer, what
people would mark, or none of these."""


@dataclass(frozen=True)
class About:
    """What a test is, in the field's terms. Reports fall back to its code name, and show it after those that say it.

    Attributes:
        kind: one of `KINDS`, empty where it is not known.
        order: its place among the tests of its kind.
        title: heads its table.
    """

    kind: str = ""
    order: int = 1_000
    title: str = ""


@dataclass(frozen=True)
class Metric:
    """One column of the leaderboard.

    Attributes:
        higher_is_better: its direction; None where it is descriptive and not ranked.
        bounds: its range; NaN for an infinite end.
        x: name of the x axis where it is a curve; None for a scalar.
        headline: whether it is shown in the terminal's table, and of curves whether in the overview.
        title: its name in the field's terms; empty: its code name stands for it.
        short: the same for a narrow column.
        meaning: what it measures, in one sentence without range and direction, which `sentence` adds.
        without: why examples may give no such figure at all; empty where every example gives one.
        scale: of the x axis: `numeric`, `class` (an index of the model's labels) or `nominal` (a number that only names).
    """

    higher_is_better: bool | None
    bounds: tuple[float, float]
    x: str | None = None
    headline: bool = False
    title: str = ""
    short: str = ""
    meaning: str = ""
    scale: str = "numeric"
    without: str = ""

    def __post_init__(self) -> None:
        low, high = self.bounds
        bounds = (-math.inf if math.isnan(low) else low, math.inf if math.isnan(high) else high)
        object.__setattr__(self, "bounds", bounds)

    @property
    def sentence(self) -> str:
        """What it measures, its range, and the direction of better."""
        direction = {True: "higher is better", False: "lower is better", None: "descriptive, not ranked"}
        low, high = (f"{'-' if end < 0 else ''}∞" if math.isinf(end) else f"{end:g}" for end in self.bounds)
        meaning = f"{self.meaning.rstrip('.')}; " if self.meaning else ""
        said = f"{meaning}from {low} to {high}, {direction[self.higher_is_better]}."
        return said[:1].upper() + said[1:]


WORDS = ("headline", "title", "short", "meaning", "scale", "without")
"""Fields of `Metric` that say nothing of a figure's value: they may change while figures stay."""

MOST_CONSTANT = 0.1
"""The share of constant explanations above which no verdict, star or bold figure may rest on a method's test."""


def too_constant(share: float | None) -> bool:
    """Whether nothing rests on a method of whose explanations this share is constant; None and NaN are no share."""
    return share is not None and share > MOST_CONSTANT


UNDECLARED = Metric(higher_is_better=None, bounds=(-math.inf, math.inf))
"""What is said of a figure whose metric its test does not declare."""


@dataclass(frozen=True)
class Figure:
    """A reported number: `value` with its 95 % interval over `n` examples (low = high = NaN where n < 2)."""

    metric: str
    x: float
    value: float
    low: float
    high: float
    n: int

    @property
    def scalar(self) -> bool:
        """Whether it is no point of a curve."""
        return math.isnan(self.x)


@dataclass(frozen=True)
class Derivation:
    """How a scalar is computed from the means of several columns of rows: a statistic of `RATIOS`, and columns with x."""

    statistic: str
    columns: tuple[tuple[str, float | None], ...]


@dataclass(frozen=True)
class EvaluationRecord:
    """One test of a cell.

    Attributes:
        name: that the comparison gives the test.
        version: of its class.
        digest: of its identity.
        identity: class, version and settings.
        statistics: version of what reduced its rows to figures.
        target: class that is explained.
        metrics: by name.
        averaged: whether figures are means of rows, except those of `derived`.
        figures: what it reported.
        dash: why it could not serve, or None.
        remark: what must be known of its figures, or None.
        derived: scalars that are no mean of their own rows.
        rows: digest of the rows that the figures come from.
        about: its kind, place and title.
        constant: share of the explanations of which all rated units have one and the same score, after what the test does
            to scores; None of a test that reads neither tokens nor classes, and of a dash.
        half_constant: share of the explanations of which at least half of the rated units, and at least two, have one and
            the same score; None likewise, and in records of earlier releases.
        tied: mean share of the rated units of an explanation that share their score with another one; None likewise.
    """

    name: str
    version: Version
    digest: str
    identity: Any
    statistics: int
    target: str
    metrics: Mapping[str, Metric]
    averaged: bool
    figures: tuple[Figure, ...]
    dash: str | None
    remark: str | None
    derived: Mapping[str, Derivation]
    rows: str
    about: About = About()
    constant: float | None = None
    half_constant: float | None = None
    tied: float | None = None

    def metric(self, name: str) -> Metric:
        """What is declared of a metric."""
        return self.metrics.get(name, UNDECLARED)

    def scalar(self, metric: str) -> Figure | None:
        """The figure of a scalar metric, or None."""
        return next((figure for figure in self.figures if figure.metric == metric and figure.scalar), None)

    @property
    def silence(self) -> str | None:
        """Why no verdict may rest on this test of a method, or None: more than a tenth of its explanations are constant."""
        if self.constant is None or not too_constant(self.constant):
            return None
        return f"all scores are equal in {100 * self.constant:.0f} % of its explanations"

    def check(self, name: str, n: int) -> None:
        """Figures lie in their metrics' bounds, count no more than `n` examples, and stand there once; shares are in [0, 1].

        Raises:
            ValueError: they do not; the message says which figure of the test `name`.
        """
        self._check_ties(name)
        seen = set()
        for figure in self.figures:
            shown = f"{name}/{figure.metric}" if figure.scalar else f"{name}/{figure.metric} at {figure.x:g}"
            key = (figure.metric, None if figure.scalar else figure.x)
            if key in seen:
                raise ValueError(f"{shown} stands there twice")
            seen.add(key)
            if not 0 <= figure.n <= n:
                raise ValueError(f"{shown} counts {figure.n} examples of {n}")
            low, high = self.metric(figure.metric).bounds
            if figure.value < low - _TOLERANCE or figure.value > high + _TOLERANCE:
                raise ValueError(f"{shown} is {figure.value:g}, outside of [{low:g}, {high:g}]")

    def _check_ties(self, name: str) -> None:
        constant, half, tied = self.constant, self.half_constant, self.tied
        if constant is None and half is None and tied is None:
            return
        if (
            constant is None
            or tied is None
            or not 0 <= constant <= tied + _TOLERANCE <= 1 + 2 * _TOLERANCE
            or not (half is None or constant <= half + _TOLERANCE <= 1 + 2 * _TOLERANCE)
        ):
            raise ValueError(
                f"{name}: constant {constant}, half constant {half} and tied {tied} are no shares of explanations and of "
                "their units"
            )


_TOO_NARROW = 1.05
"""The least factor that is worth a line: intervals of few examples are off by as much."""


@dataclass(frozen=True)
class TaskRecord:
    """The examples that were scored: `limit` and `seed` are None where all of the split were.

    `passages` counts the passages of texts, and `design_effect` says how much examples share them, as
    `benchmark.passages.design_effect` has both; None of images, of an excerpt, of texts that are given in Python, and in
    records of earlier releases.
    """

    name: str
    version: Version
    split: str
    limit: int | None
    seed: int | None
    n: int
    fingerprint: str
    units: int
    lost_units: int
    passages: int | None = None
    design_effect: float | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """What tells these examples from others: without what is counted of their passages, which follows from the rest."""
        return {name: value for name, value in asdict(self).items() if name not in ("passages", "design_effect")}

    @property
    def shared_passages(self) -> str:
        """That the examples have fewer passages, where intervals may be too narrow by a twentieth or more; else nothing."""
        if self.design_effect is None or (narrow := self.design_effect**0.5) < _TOO_NARROW:
            return ""
        passages = f"{self.passages} passage{'' if self.passages == 1 else 's'}"
        return (
            f"The {self.n} examples have {passages}, and figures of tests take examples for independent: their intervals "
            f"may be too narrow by a factor of up to {narrow:.2g}. task=distinct_passages keeps one example of each passage."
        )


@dataclass(frozen=True)
class ModelRecord:
    """The classifier."""

    name: str
    fingerprint: str
    dtype: str
    n_layers: int
    n_heads: int
    labels: tuple[str, ...]


@dataclass(frozen=True)
class Answers:
    """How the model does on the examples that were scored.

    Attributes:
        right: of how many examples it predicts the annotated class.
        commonest: how many examples have the most frequent annotated class, which is what naming it always would get right.
    """

    right: int
    commonest: int

    def check(self, n: int) -> None:
        """ValueError where they are no counts of n examples."""
        if not (0 <= self.right <= n and min(n, 1) <= self.commonest <= n):
            raise ValueError(
                f"answers: {self.right} right and {self.commonest} of one class are no counts of {n} examples"
            )


@dataclass(frozen=True)
class MethodRecord:
    """The explainer."""

    name: str
    identity: Any
    version: Version
    class_specific: bool


@dataclass(frozen=True)
class CostRecord:
    """What explaining all examples took; None where nothing was explained."""

    peak_memory_bytes: int
    seconds: float | None = None
    forward_passes: int | float | None = None
    backward_passes: int | float | None = None


@dataclass(frozen=True)
class Origin:
    """Under what something was computed.

    Attributes:
        versions: of libraries, of Python and of the benchmark.
        git_commit: of the code, or None.
    """

    versions: Mapping[str, str]
    git_commit: str | None

    def __str__(self) -> str:
        return f"{', '.join(f'{name} {number}' for name, number in sorted(self.versions.items()))}, " + (
            f"commit {self.git_commit}" if self.git_commit else "no commit known"
        )


ROWS = "rows.parquet/"
"""How the names begin of what `Record.origins` says of the rows of a test."""


@dataclass(frozen=True)
class Record:
    """A finished cell.

    Attributes:
        hash: of everything that the attributions depend on.
        task, model, method: what was explained, and by what.
        versions: of libraries, under which the attributions for the predicted classes were computed.
        git_commit: of the code, likewise, or None.
        dash: why the method could serve no test at all, or None.
        cost: of the attributions for the predicted classes.
        evaluations: tests by the name that the rows give them.
        files: SHA-256 of every other file of the folder.
        coming: SHA-256 of files that are being written.
        origins: under what each file of attributions was computed, by its name, and the rows of each test, by `ROWS` and its
            name; nothing in records of earlier versions.
        answers: how often the model is right; None where an example has no annotated class, or more than one, where nothing
            was explained, and in records of earlier versions.
    """

    hash: str
    task: TaskRecord
    model: ModelRecord
    method: MethodRecord
    versions: Mapping[str, str]
    git_commit: str | None
    dash: str | None
    cost: CostRecord
    evaluations: Mapping[str, EvaluationRecord]
    files: Mapping[str, str] = field(default_factory=dict)
    coming: Mapping[str, str] = field(default_factory=dict)
    origins: Mapping[str, Origin] = field(default_factory=dict)
    answers: Answers | None = None

    @staticmethod
    def from_json(content: Any) -> "Record":
        """What `to_json` gave.

        Raises:
            ValueError: it is something else, of another schema, or has a figure that cannot be; the message says where.
        """
        if not isinstance(content, Mapping) or content.get("schema") != SCHEMA:
            raise ValueError(f"no record of schema {SCHEMA}")
        record: Record = as_dataclass(Record, content, "")
        for part in ("task", "model", "method"):
            if not getattr(record, part).name:
                raise ValueError(f"{part}.name is empty")
        for name, evaluation in record.evaluations.items():
            evaluation.check(name, record.task.n)
        if record.answers is not None:
            record.answers.check(record.task.n)
        return record

    def digests(self, name: str) -> tuple[str, ...]:
        """The SHA-256 that a file of the folder may have; none where the record does not name it."""
        return tuple(digests[name] for digests in (self.files, self.coming) if name in digests)

    def to_json(self) -> dict[str, Any]:
        """The content of `record.json` without its seal."""
        return {"schema": SCHEMA, **as_json(self)}
