"""Words of a model: attention between them and states of them, from those of the pieces that a tokenizer makes of them."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from benchmark.errors import NotApplicable
from benchmark.models.classifier import Classifier
from benchmark.models.next_token import refuse_whole
from benchmark.types import Batch


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


def hidden_states(model: Classifier, batch: Batch) -> tuple[Float[Tensor, "B T D"], ...]:
    """The L + 1 states of every token: what the first block reads, and what each block gives.

    The last is, in families that have one there (GPT-2, Llama), that after the final normalisation.

    Raises:
        NotApplicable: the model has an encoder and a decoder, whose states are of two sequences.
    """
    if model.streams.count > 1:
        raise NotApplicable("the model has an encoder and a decoder, whose states are of two sequences")
    refuse_whole(batch.tensors)
    with torch.no_grad():
        states = model.model(**batch.tensors, output_hidden_states=True).hidden_states
    model.cost.forward_passes += len(batch)
    return tuple(state.to(model.scores_dtype) for state in states)


def word_states(states: Float[Tensor, "B T D"], units: Int[Tensor, "B T"]) -> Float[Tensor, "B W D"]:
    """The mean over the pieces of each word; 0 for a word that no token shows."""
    pieces = membership(units, int(units.max()) + 1, states)
    return (pieces @ states) / pieces.sum(-1, keepdim=True).clamp(min=1)
