"""Encoders without a classifier: a head of zeros, which says nothing of any class."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from benchmark.errors import NotApplicable

if TYPE_CHECKING:
    from benchmark.models.classifier import Classifier

Head = Literal["own", "zero"]
"""The classifier head of a checkpoint: its own, which it must have, or zeros in place of any."""


@dataclass(frozen=True)
class ZeroHead:
    """A head whose weights are 0, as those of poolers below it: every logit is 0, whatever the input.

    Attributes:
        classes: how many logits it has.
    """

    classes: int

    def put_on(self, model: nn.Module) -> None:
        """Set all that lies above the encoder to 0."""
        with torch.no_grad():
            for parameter in _head(model):
                parameter.zero_()


def needs_head(model: "Classifier") -> None:
    """NotApplicable where the model's head is 0: it predicts nothing, so that no part of it matters to a prediction."""
    head = _head(model.model)
    if head and not any(bool(parameter.any()) for parameter in head):
        raise NotApplicable("the model is an encoder without a classifier (model=encoder)")


def _head(model: Any) -> list[Tensor]:
    body = f"{model.base_model_prefix}."
    return [tensor for name, tensor in model.named_parameters() if not name.startswith(body) or "pooler" in name]
