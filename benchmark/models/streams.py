"""Which sequence of states each attention call joins: one for most models, encoder and decoder for some.

An encoder–decoder classifier feeds the same tokens to both. Decoder position p holds input token p − 1 (the ids shifted
right; position 0 holds the start token). Readouts compose matrices over one set of nodes. The edges of all calls are
therefore placed into matrices over the *joint* nodes [T encoder positions; T decoder positions], and token scores are
folded back to the T input tokens afterwards. With one stream all of this is the identity.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from benchmark.models.families import Family

ENCODER, DECODER = 0, 1


@dataclass(frozen=True)
class Streams:
    """The streams of a model's attention calls, in the order of the forward pass.

    Attributes:
        names: of the calls: "0", "1", ... with one stream; "encoder.0", ..., "decoder.0", "cross.0", ... with two.
        queries: the stream of each call's queries, 0 for the encoder (or the only one), 1 for the decoder.
        keys: the stream of each call's keys and values; it differs from that of the queries in cross-attention.
    """

    names: tuple[str, ...]
    queries: tuple[int, ...]
    keys: tuple[int, ...]

    @property
    def count(self) -> int:
        """Number of streams."""
        return 1 + max(self.queries)

    @property
    def entries(self) -> tuple[int, ...]:
        """The first call of each stream: the input of its block is the stream's embedding output."""
        return tuple(self.queries.index(stream) for stream in range(self.count))

    def join(self, layer: int, edges: Float[Tensor, "B H T T"]) -> Float[Tensor, "B H N N"]:
        """The edges of one call as a matrix over the N = count·T joint nodes, 0 outside the call's own block."""
        if self.count == 1:
            return edges
        n_tokens, query, key = edges.shape[-1], self.queries[layer], self.keys[layer]
        joint = edges.new_zeros(*edges.shape[:2], self.count * n_tokens, self.count * n_tokens)
        joint[:, :, query * n_tokens : (query + 1) * n_tokens, key * n_tokens : (key + 1) * n_tokens] = edges
        return joint

    def both_masks(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """The mask for the decoder too, shifted as its tokens are, so that a hidden token is hidden from both streams."""
        mask = tensors.get("attention_mask")
        if self.count == 1 or mask is None:
            return tensors
        return {**tensors, "decoder_attention_mask": torch.cat([torch.ones_like(mask[:, :1]), mask[:, :-1]], dim=1)}

    def join_read(self, read: Float[Tensor, "B T"]) -> Float[Tensor, "B N"]:
        """Read weights over the joint nodes: the classifier reads the last stream."""
        return torch.cat([torch.zeros_like(read)] * (self.count - 1) + [read], dim=1)

    def fold(self, scores: Float[Tensor, "B N"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """Scores of the input tokens from scores of the joint nodes; 0 at padding.

        `s[j] = s_encoder[j] + s_decoder[j + 1]`: a token counts wherever it is read. The decoder's start token is no token
        of the input and is left out; the last token stands in the encoder alone.
        """
        if self.count == 1:
            return scores * mask
        encoder, decoder = (scores * mask.repeat(1, self.count)).chunk(2, dim=1)
        return (encoder + torch.nn.functional.pad(decoder[:, 1:], (0, 1))) * mask


def streams_of(family: Family, paths: Sequence[str]) -> Streams:
    """The streams of a model from the dotted paths of its attention modules, in the order of their calls."""
    if not family.cross_attention:
        return Streams(tuple(map(str, range(len(paths)))), (ENCODER,) * len(paths), (ENCODER,) * len(paths))
    kinds = [_kind(path.split("."), family.cross_attention) for path in paths]
    return Streams(
        names=tuple(f"{kind}.{kinds[:index].count(kind)}" for index, kind in enumerate(kinds)),
        queries=tuple(ENCODER if kind == "encoder" else DECODER for kind in kinds),
        keys=tuple(DECODER if kind == "decoder" else ENCODER for kind in kinds),
    )


def _kind(parts: Sequence[str], cross_attention: str) -> str:
    if cross_attention in parts:
        return "cross"
    return "encoder" if "encoder" in parts else "decoder"
