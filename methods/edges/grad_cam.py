"""Grad-CAM of attention (Selvaraju 2017, as Chefer 2021a applies it; docs/protocols.md, section 2)."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from jaxtyping import Float
from torch import Tensor

from benchmark.models import Classifier
from benchmark.settings.declared import configurable
from benchmark.targets import Target
from benchmark.types import Batch
from methods.edges.base import LayerVisitor, LayerwiseScore, visit_attention_and_gradient
from methods.shared.properties import MOVES_BIAS


@configurable
class GradCam(LayerwiseScore):
    """`E[l,h,i,j] = A[l,h,i,j] · w[l,h]` with w the mean gradient of the head over some of its cells.

    The clamp at 0 after the mean over heads belongs to the readout (`part: positive`). The published scripts rescale the
    result to [0, 1], which changes no ranking and is left out.

    Attributes:
        mean_over: "matrix", all T² cells that are no padding (the published BERT script), or "read_row", the read
            token's row over content tokens (the published ViT script).

    Source: Chefer et al. 2021a, section 4 (baseline), after Selvaraju et al. 2017.
    Cost: 1 forward pass, 1 backward pass.
    """

    mean_over: Literal["matrix", "read_row"] = "matrix"
    version: ClassVar[int] = 1
    properties: ClassVar[Mapping[str, str]] = {
        **MOVES_BIAS,
        "sign": "the gradient of a head is one number, so that all words at which it looks alike score alike",
    }
    class_specific: ClassVar[bool] = True

    def visit(self, model: Classifier, batch: Batch, target: Target, visit: LayerVisitor) -> None:
        """Weighted attention of the L layers, from one forward and one backward pass."""
        cells = self._cells(model, batch)

        def weigh(layer: int, attention: Tensor, gradient: Tensor) -> None:
            visit(layer, attention * (gradient * cells).sum((2, 3), keepdim=True))

        visit_attention_and_gradient(model, batch, target, weigh)

    def _cells(self, model: Classifier, batch: Batch) -> Float[Tensor, "B 1 T T"]:
        """Weights of the mean; they sum to 1 for each example."""
        mask = batch.attention_mask
        queries = mask.to(model.scores_dtype) if self.mean_over == "matrix" else model.read_weights(batch)
        keys = (mask if self.mean_over == "matrix" else batch.units >= 0).to(model.scores_dtype)
        cells = queries[:, None, :, None] * keys[:, None, None, :]
        return cells / cells.sum((2, 3), keepdim=True)
