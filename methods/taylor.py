"""First-order effect of removing a head (Michel 2019, eq. 2; docs/protocols.md, section 7)."""

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from benchmark.models import Classifier
from benchmark.settings.declared import configurable
from benchmark.targets import Target
from benchmark.types import Attribution, Batch, Method
from methods.shared.properties import MOVES_BIAS


@configurable
class Taylor(Method):
    """Head importance by Taylor expansion: `I[l,h] = Σ_i |Σ_d ctx[i,h,d] ∂L/∂ctx[i,h,d]|` per example, then the mean.

    With ctx = A V the inner sum equals `Σ_j A[l,h,i,j] ∂L/∂A[l,h,i,j]`, which is how it is computed. The paper takes the
    magnitude of the whole inner product. Its code and the published ATTATTR script take that of each token i, as here. The
    mean over examples is divided by its L2 norm in each layer.

    Attributes:
        objective: "loss" (cross-entropy of the target, Michel 2019) or "logits" (the sum of all logits, which the
            published ATTATTR script differentiates).

    Source: Michel et al. 2019, eq. 2; Molchanov et al. 2017.
    Cost: 1 forward pass, 1 backward pass.
    """

    objective: Literal["loss", "logits"] = "loss"
    version: ClassVar[int] = 1
    properties: ClassVar[Mapping[str, str]] = MOVES_BIAS
    class_specific: ClassVar[bool] = True

    def explain(self, model: Classifier, batch: Batch, target: Target) -> Attribution:
        """Head scores, from one forward and one backward pass."""
        trace = model.run(batch, record=("attentions",), grad=True)
        loss = self.objective == "loss"
        objective = -target.log_probability(trace.logits) if loss else trace.logits.sum(-1)
        gradients = model.gradients(objective, trace.attentions)
        queries = batch.attention_mask[:, None, :, None]
        products = [
            (attention.detach() * gradient * queries).sum(3).abs().sum(2)
            for attention, gradient in zip(trace.attentions, gradients, strict=True)
        ]
        return Attribution(target=target, heads=torch.stack(products, dim=1))

    def aggregate_heads(self, heads: Float[Tensor, "N L H"]) -> Float[Tensor, "L H"]:
        """Mean over examples, then L2-normalised in each layer."""
        return F.normalize(heads.mean(0), dim=-1)
