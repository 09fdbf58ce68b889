"""What explanation would win a test, and is it the true one? (docs/protocols.md, section 14)"""

from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from benchmark.analyses.trust.again import Again, on_tokens
from benchmark.models.classifier import Classifier
from benchmark.models.removal import Operator, logits_without
from benchmark.targets import Target
from benchmark.types import Batch

SEARCHED = ("greedy, most relevant first", "greedy, least relevant first", "leave-one-out")
"""Explanations that are searched for with the model's own answers to removals."""

ORDERED = "oracle, in the order of leave-one-out"
"""What is known, with its equal scores told apart by the model's answers: marks alone have no order to win by."""


def searched(again: Again, batch: Batch, target: Target, operator: Operator) -> Mapping[str, Float[Tensor, "B T"]]:
    """Scores of the tokens of each kind of `SEARCHED`, and of `ORDERED`."""
    tokens = torch.zeros(batch.units.shape, device=batch.units.device)
    names = (*SEARCHED, ORDERED)
    rows: dict[str, list[tuple[NDArray[np.intp], NDArray]]] = {name: [] for name in names}
    for b, places, own in again.units(batch, tokens):
        found = _orders(again.setting.model, batch.select([b]), target[b : b + 1], operator, places)
        rationale = batch.rationale[b]
        if rationale is not None:
            order = np.argsort(np.argsort(found[SEARCHED[2]], kind="stable"), kind="stable")
            found[ORDERED] = np.asarray(rationale, dtype=np.float64)[places] + order / (2 * len(places))
        for name in names:
            rows[name].append((places, found.get(name, np.zeros_like(own))))
    return {name: on_tokens(batch, own) for name, own in rows.items()}


def _orders(
    model: Classifier, example: Batch, target: Target, operator: Operator, places: NDArray[np.intp]
) -> dict[str, NDArray[np.float64]]:
    """Scores of an example's rated units: their place in a greedy order, and how much each lowers the probability alone.

    Most relevant first: at every step that unit goes whose removal leaves the lowest probability. Least relevant first: that
    unit goes whose removal leaves the highest.
    """
    n, columns = len(places), int(example.units.max()) + 1

    def probabilities(removed: NDArray[np.bool_]) -> NDArray[np.float64]:
        masks = torch.zeros(len(removed), 1, columns, dtype=torch.bool, device=example.units.device)
        masks[:, 0, torch.from_numpy(places).to(masks.device)] = torch.from_numpy(removed).to(masks.device)
        logits = logits_without(model, example, masks, operator)
        values: NDArray[np.float64] = model.probability(logits, target)[:, 0].double().cpu().numpy()
        return values

    found = {SEARCHED[2]: -probabilities(np.eye(n, dtype=bool))}
    for name, sign in zip(SEARCHED[:2], (1.0, -1.0), strict=True):
        gone, scores = np.zeros(n, dtype=bool), np.zeros(n)
        for step in range(n):
            left = np.flatnonzero(~gone)
            tried = np.repeat(gone[None], len(left), axis=0)
            tried[np.arange(len(left)), left] = True
            chosen = left[np.argmin(sign * probabilities(tried))]
            gone[chosen], scores[chosen] = True, sign * (n - step)
        found[name] = scores
    return found
