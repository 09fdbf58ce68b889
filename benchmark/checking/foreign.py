"""Somebody else's implementation, checked where it lives: what relevance comes to each module of a model, and leaves it.

Whatever it computes with, it has one of three forms:

- relevance is what `backward` gives (LXT, zennit: their functions and hooks replace gradients): `watching_gradients`;
- modules have a method `relprop`, which is given relevance and returns that of the inputs (Chefer's model classes):
  `watching_relprop`;
- it keeps relevance of inputs and outputs by module (the rules of `captum.attr.LRP`): `of_pairs`, `of_rules`.

Each gives a `Ledger`, of which `report` says the first module, from the output downwards, that does not hand on what it got.
Operations between modules, such as an addition in a model's own `forward`, are not seen by the first. A bias takes a share
under most rules: a copy without biases (`without_biases`) tells a bug from it.
"""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from benchmark.checking.conserved import found_in
from benchmark.checking.methods import outcome_of
from benchmark.checking.report import Report
from benchmark.models.ledger import Entry, Ledger

_MODEL = "somebody's model"
TOLERANCE = 1e-3
"""The largest gap, over the magnitude of what comes to a module: what stabilisers of others swallow is not known."""
Flow = tuple[str, Iterable[Tensor] | Tensor, Iterable[Tensor] | Tensor]
"""A module's name, the relevance of its inputs, and that of its outputs."""


def report(ledger: Ledger, name: str, tolerance: float = TOLERANCE) -> Report:
    """What the ledger says, as the check `conserved` of a method says it.

    Args:
        ledger: filled by a backward pass.
        name: of the implementation.
        tolerance: the largest gap, over the magnitude of what comes to a module.
    """
    outcomes = outcome_of(_MODEL, "conserved", partial(found_in, ledger, tolerance), {})
    return Report(name, "method", {"class": name}, tuple(outcomes))


def of_pairs(flows: Iterable[Flow]) -> Ledger:
    """A ledger of relevances that are there already, in the order in which the modules run.

    Args:
        flows: of each module its name, the relevance of its inputs, and that of its outputs [B ...].
    """
    ledger: Ledger | None = None
    for name, inputs, outputs in flows:
        given, gone = (list(one) if not isinstance(one, Tensor) else [one] for one in (outputs, inputs))
        if ledger is None:
            ledger = Ledger(len(given[0]))
        entry = Entry(name, "module", ledger.count)
        ledger.entries.append(entry)
        for relevance in given:
            entry.reach(relevance)
        for relevance in gone:
            entry.leave(relevance)
    return Ledger(1) if ledger is None else ledger


def of_rules(rules: Mapping[str, Any]) -> Ledger:
    """A ledger of what the rules of `captum.attr.LRP` (each `module.rule`, by its module's name) keep after `attribute`."""

    def flows() -> Iterator[Flow]:
        for name, rule in rules.items():
            for device, output in rule.relevance_output.items():
                yield name, rule.relevance_input[device], output

    return of_pairs(flows())


@contextmanager
def watching_gradients(model: nn.Module, count: int, *, by_value: bool = False) -> Iterator[Ledger]:
    """Notes what comes to each module without children, and what leaves it, in the backward passes that follow.

    Args:
        model: whose forward pass runs in the block; its inputs need gradients.
        count: examples of a pass.
        by_value: whether relevance is a tensor times its gradient (gradient × input), and not the gradient.
    """
    ledger = Ledger(count)
    with ExitStack() as stack:
        for path, module in model.named_modules():
            if not list(module.children()):
                wrapped = _noting(ledger, path, module.forward, by_value=by_value)
                stack.callback(partial(_put_back, module, "forward", module.__dict__.get("forward")))
                module.forward = wrapped
        yield ledger


def _put_back(module: nn.Module, name: str, own: Any) -> None:
    """The method that the module had: that of its class, or one of its own."""
    delattr(module, name)
    if own is not None:
        setattr(module, name, own)


def _noting(ledger: Ledger, path: str, forward: Callable[..., Any], *, by_value: bool) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return ledger.note(
            "module",
            lambda args, kwargs: forward(*args, **kwargs),
            args,
            kwargs,
            lambda tensor: tensor.requires_grad and torch.is_grad_enabled(),
            by_value=by_value,
            path=path,
        )

    return call


@contextmanager
def watching_relprop(model: nn.Module) -> Iterator[Ledger]:
    """Notes what the methods `relprop` of modules without children are given, and what they return, in the block.

    They run from the output downwards, so that the ledger is turned round at the end.
    """
    ledger = Ledger(1)
    leaves = [
        (path, one) for path, one in model.named_modules() if hasattr(one, "relprop") and not list(one.children())
    ]
    with ExitStack() as stack:
        for path, module in leaves:
            own: Callable[..., Any] = module.relprop
            stack.callback(partial(_put_back, module, "relprop", module.__dict__.get("relprop")))
            module.relprop = partial(_relprop, ledger, path, own)
        try:
            yield ledger
        finally:
            ledger.entries.reverse()


def _relprop(ledger: Ledger, path: str, own: Callable[..., Any], relevance: Any, *args: Any, **kwargs: Any) -> Any:
    given = relevance if isinstance(relevance, list | tuple) else [relevance]
    entry = Entry(path, "relprop", len(given[0]))
    ledger.entries.append(entry)
    for one in given:
        entry.reach(one)
    result = own(relevance, *args, **kwargs)  # which may change what it is given
    for one in result if isinstance(result, list | tuple) else [result]:
        entry.leave(one)
    return result


def without_biases(model: nn.Module) -> nn.Module:
    """A copy in which every bias is 0."""
    copied = copy.deepcopy(model)
    with torch.no_grad():
        for name, parameter in copied.named_parameters():
            if name.rpartition(".")[2] == "bias":
                parameter.zero_()
    return copied
