"""ATTATTR: self-attention attribution (Hao 2021, eq. 4-5; docs/protocols.md, section 6)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from benchmark.errors import UserError
from benchmark.models import Classifier
from benchmark.models.read_rows import spread
from benchmark.models.recomputing import is_long
from benchmark.settings.declared import Above, Count, configurable
from benchmark.targets import Target
from benchmark.types import Batch
from methods.edges.base import LayerVisitor, LayerwiseScore
from methods.shared.properties import MOVES_BIAS
from methods.shared.quadrature import Quadrature, nodes_and_weights


@configurable
class AttAttr(LayerwiseScore):
    """`Attr(A_l) = A_l ⊙ Σ_k w_k ∂F(α_k A_l)/∂A_l` with F the probability of the target class.

    The sum over k stands for the integral `∫₀¹ ∂F(α A_l)/∂A_l dα`. α scales all heads of layer l together, after the
    softmax, not renormalised; later layers recompute their attention. Units: probability. Completeness:
    Σ Attr(A_l) → F(A_l) − F(0·A_l) as steps grow.

    For each layer the batch is repeated once per step from that layer on; earlier layers are not computed again. Of a long
    input the attention of each layer is computed from the layer's input when its turn comes, by (L + 1) / 2 passes more.

    Attributes:
        steps: number m of evaluations of the gradient, or "auto".
        quadrature: "left" is the published script's, "right" the paper's formula; see `nodes_and_weights`.
        tolerance: the gap of a layer at which steps=auto stops, in probability; not used otherwise.

    Source: Hao et al. 2021, eq. 4-5.
    Cost: 1 + m (L + 1) / 2 forward passes, m (L + 1) / 2 backward passes.

    With steps=auto:
        `m = 2, 4, 8, ...` for each example and layer, until `|Σ Attr(A_l) − (F(A_l) − F(0·A_l))| ≤ tolerance` or m = 128.
        It needs quadrature=gauss_legendre. Each m computes its nodes anew, as two sets share at most one. Where 128 are too
        few the last attribution stands; the test `completeness` shows what gaps are left.
        Source: Hao et al. 2021, eq. 4-5 (the attribution); this project (the choice of m).
        Cost: 1 + (1 + m) (L + 1) / 2 forward passes, m (L + 1) / 2 backward passes, with m the sum of all that were tried.
    """

    steps: Count | Literal["auto"] = 20
    quadrature: Quadrature = "left"
    tolerance: Annotated[float, Above(0)] = 0.01
    version: ClassVar[int] = 1
    properties: ClassVar[Mapping[str, str]] = MOVES_BIAS
    class_specific: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.steps != "auto":
            nodes_and_weights(self.quadrature, self.steps)
        elif self.quadrature != "gauss_legendre":
            raise UserError(f"steps=auto needs quadrature=gauss_legendre, not {self.quadrature}")

    def visit(self, model: Classifier, batch: Batch, target: Target, visit: LayerVisitor) -> None:
        """Attributions of the L layers, from about m (L + 1) / 2 forward and backward passes."""
        once_more = is_long(model, batch.units.shape[1])
        trace = model.run(batch, record=("hidden",) if once_more else ("attentions", "hidden"), rows="read")
        probability, index = model.likelihood(trace.logits, target), model.read_rows(batch.tensors)
        for layer, hidden in enumerate(trace.hidden):
            attention = _attention(model, batch, layer, hidden) if once_more else trace.attentions[layer]
            path = _Path(model, batch.tensors, target, layer, attention, hidden)
            if self.steps == "auto":
                attribution = self._until_complete(path, probability)
            else:
                attribution = path.attribution(*nodes_and_weights(self.quadrature, self.steps))
            visit(layer, spread(index, attribution))

    def sums_of_layers(self, model: Classifier, batch: Batch, target: Target) -> Float[Tensor, "B L"]:
        """`F(A_l) − F(0·A_l)`, by completeness."""
        trace = model.run(batch, record=("attentions", "hidden"), rows="read")
        whole = model.likelihood(trace.logits, target)
        pairs = enumerate(zip(trace.attentions, trace.hidden, strict=True))
        paths = (_Path(model, batch.tensors, target, layer, *pair) for layer, pair in pairs)
        return torch.stack([whole - path.without() for path in paths], dim=1)

    def _until_complete(self, path: "_Path", probability: Float[Tensor, "B"]) -> Float[Tensor, "B H _ T"]:
        """The attribution of one layer, with more nodes for those examples whose gap is above the tolerance."""
        contribution = probability - path.without()
        result = torch.zeros_like(path.attention, dtype=path.model.scores_dtype)
        left = torch.arange(len(contribution), device=contribution.device)
        for nodes in _NODES:
            found = path.select(left).attribution(*nodes_and_weights(self.quadrature, nodes))
            result[left] = found
            left = left[(found.sum((1, 2, 3)) - contribution[left]).abs() > self.tolerance]
            if not len(left):
                break
        return result


_NODES = (2, 4, 8, 16, 32, 64, 128)
"""What steps=auto tries, in this order."""


@dataclass(frozen=True)
class _Path:
    """The straight path from no attention in layer l to what the model has there, for a batch.

    Attributes:
        model: whose probability is integrated.
        tensors, target: the batch, and what is explained of each example.
        layer: l.
        attention: A_l, of the rows that are read.
        hidden: input of block l.
    """

    model: Classifier
    tensors: Mapping[str, Tensor]
    target: Target
    layer: int
    attention: Float[Tensor, "B H _ T"]
    hidden: Float[Tensor, "B T D"]

    def select(self, rows: Int[Tensor, "R"]) -> "_Path":
        """The same for some of the examples."""
        tensors = {name: tensor[rows] for name, tensor in self.tensors.items()}
        attention, hidden = self.attention[rows], self.hidden[rows]
        return replace(self, tensors=tensors, target=self.target[rows], attention=attention, hidden=hidden)

    def without(self) -> Float[Tensor, "B"]:
        """`F(0·A_l)`."""
        with torch.no_grad():
            return self._probability(torch.zeros_like(self.attention), 1, grad=False)

    def attribution(self, nodes: np.ndarray, weights: np.ndarray) -> Float[Tensor, "B H _ T"]:
        """`A_l ⊙ Σ_k w_k ∂F(α_k A_l)/∂A_l`, a chunk of nodes at a time."""
        model, attention = self.model, self.attention
        total = torch.zeros_like(attention, dtype=model.scores_dtype)
        size, n_tokens = attention.shape[0], attention.shape[-1]
        per_chunk = max(1, model.rows_per_chunk(n_tokens, layers=model.n_layers - self.layer) // size)
        alphas, shares = (torch.as_tensor(x, dtype=model.scores_dtype, device=total.device) for x in (nodes, weights))
        for alpha, weight in zip(torch.split(alphas, per_chunk), torch.split(shares, per_chunk), strict=True):
            k = len(alpha)
            scaled = (alpha.view(k, 1, 1, 1, 1) * attention).flatten(0, 1).to(attention.dtype).requires_grad_()
            probability = self._probability(scaled, k, grad=True)
            (gradient,) = model.gradients(probability, [scaled], from_layer=self.layer)
            total += torch.einsum("k,kbhij->bhij", weight, gradient.view(k, *attention.shape))
        return attention * total

    def _probability(self, attention: Float[Tensor, "N H _ T"], times: int, *, grad: bool) -> Float[Tensor, "N"]:
        """F of the whole batch `times` times, one copy after the other, with this attention in layer l."""
        run = self.model.run(
            {name: _repeat(tensor, times) for name, tensor in self.tensors.items()},
            replace={self.layer: attention},
            grad=grad,
            start=(self.layer, _repeat(self.hidden, times)),
        )
        return self.model.likelihood(run.logits, self.target.repeat(times))


def _attention(model: Classifier, batch: Batch, layer: int, hidden: Float[Tensor, "B T D"]) -> Float[Tensor, "B H _ T"]:
    """A_l from the input of block l, of the rows that are read; no other layer's is kept."""
    if layer == model.n_layers - 1:
        return model.run(batch, record=("attentions",), rows="read", start=(layer, hidden)).attentions[0]
    kept = []

    def keep(call: int, probabilities: Tensor) -> Tensor:
        if call == layer:
            kept.append(probabilities)
        return probabilities

    model.run(batch, edits=[keep], start=(layer, hidden))
    return kept[0]


def _repeat(tensor: Tensor, times: int) -> Tensor:
    """The whole batch `times` times, one copy after the other."""
    return tensor.repeat(times, *[1] * (tensor.dim() - 1))
