"""A ledger of relevance: what reaches each operation of a backward pass, and what leaves it, to see where sums break.

Whoever runs operations under relevance rules (`methods.propagation.mode`) hands them to the ledger that is kept in a block
of `keeping_ledger`; without one nothing is noted. Foreign code is noted module by module (`benchmark.checking.foreign`).
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn


@dataclass
class Entry:
    """One operation of a forward pass, and the relevance of its backward pass, summed over each example.

    Attributes:
        module: path of the nearest module that was running.
        operation: what it is called.
        count: B, how many examples there are.
        exempt: why it is not meant to conserve; empty where it is.
        reaches: relevance of the result [B].
        leaves: that of all operands together, and of a bias.
        size: sum of the magnitudes of what reaches it.
        of_bias: the part of `leaves` that is the share of a bias; None where none is counted.
        swallowed: by how much a stabiliser may change what leaves, `Σ |R| ε / (|z| + ε)` with z the result.
    """

    module: str
    operation: str
    count: int
    exempt: str = ""
    reaches: Tensor | None = None
    leaves: Tensor | None = None
    size: Tensor | None = None
    swallowed: Tensor | None = None
    of_bias: Tensor | None = None

    def stabilise(self, relevance: Tensor, result: Tensor, epsilon: float) -> None:
        """Count what a stabiliser swallows of the relevance of a result."""
        shares = relevance.abs() * epsilon / (result.abs() + epsilon)
        self.swallowed = _added(self.swallowed, self.sums(shares))

    def reach(self, relevance: Tensor) -> None:
        """Relevance of a result, or of one more of several."""
        self.reaches = _added(self.reaches, self.sums(relevance))
        self.size = _added(self.size, self.sums(relevance.abs()))

    def arrive(self, relevance: Tensor, result: Tensor, epsilon: float, of_bias: Tensor | None) -> None:
        """Relevance of a result, what a stabiliser swallows of it, and what a bias gets."""
        self.reach(relevance)
        if epsilon:
            self.stabilise(relevance, result, epsilon)
        if of_bias is not None:
            self.leave(of_bias)
            self.of_bias = _added(self.of_bias, self.sums(of_bias))

    def leave(self, relevance: Tensor) -> None:
        """Relevance of an operand."""
        self.leaves = _added(self.leaves, self.sums(relevance))

    def sums(self, relevance: Tensor) -> Tensor:
        """Sums over each example; where the first dimension is no number of examples, the same part of the sum for each."""
        values = relevance.detach().double()
        if values.dim() and values.shape[0] % self.count == 0:
            return values.reshape(self.count, -1).sum(1)
        return (values.sum() / self.count).expand(self.count)

    @property
    def gap(self) -> Tensor:
        """`|leaves − reaches| / Σ |R|` of each example, but for what a stabiliser swallows; 0 where nothing reaches it."""
        if self.reaches is None or self.size is None:
            return torch.zeros(1, dtype=torch.float64)
        leaves = torch.zeros_like(self.reaches) if self.leaves is None else self.leaves
        off = (leaves - self.reaches).abs()
        if self.swallowed is not None:
            off = (off - self.swallowed).clamp(min=0)
        return torch.where(self.size > 0, off / self.size.clamp(min=1e-300), 0.0)


@dataclass
class Ledger:
    """The entries of the passes that run while it is kept, in the order of the operations.

    Attributes:
        count: B, how many examples a pass has.
        lenient: whether an operation without a rule is run as it is, and named in `missing`.
        entries: one for each operation.
        missing: names of operations without a rule.
    """

    count: int
    lenient: bool = False
    missing: list[str] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    _running: list[str] = field(default_factory=lambda: [""])

    @contextmanager
    def watching(self, model: nn.Module) -> Iterator[None]:
        """Know which module of the model runs."""
        with ExitStack() as stack:
            for path, module in model.named_modules():
                stack.callback(module.register_forward_pre_hook(self._entering(path)).remove)
                stack.callback(module.register_forward_hook(self._leaving, always_call=True).remove)
            yield

    def _entering(self, path: str) -> Callable[..., None]:
        def enter(*_: Any) -> None:
            self._running.append(path)

        return enter

    def _leaving(self, *_: Any) -> None:
        self._running.pop()

    def note(
        self,
        operation: str,
        run: Callable[[tuple[Any, ...], Mapping[str, Any]], Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        is_active: Callable[[Tensor], bool],
        *,
        exempt: str = "",
        of_bias: Callable[[Tensor], Tensor] | None = None,
        by_value: bool = False,
        counts: Callable[[], bool] = lambda: True,
        path: str | None = None,
        stabiliser: float = 0.0,
    ) -> Any:
        """Run an operation on copies of its active operands, each of which tells what this operation alone gives it.

        Args:
            operation: what it is called.
            run: runs it.
            args: its arguments.
            kwargs: its named arguments.
            is_active: which tensors carry relevance.
            exempt: see `Entry`.
            of_bias: relevance of the bias [.] from that of the result, where it takes a share.
            by_value: whether relevance is a tensor times its gradient, and not the gradient itself.
            counts: whether the backward pass that is running is that of relevance.
            path: of the module; None for the one that is known to run (`watching`).
            stabiliser: ε of the rule, which it adds to the size of what it divides by.
        """
        entry = Entry(self._running[-1] if path is None else path, operation, self.count, exempt)
        given = [*args, *kwargs.values()]
        if path is None or any(isinstance(value, Tensor) and is_active(value) for value in given):
            self.entries.append(entry)  # a module without such an operand, such as a table, has nobody to hand it on to

        def relevance(of: Tensor, slope: Tensor) -> Tensor:
            return slope.detach() * of if by_value else slope.detach()

        def left(of: Tensor, slope: Tensor | None) -> None:
            if slope is not None and counts():
                entry.leave(relevance(of, slope))

        def arrived(of: Tensor, slope: Tensor | None) -> None:
            if slope is not None and counts():
                share = None if of_bias is None else of_bias(slope)
                entry.arrive(relevance(of, slope), of, stabiliser, share)

        token = _LEDGER.set(None)  # what an operation does inside is its own affair
        try:
            noted = partial(_noted, is_active, left)
            result = run(tuple(map(noted, args)), {name: noted(value) for name, value in kwargs.items()})
        finally:
            _LEDGER.reset(token)
        for one in result if isinstance(result, list | tuple) else (result,):
            if isinstance(one, Tensor) and one.requires_grad:
                one.register_hook(  # type: ignore[no-untyped-call]  # untyped in torch
                    partial(arrived, one.detach())
                )
        return result

    def first_gap(self, tolerance: float) -> Entry | None:
        """From the output downwards the first operation that should conserve and does not."""
        wrong = (e for e in reversed(self.entries) if not e.exempt and bool((e.gap > tolerance).any()))
        return next(wrong, None)


def _noted(is_active: Callable[[Tensor], bool], left: Callable[[Tensor, Tensor | None], None], value: Any) -> Any:
    """An argument with a copy of each active tensor in its place, which tells the relevance that comes to it."""
    if isinstance(value, list | tuple):
        return type(value)(_noted(is_active, left, item) for item in value)
    if not isinstance(value, Tensor) or not is_active(value):
        return value
    alias = value.clone()  # what is computed in place leaves the value itself alone
    alias.__dict__.update(value.__dict__)
    alias.register_hook(  # type: ignore[no-untyped-call]  # untyped in torch
        partial(left, value.detach())
    )
    return alias


def _added(total: Tensor | None, more: Tensor) -> Tensor:
    return more if total is None else total + more


_LEDGER: ContextVar[Ledger | None] = ContextVar("ledger", default=None)


@contextmanager
def keeping_ledger(count: int, *, lenient: bool = False) -> Iterator[Ledger]:
    """Passes of so many examples under relevance rules that run in this block are noted; see `Ledger`."""
    ledger = Ledger(count, lenient)
    token = _LEDGER.set(ledger)
    try:
        yield ledger
    finally:
        _LEDGER.reset(token)


def kept_ledger() -> Ledger | None:
    """The ledger of the block that is running, or None."""
    return _LEDGER.get()
