"""Between the padded tensors of a batch and the flat arrays that a run folder keeps (`benchmark.results.store.Ragged`)."""

from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from benchmark.errors import NotApplicable
from benchmark.results.store import Ragged
from benchmark.targets import TARGET_FIELDS, Target, target_from
from benchmark.types import Attribution, Batch, Layout, layouts

STORED = 2
"""How what a run folder keeps is laid out: raised where the same numbers come to lie elsewhere, so that none are misread."""


def flat(batch: Batch, attribution: Attribution, cost: Mapping[str, float]) -> Ragged:
    """The attributions of one batch without its padding: in each array the examples, or their tokens, come first.

    A field [B L T T] is stored as [Σ T², L].

    Raises:
        NotApplicable: a score is NaN or infinite.
    """
    attribution = attribution.cpu()
    lengths = batch.attention_mask.sum(1).cpu()
    keep = torch.arange(batch.units.shape[1]) < lengths[:, None]
    arrays = {"lengths": _numpy(lengths)}
    for name, values in attribution.of_examples.items():
        layout = layouts()[name]
        ordered, kept = _tokens_first(values, layout), _kept(keep, layout)
        arrays[name] = _numpy(ordered[kept])
        if not np.isfinite(arrays[name]).all():
            example = next(b for b in range(len(batch)) if not bool(ordered[b][kept[b]].isfinite().all()))
            raise NotApplicable(
                f"the {name} scores are not finite (NaN or infinity), first in example '{batch.uids[example]}'"
            )
        if layout.rounded and arrays[name].dtype == np.float32:
            arrays[name] = in_24_bits(arrays[name])
    return Ragged(batch.uids, arrays, cost)


def _tokens_first(values: Tensor, layout: Layout) -> Tensor:
    """The dimensions of tokens behind that of examples: [B L T T] as [B T T L]."""
    order = sorted(range(values.ndim), key=lambda place: (layout.dimensions[place] not in "BT", place))
    return values.permute(order)


def _tokens_back(values: Tensor, layout: Layout) -> Tensor:
    """The inverse of `_tokens_first`."""
    order = sorted(range(values.ndim), key=lambda place: (layout.dimensions[place] not in "BT", place))
    return values.permute([order.index(place) for place in range(values.ndim)])


def _kept(keep: Bool[Tensor, "B T"], layout: Layout) -> Bool[Tensor, "B ..."]:
    """What is no padding: of examples, of their tokens, or of pairs of a query and a key."""
    kept = torch.ones(len(keep), dtype=torch.bool)
    for _ in range(layout.of_tokens):
        kept = kept[..., None] & keep.reshape(len(keep), *[1] * (kept.ndim - 1), keep.shape[1])
    return kept


def in_24_bits(values: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """The nearest numbers of 16 significant bits, as float32: relative errors of at most 2^-16, and none when repeated."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    return ((bits + np.uint32(0x7F) + (bits >> 8 & 1)) & np.uint32(0xFFFFFF00)).view(np.float32)


def _numpy(array: Tensor) -> np.ndarray:
    """The array in numpy; in half precision as float32, which holds both formats, of which numpy has one only."""
    halves = (torch.bfloat16, torch.float16)
    converted: np.ndarray = (array.float() if array.dtype in halves else array).detach().numpy()
    return converted


def padded(stored: Ragged, start: int, batch: Batch) -> Attribution:
    """The stored attributions of one batch, whose first example is number `start`, padded to its shape again."""
    lengths = np.asarray(stored.arrays["lengths"], dtype=np.int64)
    stop = start + len(batch)
    keep = torch.arange(batch.units.shape[1]) < torch.as_tensor(lengths[start:stop])[:, None]

    def read(name: str) -> Tensor:
        layout = layouts()[name]
        ends = np.concatenate([[0], np.cumsum(lengths**layout.of_tokens)])
        part, kept = torch.as_tensor(stored.arrays[name][ends[start] : ends[stop]]), _kept(keep, layout)
        full = part.new_zeros(*kept.shape, *part.shape[1:])
        full[kept] = part
        return _tokens_back(full, layout).to(batch.units.device)

    return Attribution.of_stored({name: read(name) for name in stored.arrays if name != "lengths"})


def target_of_stored(stored: Ragged) -> Target:
    """What stored attributions explain of each example."""
    return target_from({name: torch.as_tensor(stored.arrays[name]) for name in TARGET_FIELDS if name in stored.arrays})


def overlaid(stored: Ragged, others: Ragged, target: Target) -> Ragged:
    """The examples of `stored` with another target, and for those that are in `others` what stands there.

    The cost is that of the others.
    """
    places = {uid: place for place, uid in enumerate(others.uids)}
    lengths, of_others = (np.asarray(one.arrays["lengths"], dtype=np.int64) for one in (stored, others))
    known = np.array([places.get(uid, -1) for uid in stored.uids])
    arrays = {"lengths": stored.arrays["lengths"]}
    for name, array in stored.arrays.items():
        if name not in ("lengths", *TARGET_FIELDS):
            power = layouts()[name].of_tokens
            arrays[name] = array.copy()
            arrays[name][np.repeat(known >= 0, lengths**power)] = others.arrays[name][
                _places(known[known >= 0], of_others**power)
            ]
    targets = {name: numbers.cpu().numpy() for name, numbers in target.stored.items()}
    return Ragged(stored.uids, {**arrays, **targets}, others.cost)


def _places(examples: Int[np.ndarray, "K"], sizes: Int[np.ndarray, "N"]) -> Int[np.ndarray, "S"]:
    """Where the values of K among N examples lie, which have so many values each."""
    starts = np.cumsum(sizes) - sizes
    return np.concatenate(
        [np.arange(starts[i], starts[i] + sizes[i]) for i in examples] or [np.zeros(0, dtype=np.int64)]
    )


def without_padding(edges: Float[Tensor, "B L H T T"], batch: Batch) -> Float[Tensor, "B L T T"]:
    """Edge scores summed over heads, 0 where query or key is padding."""
    return edges.sum(2) * batch.cells[:, None]
