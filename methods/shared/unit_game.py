"""Games of units: what Shapley values and local surrogates ask of a model."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from math import frexp, inf
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from benchmark.models import Classifier
from benchmark.models.removal import Operator, OperatorName, logits_without, operator_for
from benchmark.settings.declared import Natural, configurable
from benchmark.targets import Target
from benchmark.types import Attribution, Batch, Method
from methods.shared.input_gradients import Output, target_output
from methods.shared.seeds import seeded
from methods.shared.unit_scores import unit_attribution, visible_units

MANY = 512  # coalitions that captum hands over at once; they are run in chunks that suit the device


@dataclass(frozen=True)
class UnitGame:
    """`v(z) = F(x without the units u with z_u = 0)` of one example, as a function of V presences.

    Attributes:
        model: the classifier.
        batch: one example.
        target: what is explained of it.
        operator: how units are removed.
        output: what F is.
        units: indices of the V units that take part.
        n_units: units as `benchmark.units.pool` counts them.
    """

    model: Classifier
    batch: Batch
    target: Target
    operator: Operator
    output: Output
    units: Int[Tensor, "V"]
    n_units: int

    @property
    def everything(self) -> Float[Tensor, "1 V"]:
        """The presences of the example as it is."""
        return torch.ones(1, len(self.units), device=self.units.device)

    def __call__(self, present: Float[Tensor, "K V"]) -> Float[Tensor, "K"]:
        """The output under each of K coalitions."""
        removed = torch.zeros(len(present), 1, self.n_units, dtype=torch.bool, device=self.units.device)
        removed[:, 0, self.units] = present < 0.5
        logits = logits_without(self.model, self.batch, removed, self.operator)[:, 0]
        return target_output(self.model, logits, self.target.repeat(len(logits)), self.output)

    def sampled(self, algorithm: Any, samples: int) -> Float[Tensor, "1 V"]:
        """The scores that a sampling algorithm of captum, made for this game, gives with so many samples."""
        scores: Tensor = algorithm.attribute(self.everything, n_samples=samples, perturbations_per_eval=MANY)
        return scores


@configurable
class UnitExplainer(Method):
    """What explainers of a `UnitGame` share: how units are removed, what is explained, and what draws are seeded by.

    One example at a time, since captum fits and draws for one; its coalitions are batched. The random states of torch and
    numpy are seeded by the example. Every token has the score of its unit.

    Attributes:
        operator: how units are removed: `auto`, or a name in `benchmark.models.removal.OPERATORS`.
        output: "probability" p_t, or "logit" y_t.
        seed: of what is drawn.
    """

    operator: OperatorName = "auto"
    output: Output = "probability"
    seed: Natural = 0
    version: ClassVar[int] = 2
    properties: ClassVar[Mapping[str, str]] = {
        "read": "where the last word of a decoder's input is removed, too, the answer is read from another token"
    }
    class_specific: ClassVar[bool] = True

    def explain(self, model: Classifier, batch: Batch, target: Target) -> Attribution:
        """Token scores; raises UserError for an operator that cannot serve the model."""
        operator = operator_for(self.operator, model, batch, "operator")
        visible = visible_units(batch)
        scores = torch.zeros(visible.shape, dtype=model.scores_dtype, device=visible.device)
        for row, key in enumerate(batch.draw_keys):
            units = visible[row].nonzero()[:, 0]
            if len(units) == 0:
                continue
            one = slice(row, row + 1)
            game = UnitGame(model, batch.select([row]), target[one], operator, self.output, units, visible.shape[1])
            with seeded(key, self.seed, model.device), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                scores[row, units] = settled(self._values(game)[0].double()).to(scores)
        return unit_attribution(batch, target, scores)

    def _values(self, game: UnitGame) -> Float[Tensor, "1 V"]:
        """One score per unit of an example."""
        raise NotImplementedError


def settled(values: Float[Tensor, "V"]) -> Float[Tensor, "V"]:
    """Values rounded to 40 binary digits of the largest.

    The last bits of a least-squares solver depend on where in memory its arrays lie: unrounded, the same call gives other
    bits the second time.
    """
    largest = float(values.abs().max())
    if not 0 < largest < inf:
        return values
    unit = 2.0 ** (frexp(largest)[1] - 40)
    return (values / unit).round() * unit
