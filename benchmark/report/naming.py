"""What people read in place of code names, in analyses and on the page; files for programs keep the code names."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from benchmark.report.cells import NamedCell
from benchmark.report.leaderboard import known_metrics
from benchmark.report.looks import KNOWN
from benchmark.report.pretty import is_abbreviation, method_title
from benchmark.results.tables import Table

_CODED = ("method", "explainer", "importance", "edge score", "readout", "rule")
"""Label columns of analyses' tables whose values are names of methods or of their parts."""

_TEXTS = ("word", "example")
"""Label columns that hold texts of examples and identifiers: never names, whatever they are spelled like."""

_CODE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


@dataclass(frozen=True)
class Names:
    """Code names and what people read in their place.

    Attributes:
        methods: a method's shown name -> its title.
        metrics: test and metric, as `perturbation: positive_auc_mean` -> the metric's title.
    """

    methods: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(cells: Sequence[NamedCell], called: Mapping[str, str] | None = None) -> "Names":
        """The names of a comparison's methods and metrics.

        Args:
            cells: of the comparison.
            called: what a person calls some methods.
        """
        methods: dict[str, str] = {}
        for shown in dict.fromkeys(cell.method for cell in cells):
            title = (called or {}).get(shown) or method_title(shown)
            methods[shown] = f"{title} ({shown})" if title in methods.values() else title
        metrics = {
            f"{test}: {name}": metric.title
            for test, declared in known_metrics(cells).items()
            for name, metric in declared.items()
            if metric.title and metric.x is None
        }
        repeated = [title for title in metrics.values() if [*metrics.values()].count(title) > 1]
        told = {
            code: f"{title} ({code.partition(':')[0]})" if title in repeated else title
            for code, title in metrics.items()
        }
        return Names(methods, told)

    def method(self, shown: str) -> str:
        """A method's title."""
        return self.methods.get(shown) or method_title(shown)

    def label(self, column: str, value: object) -> str:
        """A value of a label column: names of methods, of their parts and of metrics in words, all else as it is."""
        text = f"{value:g}" if isinstance(value, float) else str(value)
        if column in _TEXTS:
            return text
        if known := self.methods.get(text) or self.metrics.get(text):
            return known
        ours = text in KNOWN and _is_code(text)
        return method_title(text) if ours or (column in _CODED and _CODE.fullmatch(text)) else text

    def heading(self, table: Table, metric: str) -> str:
        """What stands above a column of figures; of a heat map whose columns are its metrics, those are names too."""
        if table.drawing is not None and table.drawing.x == "metric" and _CODE.fullmatch(metric):
            return self.methods.get(metric) or method_title(metric)
        return self.metrics.get(metric) or (metric.replace("_", " ") if _CODE.fullmatch(metric) else metric)

    def text(self, text: str, table: Table | None = None) -> str:
        """A sentence in which code names stand: those that no English word is spelled like are put in words."""
        known = dict(self.metrics) | {code: title for code, title in self.methods.items() if _is_code(code)}
        if table is not None:
            coded = {str(value) for column in table.labels if column in _CODED for value in table.rows[column]}
            coded |= {str(metric) for metric in table.rows["metric"]}
            known = {code: method_title(code) for code in coded if _CODE.fullmatch(code) and _is_code(code)} | known
        if not known:
            return text
        longest_first = sorted(known, key=len, reverse=True)
        pattern = rf"(?<![\w.])(?:{'|'.join(map(re.escape, longest_first))})(?!\w)"
        return re.sub(pattern, lambda found: known[found[0]], text)

    def worded(self, table: Table) -> Table:
        """The table with its title and sentences in words; its rows keep their code names."""
        sentences = tuple(self.text(sentence, table) for sentence in table.sentences)
        return replace(table, title=self.text(table.title, table), sentences=sentences)


OURS = Names()
"""Titles of our own, of whatever methods there are."""


def _is_code(name: str) -> bool:
    """Whether a name cannot be read as an English word: `random` can, `raw_attention` and `attattr` cannot."""
    return "_" in name or is_abbreviation(name)
