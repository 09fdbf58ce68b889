"""How much of an explanation falls on what is planted, example by example."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from benchmark.analyses.context import Context
from benchmark.annotations import KEYS, PlantedWords
from benchmark.errors import NotApplicable
from benchmark.run.workbench import Setting
from benchmark.types import Batch, Method
from benchmark.units import pool

Shares = Float[NDArray[np.float64], " N"]


@dataclass(frozen=True)
class Measured:
    """Of one model: by explainer Attr% of each example with a feature (NaN without scores), whose uids these are.

    Attributes:
        uids: examples with a feature.
        shares: by explainer.
        chance: the share of units that are planted, of each of these examples.
        right: whether each example is classified by its new label.
    """

    uids: Sequence[str]
    shares: dict[str, Shares]
    chance: Shares
    right: Shares


def measure(context: Context, setting: Setting, refused: dict[str, str]) -> Measured:
    """What the comparison's explainers make of a model; those that cannot are noted with their reason."""
    examples = list(replace(context, setting=setting).first_examples(None, "predicted"))
    marks = [planted_units(batch) for batch, _ in examples]
    holds = [[bool(row.any()) for row in part] for part in marks]
    right = np.concatenate([(target.classes.cpu() == batch.label.cpu()).double().numpy() for batch, target in examples])
    uids = [
        uid
        for (batch, _), some in zip(examples, holds, strict=True)
        for uid, one in zip(batch.uids, some, strict=True)
        if one
    ]
    chance = np.array([row.mean() for part in marks for row in part if row.any()])
    found: dict[str, Shares] = {}
    for name, cell in context.cells.items():
        if not isinstance(cell.method, Method) or name in refused:
            continue
        try:
            if cell.refusal is not None or not cell.method.explains_others:
                raise NotApplicable(cell.refusal or "its scores are given for one model")
            found[name] = _attributed_all(cell.method, setting, examples, marks)
        except NotApplicable as reason:
            refused[name] = str(reason)
    return Measured(uids, found, chance, right)


def _attributed_all(
    method: Method,
    setting: Setting,
    examples: Sequence[tuple[Batch, Any]],
    marks: Sequence[Sequence[NDArray[np.float64]]],
) -> Shares:
    """Attr% of every example with a planted feature."""
    found: list[float] = []
    for (batch, target), part in zip(examples, marks, strict=True):
        found += _attributed(method, setting, batch, target, part)
    return np.array(found)


def planted_units(batch: Batch) -> list[Float[NDArray[np.float64], " U"]]:
    """Whether each unit is planted, 0 or 1: a word, or a patch of an image that the square touches."""
    found = []
    for row in range(len(batch)):
        n, planted = int(batch.n_units[row]), batch.meta[row].get(KEYS[PlantedWords])
        marks = np.zeros(n)
        if isinstance(planted, PlantedWords):
            marks = planted.marks.astype(float) if batch.patch is None else _of_patches(batch, row)
        found.append(marks)
    return found


def _of_patches(batch: Batch, row: int) -> Float[NDArray[np.float64], " U"]:
    """Whether the mask holds a pixel of each patch: all of a score may fall on them, wherever the square lies."""
    assert batch.patch is not None
    mask, (height, width) = batch.masks[row], batch.patch
    if mask is None:
        return np.zeros(int(batch.n_units[row]))
    rows, columns = mask.shape[0] // height, mask.shape[1] // width
    cut = np.asarray(mask[: rows * height, : columns * width], dtype=float)
    touched: NDArray[np.float64] = cut.reshape(rows, height, columns, width).max((1, 3)).ravel()
    return touched


def _attributed(
    method: Method, setting: Setting, batch: Batch, target: Any, marks: Sequence[NDArray[np.float64]]
) -> Iterator[float]:
    """Attr% of each example with a planted feature; NaN where all scores are 0 or none is visible."""
    tokens = method(setting.model, batch, target.to(batch.units.device)).tokens
    if tokens is None:
        raise NotApplicable("it gives no token scores")
    scores, visible = pool(tokens, batch.units)
    for row, planted in zip(scores.detach().double().masked_fill(~visible, 0).abs().cpu().numpy(), marks, strict=True):
        if planted.any():
            n = min(len(row), len(planted))
            total = row.sum()
            yield float(row[:n] @ planted[:n] / total) if total > 0 else math.nan
