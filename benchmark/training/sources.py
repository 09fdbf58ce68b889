"""Where a comparison's model comes from: the options of the configuration group `model`."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmark.types import Task


@dataclass(frozen=True)
class HubOrDirectory:
    """A checkpoint that is there: a directory, or a model of the Hugging Face hub (`model.path=`).

    `labels` are names of its classes in the order of its outputs, in place of those in its `config.json`.
    """

    path: str
    dtype: str = "float32"
    device: str = "auto"
    threads: int | None = None
    window: int | None = None
    max_tokens: int | None = None
    memory_budget: int | None = None
    labels: Sequence[str | int] | None = None

    def resolve(self, task: Task) -> str:
        """The checkpoint itself."""
        return self.path
