"""Activation patching: what is lost where one component alone writes what it writes elsewhere, run by run."""

from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from benchmark.errors import NotApplicable
from benchmark.models.components import Ablation, Of
from benchmark.settings.declared import configurable
from methods.circuits.base import Case, ComponentScores

MOST = 50_000
"""Edges of a model that can be taken one by one."""

_AT_ONCE = 256  # masks that are held


@configurable
class ActivationPatching(ComponentScores):
    """`E[u,s] = F(all) − F(all but u → s)` for each edge; of a node all its edges are taken at once.

    In these runs the slot reads ũ in the place of u, and everything behind it is computed anew. What first-order scores
    approximate, at a run for each edge: of GPT-2 small 32,491. The code of Hanna et al. 2024 never puts back what it took
    away of nodes before; here each is taken from the whole.

    Attributes:
        ablation: what a component is compared with.
        level: `edges`, for scores of nodes and edges, or `nodes`, for those of nodes alone.

    Source: path patching of single edges (Wang et al. 2023; Goldowsky-Dill et al. 2023).
    Cost: 3 + a forward pass for each node, and for each edge.
    """

    ablation: Ablation = "patching"
    level: Of = "edges"
    version: ClassVar[int] = 1

    def nodes(self, case: Case, edges: Float[Tensor, "B S D"] | None) -> Float[Tensor, "B S"]:
        """Runs of their own: effects of edges do not add up."""
        return self.scores(case, "nodes")[..., 0]

    def scores(self, case: Case, of: Of) -> Float[Tensor, "B S _"]:
        """A run for each."""
        graph = case.components.graph
        places = graph.edges if of == "edges" else torch.ones(len(graph.nodes), 1, dtype=torch.bool)
        index = places.T.nonzero().flip(1)  # slot by slot: what the other slots read is one and the same in most runs
        if len(index) > MOST:
            raise NotApplicable(
                f"the model has {len(index):,} edges, each of which takes a run of its own, and {MOST:,} are taken at most; "
                "set level=nodes"
            )
        whole = self._values(case, torch.ones(1, *places.shape, dtype=torch.bool))
        scores = whole.new_zeros(len(case.batch), *places.shape)
        for some in torch.split(index, _AT_ONCE):
            keep = torch.ones(len(some), *places.shape, dtype=torch.bool)
            keep[torch.arange(len(some)), some[:, 0], some[:, 1]] = False
            scores[:, some[:, 0], some[:, 1]] = (whole - self._values(case, keep)).T
        return scores

    @staticmethod
    def _values(case: Case, keep: Bool[Tensor, "N S _"]) -> Float[Tensor, "N B"]:
        """F of each example in each circuit."""
        return case.target.value(case.components.run(case.batch.tensors, keep.to(case.clean.input.device), case.others))
