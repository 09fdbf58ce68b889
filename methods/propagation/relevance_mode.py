"""The mode whose backward pass is relevance: every operation on activations goes to the rule that a rule set has for it."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmark.models.ledger import Ledger
from methods.propagation.mode import Handler, Propagation, ordinary
from methods.propagation.operations import (
    Args,
    Function,
    Kind,
    Kwargs,
    difference_operands,
    linear_operands,
    sum_operands,
)
from methods.propagation.phases import counting_relevance
from methods.propagation.rule_sets import RuleSet
from methods.propagation.rules import HALVES, PASS, SUM, Passing, Rule


class RelevancePropagation(Propagation):
    """Replaces operations on activations by the rules of a rule set.

    The published code puts the sum of scores and mask through its rule for sums, whose stabiliser changes relevance by
    about 1e-9/score. Here the sum passes relevance unchanged, since a batch without padding has no mask and must give the
    same numbers. The rule set `lrp` offers the published way as a rule of the softmax.

    Attributes:
        rules: the rule set.
    """

    name = "relevance propagation"

    def __init__(self, rules: RuleSet) -> None:
        super().__init__()
        self.rules = rules
        norm = _of_first(rules.norm)
        self.handlers = {
            **dict.fromkeys(("move", "identity", "detach", "mask", "select"), ordinary),
            **dict.fromkeys(("negate", "activation", "elementwise"), _of_first(PASS)),
            **dict.fromkeys(("layer_norm", "rms_norm", "norm_module"), norm),
            "softmax": _of_first(rules.softmax),
            "reduce": _reduce,
            "linear": lambda function, args, kwargs: rules.linear(
                torch.nn.functional.linear, *linear_operands(function, args, kwargs)
            ),
            "matmul": lambda function, args, kwargs: rules.matmul(function, *args),
            "add": self._add,
            "subtract": self._subtract,
            "product": self._product,
            "quotient": self._quotient,
        }

    def noted(
        self, ledger: Ledger, kind: Kind, handler: Handler, function: Function, args: Args, kwargs: Kwargs
    ) -> Any:
        """The operation with the relevance that reaches it and that leaves it."""
        return ledger.note(
            _called(kind, [x for x in args[:2] if self.acts_on(x)]),
            partial(handler, function),
            args,
            kwargs,
            self.is_active,
            exempt=self._exempt(kind),
            of_bias=self._of_bias(function, args, kwargs) if kind == "linear" else None,
            counts=counting_relevance(),
            stabiliser=self._stabiliser(kind),
        )

    def _stabiliser(self, kind: Kind) -> float:
        """ε of the rule of an operation; 0 where it has none."""
        rules = self.rules
        by_kind: Mapping[str, Any] = {"linear": rules.linear, "matmul": rules.matmul, "add": rules.add, "reduce": SUM}
        by_kind = {**by_kind, **dict.fromkeys(("layer_norm", "rms_norm", "norm_module"), rules.norm)}
        return float(getattr(by_kind.get(kind), "epsilon", 0.0))

    def _exempt(self, kind: Kind) -> str:
        """Why the rule of an operation is not meant to conserve; empty where it is."""
        if kind == "linear" and not getattr(self.rules.linear, "conserves", True):
            return "a linear layer hands relevance on once for each sign of its input"
        if kind == "softmax" and not isinstance(self.rules.softmax, Passing):
            return "the rule of the softmax has a constant term, or a stabiliser, that takes its part"
        return ""

    def _of_bias(self, function: Function, args: Args, kwargs: Kwargs) -> Callable[[Tensor], Tensor] | None:
        """What the rule gives the bias, as the weight of one more input that is 1; None where it takes nothing."""
        x, weight, bias = linear_operands(function, args, kwargs)
        if bias is None or not getattr(self.rules.linear, "shares_with_bias", True):
            return None

        def share(relevance: Tensor) -> Tensor:
            with torch.enable_grad():
                one = torch.ones_like(x[..., :1]).requires_grad_()
                joint = torch.cat([x.detach(), one], dim=-1)
                whole = torch.cat([weight.detach(), bias.detach()[:, None]], dim=1)
                result = self.rules.linear(torch.nn.functional.linear, joint, whole, None)
                (own,) = torch.autograd.grad(result, one, relevance)
            return own

        return share

    def _add(self, function: Function, args: Args, kwargs: Kwargs) -> Tensor:
        a, b = sum_operands(args, kwargs)
        # A number or a bias vector carries no relevance, as the bias of a linear layer does not.
        constant = next((x for x in (a, b) if not isinstance(x, Tensor) or x.dim() <= 1), None)
        if constant is None:
            return self.rules.add(torch.add, a, b)
        if constant is a:
            return PASS(lambda x: function(constant, x), b)
        return PASS(lambda x: function(x, constant), a)

    def _subtract(self, function: Function, args: Args, kwargs: Kwargs) -> Tensor:
        a, b = difference_operands(function, args, kwargs)
        return self._add(torch.add, (a, PASS(torch.neg, b) if self.acts_on(b) else -b), {})

    def _product(self, function: Function, args: Args, kwargs: Kwargs) -> Tensor:
        active = [x for x in args[:2] if self.acts_on(x)]
        if len(active) == 2:
            return HALVES(torch.mul, *active)
        (x,) = active
        result = PASS.scaled(lambda _: function(*args, **kwargs), x, args[0] if x is args[1] else args[1])
        if result.shape != x.shape:
            self.refuse("a product that broadcasts an activation")
        return result

    def _quotient(self, function: Function, args: Args, kwargs: Kwargs) -> Tensor:
        if not self.acts_on(args[0]):
            self.refuse("a constant divided by an activation")
        return _of_first(PASS)(function, args, kwargs)


def _called(kind: Kind, active: Sequence[Tensor]) -> str:
    """What reports call an operation; a sum of two activations is where relevance goes two ways."""
    return "add, the fork of the residual stream" if kind == "add" and len(active) == 2 else kind


def _reduce(function: Function, args: Args, kwargs: Kwargs) -> Tensor:
    """A mean is a sum, and its division by a constant."""
    total = SUM(lambda x: torch.sum(x, *args[1:], **kwargs), args[0])
    count = args[0].numel() // max(1, total.numel())
    return total if function in (torch.sum, Tensor.sum) else PASS(lambda x: x / count, total)


def _of_first(rule: Rule) -> Callable[[Function, Args, Kwargs], Tensor]:
    """The rule for an operation whose first argument carries the relevance."""

    def call(function: Function, args: Args, kwargs: Kwargs) -> Tensor:
        return rule(lambda x: function(x, *args[1:], **kwargs), args[0])

    return call
