"""Gradients with the graph of one block at a time: on the way back every block is computed again from its input.

The forward pass keeps the input [B T D] of each block and nothing of the size of attention. The backward pass goes through
the blocks from the last to the first: it computes one again, differentiates it, hands out what it recorded with the
gradients there, and forgets all of it before the next.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from benchmark.models.attention_interface import AttentionEdit, Tape, hold_constant, recording
from benchmark.models.blocks import BlockTape, observing
from benchmark.models.classifier import Classifier
from benchmark.models.next_token import refuse_whole
from benchmark.models.read_rows import Narrow, Rows
from benchmark.types import Batch

Visitor = Callable[[int, Tensor, Tensor], None]
"""`(number of an attention call, what was recorded of it, the gradient with respect to that)`."""

Seed = Callable[[Tensor], Tensor]
"""From the logits [B C] to their weights in the sum that is differentiated."""

Recorded = Literal["attentions", "hidden"]
"""What of an attention call: its probabilities [B H T T], or the input of its block [B T D]."""

TIMES = 8
"""How many times the memory budget the attention of one example may take before blocks are computed again."""


def is_long(model: Classifier, n_tokens: int) -> bool:
    """Whether the attention probabilities of one example alone take more than `TIMES` times the memory budget."""
    return model.attention_bytes(n_tokens) > TIMES * model.memory_budget


def visit_gradients(
    model: Classifier,
    batch: Batch,
    seed: Seed,
    visit: Visitor,
    *,
    record: Recorded = "attentions",
    rows: Rows = "all",
    edits: Sequence[AttentionEdit] = (),
    scope: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> None:
    """`visit(l, x_l, ∂(Σ logits · seed)/∂x_l)` for each attention call l, mostly from the last to the first.

    The same numbers as of `Classifier.run(record=…, grad=True)` and `Classifier.gradients`, from the same operations.

    Args:
        model: any instrumented classifier.
        batch: B examples.
        seed: the weights of the logits.
        visit: is given tensors that nobody else keeps.
        record: what x is.
        rows: as for `Classifier.run`, of the last layer's attention.
        edits: applied to the attention probabilities of every layer.
        scope: in which every block runs, both times (a mode that replaces operations).

    Cost: 2 forward passes, 1 backward pass.
    """
    tape = _tape(model, batch, record, rows, edits)
    _Recomputing(model, tape, record, scope, visit, len(batch)).run(batch.tensors, seed)


def attention_gradients(model: Classifier, batch: Batch, seed: Seed, rows: Rows) -> Callable[[int], Tensor]:
    """`l -> ∂(Σ logits · seed)/∂A_l`, each computed when it is asked for; what is kept until then is [B T D] for each block.

    Cost: 2 forward passes, 1 backward pass; for every l one block forward and backward.
    """
    tape = _tape(model, batch, "attentions", rows, ())
    found = _Recomputing(model, tape, "attentions", nullcontext, None, len(batch))
    found.run(batch.tensors, seed)
    return found.attention_gradient


def _tape(model: Classifier, batch: Batch, record: Recorded, rows: Rows, edits: Sequence[AttentionEdit]) -> Tape:
    of_attention = record == "attentions"
    index = model.read_rows(batch.tensors) if all(edit is hold_constant for edit in edits) else None
    narrow = None if index is None or (of_attention and rows == "all") else Narrow(model.n_layers - 1, index)
    modules = frozenset(map(id, model.attention_modules))
    return Tape(modules=modules, edits=edits, record=of_attention, grad=of_attention, narrow=narrow)


@dataclass(eq=False)
class _Recomputing:
    """One forward and one backward pass.

    Attributes:
        model: the classifier.
        tape: counts the calls of the pass; each block gets a tape of its own like it.
        record: what of each call is handed out.
        scope: in which blocks run.
        visit: is handed it; None: each block's share of the backward pass is kept instead.
        size: examples.
        anchor: makes the output of the first block part of the graph, whose input need not be.
        kept: by attention call, its block, the block's inputs and the gradient with respect to its output.
    """

    model: Classifier
    tape: Tape
    record: Recorded
    scope: Callable[[], AbstractContextManager[Any]]
    visit: Visitor | None
    size: int
    anchor: Tensor = field(default_factory=lambda: torch.zeros((), requires_grad=True))
    kept: dict[int, tuple["_Block", Sequence[Tensor], Tensor]] = field(default_factory=dict)

    def run(self, tensors: Mapping[str, Tensor], seed: Seed) -> None:
        """Both passes."""
        model = self.model
        refuse_whole(tensors)
        observed = observing(model.model, model.attention_modules, self)
        with torch.enable_grad(), self.scope(), recording(self.tape), observed:
            logits = model.model(**model.streams.both_masks(tensors)).logits.to(model.scores_dtype)
        self.count(forward=1.0, backward=1.0)
        torch.autograd.grad(logits, [self.anchor], seed(logits.detach()), allow_unused=True)

    def call(self, forward: Callable[..., Any], n_calls: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The output of one block, of which nothing is kept for the way back but its inputs."""
        leaves, spec = pytree.tree_flatten((args, kwargs))
        active = {place: x for place, x in enumerate(leaves) if isinstance(x, Tensor) and x.requires_grad}
        constants = [None if place in active else leaf for place, leaf in enumerate(leaves)]
        block = _Block(self, forward, self.tape.layer, n_calls, constants, tuple(active), spec)
        output = _Recomputed.apply(block, self.anchor, *active.values())  # type: ignore[no-untyped-call]  # untyped in torch
        self.tape.layer += n_calls
        return output if block.rest is None else (output, *block.take_rest())

    def attention_gradient(self, layer: int) -> Tensor:
        """The gradient with respect to the probabilities of one attention call."""
        block, inputs, gradient = self.kept[layer]
        _, recorded, output = block.compute(inputs, record=True)
        (found,) = torch.autograd.grad(output, [recorded[layer - block.first]], gradient)
        share = block.n_calls / self.model.n_layers
        self.count(forward=share, backward=share)
        return found.to(self.model.scores_dtype)

    def count(self, forward: float, backward: float) -> None:
        """Passes that were made, whole or in part, for all examples."""
        self.model.cost.forward_passes += self.size * forward
        self.model.cost.backward_passes += self.size * backward


