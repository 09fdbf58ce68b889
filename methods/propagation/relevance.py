"""Relevance propagation backwards through the unmodified model's own graph (docs/protocols.md, section 5).

The forward pass runs inside a `TorchFunctionMode` that replaces each operation by an autograd function whose backward is
a relevance rule. Gradients of the logits with respect to any recorded tensor are then relevances. The plain gradient comes
from the same graph where both are asked for (`methods.propagation.phases`).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from benchmark.models import Classifier, Trace
from benchmark.models.attention_interface import AttentionEdit, hold_constant
from benchmark.models.ledger import kept_ledger
from benchmark.models.precision import Precision, batch_for, precise
from benchmark.models.read_rows import everywhere
from benchmark.models.recomputing import Recorded, Visitor, is_long, visit_gradients
from benchmark.targets import Target
from benchmark.types import Batch
from methods.propagation.conservative import FrozenNorms
from methods.propagation.mode import Propagation, propagating
from methods.propagation.phases import Phase, keeping, two_phases
from methods.propagation.relevance_mode import RelevancePropagation
from methods.propagation.rule_sets import Conservative, Rules, RuleSet


def _whole(_recorded: Tensor, relevance: Tensor, _gradient: Tensor | None) -> Tensor:
    return relevance


def relevances(
    model: Classifier,
    batch: Batch,
    target: Target,
    rules: Rules,
    record: Recorded,
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
    more. Memory: 8 bytes for each parameter, and twice as much for each activation. A long input (`is_long`) goes block by
    block, with one more forward pass, unless a gradient is asked for.
    """
    twin = precise(model, precision)
    if is_long(twin, batch.units.shape[1]) and not gradient:
        return _reduced_one_by_one(twin, batch, target, rules, record, reduce, model.scores_dtype)
    chunks = []
    for part in relevance_parts(model, batch, target, rules, record, precision, gradient=gradient):
        gradients = part.gradients or (None,) * len(part.layers)
        each = zip(_recorded(part.trace, record), part.layers, gradients, strict=True)
        reduced = [reduce(tensor.detach(), layer, slope).to(model.scores_dtype) for tensor, layer, slope in each]
        chunks.append(
            everywhere(model.read_rows(part.batch.tensors), reduced) if record == "attentions" else tuple(reduced)
        )
    return chunks[0] if len(chunks) == 1 else tuple(torch.cat(layers) for layers in zip(*chunks, strict=True))


def _reduced_one_by_one(
    model: Classifier,
    batch: Batch,
    target: Target,
    rules: Rules,
    record: Recorded,
    reduce: Callable[[Tensor, Tensor, Tensor | None], Tensor],
    dtype: torch.dtype,
) -> tuple[Tensor, ...]:
    """What `relevances` gives of a long input: one example after the other, one block after the other."""
    index, examples = model.read_rows(batch.tensors), []
    for part, rows in model.parts(batch):
        layers: dict[int, Tensor] = {}

        def keep(layer: int, recorded: Tensor, relevance: Tensor, layers: dict[int, Tensor] = layers) -> None:
            layers[layer] = reduce(recorded, relevance, None).to(dtype)

        visit_relevances(model, part, target[rows], rules, record, keep)
        in_order = tuple(layers[number] for number in sorted(layers))
        examples.append(
            everywhere(None if index is None else index[rows], in_order) if record == "attentions" else in_order
        )
    return tuple(torch.cat(layers) for layers in zip(*examples, strict=True))


def visit_relevances(
    model: Classifier,
    batch: Batch,
    target: Target,
    rules: Rules,
    record: Recorded,
    visit: Visitor,
) -> None:
    """`visit(l, recorded tensor, its relevance)` for each attention call, in the model's own precision, block by block.

    The numbers are those of `relevance_pass`, with the graph of one block at a time (`benchmark.models.recomputing`).

    Cost: 2 forward passes, 1 backward pass.
    """
    frozen = isinstance(rules, Conservative)

    @contextmanager
    def scope() -> Iterator[None]:
        with keeping(model.weight_parts), propagating(model.model, _mode(rules)):
            yield

    def product(layer: int, recorded: Tensor, slope: Tensor) -> None:
        visit(layer, recorded, slope * recorded if frozen else slope)

    visit_gradients(
        model,
        batch_for(model, batch),
        lambda logits: _seed(rules, target, logits),
        product,
        record=record,
        rows="read",
        edits=_edits(rules),
        scope=scope,
    )


def _mode(rules: Rules) -> Propagation:
    if isinstance(rules, Conservative):
        return FrozenNorms(identity=rules.activations == "identity", constant_gates=rules.gates == "constant")
    return RelevancePropagation(rules)


def _edits(rules: Rules) -> tuple[AttentionEdit, ...]:
    return (hold_constant,) if isinstance(rules, Conservative) else ()


def _seed(rules: Rules, target: Target, logits: Float[Tensor, "B C"]) -> Float[Tensor, "B C"]:
    seed = target.seed(logits)
    return seed * logits if isinstance(rules, RuleSet) and rules.seed == "logit" else seed


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
    target: Target,
    rules: Rules,
    record: Recorded,
    precision: Precision,
    *,
    gradient: bool = False,
) -> Iterator[RelevancePart]:
    """The passes behind `relevances`, one after another."""
    twin = precise(model, precision)
    for part, rows in twin.parts(batch_for(twin, batch)):
        yield relevance_pass(twin, part, target[rows], rules, record, gradient=gradient)


def relevance_pass(
    model: Classifier, batch: Batch, target: Target, rules: Rules, record: Recorded, *, gradient: bool = False
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
    phases = two_phases() if gradient else nullcontext(Phase())
    whole: tuple[Recorded, ...] = ("hidden",) if kept_ledger() is not None and record != "hidden" else ()
    with phases as phase, keeping(model.weight_parts), propagating(model.model, _mode(rules)):
        trace = model.run(batch, record=(record, *whole), grad=True, rows="read", edits=_edits(rules))
    recorded = _recorded(trace, record)
    phase.gradient = gradient
    gradients = (
        model.gradients(trace.logits, recorded, weights=target.seed(trace.logits), again=True) if gradient else ()
    )
    phase.gradient = False
    asked = (*recorded, *trace.hidden) if whole else recorded  # a ledger needs what goes all the way down
    relevance = model.gradients(trace.logits, asked, weights=_seed(rules, target, trace.logits.detach()))
    relevance = relevance[: len(recorded)]
    if isinstance(rules, Conservative):
        relevance = tuple(slope * tensor.detach() for slope, tensor in zip(relevance, recorded, strict=True))
    return RelevancePart(model, batch, trace, relevance, gradients)


def _recorded(trace: Trace, record: Recorded) -> tuple[Tensor, ...]:
    return trace.attentions if record == "attentions" else trace.hidden
