"""What each attention edge adds to the explained logit on the direct path (Ferrando et al. 2023)."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from benchmark.models import Classifier
from benchmark.settings.declared import configurable
from benchmark.targets import Target
from benchmark.types import Batch
from methods.edges.base import LayerVisitor, LayerwiseScore, each_layer
from methods.propagation.block_parts import head_vectors
from methods.propagation.direct import direct_gradients
from methods.shared.properties import MOVES_BIAS


@configurable
class DirectLogit(LayerwiseScore):
    """`E[l,h,i,j] = g_li · A_hij v_hj W_O^h`: the change of the logit that head h writes at token i when it reads token j.

    g_li is the map from what layer l's attention adds at token i to the logit, past all other sublayers: the last norm, with
    the deviation that it has, and the column of the unembedding (`methods.propagation.direct`). Values carry the value bias.
    In a model whose norms stand before the sublayers all edges of all layers, the embedding of the read token, the
    feed-forward networks and the biases (of outputs, of the last norm, of the head) add up to the logit. Where a classifier
    reads one token, its row alone is not 0.

    Open in the source, which knows such models alone: where norms follow the sums, as in BERT, they are affine maps of the
    same kind on the path, and the activation of a pooler is the line through the origin that it is at the example.

    Source: Ferrando et al. 2023, and its code.
    Cost: 4 + H/12 forward passes, 1 backward pass.
    """

    version: ClassVar[int] = 1
    properties: ClassVar[Mapping[str, str]] = MOVES_BIAS
    class_specific: ClassVar[bool] = True

    def visit(self, model: Classifier, batch: Batch, target: Target, visit: LayerVisitor) -> None:
        """Signed scores of the L layers, in logits."""
        gradients = direct_gradients(model, batch, target)
        for layer, hidden, attention in each_layer(model, batch):
            visit(layer, self._scores(gradients[layer], attention, head_vectors(model, batch, layer, hidden)))

    @staticmethod
    def _scores(gradient: Tensor, attention: Tensor, vectors: Tensor) -> Tensor:
        given = torch.einsum("hbjd,bid->bhij", vectors.to(gradient), gradient)
        return attention.to(given) * given
