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
from methods.circuits.base import same_for_all
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
        edges = torch.from_numpy(draw.random(graph.edges.shape)) * graph.edges
        nodes = torch.from_numpy(draw.random(len(graph.nodes)))
        return same_for_all(model, batch, target, nodes, edges)
