"""Twins of a model: copies in float64 whose parameters differ while their function does not, or whose heads are equal."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor, nn
from transformers.pytorch_utils import Conv1D

from benchmark.errors import NotApplicable
from benchmark.models.classifier import Classifier
from benchmark.models.parts import Block, blocks_parts
from benchmark.models.passes import Cost
from benchmark.models.precision import Twin, around, double
from benchmark.types import Batch

_FUSED = ("c_attn", "Wqkv")
"""Layers whose output is queries, keys and values one after the other, each of all heads."""


@dataclass(frozen=True)
class Matrix:
    """A linear layer, or the part of one: views of its parameters, `weight` [out in] and `bias` [out] or None."""

    weight: Tensor
    bias: Tensor | None

    def rows(self, start: int, stop: int) -> "Matrix":
        """Some of the outputs."""
        return Matrix(self.weight[start:stop], None if self.bias is None else self.bias[start:stop])

    def scale(self, factor: Tensor | float) -> None:
        """Multiply the output."""
        self.weight.mul_(factor)
        if self.bias is not None:
            self.bias.mul_(factor)

    def copy_(self, other: "Matrix") -> None:
        """Take over the parameters of another one of the same shape."""
        self.weight.copy_(other.weight)
        if self.bias is not None and other.bias is not None:
            self.bias.copy_(other.bias)


def matrix(module: nn.Module) -> Matrix:
    """The parameters of a linear layer; GPT-2's `Conv1D` keeps its weight transposed."""
    if not isinstance(module, nn.Linear | Conv1D):
        raise NotApplicable(f"{type(module).__name__} is no linear layer")
    weight, bias = module.weight.detach(), None if module.bias is None else module.bias.detach()
    return Matrix(weight.T if isinstance(module, Conv1D) else weight, bias)


@dataclass(frozen=True)
class Attention:
    """The linear layers of an attention sublayer: queries, keys, values and output, with D outputs per head."""

    query: Matrix
    key: Matrix
    value: Matrix
    output: Matrix
    n_heads: int

    @property
    def size(self) -> int:
        """D, the dimension of a head."""
        return self.query.weight.shape[0] // self.n_heads

    @property
    def group(self) -> int:
        """Query heads per key and value head."""
        return self.n_heads * self.size // self.key.weight.shape[0]

    def head(self, layer: Matrix, index: int) -> Matrix:
        """The outputs of one head."""
        return layer.rows(index * self.size, (index + 1) * self.size)

    def output_of(self, head: int) -> Tensor:
        """The columns of the output layer's weight that read one head."""
        return self.output.weight[:, head * self.size : (head + 1) * self.size]


def attention_layers(block: Block, n_heads: int) -> Attention:
    """The four layers of a block's attention; NotApplicable where queries, keys and values cannot be told apart."""
    if len(block.output) != 1:
        raise NotApplicable(f"{len(block.output)} linear layers follow the attention, not one")
    output = matrix(block.output[0][1])
    layers = {name[0].lower(): matrix(module) for name, module in block.projections}
    if len(block.projections) == 1 and block.projections[0][0] in _FUSED:
        fused = matrix(block.projections[0][1])
        third = fused.weight.shape[0] // 3
        query, key, value = (fused.rows(i * third, (i + 1) * third) for i in range(3))
        return Attention(query, key, value, output, n_heads)
    if len(block.projections) != 3 or set(layers) != set("qkv"):
        names = ", ".join(name for name, _ in block.projections) or "none"
        raise NotApplicable(f"queries, keys and values cannot be told apart among the linear layers {names}")
    return Attention(layers["q"], layers["k"], layers["v"], output, n_heads)


def query_and_key_norms(block: Block) -> tuple[nn.Module, nn.Module] | None:
    """The normalisations of a block's queries and of its keys (Qwen3), or None where it has none."""
    if not block.norms:
        return None
    norms = {name[0].lower(): module for name, module in block.norms}
    if len(block.norms) != 2 or set(norms) != set("qk"):
        names = ", ".join(name for name, _ in block.norms)
        raise NotApplicable(f"{names} between projections and attention are not a norm of queries and one of keys")
    return norms["q"], norms["k"]


ParameterChange = Callable[[Sequence[Block], int, Generator], None]
"""Changes the parameters of all blocks in place: `(blocks, heads, generator)`."""


def _factor(generator: Generator) -> float:
    """A factor between 1/2 and 2 in magnitude, of either sign."""
    draw = torch.rand(2, generator=generator, dtype=torch.float64)
    return float(4.0 ** (draw[0] - 0.5)) * (1 if draw[1] < 0.5 else -1)


