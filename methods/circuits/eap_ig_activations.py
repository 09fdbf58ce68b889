"""Attribution patching with gradients averaged over interpolations of one group of nodes at a time (Hanna et al. 2024)."""

from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from benchmark.models.components import Ablation, Of
from benchmark.settings.declared import Count, configurable
from methods.circuits.base import Case, ComponentScores, mean_of


@configurable
class EapIgActivations(ComponentScores):
    """`E[u,s] = −(ũ − u) · 1/((1 + 2L) n) Σ_g Σ_k ∂F/∂s (g ← ũ + k/n (u − ũ))`, k = 1 … n (EAP-IG, activations).

    In each run one group g of nodes, the input, the heads of a layer or a feed-forward network, writes a mixture of what it
    writes for the corrupted and for the clean input. The mean over all runs serves every edge.

    Attributes:
        ablation: what a component is compared with.
        level: `edges`, for scores of nodes and edges, or `nodes`, for those of nodes alone.
        steps: n.

    With rotary positions no gradient reaches queries, keys and values of the first layer in the source while the input is
    interpolated, as it is a constant there; here it does.

    Source: the code of Hanna et al. 2024.
    Cost: 3 + (1 + 2L) n forward and backward passes of all slots.
    """

    ablation: Ablation = "patching"
    level: Of = "edges"
    steps: Count = 5
    version: ClassVar[int] = 1

    def scores(self, case: Case, of: Of) -> Float[Tensor, "B S _"]:
        """The mean over groups and steps."""
        return -mean_of(
            case.components.effects(of, case.batch.tensors, case.value, case.direction, {group: written})
            for step in range(1, self.steps + 1)
            for group, written in enumerate(case.between(step / self.steps).groups())
        )
