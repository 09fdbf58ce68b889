"""Scores of components that were made elsewhere: by another program, or by a training of masks."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from benchmark.errors import UserError
from benchmark.models import Classifier
from benchmark.models.components import Graph
from benchmark.models.components.importances import read_importances
from benchmark.settings.declared import configurable, of_file
from benchmark.targets import Target
from benchmark.types import Attribution, Batch, Method
from methods.circuits.base import same_for_all
from methods.shared.properties import LOOKS_AT_NO_MODEL


@configurable
class Importances(Method):
    """`E[u,s]` and `E[u]` as a file gives them, the same for every example; heads have the scores of their nodes.

    The file is that of MIB's evaluation code: JSON with `cfg`, `nodes` and `edges` ("input->a0.h0<q>"), each with its
    score, or a .pt with the matrices [S D]. A node of which it has no score gets the sum over its edges. A comparison
    writes such files of its own methods to its folder `importances/`.

    Attributes:
        path: of the file. What it holds enters the identity of the method, not where it lies.

    Errors: UserError for a file that cannot be read, that is of a model with other components, or that has a score that is
    no finite number. All of it is said before anything is explained.

    Source: Mueller et al. 2025 (MIB) for the form; the file says what the scores are.
    Cost: no pass.
    """

    path: str = of_file()
    version: ClassVar[int] = 1
    properties: ClassVar[Mapping[str, str]] = LOOKS_AT_NO_MODEL
    explains_others: ClassVar[bool] = False
    class_specific: ClassVar[bool] = False

    def check_model(self, model: Classifier) -> None:
        """UserError where the file has no scores of this model's components."""
        try:
            self._of(Graph(model.n_layers, model.n_heads))
        except UserError as error:
            raise UserError(f"path: {error}") from error

    def explain(self, model: Classifier, batch: Batch, target: Target) -> Attribution:
        """The scores of the file for each example."""
        return same_for_all(model, batch, target, *self._of(Graph(model.n_layers, model.n_heads)))

    @cached_property
    def _read(self) -> dict[tuple[int, int], tuple[Tensor, Tensor]]:
        """What was read of the file, by layers and heads: it is not read again for each batch."""
        return {}

    def _of(self, graph: Graph) -> tuple[Tensor, Tensor]:
        """Scores of nodes, and of edges, 0 where there is none."""
        size = graph.n_layers, graph.n_heads
        if size not in self._read:
            edges, nodes = read_importances(Path(self.path), graph)
            edges = np.where(graph.edges.numpy(), edges, 0.0)
            self._read[size] = torch.from_numpy(edges.sum(1) if nodes is None else nodes), torch.from_numpy(edges)
        return self._read[size]