def rescale_values(blocks: Sequence[Block], n_heads: int, generator: Generator) -> None:
    """`W_V ← c W_V, b_V ← c b_V, W_O ← W_O / c` with a factor c of each value head: the products A·V·W_O stay."""
    for block in blocks:
        attention = attention_layers(block, n_heads)
        for shared in range(n_heads // attention.group):
            factor = _factor(generator)
            attention.head(attention.value, shared).scale(factor)
            for head in range(shared * attention.group, (shared + 1) * attention.group):
                attention.output_of(head).div_(factor)


def rescale_logits(blocks: Sequence[Block], n_heads: int, generator: Generator) -> None:
    """`W_Q ← c W_Q, W_K ← W_K / c` with their biases and a factor c of each key head: the attention logits stay.

    Where queries and keys are normalised, which undoes factors before the norm, their gains are rescaled instead,
    `g_Q ← c g_Q, g_K ← g_K / c`, with one factor for the heads that share them.
    """
    for block in blocks:
        if (norms := query_and_key_norms(block)) is not None:
            factor = _factor(generator)
            for norm, by in zip(norms, (factor, 1 / factor), strict=True):
                for parameter in norm.parameters(recurse=False):
                    parameter.mul_(by)
            continue
        attention = attention_layers(block, n_heads)
        for shared in range(n_heads // attention.group):
            factor = _factor(generator)
            attention.head(attention.key, shared).scale(1 / factor)
            for head in range(shared * attention.group, (shared + 1) * attention.group):
                attention.head(attention.query, head).scale(factor)


def permute_feed_forward(blocks: Sequence[Block], n_heads: int, generator: Generator) -> None:
    """Hidden units of every feed-forward layer reordered: rows of the layers that write them, columns of the reader."""
    for block in blocks:
        *writers, reader = [matrix(module) for _, module in block.feed_forward]
        width = reader.weight.shape[1]
        if not writers or any(writer.weight.shape[0] % width for writer in writers):
            raise NotApplicable("the feed-forward layers are not known: their sizes do not fit")
        order = torch.randperm(width, generator=generator).to(reader.weight.device)
        reader.weight.copy_(reader.weight[:, order].clone())
        for writer in writers:
            for start in range(0, writer.weight.shape[0], width):  # gate and value in one layer: two halves
                part = writer.rows(start, start + width)
                part.copy_(Matrix(part.weight[order].clone(), None if part.bias is None else part.bias[order].clone()))


def equal_heads(blocks: Sequence[Block], n_heads: int, generator: Generator) -> None:
    """Head 1 of every layer gets the parameters of head 0.

    These are queries, keys, values, its part of the output layer and its column in tables of position biases.
    """
    if n_heads == 1:
        raise NotApplicable("the model has one head per layer")
    for block in blocks:
        attention = attention_layers(block, n_heads)
        attention.head(attention.query, 1).copy_(attention.head(attention.query, 0))
        attention.output_of(1).copy_(attention.output_of(0))
        if attention.group == 1:
            for layer in (attention.key, attention.value):
                attention.head(layer, 1).copy_(attention.head(layer, 0))
        for _, module in block.head_tables:
            for table in module.parameters(recurse=False):
                table[:, 1].copy_(table[:, 0])


def permute_heads(blocks: Sequence[Block], n_heads: int, generator: Generator) -> None:
    """The heads of every layer in the reverse order; of grouped ones the groups, and the heads in each."""
    for block in blocks:
        if block.norms or block.head_tables:
            raise NotApplicable("parameters between the projections and the attention belong to single heads")
        attention = attention_layers(block, n_heads)
        groups = n_heads // attention.group
        for layer, count in ((attention.query, n_heads), (attention.key, groups), (attention.value, groups)):
            layer.weight.copy_(_reversed(layer.weight, count, attention.size))
            if layer.bias is not None:
                layer.bias.copy_(_reversed(layer.bias, count, attention.size))
        attention.output.weight.copy_(_reversed(attention.output.weight.T, n_heads, attention.size).T)


def _reversed(rows: Tensor, heads: int, size: int) -> Tensor:
    return rows.clone().view(heads, size, *rows.shape[1:]).flip(0).reshape(rows.shape)


def move_biases(blocks: Sequence[Block], n_heads: int, generator: Generator) -> None:
    """`b_O ← b_O + W_O b_V, b_V ← 0` in every layer: rows of attention sum to 1."""
    moved = False
    for block in blocks:
        attention = attention_layers(block, n_heads)
        bias, out = attention.value.bias, attention.output.bias
        if bias is None or out is None:
            continue
        of_heads = bias.view(-1, attention.size).repeat_interleave(attention.group, dim=0).flatten()
        out.add_(attention.output.weight @ of_heads)
        bias.zero_()
        moved = True
    if not moved:
        raise NotApplicable("values, or the output layer, have no bias")


INVARIANT: Mapping[str, ParameterChange] = {
    "values rescaled": rescale_values,
    "queries and keys rescaled": rescale_logits,
    "feed-forward units permuted": permute_feed_forward,
}
"""Changes that leave the function of a model as it is."""


def distinct_blocks(model: Classifier, batch: Batch) -> list[Block]:
    """Each block once, also where layers share their weights; NotApplicable where the parts of one are not known."""
    return list({id(block.output[0][1]): block for block in blocks_parts(model, batch) if block.output}.values())


def double_copy(model: Classifier) -> Classifier:
    """A copy in float64 that shares nothing with the user's model: its parameters once more, at 8 bytes each."""
    copied = around(model, double(model.model))
    return replace(copied, fingerprint=f"{model.fingerprint}-float64", cost=Cost(), twin=Twin())


@dataclass(frozen=True)
class Twins:
    """A float64 copy of a model and a second one that is changed and set back: two copies are in memory, never more.

    Attributes:
        base: the copy.
        changed: its twin.
    """

    base: Classifier
    changed: Classifier

    @staticmethod
    def of(model: Classifier) -> "Twins":
        """Copy a model twice; the model itself is not touched."""
        base = double_copy(model)
        return Twins(base, double_copy(base))

    def change(self, name: str, change: ParameterChange, batch: Batch, seed: int = 0) -> Classifier:
        """The twin with `change` applied to the parameters of the base.

        Raises:
            NotApplicable: a block's parts, or the linear layers that the change needs, are not known.
        """
        pairs = zip(self.changed.model.parameters(), self.base.model.parameters(), strict=True)
        with torch.no_grad():
            for ours, theirs in pairs:
                ours.copy_(theirs)
            change(distinct_blocks(self.changed, batch), self.changed.n_heads, Generator().manual_seed(seed))
        return replace(self.changed, fingerprint=f"{self.base.fingerprint}-{name}")
