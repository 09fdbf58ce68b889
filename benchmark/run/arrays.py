"""Between the padded tensors of a batch and the flat arrays that a run folder keeps (`benchmark.results.store.Ragged`)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from benchmark.errors import NotApplicable
from benchmark.results.store import Ragged
from benchmark.types import Attribution, Batch


class _Laid(NamedTuple):
    """Along which axis an array holds examples, and how many values each has there: one per token to that power."""

    axis: int
    power: int

    def sizes(self, lengths: Int[np.ndarray, "N"]) -> Int[np.ndarray, "N"]:
        return lengths**self.power


_LAID = {
    **dict.fromkeys(("target", "lengths", "heads", "totals", "pixels"), _Laid(0, 0)),
    "tokens": _Laid(0, 1),
    **dict.fromkeys(("layers", "classes"), _Laid(1, 1)),
    "edges": _Laid(1, 2),
}
_ROUNDED = ("layers", "edges")
"""What is kept in 24 bits: it takes most of the room."""


def flat(batch: Batch, attribution: Attribution, cost: Mapping[str, float]) -> Ragged:
    """The attributions of one batch without its padding.

    Raises:
        NotApplicable: a score is NaN or infinite.
    """
    attribution = attribution.cpu()
    lengths = batch.attention_mask.sum(1).cpu()
    keep = torch.arange(batch.units.shape[1]) < lengths[:, None]
    arrays = {"lengths": lengths}
    for name, laid in _LAID.items():
        if (array := getattr(attribution, name, None)) is not None:
            array = array.transpose(0, 1) if laid.axis else array
            at = (slice(None),) * laid.axis
            arrays[name] = array if laid.power == 0 else array[(*at, keep if laid.power == 1 else _cells(keep))]
    for name, array in arrays.items():
        if not bool(array.isfinite().all()):
            by_example = getattr(attribution, name).flatten(1).isfinite().all(1)
            first = batch.uids[int(by_example.logical_not().int().argmax())]
            raise NotApplicable(f"the {name} scores are not finite (NaN or infinity), first in example '{first}'")
    flat_arrays = {name: _numpy(array) for name, array in arrays.items()}
    for name in _ROUNDED:
        if name in flat_arrays and flat_arrays[name].dtype == np.float32:
            flat_arrays[name] = in_24_bits(flat_arrays[name])
    return Ragged(batch.uids, flat_arrays, cost)


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
    arrays, size, device = stored.arrays, len(batch), batch.units.device
    lengths = np.asarray(arrays["lengths"], dtype=np.int64)
    keep = torch.arange(batch.units.shape[1]) < torch.as_tensor(lengths[start : start + size])[:, None]

    def rows(name: str) -> Tensor | None:
        return torch.as_tensor(arrays[name][start : start + size]).to(device) if name in arrays else None

    def pad(name: str, at: Tensor, sizes: np.ndarray) -> Tensor | None:
        if name not in arrays:
            return None
        first = int(sizes[:start].sum())
        part = torch.as_tensor(arrays[name][..., first : first + int(sizes[start : start + size].sum())])
        full = part.new_zeros(*part.shape[:-1], *at.shape)
        full[..., at] = part
        return full.to(device)

    layers, classes = pad("layers", keep, lengths), pad("classes", keep, lengths)
    edges = pad("edges", _cells(keep), lengths**2)
    return Attribution(
        target=torch.as_tensor(arrays["target"][start : start + size]).to(device),
        tokens=pad("tokens", keep, lengths),
        heads=rows("heads"),
        totals=rows("totals"),
        pixels=rows("pixels"),
        layers=None if layers is None else layers.transpose(0, 1),
        edges=None if edges is None else edges.transpose(0, 1),
        classes=None if classes is None else classes.transpose(0, 1),
    )


def overlaid(stored: Ragged, others: Ragged, target: Int[np.ndarray, "N"]) -> Ragged:
    """The examples of `stored` with the class `target`, and for those that are in `others` what stands there.

    The cost is that of the others.
    """
    places = {uid: place for place, uid in enumerate(others.uids)}
    lengths = np.asarray(stored.arrays["lengths"], dtype=np.int64)
    known = np.array([places.get(uid, -1) for uid in stored.uids])
    arrays = {}
    for name, array in stored.arrays.items():
        laid, arrays[name] = _LAID[name], array.copy()
        at = (slice(None),) * laid.axis + (np.repeat(known >= 0, laid.sizes(lengths)),)
        taken = _places(known[known >= 0], laid.sizes(np.asarray(others.arrays["lengths"], dtype=np.int64)))
        arrays[name][at] = np.take(others.arrays[name], taken, axis=laid.axis)
    return Ragged(stored.uids, {**arrays, "target": np.asarray(target)}, others.cost)


def _places(examples: Int[np.ndarray, "K"], sizes: Int[np.ndarray, "N"]) -> Int[np.ndarray, "S"]:
    """Where the values of K among N examples lie, which have so many values each."""
    starts = np.cumsum(sizes) - sizes
    return np.concatenate(
        [np.arange(starts[i], starts[i] + sizes[i]) for i in examples] or [np.zeros(0, dtype=np.int64)]
    )


def _cells(keep: Bool[Tensor, "B T"]) -> Bool[Tensor, "B T T"]:
    """Pairs of a query and a key that are no padding."""
    return keep[:, :, None] & keep[:, None, :]


def without_padding(edges: Float[Tensor, "B L H T T"], batch: Batch) -> Float[Tensor, "B L T T"]:
    """Edge scores summed over heads, 0 where query or key is padding."""
    return edges.sum(2) * batch.cells[:, None]


def selected(attribution: Attribution, rows: Sequence[int]) -> Attribution:
    """The attributions of these examples, in this order; with `benchmark.types.Batch.select`."""
    index = torch.as_tensor(list(rows), dtype=torch.long, device=attribution.target.device)
    fields = ("target", "tokens", "heads", "layers", "totals", "pixels", "edges", "classes")
    of_examples = {name: value for name in fields if (value := getattr(attribution, name)) is not None}
    return replace(attribution, **{name: value[index] for name, value in of_examples.items()})
