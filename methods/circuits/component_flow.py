"""Information flow routes between components: how near to what a slot reads each node leads (Ferrando & Voita 2024)."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from benchmark.errors import NotApplicable
from benchmark.models import Classifier
from benchmark.models.components import Components, Of
from benchmark.settings.declared import configurable
from benchmark.targets import Target
from benchmark.types import Attribution, Batch
from methods.circuits.base import Case, ComponentScores
from methods.shared.properties import MOVES_BIAS, MULTIPLIES_EMBEDDINGS


@configurable
class ComponentFlow(ComponentScores):
    """`E[u,s] = max(0, ‖s‖₁ − ‖s − u‖₁) / Σ_u max(0, ‖s‖₁ − ‖s − u‖₁)`, mean over positions.

    s is the residual stream that a slot reads, u what a node adds to it, of the input the embeddings of tokens alone.
    Queries, keys and values of a layer read the same. It asks nothing of F, of gradients or of a corrupted input.

    Attributes:
        level: `edges`, for scores of nodes and edges, or `nodes`, for those of nodes alone.

    Source: Ferrando & Voita 2024, as the code of Hanna et al. 2024 has it.
    Cost: 3 forward passes.
    """

    ablation = "zero"
    level: Of = "edges"
    version: ClassVar[int] = 1
    properties: ClassVar[Mapping[str, str]] = {**MULTIPLIES_EMBEDDINGS, **MOVES_BIAS}
    class_specific: ClassVar[bool] = False

    def explain(self, model: Classifier, batch: Batch, target: Target) -> Attribution:
        """Scores of nodes, heads and edges.

        Raises:
            NotApplicable: norms stand behind the additions, so that no stream is the sum of what nodes write.
        """
        if Components.of(model, batch).normed_behind:
            raise NotApplicable(
                "norms stand behind the additions of this model, so that its residual stream is no sum of what nodes write"
            )
        return super().explain(model, batch, target)

    def scores(self, case: Case, of: Of) -> Float[Tensor, "B S _"]:
        """From the streams of one run."""
        streams, written = case.components.streams(case.batch.tensors), case.clean.less(case.others).stacked
        mask = case.batch.attention_mask.to(written)
        graph = case.components.graph
        scores = written.new_zeros(len(case.batch), *graph.edges.shape)
        for slots, stream in streams:
            behind = graph.behind[slots.start]
            nearer = stream.abs().sum(-1)[:, None] - (stream[:, None] - written[:, :behind]).abs().sum(-1)
            shares = nearer.clamp(min=0)
            shares = shares / shares.sum(1, keepdim=True).clamp(min=torch.finfo(shares.dtype).tiny)
            mean = (shares * mask[:, None]).sum(-1) / mask.sum(-1, keepdim=True)
            scores[:, :behind, slots] = mean[..., None]
        return scores if of == "edges" else scores.sum(-1, keepdim=True)
