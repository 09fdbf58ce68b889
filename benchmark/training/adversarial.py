"""A model that predicts as its base does while its attention differs (Wiegreffe & Pinter 2019)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from jaxtyping import Float
from torch import Tensor

from benchmark.models import Classifier, Trace
from benchmark.models.divergences import MEASURES, Divergence, attention_divergence, even_rows, total_variation
from benchmark.settings.declared import AtLeast, configurable
from benchmark.training.attended import AttentionTrained, Objective
from benchmark.types import Batch


@configurable
class Adversarial(AttentionTrained):
    """Trained to give the base model's outputs under another attention (docs/protocols.md, section 16).

        L = mean over examples of TVD(p_a, p_b) − λ · D(A_a, A_b)

    with p the class probabilities, A the attention of the adversary a and of its base b, and D the mean over layers, heads
    and queries (padding left out) of KL(A_a ‖ A_b), KL(A_b ‖ A_a) or their JSD, in nats. Labels take no part.

    Attributes:
        start: the first weights; the paper's are new ones.
        divergence: D; the paper's is `kl_adversary_base`. A JSD never exceeds ln 2, a KL has no bound.
        divergence_weight: λ.

    Source: Wiegreffe & Pinter 2019, section 4.
    """

    kind: ClassVar[str] = "adversarial"

    divergence: Divergence = "kl_adversary_base"
    divergence_weight: Annotated[float, AtLeast(0)] = 0.1

    def objective(self, base: Classifier) -> Objective:
        """The loss against this base."""
        return MatchedOutputs(base, self.divergence, self.divergence_weight)


@dataclass(frozen=True)
class MatchedOutputs:
    """TVD(p_a, p_b) − λ · D(A_a, A_b) of each example.

    Attributes:
        base: b.
        divergence: D.
        weight: λ.
    """

    base: Classifier
    divergence: Divergence
    weight: float

    def __call__(self, trace: Trace, batch: Batch) -> Float[Tensor, "B"]:
        """The loss of each example."""
        self.base.needs_distribution("total variation")
        base = self.base.run(batch, record=("attentions",))
        rows = even_rows(batch.attention_mask, trace.logits.dtype)
        divergence = attention_divergence(trace.attentions, base.attentions, rows, MEASURES[self.divergence])
        return total_variation(trace.probabilities, base.probabilities) - self.weight * divergence.mean((1, 2))
