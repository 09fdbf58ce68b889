"""Find, observe and skip the transformer blocks of a model, without touching its class."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from benchmark.models.attention_interface import Tape
from benchmark.models.read_rows import Gathered, Narrow


def blocks_of(model: nn.Module, attention_modules: Sequence[nn.Module]) -> list[nn.Module]:
    """The block around each attention call: the innermost ancestor of the attention module that stands in a list.

    Args:
        model: the whole model.
        attention_modules: one per attention call of a forward pass, in order (repeated where weights are shared).

    Returns:
        One block per call; the attention module itself where no ancestor stands in a `ModuleList`.
    """
    parents: dict[int, nn.Module] = {}
    for parent in model.modules():
        for child in parent.children():
            parents.setdefault(id(child), parent)

    def block(module: nn.Module) -> nn.Module:
        node = module
        while id(node) in parents:
            if isinstance(parents[id(node)], nn.ModuleList):
                return node
            node = parents[id(node)]
        return module

    return [block(module) for module in attention_modules]


class Reached(Exception):  # noqa: N818 (no error)
    """Ends a forward pass once its purpose, `output`, is computed. Caught by who asks for that."""

    def __init__(self, output: Tensor) -> None:
        super().__init__("the forward pass was ended here")
        self.output = output


@dataclass
class BlockTape:
    """Records the input of each block, or starts the pass at a later one.

    A block's number is that of its first attention call. A block of several calls (a decoder's self- and cross-attention)
    records its input once for each of them, and a restart at any of them runs the block from its input on.

    Attributes:
        tape: the attention tape of the same pass; it counts the calls, those of skipped blocks included.
        grad: make the input of the first block part of the graph.
        start: (l, hidden): blocks before the one of call l are skipped and that one reads `hidden`.
        skip_from: blocks before this one are computed all the same, such as an encoder that a restarted decoder attends to.
        hidden: the input of the block of each call, from call l on.
        skipped: attention calls that were not computed.
        stop: the block whose output ends the pass: it is raised as `Reached`.
    """

    tape: Tape
    grad: bool = False
    start: tuple[int, Tensor] | None = None
    skip_from: int = 0
    stop: int | None = None
    hidden: list[Tensor] = field(default_factory=list)
    skipped: int = 0

    def call(self, forward: Callable[..., Any], n_calls: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one block of `n_calls` attention calls, or pass its input on."""
        index = self.tape.layer
        hidden = args[0] if args else kwargs["hidden_states"]
        start, restart = self.start if self.start is not None else (0, hidden)
        if self.skip_from <= index and index + n_calls <= start:
            self.tape.layer += n_calls
            self.skipped += n_calls
            return hidden
        if index <= start < index + n_calls:
            hidden = restart
        recorded = n_calls - max(0, start - index)
        if self.grad and recorded > 0 and not hidden.requires_grad:
            hidden = hidden.detach().requires_grad_()
        self.hidden.extend([hidden] * recorded)

        def run(states: Tensor, more: Mapping[str, Any]) -> Any:
            return forward(states, *args[1:], **more) if args else forward(**{**more, "hidden_states": states})

        narrow = self.tape.narrows
        output = run(hidden, kwargs) if narrow is None else _run_narrowly(run, hidden, kwargs, narrow)
        if index == self.stop:
            raise Reached(output[0] if isinstance(output, tuple) else output)
        return output


def _run_narrowly(run: Callable[..., Any], hidden: Tensor, kwargs: Mapping[str, Any], narrow: Narrow) -> Any:
    """The block's output for the rows that are read, 0 in the other rows; its keys and values are those of all tokens.

    It is exact for blocks in which rows meet in the attention alone. The second run's own queries, keys and values are not
    used.
    """
    try:
        run(hidden, kwargs)
    except Gathered:
        rotations = kwargs.get("position_embeddings")
        if isinstance(rotations, tuple):
            kwargs = {**kwargs, "position_embeddings": tuple(narrow.rows_of(part, 1) for part in rotations)}
        output = run(narrow.rows_of(hidden, 1), kwargs)
    states = output[0] if isinstance(output, tuple) else output
    place = torch.zeros(hidden.shape[:2], dtype=torch.long, device=hidden.device)
    place.scatter_(1, narrow.index, torch.arange(narrow.index.shape[1], device=hidden.device).expand_as(narrow.index))
    is_read = torch.zeros_like(place, dtype=torch.bool).scatter_(1, narrow.index, value=True)[:, :, None]
    spread = states.gather(1, place[:, :, None].expand(*hidden.shape[:2], states.shape[-1]))
    spread = torch.where(is_read, spread, 0.0)
    return (spread, *output[1:]) if isinstance(output, tuple) else spread


@contextmanager
def replacing_forward(
    modules: Iterable[nn.Module], wrap: Callable[[nn.Module, Callable[..., Any]], Callable[..., Any]]
) -> Iterator[None]:
    """Let `wrap(module, its forward)` stand in for the forward of each module until the block of code ends.

    The modules are as before afterwards; their class is never touched.
    """
    chosen = list(modules)
    try:
        for module in chosen:
            module.forward = wrap(module, module.forward)
        yield
    finally:
        for module in chosen:
            module.__dict__.pop("forward", None)


@runtime_checkable
class Calls(Protocol):
    """What stands in for the calls of blocks."""

    def call(self, forward: Callable[..., Any], n_calls: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The output of one block of `n_calls` attention calls."""
        ...


@contextmanager
def observing(model: nn.Module, attention_modules: Sequence[nn.Module], tape: Calls) -> Iterator[None]:
    """Route the calls of the blocks around `attention_modules` through `tape` until the block of code ends.

    The modules are as before afterwards.
    """
    around = {
        id(module): block for module, block in zip(attention_modules, blocks_of(model, attention_modules), strict=True)
    }
    unique = {id(block): block for block in around.values()}
    n_calls = Counter(id(block) for block in around.values())

    def observed(block: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **kwargs: tape.call(forward, n_calls[id(block)], args, kwargs)

    with replacing_forward(unique.values(), observed):
        yield
