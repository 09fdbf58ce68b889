"""What explainers of components share: clean and corrupted outputs of the nodes, and scores of nodes, edges and heads."""

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from benchmark.models import Classifier
from benchmark.models.components import Ablation, Components, Graph, Of, Outputs, Value
from benchmark.targets import Target
from benchmark.types import Attribution, Batch, Method


@dataclass(frozen=True)
class Case:
    """Examples whose components are scored.

    Attributes:
        components: of the model.
        batch: the examples.
        target: what is explained; a positive score says that ablating the component lowers it.
        ablation: what a component is compared with.
    """

    components: Components
    batch: Batch
    target: Target
    ablation: Ablation

    @cached_property
    def clean(self) -> Outputs:
        """u, what each node writes."""
        return self.components.outputs(self.batch.tensors)

    @cached_property
    def others(self) -> Outputs:
        """ũ, what stands in for it.

        Raises:
            NotApplicable: the examples have no corrupted counterpart of their length.
        """
        return self.components.others(self.batch, self.ablation)

    @cached_property
    def direction(self) -> Outputs:
        """`δ_u = ũ − u`."""
        return self.others.less(self.clean)

    @property
    def value(self) -> Value:
        """F of rows of the batch."""
        return lambda logits, rows: self.target[rows].value(logits)

    def between(self, share: float) -> Outputs:
        """`ũ + share · (u − ũ)`."""
        pairs = zip(self.clean.groups(), self.others.groups(), strict=True)
        return Outputs.of_groups([torch.lerp(other, own, share) for own, other in pairs])


def same_for_all(
    model: Classifier, batch: Batch, target: Target, nodes: Float[Tensor, "S"], edges: Float[Tensor, "S D"]
) -> Attribution:
    """Scores that do not hang on the example; heads have those of their nodes."""
    parts = (part.to(model.device, model.scores_dtype) for part in (nodes, edges))
    own, of_edges = (part.expand(len(batch), *part.shape).contiguous() for part in parts)
    heads = Graph(model.n_layers, model.n_heads).scores_of_heads(own)
    return Attribution(target=target, heads=heads, nodes=own, components=of_edges)


def mean_of(scores: Iterable[Float[Tensor, "B S _"]]) -> Float[Tensor, "B S _"]:
    """Their mean; one after the other, so that two are held at most."""
    found = iter(scores)
    total, count = next(found), 1
    for one in found:
        total, count = total + one, count + 1
    return total / count


class ComponentScores(Method):
    """A method that scores the nodes of the computation graph and, where asked, its edges.

    Scores are those of a loss −F: positive where the component speaks for F. The scores of heads are those of their nodes.
    Subclasses are dataclasses with these fields.

    Attributes:
        ablation: what a component is compared with.
        level: `edges`, for scores of nodes and edges, or `nodes`, for those of nodes alone, which a large model can afford.
    """

    class_specific: ClassVar[bool] = True
    ablation: Ablation
    level: Of

    def explain(self, model: Classifier, batch: Batch, target: Target) -> Attribution:
        """Scores of nodes and heads, and of edges where they are asked.

        Raises:
            NotApplicable: the model's nodes cannot be told apart, or the examples have no corrupted counterpart.
        """
        components = Components.of(model, batch)
        case = Case(components, batch, target, self.ablation)
        edges = self.scores(case, "edges").to(model.scores_dtype) if self.level == "edges" else None
        nodes = self.nodes(case, edges).to(model.scores_dtype)
        heads = components.graph.scores_of_heads(nodes)
        return Attribution(target=target, heads=heads, nodes=nodes, components=edges)

    def nodes(self, case: Case, edges: Float[Tensor, "B S D"] | None) -> Float[Tensor, "B S"]:
        """The sum over the edges of a node."""
        return self.scores(case, "nodes")[..., 0] if edges is None else edges.sum(-1)

    @abstractmethod
    def scores(self, case: Case, of: Of) -> Float[Tensor, "B S _"]:
        """One score per edge, [B S D], 0 where nothing is joined; or per node, [B S 1]."""
