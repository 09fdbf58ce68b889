"""Attribution patching: to first order, what is lost where a component writes what it writes elsewhere (Syed 2024)."""

from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from benchmark.models.components import Ablation, Of
from benchmark.settings.declared import configurable
from methods.circuits.base import Case, ComponentScores


@configurable
class Eap(ComponentScores):
    """`E[u,s] = −(ũ − u) · ∂F/∂s` for each edge from node u to slot s (EAP); a node's score is the sum over its edges.

    u is what the node writes to the residual stream for the input, ũ for the corrupted one, s what the slot reads before its
    norm; products are summed over positions and width. Where norms stand behind the additions, as in BERT, the derivative is
    that of the edge alone: through the norms of what slot s reads.

    With `ablation=zero` it is what the component adds to F to first order, `u · ∂F/∂s`, its gradient × activation (Taylor).

    Attributes:
        ablation: what a component is compared with.
        level: `edges`, for scores of nodes and edges, or `nodes`, for those of nodes alone.

    The code of Hanna et al. 2024 divides scores by the size of the batch twice, and takes the gradient of a feed-forward
    network's node at the network's input.

    Source: Syed et al. 2024; of nodes Nanda 2023.
    Cost: 3 + forward and backward passes of all slots.
    """

    ablation: Ablation = "patching"
    level: Of = "edges"
    version: ClassVar[int] = 1

    def scores(self, case: Case, of: Of) -> Float[Tensor, "B S _"]:
        """From one pass."""
        return -case.components.effects(of, case.batch.tensors, case.value, case.direction)
