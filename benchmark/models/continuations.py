"""Continuations of several tokens, as one prompt for each of their tokens: `ln p(y | x) = Σ_t ln p(y_t | x, y_<t)`.

Notation: B prompts, T tokens of the longest, N tokens of the longest continuation, R tokens of all continuations.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from benchmark.models.classifier import Classifier
from benchmark.models.next_token import ASKED, CONTINUATION, VOCABULARY, followed
from benchmark.types import Attribution, Batch, layouts


def token_by_token(model: Classifier, batch: Batch, said: Int[Tensor, "B N"]) -> tuple[Batch, Int[Tensor, "R"]]:
    """A row for each token of each continuation: the prompt with the tokens that were said before, and the next as label.

    What was said belongs to no word, so that nothing of it is scored or removed.

    Args:
        model: a causal language model.
        batch: the prompts, padded on the right.
        said: the ids of the continuations, −1 behind a shorter one.

    Returns:
        The rows, prompt by prompt, and the prompt that each is of.
    """
    owner, step = (said >= 0).nonzero().unbind(1)
    prompts = batch.select(owner.tolist())
    length = prompts.attention_mask.sum(1)
    width = max(prompts.units.shape[1], int((length + step).max()))
    before = said[owner].masked_fill(torch.arange(said.shape[1], device=said.device) >= step[:, None], -1)
    others = {name: column for name, column in prompts.tensors.items() if name not in ("input_ids", *ASKED)}
    ids, tensors = followed(prompts.tensors["input_ids"], length[:, None] - 1, before, others)
    tensors["input_ids"] = ids.masked_fill(tensors["attention_mask"] == 0, model.pad_token_id)
    units = nn.functional.pad(prompts.units, (0, said.shape[1] - 1), value=-1)
    return replace(
        prompts,
        tensors={name: column[:, :width] for name, column in tensors.items()},
        units=units[:, :width],
        label=said[owner, step],
    ), owner


def each_of(model: Classifier, batch: Batch) -> tuple[Classifier, Batch, Int[Tensor, "R"]]:
    """What is asked of a method for prompts with continuations: the model over its vocabulary, and `token_by_token`."""
    head: Any = model.model
    vocabulary = len(head.get_output_embeddings().weight)
    over = model.asked_over(VOCABULARY, tuple(map(str, range(vocabulary))))
    return over, *token_by_token(model, batch, batch.tensors[CONTINUATION][..., 0])


def summed(parts: Sequence[Attribution], owner: Int[Tensor, "R"], batch: Batch, like: Attribution) -> Attribution:
    """The explanation of each continuation: the sum over its tokens, of what all tokens have and of the prompt's columns.

    Edges, pixels and scores of several classes are no part of it.

    Args:
        parts: explanations of the tokens, in their order.
        owner: the prompt of each token.
        batch: the prompts.
        like: holds the target, and what is not of examples.
    """
    n_columns = batch.units.shape[1]
    found: dict[str, Any] = {}
    for name, layout in layouts().items():
        if name not in _SUMMED:
            continue
        each = [getattr(part, name) for part in parts]
        if any(value is None for value in each):
            continue
        narrow = [value[..., :n_columns] for value in each] if layout.of_tokens else each
        scores = torch.cat(narrow)
        total = scores.new_zeros(len(batch), *scores.shape[1:]).index_add(0, owner.to(scores.device), scores)
        if layout.of_tokens:
            mask = batch.attention_mask.to(total.device)
            total = total.masked_fill(~mask.reshape(len(batch), *[1] * (total.ndim - 2), n_columns), 0)
        found[name] = total
    return replace(like, **found)


_SUMMED = ("tokens", "heads", "layers", "totals")
