"""What a person may choose of how a report looks: `report` of a comparison, and words of `python -m benchmark.report`.

No figure depends on it, and no run folder.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from benchmark.errors import UserError, near
from benchmark.settings.declared import hold

Settings = TypeVar("Settings")

Columns = Literal["one", "two"]
Layout = Literal["metrics", "tasks"]
IntervalForm = Literal["half", "bounds", "none"]
FigureWidth = Literal["screen", "column", "page"]
FigureFormat = Literal["pdf", "png"]

LOOK = "report"
"""Where a comparison has these settings."""


@dataclass(frozen=True)
class GivenNames:
    """What a person calls things in tables, figures and the page; files for programs keep the code names.

    Attributes:
        methods: name of a method -> what it is called.
        tasks: likewise of a task,
        models: of a model,
        metrics: and of a metric, as `perturbation.positive_auc_mean`.
    """

    methods: Mapping[str, str] = field(default_factory=dict)
    tasks: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, str] = field(default_factory=dict)


NO_NAMES = GivenNames()


@dataclass(frozen=True)
class LatexSettings:
    """How the tables for a paper look.

    Attributes:
        columns: of the paper: `two` gives an overview for one column, and all headline metrics across the page.
        layout: `metrics` gives a table for each task and model, with a column for each metric; `tasks` a table for each
            metric, with a column for each task and model.
        metrics: of the overview, as `perturbation.positive_auc_mean` or by a part of it; the headline metrics without any.
        methods: of the overview; all of them without any. Their order is that of all tables.
        interval: `half` (value ± half the 95 % interval where it is about symmetric, else its bounds), `bounds` or `none`.
    """

    columns: Columns = "one"
    layout: Layout = "metrics"
    metrics: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    interval: IntervalForm = "half"


@dataclass(frozen=True)
class FigureSettings:
    """How figures are drawn. Attribution graphs and images are as large as what they show, and follow the format alone.

    Attributes:
        width: `column` and `page` of a paper, whose type is as large as a caption when the figure is set as it is; `screen`
            grows with what it shows.
        title: whether a heading stands above the panels; a paper's caption says it.
        format: of the files.
    """

    width: FigureWidth = "screen"
    title: bool = True
    format: tuple[FigureFormat, ...] = ("png", "pdf")


@dataclass(frozen=True)
class ReportSettings:
    """How a report looks.

    Attributes:
        names: what things are called.
        latex: tables for a paper.
        figures: pictures of curves and of analyses.
        trust: whether headline columns stand in the order of what `which_test` says of their tests, and those that fail
            here are grey, with the reason.
    """

    names: GivenNames = field(default_factory=GivenNames)
    latex: LatexSettings = field(default_factory=LatexSettings)
    figures: FigureSettings = field(default_factory=FigureSettings)
    trust: bool = True

    @staticmethod
    def read(given: Any, path: str = LOOK) -> "ReportSettings":
        """The settings of a mapping.

        Raises:
            UserError: it is none, a key is unknown, or a value is none of those that are allowed; `path` is named.
        """
        return _read(ReportSettings, given, path)

    def check_metrics(self, known: Mapping[str, Collection[str]]) -> None:
        """UserError where a metric is chosen for LaTeX tables that no test has.

        Args:
            known: names of the metrics that are no curves, by that of their test.
        """
        codes = [f"{test}.{metric}" for test, metrics in known.items() for metric in metrics]
        for name in self.latex.metrics:
            if not any(means(name, test, metric) for test, metrics in known.items() for metric in metrics):
                raise UserError(f"report.latex.metrics={name} is unknown; {near(name, codes)}")

    def check_names(self, known: Mapping[str, Collection[str]]) -> None:
        """UserError where a metric is called something that no test has.

        Args:
            known: names of all metrics by that of their test.
        """
        codes = [f"{test}.{metric}" for test, metrics in known.items() for metric in metrics]
        for name in self.names.metrics:
            if name not in codes:
                raise UserError(f"{LOOK}.names.metrics.{name}: there is no metric {name}; {near(name, codes)}")

    def check_methods(self, known: Collection[str]) -> None:
        """UserError where a method is chosen or named that is none of these."""
        chosen = [
            *((f"latex.methods={name}", name) for name in self.latex.methods),
            *((f"names.methods.{name}", name) for name in self.names.methods),
        ]
        for setting, name in chosen:
            if name not in known:
                raise UserError(f"{LOOK}.{setting}: there is no method {name}; {near(name, sorted(known))}")


def without_detail(shown: str) -> str:
    """`attattr` for `attattr (steps=5)`: a shown name without what tells variants apart."""
    return shown.partition(" (")[0]


def means(name: str, test: str, metric: str) -> bool:
    """Whether a name of `report.latex.metrics` means a metric: by its test, by itself, or as `test.metric`.

    A test whose settings differ between comparisons is shown as `test (settings)`, and is meant by `test` too.
    """
    tests = {test, without_detail(test)}
    return name in {metric, *tests, *(f"{one}.{metric}" for one in tests)}


AS_GIVEN = ReportSettings()
"""Where nobody has chosen anything."""


def _read(kind: type[Settings], given: Any, path: str) -> Settings:
    """Settings of a dataclass, whose fields are choices, switches, names, lists of names, or such settings."""
    if given is None:
        return kind()
    if not isinstance(given, Mapping):
        raise UserError(f"{path}={given} must be a mapping of {', '.join(part.name for part in fields(kind))}")  # type: ignore[arg-type]  # a dataclass, as the caller found
    hints = get_type_hints(kind)
    for key in given:
        if key not in hints:
            raise UserError(f"{path}.{key} is no setting; {near(str(key), list(hints))}")
    return kind(**{str(key): _value(hints[key], value, f"{path}.{key}") for key, value in given.items()})


def _value(hint: Any, given: Any, path: str) -> Any:
    if is_dataclass(hint):
        return _read(hint, given, path)  # type: ignore[arg-type]  # a dataclass, as the caller found
    if get_origin(hint) is Mapping:
        return _names(given, path)
    if get_origin(hint) is tuple:
        texts, (allowed, _) = _texts(given, path), get_args(hint)
        for text in texts if get_origin(allowed) is Literal else ():
            _hold(allowed, text, path)
        return texts
    return _hold(hint, given, path)


def _hold(hint: Any, given: Any, path: str) -> Any:
    where, _, name = path.rpartition(".")
    hold({name: given}, {name: hint}, where)
    return given


def _names(given: Any, path: str, before: str = "") -> dict[str, str]:
    """Names by code; `perturbation.positive_auc_mean` may be two keys, one within the other."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise UserError(f"{path}={given} must be a mapping from a code name to what it is called")
    found: dict[str, str] = {}
    for key, name in given.items():
        if isinstance(name, Mapping):
            found |= _names(name, path, f"{before}{key}.")
        elif name is not None:
            found[f"{before}{key}"] = str(name)
    return found


def _texts(given: Any, path: str) -> tuple[str, ...]:
    values = [given] if isinstance(given, str) else given
    if values is None:
        return ()
    if not isinstance(values, Sequence) or not all(isinstance(value, str) for value in values):
        raise UserError(f"{path}={given} must be a list of names")
    return tuple(values)
