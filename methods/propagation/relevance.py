"""Relevance propagation backwards through the unmodified model's own graph (docs/protocols.md, section 5).

The forward pass runs inside a `TorchFunctionMode` that replaces each operation by an autograd function whose backward is
a relevance rule. Gradients of the logits with respect to any recorded tensor are then relevances. The plain gradient comes
from the same graph where both are asked for (`methods.propagation.phases`).
"""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from benchmark.models import Classifier, Trace
from benchmark.models.attention_interface import hold_constant
from benchmark.models.precision import Precision, batch_for, precise
from benchmark.models.read_rows import everywhere
from benchmark.types import Batch
from methods.propagation.conservative import FrozenNorms
from methods.propagation.mode import Propagation, ordinary, propagating
from methods.propagation.operations import Args, Function, Kwargs, difference_operands, linear_operands, sum_operands
from methods.propagation.phases import Phase, keeping, two_phases
from methods.propagation.rule_sets import Conservative, Rules, RuleSet
from methods.propagation.rules import HALVES, PASS, SUM, Rule


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


def _whole(_recorded: Tensor, relevance: Tensor, _gradient: Tensor | None) -> Tensor:
    return relevance


def relevances(
    model: Classifier,
    batch: Batch,
    target: Int[Tensor, "B"],
    rules: Rules,
    record: str,
    *,
    precision: Precision = "float64",
    reduce: Callable[[Tensor, Tensor, Tensor | None], Tensor] = _whole,
    gradient: bool = False,
) -> tuple[Tensor, ...]:
    """The relevances of `relevance_pass`, in chunks that keep its attention-sized tensors within the memory budget.

    The terms of a sum that cancels have shares of opposite signs that are larger than what is shared out. In float32 that
    magnifies rounding, on ordinary texts, to errors as large as the largest score. No sum of relevance shows it: errors
    cancel there as the shares do. In float64 the errors are below 1e-9. So "float64" runs the pass in the model's float64
    twin (`benchmark.models.precision`); a float64 model is its own twin.

    Args:
        model: any instrumented classifier.
        batch: B examples.
        target: the class to explain.
        rules: the rule set.
        record: as for `relevance_pass`.
        precision: of the pass, "float64" or "model".
        reduce: `(recorded tensor, relevance, gradient or None) -> what is returned of them`, computed in the same precision.
            Of the last layer's attention it is given the rows that the classifier reads; relevance and gradient of all
            others are 0, and so has to be what it returns of them.
        gradient: as for `relevance_pass`.

    Returns:
        One tensor per recorded tensor, in the precision of the model's scores.

    Raises:
        NotApplicable: the model uses an operation that has no rule, or the device has no float64.

    Cost: on a CPU a method takes 1.7 to 2.1 times as long as with "model" (MiniLM, 128 tokens), on a device of slow float64
    more. Memory: 8 bytes for each parameter, and twice as much for each activation.
    """
    chunks = []
    for part in relevance_parts(model, batch, target, rules, record, precision, gradient=gradient):
        gradients = part.gradients or (None,) * len(part.layers)
        each = zip(_recorded(part.trace, record), part.layers, gradients, strict=True)
        reduced = [reduce(tensor.detach(), layer, slope).to(model.scores_dtype) for tensor, layer, slope in each]
        chunks.append(
            everywhere(model.read_rows(part.batch.tensors), reduced) if record == "attentions" else tuple(reduced)
        )
    return chunks[0] if len(chunks) == 1 else tuple(torch.cat(layers) for layers in zip(*chunks, strict=True))


@dataclass(frozen=True)
class RelevancePart:
    """Relevances of a few examples, in the precision in which they were computed.

    Attributes:
        model: the classifier, or its float64 twin.
        batch: the examples.
        trace: of the forward pass.
        layers: the relevance of each recorded tensor.
        gradients: the gradient with respect to each, if asked for.
    """

    model: Classifier
    batch: Batch
    trace: Trace
    layers: tuple[Tensor, ...]
    gradients: tuple[Tensor, ...] = ()


def relevance_parts(
    model: Classifier,
    batch: Batch,
    target: Int[Tensor, "B"],
    rules: Rules,
    record: str,
    precision: Precision,
    *,
    gradient: bool = False,
) -> Iterator[RelevancePart]:
    """The passes behind `relevances`, one after another."""
    twin = precise(model, precision)
    for part, rows in twin.parts(batch_for(twin, batch)):
        yield relevance_pass(twin, part, target[rows], rules, record, gradient=gradient)


def relevance_pass(
    model: Classifier, batch: Batch, target: Int[Tensor, "B"], rules: Rules, record: str, *, gradient: bool = False
) -> RelevancePart:
    """Relevance of every recorded tensor for the target class, seeded at its logit as the rule set says.

    Args:
        model: any instrumented classifier.
        batch: B examples.
        target: the class to explain.
        rules: the rule set.
        record: "attentions" (relevance of the probabilities of each layer, [B H T T], of the last one [B H R T] where the
            classifier reads R rows alone) or "hidden" (relevance of the input of each block, [B T D]).
        gradient: also the gradient of the target's logit, by a second backward pass through the same graph; of a `RuleSet`.

    Returns:
        The trace of the forward pass and one relevance, and gradient, per recorded tensor.

    Raises:
        NotApplicable: the model uses an operation that has no rule.
    """
    frozen = isinstance(rules, Conservative)
    mode = FrozenNorms() if isinstance(rules, Conservative) else RelevancePropagation(rules)
    phases = two_phases() if gradient else nullcontext(Phase())
    with phases as phase, keeping(model.magnitudes), propagating(model.model, mode):
        trace = model.run(batch, record=(record,), grad=True, rows="read", edits=(hold_constant,) if frozen else ())
    recorded, one_hot = _recorded(trace, record), model.one_hot(target)
    phase.gradient = gradient
    gradients = model.gradients(trace.logits, recorded, weights=one_hot, again=True) if gradient else ()
    phase.gradient = False
    seed = one_hot
    if isinstance(rules, RuleSet) and rules.seed == "logit":
        seed = seed * trace.logits.detach()
    relevance = model.gradients(trace.logits, recorded, weights=seed)
    if frozen:
        relevance = tuple(slope * tensor.detach() for slope, tensor in zip(relevance, recorded, strict=True))
    return RelevancePart(model, batch, trace, relevance, gradients)


def _recorded(trace: Trace, record: str) -> tuple[Tensor, ...]:
    return trace.attentions if record == "attentions" else trace.hidden
