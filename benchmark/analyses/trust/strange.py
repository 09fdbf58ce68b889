"""How strange texts or images are to the model after a removal, against natural references and such as it was trained on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

from benchmark import progress
from benchmark.analyses.trust.questions import spread_of
from benchmark.errors import NotApplicable
from benchmark.models.classifier import Classifier, Tensors
from benchmark.models.history import mask_share
from benchmark.models.removal import Operator, operator_for
from benchmark.models.typicality import Reference, States, paired_auroc
from benchmark.randomness import generator
from benchmark.results.statistics import Interval
from benchmark.run.encoded import sizes_of
from benchmark.run.workbench import Setting
from benchmark.types import Batch
from benchmark.units import pool

NATURAL, TRAINING = "natural", "training-like"
"""The two references."""

IN, OUT, BETWEEN = "in distribution", "out", "between"
"""What is said of a removal."""

_IN_BELOW, _OUT_ABOVE = 0.6, 0.75
_SHARE = (0.0, 1.0)
_RESAMPLES = 200


def states_of(
    model: Classifier, tensors: Tensors, edit: Callable[[Tensor], Tensor] | None = None
) -> tuple[States, Float[Tensor, "B C"]]:
    """The largest value of an example's tokens in every layer and dimension of the blocks' inputs, and the logits.

    What is padding has no part.
    """
    trace = model.run(tensors, record=("hidden",), embedding_edit=edit)
    mask = tensors.get("attention_mask")
    found = []
    for hidden in trace.hidden:
        if mask is not None and mask.shape == hidden.shape[:2]:
            hidden = hidden.masked_fill(~mask.bool()[..., None], -torch.inf)
        found.append(hidden.amax(1).float())
    return torch.stack(found, dim=1).cpu().numpy(), trace.logits


@dataclass(frozen=True)
class Strange:
    """A model with what is typical for it.

    Attributes:
        model: the classifier.
        references: by name; both are equal where no masks were met in training.
        share: the largest share that was masked in training; None where nobody knows, which is taken for none.
    """

    model: Classifier
    references: dict[str, Reference]
    share: float | None

    @staticmethod
    def of(setting: Setting, size: int, share: float | None, seed: int) -> "Strange":
        """From the first `size` training examples that are not scored.

        Args:
            setting: the model, and the task with a training split.
            size: of the reference.
            share: what was masked in training; None for what `training.json` says.
            seed: of the masks of the reference.

        Raises:
            NotApplicable: the task has no training split, or one of fewer than eight examples.
        """
        model, batches = setting.model, setting.data.calibration("train", size)
        known = mask_share(model) if share is None else share
        found: dict[str, list[States]] = {NATURAL: [], TRAINING: []}
        with progress.step("reading what is typical", sum(sizes_of(batches)), unit="examples") as advance:
            for batch in batches:
                natural, _ = states_of(model, batch.tensors)
                found[NATURAL].append(natural)
                if known:
                    operator = operator_for("auto", model, batch, "operator")
                    found[TRAINING].append(_removed(model, batch, _in_training(batch, known, seed), operator)[0])
                advance(len(batch))
        if sum(map(len, found[NATURAL])) < 8:
            raise NotApplicable("fewer than eight training examples are no reference for what is typical")
        natural_one = Reference.of(np.concatenate(found[NATURAL]))
        training = Reference.of(np.concatenate(found[TRAINING])) if known else natural_one
        return Strange(model, {NATURAL: natural_one, TRAINING: training}, known)

    def removed(
        self, batch: Batch, masks: Bool[Tensor, "K B U"], operator: Operator
    ) -> tuple[dict[str, Float[NDArray[np.float64], "K B"]], Float[Tensor, "K B C"]]:
        """By reference how strange a batch is after each of K removals, and the logits."""
        return self._told([_removed(self.model, batch, mask, operator) for mask in masks])

    def whole(self, batch: Batch) -> tuple[dict[str, Float[NDArray[np.float64], "1 B"]], Float[Tensor, "1 B C"]]:
        """The same of the batch as it is."""
        return self._told([states_of(self.model, batch.tensors)])

    def _told(
        self, runs: Sequence[tuple[States, Float[Tensor, "B C"]]]
    ) -> tuple[dict[str, Float[NDArray[np.float64], "K B"]], Float[Tensor, "K B C"]]:
        natural, training = self.references[NATURAL], self.references[TRAINING]
        told = {NATURAL: np.stack([natural.strangeness(states) for states, _ in runs])}
        is_one = training is natural
        told[TRAINING] = told[NATURAL] if is_one else np.stack([training.strangeness(states) for states, _ in runs])
        return told, torch.stack([logits for _, logits in runs])


def _removed(
    model: Classifier, batch: Batch, mask: Bool[Tensor, "B U"], operator: Operator
) -> tuple[States, Float[Tensor, "B C"]]:
    if not bool(mask.any()):
        return states_of(model, batch.tensors)
    inputs = operator(model, batch.tensors, batch.units, mask)
    return states_of(model, inputs.tensors, inputs.embedding_edit)


def _in_training(batch: Batch, share: float, seed: int) -> Bool[Tensor, "B U"]:
    """As in training: a coin decides whether units go, and then each goes with a probability that is drawn for the text."""
    _, visible = pool(torch.zeros(batch.units.shape, device=batch.units.device), batch.units)
    hit = torch.zeros_like(visible)
    for b, uid in enumerate(batch.uids):
        draw = generator(seed, "masks of the reference", uid)
        rate = draw.random() * share if draw.random() < 0.5 else 0.0
        hit[b] = torch.from_numpy(draw.random(visible.shape[1]) < rate).to(hit.device)
    return hit & visible


def told_apart(
    natural: Float[NDArray[np.float64], " N"], changed: Sequence[Float[NDArray[np.float64], " N"]], seed: int, name: str
) -> Interval:
    """The chance that an example after a removal is stranger than a natural one, mean over several removals.

    Examples are resampled with all of their removals; the interval is that of `questions.spread_of`.
    """
    n = len(natural)
    counts = generator(seed, "shift", name).multinomial(n, np.full(n, 1 / n), size=_RESAMPLES)
    weights = np.vstack([np.ones((1, n)), counts])
    return spread_of(np.mean([paired_auroc(natural, one, weights) for one in changed], axis=0), n, _SHARE)


def verdict(chance: Interval) -> str:
    """`IN` where the upper end is at most .6, `OUT` where the lower is at least .75, else `BETWEEN`; chosen limits."""
    if chance.high <= _IN_BELOW:
        return IN
    return OUT if chance.low >= _OUT_ABOVE else BETWEEN
