"""LIME: a linear surrogate of the model around the example (Ribeiro 2016)."""

from typing import Annotated

from torch import Tensor

from benchmark.settings.availability import needs
from benchmark.settings.declared import Above, AtLeast, configurable
from methods.shared.unit_game import UnitExplainer, UnitGame


@configurable
class Lime(UnitExplainer):
    """`s = argmin_w Σ_z π(z) (v(z) − w_0 − Σ_u w_u z_u)² + α‖w‖²`, `π(z) = exp(−D(1, z)² / 2σ²)` (captum's).

    v(z) is the output with the units of z_u = 0 removed, D the cosine distance. Every unit of a sample z is present with
    probability ½. The paper selects K features and fits least squares; we fit ridge regression on all units, as its authors'
    package does by default. The kernel that the package has for texts is σ = ¼ in our scale of the distance. The package
    draws the number of removed words uniformly, which is not done here.

    Attributes:
        samples: number m of samples; the authors' package takes 5000. With 100 the ranks of words under two seeds correlate
            by .71 only (docs/methods.md).
        kernel_width: σ.
        alpha: strength of the ridge.
        operator, output, seed: of `UnitExplainer`.

    Source: Ribeiro et al. 2016, section 3.4.
    Cost: at most m forward passes (equal samples are run once).
    """

    samples: Annotated[int, AtLeast(2)] = 100
    kernel_width: Annotated[float | int, Above(0)] = 0.25
    alpha: Annotated[float | int, Above(0)] = 1.0

    def __post_init__(self) -> None:
        needs("captum", "lime")

    def _values(self, game: UnitGame) -> Tensor:
        from captum._utils.models.linear_model import SkLearnRidge  # where captum is installed
        from captum.attr import Lime as CaptumLime
        from captum.attr._core.lime import get_exp_kernel_similarity_function

        lime = CaptumLime(
            game,
            interpretable_model=SkLearnRidge(alpha=self.alpha),
            similarity_func=get_exp_kernel_similarity_function("cosine", self.kernel_width),
        )
        return game.sampled(lime, self.samples)
