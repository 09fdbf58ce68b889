"""What explainers are called with: a model, a batch, and the class to explain of each example."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from benchmark.errors import UserError
from benchmark.models import Classifier
from benchmark.types import Attribution, Batch


def as_target(model: Classifier, batch: Batch, target: Sequence[int] | Int[Tensor, "B"]) -> Int[Tensor, "B"]:
    """The classes as a tensor on the model's device.

    Raises:
        UserError: there is not one class for each example, or the model has none of that number.
    """
    classes = torch.as_tensor(target, device=model.device)
    if classes.shape != (len(batch),):
        raise UserError(f"target={target} must hold one class for each of the {len(batch)} examples")
    if isinstance(target, Tensor):
        return classes
    if unknown := sorted(set(target) - set(range(len(model.labels)))):
        raise UserError(f"target holds {unknown[0]}, but the model's classes are 0 to {len(model.labels) - 1}")
    return classes


class Explainer(ABC):
    """`method(model, batch, target)`, the target as a tensor or as a list of classes; a subclass says how to `explain`."""

    def __call__(self, model: Classifier, batch: Batch, target: Sequence[int] | Int[Tensor, "B"]) -> Attribution:
        """Explain class `target[b]` of every example b."""
        return self.explain(model, batch, as_target(model, batch, target))

    @abstractmethod
    def explain(self, model: Classifier, batch: Batch, target: Int[Tensor, "B"]) -> Attribution:
        """What `__call__` gives."""
