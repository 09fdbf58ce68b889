"""The one attention function that records and edits probabilities, without model forks (docs/protocols.md, section 1).

`transformers` dispatches attention by name through `AttentionInterface`. Ours is registered once under `IMPLEMENTATION`,
and with it the eager mask builder, without which padding and causal masks would be lost silently. It computes what each
family's eager function computes. While a `Tape` is active for the calling model, it also records post-softmax probabilities
and applies edits to them. Attention that a tape neither records nor edits goes through torch's fused function.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.overrides import handle_torch_function, has_torch_function
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

from benchmark.models.read_rows import Gathered, Narrow

IMPLEMENTATION = "attention_explainer_benchmark"

AttentionEdit = Callable[[int, Tensor], Tensor]
"""`(layer, probabilities [B H T T]) -> probabilities`, applied after softmax."""

ValueEdit = Callable[[int, Tensor], Tensor]
"""`(layer, value [B H T D]) -> value`, applied before the product with the probabilities."""

OutputEdit = Callable[[int, Tensor], Tensor]
"""`(layer, outputs of the heads [B T H D]) -> outputs`, applied to that product."""


@dataclass
class Tape:
    """What one forward pass records, and the edits it applies.

    Attributes:
        modules: identities of the attention modules of the model that the tape belongs to.
        edits: applied in order to the probabilities of every layer.
        value_edits: applied in order to the value vectors of every layer, one set for each query head.
        output_edits: applied in order to what the heads of every layer give the output projection.
        inputs: takes the queries, keys and values of calls, or gives others in their place.
        replace: probabilities that stand in for those of a layer; its scores are then not computed.
        record: keep the (edited) probabilities.
        record_permitted: keep which keys each query may attend to.
        grad: make the recorded probabilities part of the graph, so that gradients with respect to them exist.
        first: calls before this one are computed, but neither recorded nor made part of the graph.
        narrow: the last call is computed for a few rows alone; what it records has only these.
        layer: number of the next attention call. Calls are numbered in the order of the forward pass; a layer that is used
            several times (ALBERT) counts as often as it is used.
    """

    modules: frozenset[int]
    edits: Sequence[AttentionEdit] = ()
    value_edits: Sequence[ValueEdit] = ()
    output_edits: Sequence[OutputEdit] = ()
    inputs: "HeadInputs | None" = None
    replace: Mapping[int, Tensor] = field(default_factory=dict)
    record: bool = False
    record_permitted: bool = False
    grad: bool = False
    first: int = 0
    narrow: Narrow | None = None
    layer: int = 0
    attentions: list[Tensor] = field(default_factory=list)
    permitted: list[Tensor] = field(default_factory=list)
    callers: list[nn.Module] = field(default_factory=list)

    @property
    def reads(self) -> bool:
        """Whether the probabilities of the next call are recorded, edited or replaced."""
        recorded = (self.record or self.record_permitted) and self.layer >= self.first
        return recorded or bool(self.edits) or self.layer in self.replace

    @property
    def narrows(self) -> Narrow | None:
        """Which rows of the next call are computed; None for all."""
        return self.narrow if self.narrow is not None and self.narrow.call == self.layer else None


@dataclass
class HeadInputs:
    """What heads read, taken from several runs of a block and given to another one.

    A run of a block ends at its attention with `Gathered` as long as nothing is given; what the attention was called with is
    then `taken`. Once queries, keys and values are `given`, they stand in the place of the run's own.

    Attributes:
        taken: queries, keys and values [B H T Dh] of the last run that was ended, keys and values for each query head.
        given: those that stand in for the next run's.
    """

    taken: tuple[Tensor, Tensor, Tensor] | None = None
    given: tuple[Tensor, Tensor, Tensor] | None = None

    def passed(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What the attention goes on with.

        Raises:
            Gathered: nothing is given.
        """
        if self.given is None:
            self.taken = query, key, value
            raise Gathered
        return self.given


class _Active(threading.local):
    def __init__(self) -> None:
        self.tapes: list[Tape] = []


_ACTIVE = _Active()


@contextmanager
def recording(tape: Tape) -> Iterator[Tape]:
    """Make `tape` the one that its model's attention modules write to, in this thread, until the block ends."""
    _ACTIVE.tapes.append(tape)
    try:
        yield tape
    finally:
        _ACTIVE.tapes.remove(tape)


def _tape_of(module: nn.Module) -> Tape | None:
    return next((tape for tape in reversed(_ACTIVE.tapes) if id(module) in tape.modules), None)


def _expand_groups(states: Tensor, groups: int) -> Tensor:
    """Repeat each key/value head for the query heads that share it (grouped-query attention)."""
    return states if groups == 1 else states.repeat_interleave(groups, dim=1)


# Arguments that change the scores; a family that passes one needs support here before its numbers can be trusted.
_SCORE_ARGUMENTS = ("s_aux", "position_bias", "relative_position_bias", "head_mask")


