"""A random order of the components of a model."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch

from benchmark.models import Classifier
from benchmark.models.components import Graph
from benchmark.settings.declared import Natural, configurable
from benchmark.targets import Target
from benchmark.types import Attribution, Batch, Method
from methods.shared.properties import LOOKS_AT_NO_MODEL


@configurable
class RandomComponents(Method):
    """`U(0, 1)` for each node and each edge, drawn once per seed for all examples; heads have the scores of their nodes.

    Attributes:
        seed: of the draw.

    Source: a control of the tests.
    Cost: no pass.
    """

    seed: Natural = 0
    version: ClassVar[int] = 1
    properties: ClassVar[Mapping[str, str]] = LOOKS_AT_NO_MODEL
    class_specific: ClassVar[bool] = False

    def explain(self, model: Classifier, batch: Batch, target: Target) -> Attribution:
        """Random scores in [0, 1)."""
        graph, draw = Graph(model.n_layers, model.n_heads), np.random.default_rng(self.seed)
        edges = torch.as_tensor(draw.random(graph.edges.shape), dtype=model.scores_dtype) * graph.edges
        nodes = torch.as_tensor(draw.random(len(graph.nodes)), dtype=model.scores_dtype)
        each = [part.expand(len(batch), *part.shape).to(model.device).contiguous() for part in (nodes, edges)]
        return Attribution(target=target, heads=graph.scores_of_heads(each[0]), nodes=each[0], components=each[1])
