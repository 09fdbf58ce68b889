"""Golden: scores equal arrays that somebody's program wrote."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
from jaxtyping import Shaped
from numpy.typing import NDArray

from benchmark.checking.report import Finding
from benchmark.checking.subject import FIELDS, Subject, gap_of
from benchmark.errors import NotApplicable, UserError
from benchmark.models.classifier import Classifier
from benchmark.targets import ClassTarget
from benchmark.types import Batch

TOLERANCE = 1e-5

INPUTS = ("texts", "input_ids", "pixel_values")
Arrays = Mapping[str, Shaped[NDArray, "..."]]


def golden(subject: Subject, file: Path | None) -> Finding:
    """A file `.npz` with inputs, the classes that are explained, and any of the fields of an attribution.

    - `texts` [B], or `input_ids` [B T] with `attention_mask` [B T], or `pixel_values` [B 3 Y X];
    - `target` [B];
    - `tokens` [B T], `heads` [B L H], ...: what the scores have to be, of the model that is checked;
    - `tolerance`: the largest difference over the largest score, 1e-5 where it is not there.
    """
    if file is None:
        raise NotApplicable("no file is given: golden=FILE.npz")
    arrays = read(file)
    model = subject.place.copy()
    batch = _batch(model, arrays, file)
    target = ClassTarget(torch.as_tensor(arrays["target"], device=model.device).long())
    own = subject.explain(batch, target, model)
    limit = float(arrays.get("tolerance", TOLERANCE))
    gaps = {}
    for name in (field for field in FIELDS if field in arrays):
        scores = getattr(own, name)
        if scores is None:
            return Finding(f"{file.name} has {name}, and the method does not score them", ok=False)
        expected = torch.as_tensor(arrays[name])
        if tuple(scores.shape) != tuple(expected.shape):
            return Finding(f"{name} are {list(scores.shape)}, and {list(expected.shape)} in {file.name}", ok=False)
        gaps[name] = gap_of(scores, expected)
    name = max(gaps, key=lambda each: gaps[each])
    if gaps[name] <= limit:
        return Finding(f"{', '.join(gaps)} equal those of {file.name}", gaps[name], limit)
    return Finding(f"{name} differ by {gaps[name]:.2g} of the largest from those of {file.name}", gaps[name], limit)


def read(file: Path) -> Arrays:
    """The arrays of a file.

    Raises:
        UserError: it is not there, no archive of arrays, or lacks inputs, classes or scores.
    """
    try:
        with np.load(file, allow_pickle=False) as stored:
            arrays = dict(stored)
    except (OSError, ValueError, TypeError, BadZipFile) as error:
        raise UserError(f"golden={file} cannot be read as an archive of arrays (numpy.savez): {error}") from error
    for what, names in (("inputs", INPUTS), ("classes", ("target",)), ("scores", FIELDS)):
        if not any(name in arrays for name in names):
            raise UserError(
                f"golden={file} has no {what}: one of {', '.join(names)}; it has {', '.join(arrays) or 'nothing'}"
            )
    return arrays


def write(file: Path, subject: Subject) -> None:
    """The scores of a method on its place, as `golden` reads them."""
    batch, own = subject.place.batch, subject.own
    arrays: dict[str, Any] = {name: batch.tensors[name].cpu().numpy() for name in _KEPT if name in batch.tensors}
    arrays["target"] = own.target.classes.cpu().numpy()
    arrays |= {name: value.detach().cpu().numpy() for name in FIELDS if (value := getattr(own, name)) is not None}
    np.savez(file, **arrays)


_KEPT = ("input_ids", "attention_mask", "pixel_values")


def _batch(model: Classifier, arrays: Arrays, file: Path) -> Batch:
    if "texts" in arrays:
        return model.encode([str(text) for text in arrays["texts"]])
    if "pixel_values" in arrays:
        return model.encode([{"pixel_values": torch.as_tensor(image)} for image in arrays["pixel_values"]])
    ids = arrays["input_ids"]
    mask = arrays.get("attention_mask", np.ones_like(ids))
    if mask.shape != ids.shape:
        raise UserError(f"golden={file}: attention_mask is {list(mask.shape)}, and input_ids {list(ids.shape)}")
    rows = [row[own.astype(bool)].tolist() for row, own in zip(ids, mask, strict=True)]
    if (np.diff(mask.astype(int), axis=1) > 0).any():
        raise UserError(f"golden={file}: padding has to stand on the right")
    return model.encode([{"input_ids": row, "attention_mask": [1] * len(row)} for row in rows])
