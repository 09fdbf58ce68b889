"""One block's attention sublayer, decomposed by the tokens that it mixes.

With v_hj the value vectors and W_O^h the output projection of head h, b its bias:

    attention:   a_i = Σ_j Σ_h A_hij v_hj W_O^h + b             parts  f_ij = Σ_h A_hij v_hj W_O^h
    residual:    s_i = a_i + x_i                                parts  f_ij + δ_ij x_j
    layer_norm:  r_i = LN(s_i)                                  parts  LN'_i(f_ij + δ_ij x_j)
    block:       o_i = LN(r_i + FFN(r_i))                       parts  LN'_i(LN'_i(f_ij + δ_ij x_j))

LN'_i is the layer norm with the deviation of the whole vector and without β. The feed-forward network counts in the
deviation of the last norm, and is otherwise a constant. b and β belong to no token. Values carry the value bias.

v_hj W_O^h is computed once per head and token, by a run of the block in which every token attends to itself and the value
vectors have one part per head. Attention mixes these vectors afterwards.

Which operations these are is observed in a run of the block. The value vectors are marked as the attention function gets
them. The first sum of what descends from them and a whole activation is the residual sum. `layer_norm` is what the second
sum of the block takes in beside the feed-forward network's output. In a pre-LN block (GPT-2, Llama, ViT, ModernBERT)
nothing stands between the two sums: there `layer_norm` and `block` have the parts of `residual`.
"""

from collections.abc import Iterator
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from benchmark.errors import NotApplicable
from benchmark.models import Classifier, run_block
from benchmark.models.blocks import Reached
from benchmark.types import Batch
from methods.propagation.decomposed import Decomposed, decomposed, plain
from methods.propagation.mode import propagating
from methods.propagation.part_rules import Parts

Through = Literal["residual", "layer_norm", "block"]

# A part goes through the output projection alone: one of a block's twelve D × D products (four, and 2·4 of its network).
_SHARE_OF_A_BLOCK = 1 / 12


class _SublayerParts(Parts):
    """From the value vectors to the residual sum, which ends the pass; biases belong to no token."""

    def __init__(self) -> None:
        super().__init__("none")

    def normalising(self) -> None:
        """Refused: W_O's result is taken apart without the example's attention, so that its deviation is not known."""
        raise NotApplicable("this model normalises what attention gives before the residual sum")

    def add(self, a: Any, b: Any) -> Tensor:
        """The first sum of two activations is the residual one."""
        x, other = (a, b) if isinstance(a, Decomposed) else (b, a)
        if not isinstance(other, Tensor) or other.shape != x.shape or isinstance(other, Decomposed):
            return super().add(a, b)
        return self.residual_sum(x, other)

    def residual_sum(self, x: Decomposed, other: Tensor) -> Tensor:
        """The sublayer's output before the sum."""
        raise Reached(x)


