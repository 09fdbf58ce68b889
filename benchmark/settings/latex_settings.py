"""What a person may choose of the LaTeX tables: `report.latex` of a comparison, options of `python -m benchmark.report`."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from benchmark.errors import UserError, near
from benchmark.settings.declared import hold

Columns = Literal["one", "two"]
IntervalForm = Literal["half", "bounds", "none"]


@dataclass(frozen=True)
class LatexSettings:
    """How the tables for a paper look; no figure depends on it.

    Attributes:
        columns: of the paper: `two` gives an overview for one column, and all headline metrics across the page.
        metrics: of the overview, as `perturbation.positive_auc_mean` or by a part of it; the headline metrics without any.
        methods: of the overview; all of them without any. Their order is that of all tables.
        interval: `half` (mean ± half the 95 % interval), `bounds` or `none`.
        names: method -> what it is called in the tables.
    """

    columns: Columns = "one"
    metrics: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    interval: IntervalForm = "half"
    names: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def read(given: Any, path: str = "report.latex") -> "LatexSettings":
        """The settings of a mapping.

        Raises:
            UserError: it is none, a key is unknown, or a value is none of those that are allowed; `path` is named.
        """
        if given is None:
            return LatexSettings()
        if not isinstance(given, Mapping):
            raise UserError(f"{path}={given} must be a mapping such as {{columns: two}}")
        allowed = [part.name for part in fields(LatexSettings)]
        for key in given:
            if key not in allowed:
                raise UserError(f"{path}.{key} is no setting; {near(str(key), allowed)}")
        choices = {"columns": Columns, "interval": IntervalForm}
        hold({key: given[key] for key in choices if key in given}, choices, path)
        lists = {key: _texts(given[key], f"{path}.{key}") for key in ("metrics", "methods") if key in given}
        names = given.get("names") or {}
        if not isinstance(names, Mapping):
            raise UserError(f"{path}.names={names} must be a mapping from a method to its name")
        called = {str(method): str(name) for method, name in names.items() if name is not None}
        return LatexSettings(**{**given, **lists, "names": called})

    def check_metrics(self, known: Mapping[str, Collection[str]]) -> None:
        """UserError where a metric is chosen that no test has.

        Args:
            known: names of the metrics by that of their test.
        """
        codes = [f"{test}.{metric}" for test, metrics in known.items() for metric in metrics]
        for name in self.metrics:
            if not any(name in (code, *code.split(".", 1)) for code in codes):
                raise UserError(f"report.latex.metrics={name} is unknown; {near(name, codes)}")

    def check_methods(self, known: Collection[str]) -> None:
        """UserError where a method is chosen or named that is none of these."""
        chosen = [
            *((f"methods={name}", name) for name in self.methods),
            *((f"names.{name}", name) for name in self.names),
        ]
        for setting, name in chosen:
            if name not in known:
                raise UserError(f"report.latex.{setting}: there is no method {name}; {near(name, sorted(known))}")


def _texts(given: Any, path: str) -> tuple[str, ...]:
    values = [given] if isinstance(given, str) else given
    if values is None:
        return ()
    if not isinstance(values, Sequence) or not all(isinstance(value, str) for value in values):
        raise UserError(f"{path}={given} must be a list of names")
    return tuple(values)
