"""The parts of a transformer block, found in one traced pass: its sublayers, their linear layers, its residual additions.

Nothing is looked up by the name of a family. A block reads a hidden state x and makes two residual additions,
`x' = x + attention(x)` and `x'' = x' + feed_forward(x')`, with a normalisation before or after each. Both operands have the
shape of the hidden state. The stream's tensors are followed through additions, normalisations and dropout; the other
operand of an addition is the sublayer's output.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from transformers.pytorch_utils import Conv1D

from benchmark.errors import NotApplicable
from benchmark.models.blocks import blocks_of
from benchmark.models.classifier import Classifier
from benchmark.types import Batch

Part = Literal["attention", "feed_forward"]
PARTS: tuple[Part, ...] = get_args(Part)
BranchEdit = Callable[[int, Part, Tensor], Tensor]
"""`(layer, part, output of the sublayer [B T D]) -> output`, applied before it is added to the residual stream."""

ADDITIONS = (
    torch.add, Tensor.add, Tensor.__add__, Tensor.__radd__, Tensor.add_, Tensor.__iadd__,
)  # fmt: skip
# What stays on the stream after a residual addition.
_STREAM = (F.layer_norm, torch.layer_norm, F.dropout, torch.dropout)
_Named = tuple[str, nn.Module]


@dataclass(frozen=True)
class Block:
    """One transformer block.

    Attributes:
        branches: the operand (0 or 1) that is the sublayer's output, in the addition after the attention and in that after
            the feed-forward layers; the other operand is the residual stream.
        projections: linear layers called before the attention (queries, keys, values), with their own names.
        output: those between the attention and its residual addition.
        feed_forward: those after it.
        norms: modules with one factor per feature called between a projection and the attention: normalisations of
            queries and keys.
        head_tables: modules called there with a parameter [positions, heads]: biases by relative position and head.
    """

    branches: tuple[int, int]
    projections: tuple[_Named, ...]
    output: tuple[_Named, ...]
    feed_forward: tuple[_Named, ...]
    norms: tuple[_Named, ...] = ()
    head_tables: tuple[_Named, ...] = ()


def is_residual_addition(function: Any, args: Sequence[Any], hidden: Tensor | None) -> bool:
    """Whether a call adds two tensors of the shape of the hidden state of the block that runs; None: none runs."""
    if hidden is None or function not in ADDITIONS or len(args) < 2:
        return False
    return all(isinstance(x, Tensor) and x.shape == hidden.shape for x in args[:2])


@dataclass
class _Trace:
    """What happened inside the block that is running."""

    branches: list[int | None] = field(default_factory=list)
    order: list[Part] = field(default_factory=list)
    linears: dict[str, list[_Named]] = field(default_factory=lambda: {"before": [], "after": [], "feed_forward": []})
    norms: list[_Named] = field(default_factory=list)
    head_tables: list[_Named] = field(default_factory=list)
    stream: list[Tensor] = field(default_factory=list)
    attended: int = 0

    @property
    def place(self) -> str:
        """Where a linear layer that is called now belongs."""
        if self.order:
            return "feed_forward"
        return "after" if self.attended else "before"

    def on_stream(self, value: Any) -> bool:
        return any(value is tensor for tensor in self.stream)

    def call(self, name: str, module: nn.Module, n_heads: int) -> None:
        """Note a module with parameters of its own where it belongs."""
        if isinstance(module, nn.Linear | Conv1D):
            self.linears[self.place].append((name, module))
        elif self.place == "before":
            shapes = [parameter.shape for parameter in module.parameters(recurse=False)]
            if self.linears["before"] and any(len(shape) == 1 for shape in shapes):
                self.norms.append((name, module))
            if any(len(shape) == 2 and shape[1] == n_heads for shape in shapes):
                self.head_tables.append((name, module))

    def add(self, operands: Sequence[Tensor], result: Tensor) -> None:
        on_stream = [self.on_stream(operand) for operand in operands]
        self.branches.append(on_stream.index(False) if sum(on_stream) == 1 else None)
        self.order.append("attention" if self.attended and not self.order else "feed_forward")
        self.stream = [result]


@dataclass
class _Watch:
    """Follows the calls of the blocks: which one runs, and the shape of its hidden state."""

    block: int = -1
    addition: int = 0
    hidden: Tensor | None = None

    def is_addition(self, function: Any, args: Sequence[Any]) -> bool:
        """Whether this call adds two hidden states inside a block."""
        return is_residual_addition(function, args, self.hidden)


@contextmanager
def _watching(model: Classifier, watch: _Watch) -> Iterator[None]:
    def before(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        watch.block, watch.addition = watch.block + 1, 0
        watch.hidden = args[0] if args else kwargs["hidden_states"]

    def after(*_: Any) -> None:
        watch.hidden = None

    blocks = {id(block): block for block in blocks_of(model.model, model.attention_modules)}.values()
    with ExitStack() as stack:
        for block in blocks:
            stack.callback(block.register_forward_pre_hook(before, with_kwargs=True).remove)
            stack.callback(block.register_forward_hook(after).remove)
        yield


class _Tracer(TorchFunctionMode):
    def __init__(self, watch: _Watch) -> None:
        super().__init__()
        self.watch = watch
        self.traces: dict[int, _Trace] = {}

    @property
    def trace(self) -> _Trace | None:
        """The trace of the running block; None between blocks."""
        if self.watch.hidden is None:
            return None
        return self.traces.setdefault(self.watch.block, _Trace(stream=[self.watch.hidden]))

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the call and note what it does to the stream."""
        trace = self.trace
        adds = self.watch.is_addition(func, args)
        result = func(*args, **(kwargs or {}))
        if trace is not None and adds:
            trace.add(args[:2], result)
        elif trace is not None and func in _STREAM and trace.on_stream(args[0]):
            trace.stream.append(result)
        return result


