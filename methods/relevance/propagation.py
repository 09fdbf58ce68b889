"""Relevance propagation backwards through the unmodified model's own graph (docs/protocols.md, section 5).

The forward pass runs inside a `TorchFunctionMode` that replaces each operation by an autograd function whose backward is
a relevance rule. Gradients of the logits with respect to any recorded tensor are then relevances.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Int
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode, resolve_name

from benchmark.errors import NotApplicable
from benchmark.models import Classifier, Trace
from benchmark.models.attention_interface import hold_constant, mask_scores
from benchmark.models.blocks import replacing_forward
from benchmark.models.precision import Precision, double_batch, precise
from benchmark.types import Batch
from methods.relevance.conservative import freezing, is_activation
from methods.relevance.rule_sets import Conservative, Rule, Rules, RuleSet
from methods.relevance.rules import Identity, ProportionalSum, SplitProduct

_Args = tuple[Any, ...]
_Kwargs = Mapping[str, Any]
_Function = Callable[..., Any]

# One input carries the relevance; it passes unchanged.
_ELEMENTWISE = (
    F.gelu, F.relu, torch.relu, F.silu, F.dropout,
    torch.tanh, Tensor.tanh, torch.sigmoid, torch.neg, Tensor.neg, Tensor.__neg__, Tensor.div, Tensor.__truediv__, torch.div,
)  # fmt: skip
# Their ordinary gradient moves relevance where it belongs.
_MOVES = (
    Tensor.view, Tensor.view_as, Tensor.reshape, torch.reshape, Tensor.transpose, torch.transpose, Tensor.permute,
    torch.permute, Tensor.contiguous, Tensor.__getitem__, Tensor.split, torch.split, Tensor.chunk, torch.chunk,
    Tensor.unbind, torch.unbind, torch.cat, Tensor.expand, Tensor.squeeze, torch.squeeze, Tensor.unsqueeze,
    torch.unsqueeze, Tensor.flatten, torch.flatten, Tensor.repeat_interleave, torch.repeat_interleave, Tensor.to,
    Tensor.type, Tensor.float, Tensor.double, Tensor.clone, torch.clone, Tensor.requires_grad_, Tensor.size, Tensor.select,
    torch.stack, Tensor.gather, torch.gather, Tensor.index_select, torch.index_select,
)  # fmt: skip
_NORM_SUFFIXES = ("Norm",)


class _RuleMode(TorchFunctionMode):
    """Replaces operations on activations by the rules of a rule set; an operation without a rule is an error."""

    def __init__(self, rules: RuleSet) -> None:
        super().__init__()
        self.handlers: dict[_Function, Callable[[_Function, _Args, _Kwargs], Any]] = {}

        def register(functions: tuple[_Function, ...], handler: Callable[[_Function, _Args, _Kwargs], Any]) -> None:
            self.handlers.update(dict.fromkeys(functions, handler))

        # The published code puts the mask through its rule for sums, where the stabiliser makes of it a change of about
        # 1e-9/score; not so here, since a batch without padding has no mask and must give the same numbers: the rule set
        # `lrp` offers it as a rule of the softmax.
        register((*_ELEMENTWISE, mask_scores), _elementwise)
        register(_MOVES, lambda function, args, kwargs: function(*args, **kwargs))
        register((F.layer_norm, torch.layer_norm), lambda f, args, kwargs: _norm(rules, f, args, kwargs))
        register((F.softmax, torch.softmax, Tensor.softmax), lambda f, args, kwargs: _softmax(rules, f, args, kwargs))
        register((F.linear,), lambda _f, args, kwargs: _linear(rules, *args, **kwargs))
        register((torch.addmm,), lambda _f, args, _k: _apply(rules.linear, args[1], args[2].t(), args[0]))
        matmuls = (torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, Tensor.bmm)
        register(matmuls, lambda _f, args, _k: _apply(rules.matmul, *args))
        adds = (torch.add, Tensor.add, Tensor.__add__, Tensor.__radd__)
        register(adds, lambda f, args, kwargs: _add(rules, f, args, kwargs))
        register((torch.mul, Tensor.mul, Tensor.__mul__, Tensor.__rmul__), _multiply)
        register((torch.sum, Tensor.sum, torch.mean, Tensor.mean), _reduce)

    def __torch_function__(
        self, func: _Function, types: Any, args: _Args = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Dispatch one call."""
        kwargs = kwargs or {}
        if not _differentiable(args, kwargs):
            return func(*args, **kwargs)
        if (handler := self.handlers.get(func)) is not None:
            return handler(func, args, kwargs)
        with torch.no_grad():
            result = func(*args, **kwargs)
        if isinstance(result, Tensor) and result.is_floating_point() and func not in (Tensor.detach, torch.detach):
            name = resolve_name(func) or str(func)
            raise NotApplicable(f"relevance propagation has no rule for {name}, which this model uses")
        return result


