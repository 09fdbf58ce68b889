"""The mode that lets an unmodified model run with other operations: each goes to the handler of its kind."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode, handle_torch_function, has_torch_function, resolve_name

from benchmark.errors import NotApplicable
from benchmark.models.blocks import replacing_forward
from benchmark.models.ledger import Ledger, kept_ledger
from methods.propagation.operations import KINDS, Args, Function, Kind, Kwargs, UnknownForm, module_kind

Handler = Callable[[Function, Args, Kwargs], Any]
"""`(operation, its arguments, its named arguments) -> what stands in for its result`."""


@dataclass(frozen=True)
class ModuleCall:
    """A module's forward pass as one operation."""

    kind: Kind
    forward: Callable[[Tensor], Any]

    def __call__(self, x: Tensor) -> Any:
        """The module's result."""
        return self.forward(x)


class Propagation(TorchFunctionMode):
    """Calls the handler of an operation's kind where the operation has an activation among its arguments.

    An operation without an activation runs as it is. An operation on activations without a handler is refused if its result
    holds floating-point numbers: it would cut the path silently. Within a handler the mode is off.

    Attributes:
        name: what has no rule for an operation, in messages.
        handlers: by kind of operation. Whole modules (kinds activation, norm_module) are patched if their kind has one.
    """

    name: ClassVar[str]
    handlers: Mapping[Kind, Handler]

    def __torch_function__(
        self, func: Function, types: Any, args: Args = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Dispatch one call."""
        kwargs = kwargs or {}
        if not self.acts_on(*args, *kwargs.values()):
            return func(*args, **kwargs)
        kind = func.kind if isinstance(func, ModuleCall) else KINDS.get(func)
        handler = self.unknown if kind is None else self.handlers.get(kind, self.unknown)
        try:
            if kind is not None and (ledger := kept_ledger()) is not None:
                return self.noted(ledger, kind, handler, func, args, kwargs)
            return handler(func, args, kwargs)
        except UnknownForm as form:
            self.refuse(str(form))

    def noted(
        self, ledger: Ledger, kind: Kind, handler: Handler, function: Function, args: Args, kwargs: Kwargs
    ) -> Any:
        """What the handler gives, noted in the ledger by a mode whose backward pass is relevance; by default it is not."""
        return handler(function, args, kwargs)

    def acts_on(self, *values: Any) -> bool:
        """Whether an activation is among the values, or among the items of a list or tuple."""
        return any(
            self.acts_on(*value)
            if isinstance(value, list | tuple)
            else isinstance(value, Tensor) and self.is_active(value)
            for value in values
        )

    def is_active(self, tensor: Tensor) -> bool:
        """Whether a tensor is an activation: one that a gradient flows through."""
        return tensor.requires_grad and torch.is_grad_enabled()

    def unknown(self, function: Function, args: Args, kwargs: Kwargs) -> Any:
        """An operation without a handler: refused unless its result holds no numbers of the model (a size, an index)."""
        with torch.no_grad():
            result = function(*args, **kwargs)
        if any(
            isinstance(x, Tensor) and x.is_floating_point()
            for x in (result if isinstance(result, tuple) else (result,))
        ):
            ledger, name = kept_ledger(), resolve_name(function) or str(function)
            if ledger is None or not ledger.lenient:
                self.refuse(name)
            ledger.missing.append(name)
            return function(*args, **kwargs)
        return result

    def refuse(self, what: str) -> NoReturn:
        """NotApplicable for an operation that has no rule."""
        raise NotApplicable(f"{self.name} has no rule for {what}, which this model uses")


def ordinary(function: Function, args: Args, kwargs: Kwargs) -> Any:
    """The operation itself, whose gradient is what is wanted."""
    return function(*args, **kwargs)


def apply(function: type[torch.autograd.Function], *args: Any) -> Any:
    """`function.apply(*args)`: an operation with a backward pass of its own."""
    return function.apply(*args)  # type: ignore[no-untyped-call]  # untyped in torch


@contextmanager
def propagating(model: nn.Module, mode: Propagation) -> Iterator[None]:
    """Run every forward pass of `model` in this block under `mode`, its activations and norms as single operations."""
    each = ((module, module_kind(module)) for module in model.modules())
    kinds = {module: kind for module, kind in each if kind is not None and kind in mode.handlers}

    def as_one(module: nn.Module, forward: Callable[[Tensor], Any]) -> Callable[[Tensor], Any]:
        operation = ModuleCall(kinds[module], forward)

        def call(x: Tensor) -> Any:
            return handle_torch_function(operation, (x,), x) if has_torch_function((x,)) else forward(x)

        return call

    ledger = kept_ledger()
    with replacing_forward(kinds, as_one), nullcontext() if ledger is None else ledger.watching(model), mode:
        yield
