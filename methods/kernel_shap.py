"""s = argmin_φ Σ_z k(z) (v(z) − φ_0 − Σ_u φ_u z_u)²: Shapley values by weighted regression (Lundberg & Lee 2017)."""

from dataclasses import dataclass

import torch
from captum.attr import KernelShap as CaptumKernelShap
from torch import Tensor

from benchmark.errors import UserError
from methods.unit_game import MANY, UnitExplainer, UnitGame


@dataclass(frozen=True, kw_only=True)
class KernelShap(UnitExplainer):
    """`s = argmin_φ Σ_z k(z) (v(z) − φ_0 − Σ_u φ_u z_u)²` over m sampled coalitions z, k the Shapley kernel (captum's).

    v(z) is the output with the units of z_u = 0 removed. captum samples coalitions from the kernel and gives the full and
    the empty one a weight of 10⁶ instead of infinity, so the scores sum to v(all) − v(none) up to about 10⁻⁵. With fewer
    samples than units the regression has many solutions, and the smallest is taken; a text of one unit is solved exactly.

    Source: Lundberg & Lee 2017, section 4.1.
    Cost: at most m forward passes (equal coalitions are run once).

    Attributes:
        samples: number m of coalitions, the full and the empty one among them; the authors' package takes 2U + 2048.
        operator, output, seed: of `UnitExplainer`.
    """

    samples: int = 100

    def __post_init__(self) -> None:
        if self.samples < 3:
            raise UserError(f"samples={self.samples} is too small: at least 3 coalitions are needed")
        super().__post_init__()

    def _values(self, game: UnitGame) -> Tensor:
        everything = game.everything
        if everything.shape[1] == 1:  # captum's distribution over sizes is empty then
            with_and_without = game(torch.cat([everything, 0 * everything]))
            return (with_and_without[0] - with_and_without[1]).view(1, 1)
        values: Tensor = CaptumKernelShap(game).attribute(
            everything, n_samples=self.samples, perturbations_per_eval=MANY
        )
        return values
