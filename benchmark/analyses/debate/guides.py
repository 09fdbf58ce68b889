"""What the guides of the guide test are called."""

from typing import NamedTuple

UNIFORM, ORACLE, RANDOM, LEARNED, MODEL = (
    "uniform", "oracle", "random scores", "learned attention", "comparison's model",
)  # fmt: skip
NO_CLASS, PREDICTED, RANDOM_CLASS = "none", "predicted", "random"


class Guide(NamedTuple):
    """Whose weights they are, and which class was explained for them, in words."""

    name: str
    explained: str

    @property
    def labels(self) -> dict[str, str]:
        """The columns that name it in tables."""
        return {"guide": self.name, "explained class": self.explained}

    def __str__(self) -> str:
        return self.name if self.explained == NO_CLASS else f"{self.name} ({self.explained})"