def attention_forward(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """`softmax(Q Kᵀ · scaling + mask) V`, with the active tape's edits applied after the softmax.

    With a `softcap` c, as Gemma 2 has it, scores are `c · tanh(scores / c)` before the mask.

    The signature is that of transformers' attention functions: `query` [B H T D], `key` and `value` [B H/groups T D],
    `attention_mask` additive. Softmax is computed in float32 or, for float64 models, in float64. Where nobody reads the
    probabilities, they are not made: the result is that of `scaled_dot_product_attention`, and None stands for them.
    """
    if unsupported := [name for name in _SCORE_ARGUMENTS if kwargs.get(name) is not None]:
        raise NotImplementedError(f"{type(module).__name__} passes {', '.join(unsupported)} to its attention function")
    tape = _tape_of(module)
    if tape is not None and tape.narrows is not None:
        query, key, value, attention_mask = _narrowed(tape.narrows, query, key, value, attention_mask)
    groups = getattr(module, "num_key_value_groups", 1)
    key, value = _expand_groups(key, groups), _expand_groups(value, groups)
    if tape is not None and tape.inputs is not None:
        query, key, value = tape.inputs.passed(query, key, value)
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    if tape is not None:
        for edit in tape.value_edits:
            value = edit(tape.layer, value)
    unread = tape is not None and not tape.reads and not module.training and softcap is None
    if tape is not None and unread and not has_torch_function((query, key, value)):
        output = F.scaled_dot_product_attention(query, key, value, attn_mask=attention_mask, scale=scaling)
        output = _outputs(tape, output)
        _count(tape, module)
        return output, None
    if tape is not None and tape.layer in tape.replace:
        probabilities = tape.replace[tape.layer]
        probabilities = probabilities if tape.narrows is None else tape.narrows.rows_of(probabilities, 2)
    else:
        probabilities = _probabilities(module, query, key, attention_mask, scaling, dropout, softcap)
    if tape is None:
        return torch.matmul(probabilities, value).transpose(1, 2).contiguous(), probabilities
    if tape.record_permitted and tape.layer >= tape.first:
        tape.permitted.append(_permitted(query, key, attention_mask))
    probabilities = _edited_and_recorded(tape, probabilities)
    output = _outputs(tape, torch.matmul(probabilities, value))
    _count(tape, module)
    return output, probabilities


def _outputs(tape: Tape, output: Tensor) -> Tensor:
    output = output.transpose(1, 2).contiguous()
    for edit in tape.output_edits:
        output = edit(tape.layer, output)
    return output


def _narrowed(
    narrow: Narrow, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """What the rows attend with and to, of the block's run on all tokens; that run ends here with `Gathered`."""
    if narrow.states is None:
        mask = None if attention_mask is None else narrow.rows_of(attention_mask, 2)
        narrow.states = narrow.rows_of(query, 2), key, value, mask
        raise Gathered
    return narrow.states


def mask_scores(scores: Tensor, attention_mask: Tensor) -> Tensor:
    """`scores + mask`, as an operation of its own that a `TorchFunctionMode` can tell from a sum of activations."""
    if has_torch_function((scores, attention_mask)):
        masked: Tensor = handle_torch_function(mask_scores, (scores, attention_mask), scores, attention_mask)
        return masked
    return scores + attention_mask


def _probabilities(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    attention_mask: Tensor | None,
    scaling: float,
    dropout: float,
    softcap: float | None,
) -> Tensor:
    scores = torch.matmul(query, key.transpose(2, 3)) * scaling
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if attention_mask is not None:
        scores = mask_scores(scores, attention_mask)
    precision = torch.promote_types(query.dtype, torch.float32)
    probabilities = F.softmax(scores, dim=-1, dtype=precision).to(query.dtype)
    return F.dropout(probabilities, p=dropout) if module.training else probabilities


def _permitted(query: Tensor, key: Tensor, attention_mask: Tensor | None) -> Bool[Tensor, "B 1 T T"]:
    """Which keys the mask leaves to each query; a mask that also holds biases of positions forbids by its lowest number."""
    shape = (len(query), 1, query.shape[2], key.shape[2])
    if attention_mask is None:
        return torch.ones(shape, dtype=torch.bool, device=query.device)
    allowed = attention_mask > torch.finfo(attention_mask.dtype).min / 2
    return allowed.any(1, keepdim=True).expand(shape)


def _edited_and_recorded(tape: Tape, probabilities: Tensor) -> Tensor:
    for edit in tape.edits:
        probabilities = edit(tape.layer, probabilities)
    is_recorded = tape.layer >= tape.first
    if is_recorded and tape.grad and not probabilities.requires_grad:
        probabilities = probabilities.detach().requires_grad_()
    if is_recorded and tape.record:
        tape.attentions.append(probabilities)
    return probabilities


def _count(tape: Tape, module: nn.Module) -> None:
    """The call of `module` is done."""
    tape.callers.append(module)
    tape.layer += 1


AttentionInterface.register(IMPLEMENTATION, attention_forward)
AttentionMaskInterface.register(IMPLEMENTATION, eager_mask)


@dataclass(frozen=True)
class PruneHeads:
    """Edit that takes heads away (Michel 2019): `(0·A) V = A (0·V)`, so that it serves probabilities and values alike.

    `keep` is True where a head stays; its first dimension is 1 (the same heads for all examples) or B.
    See docs/protocols.md, section 7.
    """

    keep: Bool[Tensor, "B L H"]

    def __call__(self, layer: int, states: Float[Tensor, "B H T D"]) -> Float[Tensor, "B H T D"]:
        """Probabilities or values of `layer` with the pruned heads at 0."""
        return states * self.keep[:, layer, :, None, None].to(states.dtype)


def hold_constant(layer: int, probabilities: Tensor) -> Tensor:
    """Edit that cuts the graph at the attention: gradients flow through the values only (Jain & Wallace 2019)."""
    return probabilities.detach()
