"""Attention between words, from attention between the pieces that a tokenizer makes of them."""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def membership(units: Int[Tensor, "B T"], n_words: int, like: Tensor) -> Float[Tensor, "B W T"]:
    """1 where a token is a piece of a word, else 0; special tokens and padding are pieces of none.

    Args:
        units: unit index of each token, -1 for special tokens and padding.
        n_words: W.
        like: tensor whose precision and device the result has.
    """
    words = torch.arange(n_words, device=units.device)
    return (units[:, None, :] == words[None, :, None]).to(like)


def word_attention(attention: Float[Tensor, "B H T T"], units: Int[Tensor, "B T"]) -> Float[Tensor, "B H W W"]:
    """Attention from word v to word w: the mean over the pieces of v of the sum over the pieces of w,

        A_words[v, w] = 1/|v| Σ_{i ∈ v} Σ_{j ∈ w} A[i, j].

    A row sums to what the word's pieces give to words, which is 1 less what they give to special tokens. W is one more than
    the largest unit index; rows and columns of words that no token shows are 0.

    Source: Clark et al. 2019, section 4.1; equal to the authors' code (`bpe_utils.get_word_word_attention`, "mean").
    """
    n_words = int(units.max()) + 1
    pieces = membership(units, n_words, attention)
    means = pieces / pieces.sum(-1, keepdim=True).clamp(min=1)
    return means[:, None] @ attention @ pieces[:, None].transpose(-1, -2)
