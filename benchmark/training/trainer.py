"""The trainer of every model that is not fine-tuned by transformers': one loop, and what it reads, draws and steps by."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from benchmark import progress
from benchmark.errors import UserError
from benchmark.models.encoding import unit_of_each_token
from benchmark.types import Example

_BUCKET = 16  # batches are cut from so many batches' worth of examples sorted by length, which spares padding


def descend(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    steps: int,
    learn: Callable[[int], None],
    label: str,
    *,
    begin: int = 0,
    clip: float | None = 1.0,
    done: Callable[[int], None] | None = None,
) -> None:
    """Take the steps of a training: gradients, clipped, and the optimiser's step at the learning rate of its place.

    Args:
        model: is trained in place.
        optimizer: of its parameters; the rate of each group is its peak (`warm_up_and_decay`), which the group keeps.
        steps: of the whole training.
        learn: computes the gradients of a step, which is counted from 0; those of the step before are gone.
        label: what a person reads meanwhile.
        begin: the first step, after those that an earlier call took.
        clip: the largest norm of all gradients together; None for any.
        done: is called after each step with the number of steps that are done.
    """
    rate = warm_up_and_decay(steps)
    for group in optimizer.param_groups:
        group.setdefault("peak", group["lr"])
    with progress.step(label, steps, done=begin, unit="steps") as advance:
        for step in range(begin, steps):
            for group in optimizer.param_groups:
                group["lr"] = group["peak"] * rate(step)
            optimizer.zero_grad()
            learn(step)
            if clip is not None:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            advance(1)
            if done is not None:
                done(step + 1)


def warm_up_and_decay(steps: int) -> Callable[[int], float]:
    """The learning rate at a step as a share of its peak: linear warm-up over a tenth of the steps, linear decay to 0."""
    warm_up = max(1, steps // 10)
    return lambda step: min(1.0, (step + 1) / warm_up) * (1 - step / steps)


def adamw(model: Any, rate: float, embedding_rate: float, weight_decay: float) -> torch.optim.AdamW:
    """AdamW of the weights that learn; the token embeddings have a rate of their own, as their gradients are sparse."""
    embeddings = model.get_input_embeddings().weight
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups: list[dict[str, Any]] = [
        {"params": [p for p in learning if p is embeddings], "lr": embedding_rate},
        {"params": [p for p in learning if p is not embeddings]},
    ]
    return torch.optim.AdamW(groups, rate, (0.9, 0.98), weight_decay=weight_decay)


def passes(lengths: Sequence[int], batch_size: int) -> Iterator[list[int]]:
    """The batches of one pass after another, without end."""
    while True:
        yield from one_pass(lengths, batch_size)


def one_pass(lengths: Sequence[int], batch_size: int) -> Iterator[list[int]]:
    """One pass over the examples in random order, examples of similar length together; draws from torch's generator."""
    order = torch.randperm(len(lengths)).tolist()
    for start in range(0, len(order), batch_size * _BUCKET):
        bucket = sorted(order[start : start + batch_size * _BUCKET], key=lengths.__getitem__)
        cuts = range(0, len(bucket), batch_size)
        for index in torch.randperm(len(cuts)).tolist():
            yield bucket[cuts[index] : cuts[index] + batch_size]


def masked(ids: Int[Tensor, "B T"], maskable: Bool[Tensor, "B T"], mask_id: int, share: float) -> Int[Tensor, "B T"]:
    """The ids with the mask token in place of some that may be masked, in half of the rows.

    In those rows the share of masked tokens is drawn from [0, share]. Draws from torch's generator.
    """
    rate = torch.rand(len(ids), 1) * share * (torch.rand(len(ids), 1) < 0.5)
    return _hit(ids, maskable, mask_id, rate)


def all_masked(
    ids: Int[Tensor, "B T"], maskable: Bool[Tensor, "B T"], mask_id: int, share: float
) -> Int[Tensor, "B T"]:
    """The same in every row."""
    return _hit(ids, maskable, mask_id, torch.rand(len(ids), 1) * share)


def _hit(
    ids: Int[Tensor, "B T"], maskable: Bool[Tensor, "B T"], mask_id: int, rate: Float[Tensor, "B 1"]
) -> Int[Tensor, "B T"]:
    """Each token that may be masked is with the probability of its row."""
    hit = torch.rand(ids.shape) < rate
    return torch.where(hit.to(ids.device) & maskable, mask_id, ids)


def texts_of(example: Example) -> tuple[str, ...]:
    """The text of an example, or the two of a pair, words joined by spaces; UserError where it holds anything else."""
    parts = example.inputs if isinstance(example.inputs, tuple) else (example.inputs,)
    texts = tuple(part if isinstance(part, str) else " ".join(part) for part in parts if isinstance(part, str | list))
    if len(texts) != len(parts):
        raise UserError(
            f"example '{example.uid}' holds no text to train on; use model=hf with a finished model.path=..."
        )
    return texts


def with_hidden(
    ids: Sequence[int],
    segments: Sequence[int | None],
    spans: Sequence[tuple[int, int]],
    example: Example,
    tokenizer: Any,
) -> list[int]:
    """The ids of an example's tokens, with the mask token in place of those of hidden units (`Example.hidden`).

    Args:
        ids: of the tokens, of which the first may be all that the window holds.
        segments, spans: of each token (`encoding.unit_of_each_token`).
        example: whose units they are.
        tokenizer: of transformers.

    Raises:
        UserError: the tokenizer has no mask token.
    """
    if example.hidden is None:
        return list(ids)
    if tokenizer.mask_token_id is None:
        raise UserError(
            f"example '{example.uid}' has hidden words, and the base has no mask token to put in their place"
        )
    units = unit_of_each_token(example.inputs, tokenizer, segments, spans)
    return [
        tokenizer.mask_token_id if unit >= 0 and example.hidden[unit] else number
        for number, unit in zip(ids, units, strict=True)
    ]


@contextmanager
def with_threads(count: int | None) -> Iterator[None]:
    """Compute on so many threads; None for as many as there are set.

    A model as small as the tiny one gains nothing from more than one, and its weights then do not depend on their number.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(before if count is None else count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
