"""Activation patching: what is lost where one component alone writes what it writes elsewhere, run by run."""

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from benchmark.models.components import Ablation, Of
from benchmark.settings.declared import configurable
from methods.circuits.base import Case, ComponentScores


@configurable
class ActivationPatching(ComponentScores):
    """`E[u,s] = F(all) − F(all but u → s)` for each edge; of a node all its edges are taken at once.

    In these runs the slot reads ũ in the place of u, and everything behind it is computed anew. What first-order scores
    approximate, at a run for each edge: of GPT-2 small 32,491.

    Attributes:
        ablation: what a component is compared with.
        level: `edges`, for scores of nodes and edges, or `nodes`, for those of nodes alone.

    Source: path patching of single edges (Wang et al. 2023; Goldowsky-Dill et al. 2023). The code of Hanna et al. 2024 never
    puts back what it took away in a model's nodes before; here each is taken from the whole.
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
        index = places.nonzero()
        keep = torch.ones(1 + len(index), *places.shape, dtype=torch.bool)
        keep[1 + torch.arange(len(index)), index[:, 0], index[:, 1]] = False
        logits = case.components.run(case.batch.tensors, keep.to(case.clean.input.device), case.others)
        values = case.target.value(logits)
        scores = values.new_zeros(len(case.batch), *places.shape)
        scores[:, index[:, 0], index[:, 1]] = (values[:1] - values[1:]).T
        return scores
