"""How heads and feed-forward networks of a model write to its residual stream, found in one traced pass."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from transformers.pytorch_utils import Conv1D

from benchmark.errors import NotApplicable
from benchmark.models.blocks import blocks_of
from benchmark.models.classifier import Classifier
from benchmark.models.edits import KeepOutputs
from benchmark.models.parts import PARTS, Block, blocks_parts, is_residual_addition
from benchmark.types import Batch

_TOLERANCE = 1e-4  # of the largest magnitude, in float32 and float64
_ROUNDINGS = 16  # likewise, in half precision


@dataclass(frozen=True)
class Layer:
    """One block.

    Attributes:
        branches: which operand of the additions behind its attention and behind its feed-forward network is what these give.
        projection: from what each head computes [Dh] to what it writes [D], one matrix for each head.
        norms: what the stream passes behind either addition; None where norms stand before the sublayers.
    """

    branches: tuple[int, int]
    projection: Float[Tensor, "H Dh D"]
    norms: tuple[nn.Module | None, nn.Module | None]


@dataclass
class _Seen:
    """What is seen in one block: operands and results of its additions, what modules get and give, its output."""

    outputs: list[Tensor] = field(default_factory=list)
    branches: list[Tensor] = field(default_factory=list)
    streams: list[Tensor] = field(default_factory=list)
    sums: list[Tensor] = field(default_factory=list)
    calls: list[tuple[nn.Module, Tensor, Tensor]] = field(default_factory=list)
    projected: Tensor | None = None


class _Looking(TorchFunctionMode):
    """Notes the residual additions of the block that runs."""

    def __init__(self, parts: Sequence[Block], seen: Sequence[_Seen]) -> None:
        super().__init__()
        self.parts, self.seen = parts, seen
        self.block = -1
        self.hidden: Tensor | None = None

    def enter(self, _module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.block += 1
        self.hidden = args[0] if args else kwargs["hidden_states"]

    def leave(self, _module: nn.Module, _args: Any, output: Any) -> None:
        self.seen[self.block].outputs.append(output[0] if isinstance(output, tuple) else output)
        self.hidden = None

    def called(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if self.hidden is not None and args and isinstance(args[0], Tensor) and isinstance(output, Tensor):
            self.seen[self.block].calls.append((module, args[0], output))

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if is_residual_addition(func, args, self.hidden):
            own = self.seen[self.block]
            branch = self.parts[self.block].branches[len(own.sums)]
            own.branches.append(args[branch])
            own.streams.append(args[1 - branch])
            own.sums.append(result)
        return result


def structure_of(model: Classifier, batch: Batch) -> tuple[Layer, ...]:
    """The blocks of a model, from one pass of the batch's longest example.

    Raises:
        NotApplicable: what heads write cannot be told apart: the model has cross-attention, sublayers that stand side by
            side, or a norm between the output projection and the residual stream.
    """
    if model.streams.count > 1:
        raise NotApplicable("the model has an encoder and a decoder, whose residual streams are two")
    longest = batch.select([int(batch.attention_mask.sum(1).argmax())])
    parts = blocks_parts(model, longest)
    seen = [_Seen() for _ in parts]
    looking = _Looking(parts, seen)
    kept = KeepOutputs()
    blocks = {id(block): block for block in blocks_of(model.model, model.attention_modules)}.values()
    with ExitStack() as stack:
        for block in blocks:
            stack.callback(block.register_forward_pre_hook(looking.enter, with_kwargs=True).remove)
            stack.callback(block.register_forward_hook(looking.leave).remove)
            for module in block.modules():
                if not any(True for _ in module.children()):
                    stack.callback(module.register_forward_hook(looking.called).remove)
        stack.enter_context(looking)
        model.run(longest, output_edits=[kept])
    return tuple(
        _layer(number, model.n_heads, part, own, given)
        for number, (part, own, given) in enumerate(zip(parts, seen, kept.outputs, strict=True))
    )


def _layer(number: int, n_heads: int, part: Block, seen: _Seen, given: Float[Tensor, "1 T H Dh"]) -> Layer:
    if len(part.output) != 1:
        raise NotApplicable(
            f"layer {number} has {len(part.output)} linear layers between its heads and the residual stream; with one alone "
            "it is known what each head writes"
        )
    ((_, linear),) = part.output
    if not isinstance(linear, nn.Linear | Conv1D):
        raise NotApplicable(f"layer {number} projects its heads by a {type(linear).__name__}, which is not known here")
    weight = linear.weight if isinstance(linear, Conv1D) else linear.weight.T
    result = next(output for module, _, output in seen.calls if module is linear)
    scale = _scale(result, seen.branches[0], number)
    projection = (weight.detach() * scale).unflatten(0, (n_heads, -1))
    bias = 0 if linear.bias is None else linear.bias.detach() * scale
    written = torch.einsum("bthe,hed->btd", given, projection) + bias
    if not _alike(written, seen.branches[0]):
        raise NotApplicable(f"what the heads of layer {number} write does not add up to what its attention does")
    return Layer(part.branches, projection, (_norm(seen, 0, number), _norm(seen, 1, number)))


def _scale(projected: Tensor, written: Tensor, number: int) -> Tensor:
    """By feature the factor between the output projection and the residual addition (that of DINOv2's layer scale)."""
    if _same(projected, written) or torch.equal(projected, written):
        return projected.new_ones(projected.shape[-1])
    flat = projected.reshape(-1, projected.shape[-1]).double()
    if len(torch.unique(flat, dim=0)) < 2:
        raise NotApplicable("all examples are of one token, by which nobody can tell what stands behind the heads")
    scale = (flat * written.reshape(flat.shape).double()).sum(0) / flat.square().sum(0).clamp(min=1e-300)
    if not _alike(projected * scale.to(projected), written):
        raise NotApplicable(
            f"layer {number} does something to the sum of what its heads give, such as a norm, before it is added to the "
            "residual stream, so that no head writes anything by itself"
        )
    return scale.to(projected)


def _norm(seen: _Seen, place: int, number: int) -> nn.Module | None:
    """What the stream passes behind an addition before it is read again."""
    result = seen.sums[place]
    goes_on = seen.streams[1] if place == 0 else seen.outputs[0]
    if _same(result, goes_on):
        return None
    for module, given, output in seen.calls:
        if _same(given, result) and _same(output, goes_on):
            return module
    raise NotApplicable(
        f"what stands behind the {PARTS[place]} of layer {number} on its residual stream is not known here"
    )


def _same(a: Tensor, b: Tensor) -> bool:
    return a is b or (a.data_ptr() == b.data_ptr() and a.shape == b.shape)


def _alike(a: Tensor, b: Tensor) -> bool:
    allowed = max(_TOLERANCE, _ROUNDINGS * torch.finfo(b.dtype).eps)
    return bool((a - b).abs().max() <= allowed * b.abs().max().clamp(min=1e-12))
