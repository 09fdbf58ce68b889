"""What the guides of the guide test are called."""

from typing import NamedTuple

UNIFORM, ORACLE, RANDOM, LEARNED = "uniform weights", "oracle weights", "random weights", "learned weights"
MODEL = "comparison's model"
NO_CLASS, PREDICTED, DRAWN = "none", "predicted", "drawn"
_KEYS = {NO_CLASS: "no_class", PREDICTED: "predicted", DRAWN: "drawn"}


class Guide(NamedTuple):
    """Whose weights they are, and which class was explained for them, in words."""

    name: str
    explained: str

    @property
    def labels(self) -> dict[str, str]:
        """The columns that name it in tables."""
        return {"guide": self.name, "explained class": self.explained}

    @property
    def key(self) -> str:
        """By which code finds its figures (`benchmark.results.tables.line`)."""
        return f"{self.name}.{_KEYS.get(self.explained, 'one_class')}"

    def __str__(self) -> str:
        return self.name if self.explained == NO_CLASS else f"{self.name} ({self.explained})"
