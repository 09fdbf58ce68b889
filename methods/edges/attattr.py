"""ATTATTR: self-attention attribution (Hao 2021, eq. 4-5; docs/protocols.md, section 6)."""

from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from benchmark.models import Classifier
from benchmark.models.read_rows import everywhere
from benchmark.settings.declared import Count, configurable
from benchmark.types import Batch
from methods.edges.base import Edges
from methods.shared.quadrature import Quadrature, nodes_and_weights


@configurable
class AttAttr:
    """`Attr(A_l) = A_l ⊙ Σ_k w_k ∂F(α_k A_l)/∂A_l` with F the softmax probability of the target class.

    The sum over k stands for the integral `∫₀¹ ∂F(α A_l)/∂A_l dα`. α scales all heads of layer l together, after the
    softmax, not renormalised; later layers recompute their attention. Units: probability. Completeness:
    Σ Attr(A_l) → F(A_l) − F(0·A_l) as steps grow.

    For each layer the batch is repeated once per step from that layer on; earlier layers are not computed again.

    Attributes:
        steps: number m of evaluations of the gradient.
        quadrature: "left" is the published script's, "right" the paper's formula; see `nodes_and_weights`.

    Source: Hao et al. 2021, eq. 4-5.
    Cost: 1 + m (L + 1) / 2 forward passes, m (L + 1) / 2 backward passes.
    """

    steps: Count = 20
    quadrature: Quadrature = "left"
    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = True

    def __post_init__(self) -> None:
        nodes_and_weights(self.quadrature, self.steps)

    def __call__(self, model: Classifier, batch: Batch, target: Int[Tensor, "B"]) -> Edges:
        """Attributions of the L layers, from about m (L + 1) / 2 forward and backward passes."""
        trace = model.run(batch, record=("attentions", "hidden"), rows="read")
        attributions = [
            attention * self._mean_gradient(model, batch, target, layer, attention, trace.hidden[layer])
            for layer, attention in enumerate(trace.attentions)
        ]
        return everywhere(model.read_rows(batch.tensors), attributions)

    def _mean_gradient(
        self,
        model: Classifier,
        batch: Batch,
        target: Int[Tensor, "B"],
        layer: int,
        attention: Float[Tensor, "B H _ T"],
        hidden: Float[Tensor, "B T D"],
    ) -> Float[Tensor, "B H _ T"]:
        """`Σ_k w_k ∂F(α_k A_l)/∂A_l` of one layer, a chunk of steps at a time."""
        points = nodes_and_weights(self.quadrature, self.steps)
        nodes, weights = (torch.as_tensor(x, dtype=model.scores_dtype) for x in points)
        total = torch.zeros_like(attention, dtype=model.scores_dtype)
        size, n_tokens = attention.shape[0], attention.shape[-1]
        per_chunk = max(1, model.rows_per_chunk(n_tokens, layers=model.n_layers - layer) // size)
        for alpha, weight in zip(torch.split(nodes, per_chunk), torch.split(weights, per_chunk), strict=True):
            k = len(alpha)
            scaled = (alpha.to(attention.device).view(k, 1, 1, 1, 1) * attention).flatten(0, 1).to(attention.dtype)
            scaled.requires_grad_()
            run = model.run(
                {name: _repeat(tensor, k) for name, tensor in batch.tensors.items()},
                replace={layer: scaled},
                grad=True,
                start=(layer, _repeat(hidden, k)),
            )
            probability = run.probabilities.gather(1, target.repeat(k)[:, None])[:, 0]
            (gradient,) = model.gradients(probability, [scaled], from_layer=layer)
            total += torch.einsum("k,kbhij->bhij", weight.to(total.device), gradient.view(k, *attention.shape))
        return total


def _repeat(tensor: Tensor, times: int) -> Tensor:
    """The whole batch `times` times, one copy after the other."""
    return tensor.repeat(times, *[1] * (tensor.dim() - 1))
