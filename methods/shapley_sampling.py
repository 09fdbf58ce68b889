"""Sampled Shapley values (Castro 2009)."""

from torch import Tensor

from benchmark.settings.availability import needs
from benchmark.settings.declared import Count, configurable
from methods.shared.unit_game import UnitExplainer, UnitGame


@configurable
class ShapleySampling(UnitExplainer):
    """`s_u = (1/m) Σ_π [v(before_π(u) ∪ {u}) − v(before_π(u))]` over m random orders π of the units (captum's).

    v(S) is the output with the units outside S removed. The scores of an example sum to v(all) − v(none) whatever m is.
    A game of features needs a way to take one out, which the source leaves to the user: it is the benchmark's removal.

    Attributes:
        samples: number m of orders; 25 is captum's.
        operator, output, seed: of `UnitExplainer`.

    Source: Castro et al. 2009; Strumbelj & Kononenko 2010.
    Cost: m · U + 1 forward passes.
    """

    samples: Count = 25

    def __post_init__(self) -> None:
        needs("captum", "shapley_sampling")

    def _values(self, game: UnitGame) -> Tensor:
        from captum.attr import ShapleyValueSampling  # where captum is installed

        return game.sampled(ShapleyValueSampling(game), self.samples)
