"""E = A: the attention probability itself (Bahdanau 2015; Vaswani 2017; docs/protocols.md, section 2)."""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Int
from torch import Tensor

from benchmark.models import Classifier
from benchmark.types import Batch
from methods.edges.base import Edges


@dataclass(frozen=True)
class Attention:
    """`E[l,h,i,j] = A[l,h,i,j]`, in [0, 1]; the same for every class.

    Source: Bahdanau et al. 2015, section 3.1; Vaswani et al. 2017, section 3.2.
    Cost: 1 forward pass.
    """

    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = False

    def __call__(self, model: Classifier, batch: Batch, target: Int[Tensor, "B"]) -> Edges:
        """Probabilities of the L layers, from one forward pass."""
        return model.run(batch, record=("attentions",)).attentions
