"""Between the padded tensors of a batch and the flat arrays that a run folder keeps (`benchmark.results.store.Ragged`)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from benchmark.errors import NotApplicable
from benchmark.results.store import Ragged
from benchmark.types import Attribution, Batch


def flat(batch: Batch, attribution: Attribution, cost: Mapping[str, float]) -> Ragged:
    """The attributions of one batch without its padding.

    Raises:
        NotApplicable: a score is NaN or infinite.
    """
    attribution = attribution.cpu()
    lengths = batch.attention_mask.sum(1).cpu()
    keep = torch.arange(batch.units.shape[1]) < lengths[:, None]
    arrays = {"target": attribution.target, "lengths": lengths}
    if attribution.tokens is not None:
        arrays["tokens"] = attribution.tokens[keep]
    if attribution.heads is not None:
        arrays["heads"] = attribution.heads
    if attribution.totals is not None:
        arrays["totals"] = attribution.totals
    if attribution.pixels is not None:
        arrays["pixels"] = attribution.pixels
    if attribution.layers is not None:
        arrays["layers"] = attribution.layers.transpose(0, 1)[:, keep]
    if attribution.classes is not None:
        arrays["classes"] = attribution.classes.transpose(0, 1)[:, keep]
    if attribution.edges is not None:
        arrays["edges"] = attribution.edges.transpose(0, 1)[:, _cells(keep)]
    for name, array in arrays.items():
        if not bool(array.isfinite().all()):
            by_example = getattr(attribution, name).flatten(1).isfinite().all(1)
            first = batch.uids[int(by_example.logical_not().int().argmax())]
            raise NotApplicable(f"the {name} scores are not finite (NaN or infinity), first in example '{first}'")
    return Ragged(batch.uids, {name: _numpy(array) for name, array in arrays.items()}, cost)


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

    def pad(values: np.ndarray, at: Tensor, sizes: np.ndarray) -> Tensor:
        first = int(sizes[:start].sum())
        part = torch.as_tensor(values[..., first : first + int(sizes[start : start + size].sum())])
        full = part.new_zeros(*part.shape[:-1], *at.shape)
        full[..., at] = part
        return full.to(device)

    tokens, layers, edges, classes = (arrays.get(name) for name in ("tokens", "layers", "edges", "classes"))
    return Attribution(
        target=torch.as_tensor(arrays["target"][start : start + size]).to(device),
        tokens=None if tokens is None else pad(tokens, keep, lengths),
        heads=rows("heads"),
        totals=rows("totals"),
        pixels=rows("pixels"),
        layers=None if layers is None else pad(layers, keep, lengths).transpose(0, 1),
        edges=None if edges is None else pad(edges, _cells(keep), lengths**2).transpose(0, 1),
        classes=None if classes is None else pad(classes, keep, lengths).transpose(0, 1),
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
