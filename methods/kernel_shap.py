"""KernelSHAP: Shapley values by weighted regression (Lundberg & Lee 2017)."""

from math import comb
from typing import Annotated, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from benchmark.settings.availability import needs
from benchmark.settings.declared import AtLeast, configurable
from methods.shared.unit_game import MANY, UnitExplainer, UnitGame


@configurable
class KernelShap(UnitExplainer):
    """`s = argmin_φ Σ_z k(z) (v(z) − φ_0 − Σ_u φ_u z_u)²` over coalitions z of U units, k the Shapley kernel.

    v(z) is the output with the units of z_u = 0 removed. Where there are no more than m coalitions, `2^U ≤ m`, all are run
    and weighed by `k(z) = (U − 1) / (C(U, |z|) |z| (U − |z|))`. The full and the empty one, of infinite weight, hold
    exactly, so that the scores are the Shapley values. Elsewhere captum samples m coalitions from the kernel and gives the
    full and the empty one a weight of 10⁶ instead: the scores sum to v(all) − v(none) up to about 10⁻⁵. With fewer samples
    than units the regression has many solutions, and the smallest is taken.

    Attributes:
        samples: number m of coalitions, the full and the empty one among them; the authors' package takes 2U + 2048.
            With 100 the ranks of words under two seeds correlate by .61 only (docs/methods.md).
        operator, output, seed: of `UnitExplainer`.

    Source: Lundberg & Lee 2017, section 4.1.
    Cost: at most m forward passes (equal coalitions are run once, and there are 2^U).
    """

    samples: Annotated[int, AtLeast(3)] = 100
    version: ClassVar[int] = 3

    def __post_init__(self) -> None:
        needs("captum", "kernel_shap")

    def _values(self, game: UnitGame) -> Tensor:
        from captum.attr import KernelShap as CaptumKernelShap  # where captum is installed

        n_units = game.everything.shape[1]
        if 2**n_units <= self.samples:
            return shapley_values(game, n_units)[None]
        return game.sampled(CaptumKernelShap(game), self.samples)


def shapley_values(game: UnitGame, n_units: int) -> Float[Tensor, "V"]:
    """The regression over all coalitions, the last unit's score being what the others leave of v(all) − v(none)."""
    numbers = torch.arange(2**n_units, device=game.units.device)
    present = (numbers[:, None] >> torch.arange(n_units, device=game.units.device)) & 1
    value = torch.cat([game(chunk) for chunk in torch.split(present.to(torch.float32), MANY)]).double().cpu()
    present, inner = present.double().cpu(), slice(1, -1)  # neither the empty coalition nor the full one
    total = value[-1] - value[0]
    weights = torch.tensor([_kernel(n_units, int(size)) for size in present[inner].sum(1)], dtype=torch.float64).sqrt()
    units = weights[:, None] * (present[inner, :-1] - present[inner, -1:])
    others = weights * (value[inner] - value[0] - present[inner, -1] * total)
    scores = torch.linalg.lstsq(units, others[:, None]).solution[:, 0] if n_units > 1 else units.new_zeros(0)
    return torch.cat([scores, (total - scores.sum())[None]]).to(game.units.device)


def _kernel(n_units: int, size: int) -> float:
    return (n_units - 1) / (comb(n_units, size) * size * (n_units - size))