@dataclass(eq=False)
class _Block:
    """One call of one block.

    Attributes:
        of: the pass.
        forward: the block's own.
        first: number of its first attention call.
        n_calls: how many it has.
        constants: its arguments, flat, None where a gradient flows through one.
        places: where these stand, the inputs of the block.
        spec: how the arguments are nested.
        rest: what the block returned beside its output, until it is taken.
    """

    of: _Recomputing
    forward: Callable[..., Any]
    first: int
    n_calls: int
    constants: Sequence[Any]
    places: tuple[int, ...]
    spec: pytree.TreeSpec
    rest: tuple[Any, ...] | None = None

    def compute(self, inputs: Sequence[Tensor], *, record: bool) -> tuple[tuple[Tensor, ...], Sequence[Tensor], Tensor]:
        """(copies of the inputs, what was recorded of each attention call, the output), all in one new graph."""
        whole = self.of.tape
        narrow = None if whole.narrow is None else Narrow(whole.narrow.call, whole.narrow.index)
        tape = replace(whole, layer=self.first, narrow=narrow, attentions=[], permitted=[], callers=[])
        tape.record = tape.grad = record and self.of.record == "attentions"
        blocks = BlockTape(tape, grad=record and self.of.record == "hidden")
        copies = tuple(x.detach().requires_grad_() for x in inputs)
        leaves = list(self.constants)
        for place, copy in zip(self.places, copies, strict=True):
            leaves[place] = copy
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        with torch.enable_grad(), recording(tape):
            result = blocks.call(self.forward, self.n_calls, args, kwargs)
        recorded = tape.attentions if self.of.record == "attentions" else blocks.hidden
        if isinstance(result, tuple):
            result, *rest = result
            self.rest = tuple(pytree.tree_map_only(Tensor, Tensor.detach, rest))
        return copies, recorded if record else [], result

    def take_rest(self) -> tuple[Any, ...]:
        """What was returned beside the output, which is not kept here."""
        rest, self.rest = self.rest, None
        return rest or ()

    def output(self, inputs: Sequence[Tensor]) -> Tensor:
        """The output alone, from the operations of the graph."""
        return self.compute(inputs, record=self.of.visit is not None)[2].detach()

    def backward(self, inputs: Sequence[Tensor], gradient: Tensor) -> Sequence[Tensor | None]:
        """The gradient with respect to each input; what the block recorded goes to the visitor."""
        of = self.of
        if of.visit is None:
            of.kept |= dict.fromkeys(range(self.first, self.first + self.n_calls), (self, inputs, gradient))
            if not inputs:
                return ()
        with of.scope():
            copies, recorded, output = self.compute(inputs, record=of.visit is not None)
        self.take_rest()
        of.count(forward=self.n_calls / of.model.n_layers, backward=0.0)
        found = torch.autograd.grad(output, [*copies, *recorded], gradient, allow_unused=True)
        if of.visit is not None:
            for offset, x in enumerate(recorded):
                slope = found[len(copies) + offset]
                slope = torch.zeros_like(x) if slope is None else slope
                of.visit(self.first + offset, x.detach(), slope.to(of.model.scores_dtype))
        return found[: len(copies)]


class _Recomputed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, block: _Block, anchor: Tensor, *inputs: Tensor) -> Tensor:
        ctx.block = block
        ctx.save_for_backward(*inputs)
        return block.output(inputs)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, *ctx.block.backward(ctx.saved_tensors, gradient)
