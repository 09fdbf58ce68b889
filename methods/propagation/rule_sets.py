"""Named rule sets: which rule serves which operation (docs/protocols.md, section 5)."""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

from benchmark.errors import UserError
from benchmark.settings.declared import AtLeast
from benchmark.settings.early import OneAbove
from methods.propagation.linear_rules import AlphaBeta, Gamma, PositiveLinear, SeparateLinear
from methods.propagation.rules import (
    HALVED_SUM,
    PASS,
    SUM,
    FrozenNorm,
    MaskedSoftmax,
    NormalisedAdd,
    Proportional,
    Rule,
)

NonNegative = Annotated[float | int, AtLeast(0)]


@dataclass(frozen=True)
class RuleSet:
    """A rule for each kind of operation. What has none here (activations, scaling) passes relevance on unchanged.

    A product of two activations (a gate) gives half to each factor.

    Attributes:
        linear: of F.linear, takes x, weight and bias.
        matmul: takes two activations.
        add: takes two activations.
        conserves: whether Σ R is the same at every depth, on the conditions that the docstring of the set states.
        softmax: of attention.
        norm: of a whole normalisation layer.
        seed: relevance of the target's logit. "logit": the logit itself, as in Bach et al. 2015; if it is below 0, what
            speaks against the class has relevance below 0. "one": 1 whatever its sign, as in Chefer 2021a's code.
    """

    linear: Rule
    matmul: Rule
    add: Rule
    conserves: bool
    softmax: Rule = PASS
    norm: Rule = PASS
    seed: Literal["one", "logit"] = "logit"


@dataclass(frozen=True)
class Conservative:
    """R = x ⊙ ∂y_t/∂x with attention probabilities, and the denominators of normalisation layers, held constant.

    Conserves Σ R = y_t where no layer has a bias and activations are piecewise linear through 0 (ReLU). A bias takes its
    share. GELU or tanh give x·f'(x) rather than f(x): that is gradient × input, and what the source does. The source has no
    gates. Here each factor of a product of two activations gets half; otherwise a gated layer would count twice. The
    relevance of A itself (edges) is A ⊙ ∂y_t/∂A in the same pass, so that it counts the paths over later layers' values
    alone.

    With activations="identity" and gates="constant" it is what Achtibat et al. 2024 compare with as CP-LRP.

    Attributes:
        activations: "gradient" as the source has it, or "identity": an activation passes relevance unchanged, so that any
            that is 0 at 0 conserves.
        gates: of a product of two activations. "halved", or "constant": the factor that comes from an activation function
            is held constant, and the other has all.

    Source: Ali et al. 2022, section 4; Achtibat et al. 2024, whose program sets the two options so.
    Cost: 1 forward pass, 1 backward pass.
    """

    activations: Literal["gradient", "identity"] = "gradient"
    gates: Literal["halved", "constant"] = "halved"
    conserves: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name, allowed in (("activations", ("gradient", "identity")), ("gates", ("halved", "constant"))):
            if getattr(self, name) not in allowed:
                raise UserError(f"rules.{name}={getattr(self, name)} is unknown; allowed: {', '.join(allowed)}")


Rules = RuleSet | Conservative


def _check_minimum(setting: str, value: float | int | str, minimum: float = 0.0) -> None:
    if isinstance(value, str) or not minimum <= value < float("inf"):
        raise UserError(f"rules.{setting}={value} is out of range: a number of {minimum:g} or more is allowed")


def _stabilised(epsilon: float | int, linear: Rule | None = None) -> RuleSet:
    """The ε-rule for everything that has operands; `linear` in its place for linear layers."""
    _check_minimum("epsilon", epsilon)
    epsilon = float(epsilon)
    proportional = Proportional(epsilon)
    return RuleSet(
        linear=proportional if linear is None else linear,
        matmul=Proportional(epsilon, weight=0.5),
        add=proportional,
        norm=FrozenNorm(epsilon),
        conserves=True,
    )


def chefer2021() -> RuleSet:
    """α = 1 with both signs in one denominator, halved products, rescaled sums (Chefer 2021a).

    Conserves Σ R = 1 up to the stabiliser 1e-9 and to what a sum of zero swallows; biases carry nothing.

    Source: Chefer et al. 2021a, section 3.1.
    Cost: 1 forward pass, 1 backward pass.
    """
    return RuleSet(linear=PositiveLinear(), matmul=HALVED_SUM, add=NormalisedAdd(), conserves=True, seed="one")


