"""The weights that a training with attention in its loss begins from."""

import copy
from typing import Annotated, Any, Protocol

import torch
from torch import nn

from benchmark.errors import UserError
from benchmark.models import Classifier
from benchmark.models.attention_interface import IMPLEMENTATION
from benchmark.settings.declared import AtLeast, Natural, configurable
from benchmark.training.tiny import look_nearby


class Start(Protocol):
    """Gives the model that is trained; draws from torch's generator."""

    def __call__(self, base: Classifier) -> nn.Module:
        """A model of the base's class that shares nothing with it."""


@configurable
class FromBase:
    """The base model's own weights, those of its attention modules with noise.

    Where the loss compares a model with its base, the base itself is a point at which every gradient is 0: without noise
    nothing would be learnt.

    Attributes:
        noise: standard deviation of what is added to a weight matrix, as a share of the matrix's own.
    """

    noise: Annotated[float, AtLeast(0)] = 0.0

    def __call__(self, base: Classifier) -> nn.Module:
        """A copy."""
        module = copy.deepcopy(base.model)
        names = {name for name, part in base.model.named_modules() if part in {*base.attention_modules}}
        parts = dict(module.named_modules())
        with torch.no_grad():
            for matrix in (p for name in sorted(names) for p in parts[name].parameters() if p.dim() > 1):
                drawn = torch.randn(matrix.shape).to(matrix.device)
                matrix.add_(self.noise * matrix.std() * drawn)
        return module


@configurable
class Fresh:
    """New weights, as the model's class draws them.

    Attributes:
        local_layers: in so many of the first layers heads start as windows on the preceding tokens, as those of the tiny
            model do (BERT alone): from a random start, thousands of examples more are needed.
    """

    local_layers: Natural = 0

    def __call__(self, base: Classifier) -> nn.Module:
        """A new model of the same configuration.

        Raises:
            UserError: local layers of another family than BERT.
        """
        model: Any = base.model
        module = type(model)(copy.deepcopy(model.config))
        module.set_attn_implementation(IMPLEMENTATION)
        if self.local_layers:
            if model.config.model_type != "bert":
                raise UserError(f"local_layers={self.local_layers}: heads start as windows in BERT alone; set it to 0")
            look_nearby(module.bert, min(self.local_layers, base.n_layers))
        return module.to(base.device)  # type: ignore[no-any-return]  # of transformers
