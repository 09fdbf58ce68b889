"""States of tokens after every block, as transformers gives them."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from benchmark.errors import NotApplicable
from benchmark.models.classifier import Classifier
from benchmark.models.word_attention import membership
from benchmark.types import Batch


def hidden_states(model: Classifier, batch: Batch) -> tuple[Float[Tensor, "B T D"], ...]:
    """The L + 1 states of every token: what the first block reads, and what each block gives.

    The last is, in families that have one there (GPT-2, Llama), that after the final normalisation.

    Raises:
        NotApplicable: the model has an encoder and a decoder, whose states are of two sequences.
    """
    if model.streams.count > 1:
        raise NotApplicable("the model has an encoder and a decoder, whose states are of two sequences")
    with torch.no_grad():
        states = model.model(**batch.tensors, output_hidden_states=True).hidden_states
    model.cost.forward_passes += len(batch)
    return tuple(state.to(model.scores_dtype) for state in states)


def word_states(states: Float[Tensor, "B T D"], units: Int[Tensor, "B T"]) -> Float[Tensor, "B W D"]:
    """The mean over the pieces of each word; 0 for a word that no token shows."""
    pieces = membership(units, int(units.max()) + 1, states)
    return (pieces @ states) / pieces.sum(-1, keepdim=True).clamp(min=1)
