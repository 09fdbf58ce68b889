"""What trainings that are written here share: the learning rate's course, batches of similar length, masks, threads."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from jaxtyping import Bool, Int
from torch import Tensor

_BUCKET = 16  # batches are cut from so many batches' worth of examples sorted by length, which spares padding


def warm_up_and_decay(steps: int) -> Callable[[int], float]:
    """The learning rate at a step as a share of its peak: linear warm-up over a tenth of the steps, linear decay to 0."""
    warm_up = max(1, steps // 10)
    return lambda step: min(1.0, (step + 1) / warm_up) * (1 - step / steps)


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
    hit = torch.rand(ids.shape) < rate
    return torch.where(hit.to(ids.device) & maskable, mask_id, ids)


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
