"""Named rule sets (PROTOCOLS section 2): which rule serves which operation."""

from dataclasses import dataclass

import torch

from benchmark.errors import UserError
from methods.relevance.rules import (
    HalvedMatmul,
    NormalisedAdd,
    PositiveLinear,
    ProportionalAdd,
    SeparateLinear,
)

Rule = type[torch.autograd.Function]


@dataclass(frozen=True)
class RuleSet:
    """A rule for each kind of operation; everything elementwise passes relevance unchanged.

    Attributes:
        linear: takes (x, weight, bias).
        matmul: takes (a, b), both activations.
        add: takes (a, b), both activations.
        conserves: whether Σ R is the same at every depth, up to the stabiliser and to what a sum of zero swallows.
    """

    linear: Rule
    matmul: Rule
    add: Rule
    conserves: bool


RULE_SETS = {
    "chefer2021": RuleSet(linear=PositiveLinear, matmul=HalvedMatmul, add=NormalisedAdd, conserves=True),
    "lrp": RuleSet(linear=SeparateLinear, matmul=HalvedMatmul, add=ProportionalAdd, conserves=False),
}


def rule_set(name: str) -> RuleSet:
    """The rule set of that name; UserError with the known names for another."""
    if name not in RULE_SETS:
        raise UserError(f"rules={name} is unknown; allowed: {', '.join(RULE_SETS)}")
    return RULE_SETS[name]