def lrp(mask: Literal["pass", "sum"] = "pass") -> RuleSet:
    """The baseline "full LRP" of Chefer 2021a's code: each sign of x with its own denominator, sums shared in proportion.

    Does not conserve: a linear layer hands on R once for each sign of x.

    Args:
        mask: how relevance passes the sum of attention scores and padding mask. "pass": unchanged. "sum": by the rule for
            sums, as in the published code. The stabiliser of that rule loses about 1e-9/score (`MaskedSoftmax`). On texts
            of 256 tokens some scores are so near 0 that this moves the result by up to 3e-3 of its maximum.

    Source: Chefer et al. 2021a, section 4 (baseline), after Voita et al. 2019.
    Cost: 1 forward pass, 1 backward pass.
    """
    if mask not in ("pass", "sum"):
        raise UserError(f"rules.mask={mask} is unknown; allowed: pass, sum")
    return RuleSet(
        linear=SeparateLinear(),
        matmul=HALVED_SUM,
        add=SUM,
        conserves=False,
        softmax=MaskedSoftmax() if mask == "sum" else PASS,
        seed="one",
    )


def epsilon(epsilon: NonNegative = 1e-6) -> RuleSet:
    """R_i = Σ_j x_i w_ji R_j / (z_j + ε sign z_j) for linear layers, products (half to each factor) and sums alike.

    Conserves Σ R = y_t up to ε and to the shares of biases. With ε → 0 a bias-free ReLU network gets gradient × input.
    The source has neither attention nor normalisation. Products are halved and normalisers held constant, as in AttnLRP.
    Softmax passes relevance unchanged, which a score near 0 magnifies (see `attnlrp`).

    Args:
        epsilon: 0 or more.

    Source: Bach et al. 2015, eq. 58.
    Cost: 1 forward pass, 1 backward pass.
    """
    return _stabilised(epsilon)


def alpha_beta(
    alpha: Annotated[float | int, OneAbove("beta")] = 2.0, beta: NonNegative = 1.0, epsilon: NonNegative = 1e-9
) -> RuleSet:
    """R_i = Σ_j (α (x_i w_ji)⁺/z_j⁺ − β (x_i w_ji)⁻/z_j⁻) R_j for linear layers, α − β = 1; the ε-rule elsewhere.

    Conserves Σ R = y_t up to ε, to the shares of biases, and to neurons whose contributions all have one sign. The source
    leaves sums and products of activations open. Here the ε-rule takes them: a sum of two positive activations has no
    negative share, so that α-β would multiply R by α there.

    Args:
        alpha: weight of what excites, 1 + beta.
        beta: weight of what inhibits, 0 or more.
        epsilon: stabiliser, 0 or more.

    Source: Bach et al. 2015, eq. 60.
    Cost: 1 forward pass, 1 backward pass.
    """
    _check_minimum("beta", beta)
    if abs(alpha - beta - 1) > 1e-9:
        raise UserError(f"rules.alpha={alpha} and rules.beta={beta} do not go together: alpha - beta = 1 is allowed")
    return _stabilised(epsilon, AlphaBeta(alpha, beta, epsilon))


def gamma(gamma: NonNegative = 0.25, epsilon: NonNegative = 1e-9) -> RuleSet:
    """R_i = Σ_j (c_ij + γ c_ij^s) R_j / Σ_i (c_ij + γ c_ij^s) for linear layers, s the sign of z_j; the ε-rule elsewhere.

    c_ij = x_i w_ji. Conserves Σ R = y_t up to ε and to the shares of biases. The source defines the rule for inputs ≥ 0. For
    signed inputs we raise the contributions that agree in sign with their sum z_j, so that no denominator cancels more than
    in the ε-rule. γ = 0 is the ε-rule.

    Args:
        gamma: 0 or more.
        epsilon: stabiliser, 0 or more.

    Source: Montavon et al. 2019, section 10.2.3.
    Cost: 1 forward pass, 1 backward pass.
    """
    _check_minimum("gamma", gamma)
    return _stabilised(epsilon, Gamma(gamma, epsilon))


def attnlrp(epsilon: NonNegative = 1e-6) -> RuleSet:
    """ε-rule, half to each factor of a product, Taylor softmax, identity on activations and on division by a normaliser.

    Does not conserve: in each head of each layer the constant term of the softmax rule takes
    Σ_ij (R_ij − log A_ij (R_ij − A_ij Σ_k R_ik)), R the relevance of A. But for that, for ε and for the shares of biases,
    Σ R = y_t. The source offers γ instead of ε for the linear layers of vision transformers; here ε serves all.

    Args:
        epsilon: 0 or more.

    Source: Achtibat et al. 2024, section 3.
    Cost: 1 forward pass, 1 backward pass.
    """
    return replace(_stabilised(epsilon), conserves=False, softmax=Proportional())


RuleName = Literal["chefer2021", "lrp", "epsilon", "alpha_beta", "gamma", "attnlrp", "conservative"]

RULE_SETS: dict[str, Rules] = {
    "chefer2021": chefer2021(),
    "lrp": lrp(),
    "epsilon": epsilon(),
    "alpha_beta": alpha_beta(),
    "gamma": gamma(),
    "attnlrp": attnlrp(),
    "conservative": Conservative(),
}


def rule_set(rules: RuleName | Rules) -> Rules:
    """The rule set of that name, with its default settings, or the one given."""
    return RULE_SETS[rules] if isinstance(rules, str) else rules
