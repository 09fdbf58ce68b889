"""s_j = Σ_d ∂y_t/∂e[j,d] · e[j,d] (Denil 2014; Shrikumar 2017; PROTOCOLS section 7)."""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Int
from torch import Tensor

from benchmark.models import Classifier
from benchmark.types import Attribution, Batch


@dataclass(frozen=True)
class GradientXInput:
    """`s_j = Σ_d ∂y_t/∂e[j,d] · e[j,d]` with e the token embedding before positions are added; in logits, signed."""

    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = True

    def __call__(self, model: Classifier, batch: Batch, target: Int[Tensor, "B"]) -> Attribution:
        """Token scores, from one forward and one backward pass."""
        trace = model.run(batch, record=("embeddings",), grad=True)
        assert trace.embeddings is not None
        (gradient,) = model.gradients(trace.logits, [trace.embeddings], weights=model.one_hot(target))
        scores = (gradient * trace.embeddings.detach()).sum(-1)
        # An image's embedding module knows no CLS token, which stands first.
        missing = batch.units.shape[1] - scores.shape[1]
        scores = scores.new_zeros(len(batch), missing + scores.shape[1]).index_copy_(
            1, scores.new_tensor(range(missing, missing + scores.shape[1])).long(), scores
        )
        return Attribution(target=target, tokens=scores * batch.attention_mask)
