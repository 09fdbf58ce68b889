"""Attribution patching with gradients averaged on the way from the corrupted to the clean input (Hanna et al. 2024)."""

from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from benchmark.models.components import Ablation, Of
from benchmark.settings.declared import Count, configurable
from methods.circuits.base import Case, ComponentScores, mean_of


@configurable
class EapIg(ComponentScores):
    """`E[u,s] = −(ũ − u) · 1/n Σ_k ∂F/∂s (x̃ + k/n (x − x̃))`, k = 0 … n − 1 (EAP-IG, inputs).

    x is what the first block reads; the model runs on from there. As the code has it the sum begins at the corrupted input
    and ends before the clean one.

    Attributes:
        ablation: what a component is compared with.
        level: `edges`, for scores of nodes and edges, or `nodes`, for those of nodes alone.
        steps: n.

    Source: Hanna et al. 2024, and its code.
    Cost: 3 + n forward and backward passes of all slots.
    """

    ablation: Ablation = "patching"
    level: Of = "edges"
    steps: Count = 5
    version: ClassVar[int] = 1

    def scores(self, case: Case, of: Of) -> Float[Tensor, "B S _"]:
        """The mean over the steps."""
        inputs = [case.between(step / self.steps).input[:, None] for step in range(self.steps)]
        return -mean_of(
            case.components.effects(of, case.batch.tensors, case.value, case.direction, {0: start}) for start in inputs
        )