class _BlockParts(_SublayerParts):
    """One run of one block.

    Attributes:
        through: where the pass ends.
        hidden: the block's input, which the residual is.
        parts: f_ij for a chunk of tokens j, [n, B, T, D]; they take the place of the sublayer's output at the residual sum.
        tokens: those tokens j, as one-hot rows [n, T].
    """

    def __init__(
        self,
        through: Through,
        hidden: Float[Tensor, "B T D"],
        parts: Float[Tensor, "n B T D"],
        tokens: Float[Tensor, "n T"],
    ) -> None:
        super().__init__()
        self.through, self.hidden, self.parts, self.tokens = through, hidden, parts, tokens
        self._summed = False

    def normalising(self) -> None:
        """Norms are known once the sum is."""
        if not self._summed:
            super().normalising()

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Linear layers after the residual sum belong to the feed-forward network, which is a constant."""
        if self._summed:
            return torch.nn.functional.linear(plain(x), weight, bias)
        return super().linear(x, weight, bias)

    def residual_sum(self, x: Decomposed, other: Tensor) -> Tensor:
        """The first sum is that of the attention sublayer; the second one closes the feed-forward network."""
        if self._summed:
            if self.through == "layer_norm":
                raise Reached(x)
            return Parts.add(self, x, other)
        self._summed = True
        if not torch.equal(other.nan_to_num(), self.hidden.nan_to_num()):
            raise NotApplicable(
                "this model adds attention to something else than the block's input first (as to its feed-forward network, "
                "where both stand side by side), so that no state is what attention and residual add up to"
            )
        result = decomposed(plain(x) + other, self.parts + other * self.tokens[:, None, :, None])
        if self.through == "residual":
            raise Reached(result)
        return result


def decompose_block(
    model: Classifier,
    batch: Batch,
    layer: int,
    hidden: Float[Tensor, "B T D"],
    attention: Float[Tensor, "B H T T"],
    through: Through,
) -> Iterator[tuple[Float[Tensor, "B T D"], Float[Tensor, "n B T D"]]]:
    """(whole [B T D], parts [n B T D]) for a chunk of n tokens j at a time, in order; part [j, b, i] is what i got of j.

    Args:
        model: any instrumented classifier with one stream of tokens.
        batch: B examples.
        layer: number of the block.
        hidden: its input.
        attention: its attention probabilities.
        through: how much of the block.

    Raises:
        NotApplicable: the model has cross-attention, adds attention to something else than the block's input, or uses an
            operation whose affine map is not known.
    """
    vectors = head_vectors(model, batch, layer, hidden)
    rows = iter(torch.eye(hidden.shape[1], dtype=hidden.dtype, device=hidden.device))
    for parts in mixed(model, attention, vectors):
        tokens = torch.stack([next(rows) for _ in parts])
        with propagating(model.model, _BlockParts(through, hidden, parts, tokens)):
            output = run_block(model, batch.tensors, layer, hidden, value_edits=[_marked])
        # a block may go on with the tokens of all examples in one row (OPT)
        yield plain(output).reshape(hidden.shape), _parts(output).reshape(parts.shape)


def residual_sums(
    model: Classifier, batch: Batch, layer: int, hidden: Float[Tensor, "B T D"]
) -> Float[Tensor, "B T D"]:
    """`s_i`, what attention and residual of a block add up to, before any norm; NotApplicable as `decompose_block`."""
    refuse_cross_attention(model)
    nothing = torch.zeros_like(hidden)
    with propagating(model.model, _BlockParts("residual", hidden, nothing[None], nothing[:1, :, 0])):
        whole: Tensor = plain(run_block(model, batch.tensors, layer, hidden, value_edits=[_marked]))
    return whole


def mixed(
    model: Classifier, attention: Float[Tensor, "B H T T"], vectors: Float[Tensor, "H B T D"]
) -> Iterator[Float[Tensor, "n B T D"]]:
    """f_ij from the `head_vectors`, for a chunk of n tokens j at a time, in order."""
    per_token = 4 * vectors[0].numel() * vectors.element_size()
    chunk = max(1, model.memory_budget // per_token)
    columns = zip(torch.split(attention, chunk, dim=-1), torch.split(vectors, chunk, dim=2), strict=True)
    for probabilities, of_tokens in columns:
        yield torch.einsum("bhij,hbjd->jbid", probabilities, of_tokens)


def _marked(_layer: int, value: Tensor) -> Decomposed:
    """The value vectors as one part, so that what descends from them is known."""
    return decomposed(value, value[None])


def _parts(output: Tensor) -> Tensor:
    if not isinstance(output, Decomposed):
        raise NotApplicable("the output of this model's attention does not reach the residual stream")
    return output.parts


def head_vectors(
    model: Classifier, batch: Batch, layer: int, hidden: Float[Tensor, "B T D"]
) -> Float[Tensor, "H B T D"]:
    """`f_h(x_j) = v_hj W_O^h` of every head and token: the sublayer's parts where each token attends to itself."""
    refuse_cross_attention(model)
    n_tokens, n_heads = hidden.shape[1], model.n_heads
    heads = torch.eye(n_heads, dtype=hidden.dtype, device=hidden.device)
    itself = torch.eye(n_tokens, dtype=hidden.dtype, device=hidden.device).expand(len(batch), n_heads, -1, -1)

    def by_head(_layer: int, value: Tensor) -> Decomposed:
        return decomposed(value, value * heads[:, None, :, None, None])

    with propagating(model.model, _SublayerParts()):
        output = run_block(model, batch.tensors, layer, hidden, value_edits=[by_head], replace={layer: itself})
    model.cost.forward_passes += _SHARE_OF_A_BLOCK * len(batch) * n_heads / model.n_layers
    return _parts(output)


def refuse_cross_attention(model: Classifier) -> None:
    """NotApplicable where tokens of one sequence are mixed into another."""
    if getattr(model.config, "is_encoder_decoder", False):
        raise NotApplicable("cross-attention mixes two sequences; this method decomposes blocks that know one")
