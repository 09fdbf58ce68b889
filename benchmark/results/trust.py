"""What the analysis `which_test` says of a comparison's tests, and how a report finds it in its tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmark.results.tables import Table

USE, WITH_CARE, NOT_HERE = "use it", "with care", "not here"
"""What a reader is told of a test, from the best to the worst."""

VERDICT, WHY, REMOVALS = "verdict", "why", "removals"
"""Last parts of the keys `test.metric.verdict`, `test.metric.why` and `test.metric.removals`."""

_TABLES = ("which_test", "which_test_removals")


@dataclass(frozen=True)
class Trust:
    """What is said of a headline figure.

    Attributes:
        verdict: `USE`, `WITH_CARE`, `NOT_HERE`, or empty where nothing was asked.
        why: which questions it fails, and which were not asked.
        removals: whether the model knows what the test's removals leave; empty where it removes nothing.
    """

    verdict: str = ""
    why: str = ""
    removals: str = ""

    @property
    def place(self) -> int:
        """Where its column stands among others: those to be used first, those that fail last."""
        return {USE: 0, NOT_HERE: 2}.get(self.verdict, 1)

    @property
    def doubt(self) -> str:
        """Why its column is not to be trusted here; empty where it is."""
        return f"{NOT_HERE}: {self.why}" if self.verdict == NOT_HERE else ""


def told_of(tables: Sequence[Table]) -> Mapping[str, Trust]:
    """By `test.metric` what tables of analyses say of it."""
    found: dict[str, dict[str, str]] = {}
    for table in tables:
        for key, note in zip(table.keys, table.rows["note"], strict=True):
            name, _, part = str(key).rpartition(".")
            if name and part in (VERDICT, WHY, REMOVALS) and table.name in _TABLES:
                found.setdefault(name, {})[part] = str(note)
    return {name: Trust(**parts) for name, parts in found.items()}