def _differentiable(args: _Args, kwargs: _Kwargs) -> bool:
    return torch.is_grad_enabled() and (_any_active(args) or _any_active(tuple(kwargs.values())))


def _any_active(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(_any_active(item) for item in value)
    return isinstance(value, Tensor) and value.requires_grad


def _elementwise(function: _Function, args: _Args, kwargs: _Kwargs) -> Tensor:
    with torch.no_grad():
        result = function(*args, **kwargs)
    if not isinstance(args[0], Tensor) or not args[0].requires_grad:
        raise NotApplicable(f"relevance propagation has no rule for {function.__name__} of a constant by an activation")
    carried: Tensor = _apply(Identity, args[0], result)
    return carried


def _apply(rule: Rule, *args: Any) -> Any:
    return rule.apply(*args)


def _norm(rules: RuleSet, function: _Function, args: _Args, kwargs: _Kwargs) -> Tensor:
    if rules.norm is None:
        return _elementwise(function, args, kwargs)
    carried: Tensor = _apply(rules.norm, args[0], lambda x: function(x, *args[1:], **kwargs))
    return carried


def _softmax(rules: RuleSet, function: _Function, args: _Args, kwargs: _Kwargs) -> Tensor:
    if rules.softmax is None:
        return _elementwise(function, args, kwargs)
    with torch.no_grad():
        result = function(*args, **kwargs)
    carried: Tensor = _apply(rules.softmax, args[0], result, args[1] if len(args) > 1 else kwargs["dim"])
    return carried


def _linear(rules: RuleSet, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    result: Tensor = _apply(rules.linear, x, weight, bias)
    return result


def _add(rules: RuleSet, function: _Function, args: _Args, kwargs: _Kwargs) -> Any:
    a, b = args[0], args[1]
    if kwargs:
        raise NotApplicable("relevance propagation has no rule for a scaled addition (torch.add with alpha)")
    # A number or a bias vector carries no relevance, as the bias of a linear layer does not.
    constant = next((x for x in (a, b) if not isinstance(x, Tensor) or x.dim() <= 1), None)
    if constant is None:
        return _apply(rules.add, a, b)
    with torch.no_grad():
        result = function(*args)
    return _apply(Identity, b if constant is a else a, result)


def _multiply(function: _Function, args: _Args, kwargs: _Kwargs) -> Any:
    active = [x for x in args[:2] if isinstance(x, Tensor) and x.requires_grad]
    if len(active) == 2:
        return _apply(SplitProduct, *active)
    with torch.no_grad():
        result = function(*args, **kwargs)
    if result.shape != active[0].shape:
        raise NotApplicable("relevance propagation has no rule for a product that broadcasts an activation")
    return _apply(Identity, active[0], result)


def _reduce(function: _Function, args: _Args, kwargs: _Kwargs) -> Any:
    x, dim = args[0], args[1] if len(args) > 1 else kwargs.get("dim")
    with torch.no_grad():
        result = function(*args, **kwargs)
    dims = tuple(range(x.dim())) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    return _apply(ProportionalSum, x, result, dims)


def _is_norm(module: nn.Module) -> bool:
    return type(module).__name__.endswith(_NORM_SUFFIXES)


@contextmanager
def propagating(model: nn.Module, rules: RuleSet) -> Iterator[None]:
    """Make every forward pass of `model` in this block one whose backward pass propagates relevance."""
    leaves = [module for module in model.modules() if not list(module.children())]
    # Whatever operations they are written with.
    patched = [module for module in leaves if _is_norm(module) or is_activation(module)]

    def ruled(module: nn.Module, forward: _Function) -> _Function:
        norm = rules.norm if _is_norm(module) else None

        def call(x: Tensor) -> Tensor:
            if norm is not None and torch.is_grad_enabled() and x.requires_grad:
                frozen: Tensor = _apply(norm, x, forward)
                return frozen
            with torch._C.DisableTorchFunction(), torch.no_grad():
                result = forward(x)
            carried: Tensor = _apply(Identity, x, result)
            return carried

        return call

    with replacing_forward(patched, ruled), _RuleMode(rules):
        yield


def _whole(_recorded: Tensor, relevance: Tensor) -> Tensor:
    return relevance


def relevances(
    model: Classifier,
    batch: Batch,
    target: Int[Tensor, "B"],
    rules: Rules,
    record: str,
    *,
    precision: Precision = "float64",
    reduce: Callable[[Tensor, Tensor], Tensor] = _whole,
) -> tuple[Tensor, ...]:
    """The relevances of `relevance_pass`, in chunks that keep its attention-sized tensors within the memory budget.

    The terms of a sum that cancels have shares of opposite signs that are larger than what is shared out. In float32 that
    magnifies rounding to errors as large as the largest score, on ordinary texts, and no sum of relevance tells: errors
    cancel in it as the shares do. In float64 the same is below 1e-9, so "float64" runs the pass in the model's twin
    (`benchmark.models.precision`); a float64 model is its own.

    Cost: on a CPU a method takes 1.7 to 2.1 times as long as with "model" (MiniLM, 128 tokens), on a device of slow float64
    more. Memory: 8 bytes for each parameter, and twice as much for each activation.

    Args:
        model: any instrumented classifier.
        batch: B examples.
        target: the class to explain.
        rules: the rule set.
        record: as for `relevance_pass`.
        precision: of the pass, "float64" or "model".
        reduce: `(recorded tensor, relevance) -> what is kept`, computed in the same precision.

    Returns:
        One tensor per recorded tensor, in the precision of the model's scores.

    Raises:
        NotApplicable: the model uses an operation that has no rule, or the device has no float64.
    """
    twin = precise(model, precision)
    found = []
    for part, rows in twin.parts(batch if twin is model else double_batch(batch)):
        trace, layers = relevance_pass(twin, part, target[rows], rules, record)
        pairs = zip(_recorded(trace, record), layers, strict=True)
        found.append(tuple(reduce(tensor.detach(), layer).to(model.scores_dtype) for tensor, layer in pairs))
    return found[0] if len(found) == 1 else tuple(torch.cat(layers) for layers in zip(*found, strict=True))


def relevance_pass(
    model: Classifier, batch: Batch, target: Int[Tensor, "B"], rules: Rules, record: str
) -> tuple[Trace, tuple[Tensor, ...]]:
    """Relevance of every recorded tensor for the target class, seeded at its logit as the rule set says.

    Args:
        model: any instrumented classifier.
        batch: B examples.
        target: the class to explain.
        rules: the rule set.
        record: "attentions" (relevance of the probabilities of each layer, [B H T T]) or "hidden" (relevance of the
            input of each block, [B T D]).

    Returns:
        The trace of the forward pass and one relevance per recorded tensor.

    Raises:
        NotApplicable: the model uses an operation that has no rule.
    """
    frozen = isinstance(rules, Conservative)
    with freezing(model.model) if isinstance(rules, Conservative) else propagating(model.model, rules):
        trace = model.run(batch, record=(record,), grad=True, edits=(hold_constant,) if frozen else ())
    recorded = _recorded(trace, record)
    seed = model.one_hot(target)
    if isinstance(rules, RuleSet) and rules.seed == "logit":
        seed = seed * trace.logits.detach()
    found = model.gradients(trace.logits, recorded, weights=seed)
    if frozen:
        found = tuple(gradient * tensor.detach() for gradient, tensor in zip(found, recorded, strict=True))
    return trace, found


def _recorded(trace: Trace, record: str) -> tuple[Tensor, ...]:
    return trace.attentions if record == "attentions" else trace.hidden
