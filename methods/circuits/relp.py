"""Relevance patching: attribution patching with the coefficients of relevance propagation (Jafari et al. 2025)."""

from typing import ClassVar, Literal

from jaxtyping import Float
from torch import Tensor

from benchmark.models.attention_interface import hold_constant
from benchmark.models.components import Ablation, Of
from benchmark.settings.declared import configurable
from methods.circuits.base import Case, ComponentScores
from methods.propagation.conservative import FrozenNorms
from methods.propagation.mode import propagating


@configurable
class RelP(ComponentScores):
    """`E[u,s] = −(ũ − u) · ρ_s`, ρ_s the propagation coefficient of F at slot s in the place of its gradient (RelP).

    The coefficient is the gradient of a model in which the denominators of norms are constants, activations are the lines
    through the origin that they are at the example, and each factor of a gate has half. Attention probabilities keep their
    gradient, as in the code, or are constants too.

    Attributes:
        ablation: what a component is compared with.
        level: `edges`, for scores of nodes and edges, or `nodes`, for those of nodes alone.
        attention: `gradient`, or `constant`: the AH-rule, with which queries and keys have no score.

    The rules are those of Ali et al. 2022 and of Arras et al. 2019.

    Source: Jafari et al. 2025, and its code, whose default has no AH-rule.
    Cost: 3 + forward and backward passes of all slots.
    """

    ablation: Ablation = "patching"
    level: Of = "edges"
    attention: Literal["gradient", "constant"] = "gradient"
    version: ClassVar[int] = 1

    def scores(self, case: Case, of: Of) -> Float[Tensor, "B S _"]:
        """From one pass in which operations have other derivatives."""
        model = case.components.model.model
        return -case.components.effects(
            of,
            case.batch.tensors,
            case.value,
            case.direction,
            edits=(hold_constant,) if self.attention == "constant" else (),
            scope=lambda: propagating(model, FrozenNorms(identity=True)),
        )
