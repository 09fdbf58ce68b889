"""Weights of words that explanations give, as guides of a classifier (docs/protocols.md, section 16)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from benchmark.analyses.context import Context
from benchmark.analyses.debate.trained import training_examples
from benchmark.errors import NotApplicable
from benchmark.evaluations.base import rated_units, token_scores
from benchmark.randomness import generator
from benchmark.run.arrays import padded
from benchmark.run.cell import Cell
from benchmark.run.workbench import Setting, encode
from benchmark.targets import Explained
from benchmark.training.guided import GuidedTexts
from benchmark.types import Batch
from benchmark.units import Pool, pool


@dataclass(frozen=True)
class Scores:
    """Positive parts of the scores of each example's words.

    Attributes:
        values: at least 0, and 0 where the mask is False.
        mask: the visible, rated words.
    """

    values: Float[Tensor, "N T"]
    mask: Bool[Tensor, "N T"]

    @property
    def none(self) -> Bool[Tensor, "N"]:
        """Examples without a positive score."""
        return ~(self.values > 0).any(1)

    @property
    def weights(self) -> Float[Tensor, "N T"]:
        """`w_j = s_j⁺ / Σ_k s_k⁺`; 1 / n for each of the n words where no score is positive."""
        even = self.mask / self.mask.sum(1, keepdim=True).clamp(min=1)
        return torch.where(self.none[:, None], even, self.values / self.values.sum(1, keepdim=True))


@dataclass(frozen=True)
class Texts:
    """Words of examples with a label.

    Attributes:
        setting: the examples, those without a label among them.
        known: which have a label.
        words: of each example with a label, by place.
        mask: of them, the visible, rated words.
        label: of them, in the model's order.
        uids: of them.
    """

    setting: Setting
    known: NDArray[np.bool_]
    words: tuple[tuple[str, ...], ...]
    mask: Bool[Tensor, "N T"]
    label: Int[Tensor, "N"]
    uids: tuple[str, ...]

    @classmethod
    def of(cls, setting: Setting) -> "Texts":
        """Raises NotApplicable where no example has a label, or examples have no words."""
        batches = setting.data.batches
        label = torch.cat([batch.label for batch in batches]).cpu()
        known = (label >= 0).numpy()
        words = [row for batch in batches for row in batch.words]
        if not known.any():
            raise NotApplicable("no example has a label")
        if not any(map(any, words)):
            raise NotApplicable("the examples have no words")
        masks = [
            rated_units(batch, pool(torch.zeros(batch.units.shape, device=batch.units.device), batch.units)[1]).cpu()
            for batch in batches
        ]
        return cls(
            setting,
            known,
            tuple(row for row, has in zip(words, known, strict=True) if has),
            _joined(masks)[known],
            label[known],
            tuple(uid for uid, has in zip(setting.data.uids, known, strict=True) if has),
        )

    def guided(self, weights: Sequence[Float[Tensor, "N T"]] | None) -> GuidedTexts:
        """What classifiers read under these guides; None: attention that is learned."""
        return GuidedTexts(self.words, self.mask, None if weights is None else torch.stack(list(weights)))

    def scores(self, of_batch: Callable[[int, Batch], Float[Tensor, "B U"]]) -> Scores:
        """Positive parts of the scores that each batch's words have."""
        values = _joined([of_batch(index, batch).cpu() for index, batch in enumerate(self.setting.data.batches)])
        values = torch.nn.functional.pad(values[self.known].double(), (0, self.mask.shape[1] - values.shape[1]))
        return Scores(values.clamp(min=0) * self.mask, self.mask)

    def explained(self, cell: Cell, which: Explained, how: Pool) -> Scores:
        """Those of a method's stored explanations; raises NotApplicable where it gives none."""
        stored = cell.explain(which)

        def of_batch(index: int, batch: Batch) -> Tensor:
            attribution = padded(stored, self.setting.data.start(index), batch)
            return pool(token_scores(batch, attribution), batch.units, how)[0]

        return self.scores(of_batch)

    def even(self) -> Scores:
        """The same of every word."""
        return Scores(self.mask.double(), self.mask)

    def oracle(self) -> Scores:
        """1 for words of the rationale; raises NotApplicable where an example has none."""
        return self.scores(lambda _, batch: _rationales(batch))

    def random(self, seed: int) -> Scores:
        """Drawn from [0, 1), for each example by its identifier."""
        drawn = self.mask.new_zeros(self.mask.shape, dtype=torch.float64)
        for row, mask, uid in zip(drawn, self.mask, self.uids, strict=True):
            row[mask] = torch.as_tensor(generator(seed, "random guide", uid).random(int(mask.sum())))
        return Scores(drawn, self.mask)

    def permutation(self, seed: int) -> Int[Tensor, "N T"]:
        """A random order of each example's words; it is the same for all guides."""
        order = torch.arange(self.mask.shape[1]).repeat(len(self.mask), 1)
        for row, mask, uid in zip(order, self.mask, self.uids, strict=True):
            drawn = generator(seed, "permuted guide", uid).permutation(int(mask.sum()))
            row[mask] = row[mask][torch.as_tensor(drawn)]
        return order


def training_split(context: Context, limit: int | None) -> Setting:
    """Examples of the training split, with the comparison's task, model and run folders.

    Raises:
        NotApplicable: the task has no training split, or the comparison scores it.
    """
    setting = context.setting
    config = setting.config.copy()
    if config.split == "train":
        raise NotApplicable("the comparison scores the training split, on which the guides are trained; use split=test")
    config.split, config.limit = "train", limit
    examples = training_examples(setting.task)
    return replace(setting, config=config, data=encode(config, setting.task, setting.model, examples, limit))


def _joined(parts: Sequence[Tensor]) -> Tensor:
    """Rows of all batches, padded to the widest."""
    width = max(part.shape[1] for part in parts)
    return torch.cat([torch.nn.functional.pad(part, (0, width - part.shape[1])) for part in parts])


def _rationales(batch: Batch) -> Float[Tensor, "B U"]:
    rows = []
    for rationale in batch.rationale:
        if rationale is None:
            raise NotApplicable("an example has no rationale")
        rows.append(torch.as_tensor(rationale, dtype=torch.float64))
    marked = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    return marked[:, : max(1, int(batch.units.max()) + 1)]
