"""Attribution patching with the gradients of the clean and of the corrupted input (Hanna et al. 2024)."""

from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from benchmark.models.components import Ablation, Of, corrupted_of
from benchmark.settings.declared import configurable
from methods.circuits.base import Case, ComponentScores, mean_of


@configurable
class EapCleanCorrupted(ComponentScores):
    """`E[u,s] = −(ũ − u) · (∂F/∂s (x) + ∂F/∂s (x̃)) / 2`: the ends of the way between the inputs.

    Attributes:
        ablation: what a component is compared with; gradients are those of clean and corrupted input whatever it is.
        level: `edges`, for scores of nodes and edges, or `nodes`, for those of nodes alone.

    Source: Hanna et al. 2024, and its code.
    Cost: 3 + 2 forward and backward passes of all slots.
    """

    ablation: Ablation = "patching"
    level: Of = "edges"
    version: ClassVar[int] = 1

    def scores(self, case: Case, of: Of) -> Float[Tensor, "B S _"]:
        """The mean of both."""
        ends = case.batch.tensors, corrupted_of(case.batch)
        return -mean_of(case.components.effects(of, tensors, case.value, case.direction) for tensors in ends)