def blocks_parts(model: Classifier, batch: Batch) -> tuple[Block, ...]:
    """The parts of every block, in the order of the forward pass, from one pass of the batch's first example.

    Raises:
        NotApplicable: a block does not make its two residual additions one after the other, as parallel sublayers,
            cross-attention and the like do not.
    """
    watch = _Watch()
    tracer = _Tracer(watch)

    def attended(_layer: int, probabilities: Tensor) -> Tensor:
        if tracer.trace is not None:
            tracer.trace.attended += 1
        return probabilities

    def called(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, *_: Any) -> None:
            if tracer.trace is not None:
                tracer.trace.call(name, module, model.n_heads)

        return hook

    with ExitStack() as stack:
        for name, module in model.model.named_modules():
            if any(True for _ in module.parameters(recurse=False)):
                stack.callback(module.register_forward_hook(called(name.rpartition(".")[2])).remove)
        stack.enter_context(_watching(model, watch))
        stack.enter_context(tracer)
        model.run(batch.select([0]), edits=[attended])
    if len(tracer.traces) != model.n_layers:
        raise NotApplicable(f"{len(tracer.traces)} blocks hold {model.n_layers} attention layers: not one in each")
    return tuple(_block(layer, trace) for layer, trace in sorted(tracer.traces.items()))


def _block(layer: int, trace: _Trace) -> Block:
    if trace.attended != 1 or tuple(trace.order) != PARTS or None in trace.branches:
        additions = ", ".join(trace.order) or "none"
        raise NotApplicable(
            f"the parts of block {layer} cannot be told apart: after {trace.attended} attention calls it makes the "
            f"residual additions: {additions}; known are blocks with one after the attention and one after the "
            "feed-forward layers"
        )
    first, second = (branch for branch in trace.branches if branch is not None)
    before, after, feed_forward = (tuple(trace.linears[place]) for place in ("before", "after", "feed_forward"))
    return Block((first, second), before, after, feed_forward, tuple(trace.norms), tuple(trace.head_tables))


class _Editor(TorchFunctionMode):
    def __init__(self, watch: _Watch, blocks: Sequence[Block], edit: BranchEdit) -> None:
        super().__init__()
        self.watch, self.blocks, self.edit = watch, blocks, edit

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the call, a residual addition with its sublayer's output edited."""
        if self.watch.is_addition(func, args):
            part, self.watch.addition = self.watch.addition, self.watch.addition + 1
            branch = self.blocks[self.watch.block].branches[part]
            operands = list(args[:2])
            operands[branch] = self.edit(self.watch.block, PARTS[part], operands[branch])
            args = (*operands, *args[2:])
        return func(*args, **(kwargs or {}))


@contextmanager
def editing_branches(model: Classifier, blocks: Sequence[Block], edit: BranchEdit) -> Iterator[None]:
    """Edit the output of every sublayer in the one forward pass that is made in this block.

    Args:
        model: the classifier; nothing of it is changed.
        blocks: its parts, from `blocks_parts`.
        edit: applied to the output of each sublayer before it is added to the residual stream.
    """
    watch = _Watch()
    with _watching(model, watch), _Editor(watch, blocks, edit):
        yield
