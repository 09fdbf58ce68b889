"""Models that are trained again on masked examples, what they answer, and in which order an explainer has the units."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray

from benchmark.analyses.opening import of_split
from benchmark.analyses.resumed import explained_of
from benchmark.analyses.retraining.masked_task import Hidden, Masked
from benchmark.evaluations import ranks
from benchmark.evaluations.base import correctness, rated_units, token_scores
from benchmark.evaluations.curves import counts
from benchmark.models import load_model
from benchmark.results.digests import digest
from benchmark.results.store import Ragged
from benchmark.run.explaining import Checked
from benchmark.run.workbench import Setting
from benchmark.settings.identity import identity
from benchmark.settings.making import make
from benchmark.training.cached import forget
from benchmark.training.sources import Source, load_arguments
from benchmark.types import Batch, Method
from benchmark.units import Pool, pool

TRAIN, VALIDATION = "train", "validation"
WHAT = "the model of masked examples"

Ranks = Int[NDArray[np.int64], " U"]
"""Of the units of an example: 0 is what is hidden first, −1 what is never hidden."""

Order = Mapping[str, Mapping[str, Ranks]]
"""By split and by identifier of an example."""

Kept = Callable[[Setting, Callable[[Batch], Mapping[str, NDArray[Any]]], str], Ragged]
"""Computes something for the examples of a setting, batch by batch; a killed run goes on."""


def hidden_at(order: Order, share: float) -> dict[str, Hidden]:
    """The ⌊share · n⌋ first of the n units of each example that have a rank."""
    return {split: {uid: _first(own, share) for uid, own in of.items()} for split, of in order.items()}


def _first(own: Ranks, share: float) -> NDArray[np.bool_]:
    count = int(counts(torch.tensor([int((own >= 0).sum())]), [share])[0, 0])
    return np.asarray((own >= 0) & (own < count))


@dataclass(frozen=True)
class Students:
    """Models of a comparison's recipe that learn from masked examples.

    Attributes:
        setting: the comparison's.
        examples: how many training examples they learn from; None for all.
        limit: how many of the tested split they are tested with; None for all.
        folder: where answers and orders are kept, so that nothing finished is computed twice; None: they are not.
        pool: from the scores of a unit's tokens to its own.
        seed: of tied units.
    """

    setting: Setting
    examples: int | None
    limit: int | None
    folder: Path | None
    pool: Pool
    seed: int
    _directories: dict[str, Path] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def splits(self) -> Mapping[str, Setting]:
        """The examples of the splits, of the comparison's model: of those that a model learns from, and the tested one."""
        own = self.setting
        limits = {TRAIN: self.examples, VALIDATION: None, self.tested: self.limit}
        return {split: of_split(own, split, limit) for split, limit in limits.items()}

    @property
    def tested(self) -> str:
        """The split of the comparison."""
        return str(self.setting.config.split)

    @cached_property
    def uids(self) -> tuple[str, ...]:
        """Of the tested examples, in order."""
        return tuple(self.splits[self.tested].data.uids)

    def labels(self, split: str) -> dict[str, int]:
        """The classes of a split's examples."""
        data = self.splits[split].data
        return {uid: int(label) for batch in data.batches for uid, label in zip(batch.uids, batch.label, strict=True)}

    def everything(self) -> Order:
        """An order of all units that can be hidden, place by place."""

        def of(batch: Batch) -> Iterator[Ranks]:
            rated = rated_units(batch, _visible(batch))
            yield from _rows(batch, (rated.long().cumsum(1) - 1).masked_fill(~rated, -1))

        return {
            split: {uid: row for batch in setting.data.batches for uid, row in zip(batch.uids, of(batch), strict=True)}
            for split, setting in self.splits.items()
        }

    def correct(self, hidden: Mapping[str, Hidden], seed: int, *, keep_model: bool) -> Float[NDArray[np.float64], " N"]:
        """Whether a model that is trained on what is left predicts the label of each tested example, as it is then.

        Args:
            hidden: by split what its examples hide.
            seed: of the training.
            keep_model: leave it in the cache, where it will be asked for explanations.
        """
        task, source = Masked(self.setting.task, hidden), self._source(seed)
        file = self._file("answers", [_lineage(task, source), list(self.uids)])
        if file is not None and file.exists():
            return Ragged.read(file).arrays["correct"]
        setting = self.of(hidden, seed)
        data = setting.data
        found = np.concatenate(
            [
                correctness(data.logits(index).double().cpu(), batch.label.cpu()).numpy()
                for index, batch in enumerate(data.batches)
            ]
        )
        if file is not None:
            Ragged(tuple(data.uids), {"correct": found}, {}).write(file)
        if not keep_model:
            self.forget()
        return found

    def of(self, hidden: Mapping[str, Hidden], seed: int, split: str | None = None) -> Setting:
        """A model that is trained on what is left, with the examples of a split (by default the tested one)."""
        task: Any = Masked(self.setting.task, hidden)
        source = self._source(seed)
        with _untold():
            directory = source.resolve(task)
        self._directories[_lineage(task, source)] = Path(directory)
        model = load_model(directory, **load_arguments(source))
        return of_split(replace(self.setting, task=task, model=model), split or self.tested, None)

    def forget(self) -> None:
        """Take the models that were trained out of the cache; a hundred of them fill a disk."""
        for directory in self._directories.values():
            forget(directory, WHAT)
        self._directories.clear()

    def order(
        self, name: str, method: Method, compute: Kept, hidden: Mapping[str, Hidden] | None = None, seed: int = 0
    ) -> tuple[Order, bool]:
        """The units of all splits in a method's order, by the magnitude of their scores, and whether any is negative.

        Args:
            name: of the method.
            method: explains the class that the model predicts.
            compute: of an analysis.
            hidden: of a model that was trained again; its examples are explained as they are then, and what is hidden comes
                first. None: of the comparison's model.
            seed: of that training.

        Raises:
            NotApplicable: the method does not score units of these examples.
        """
        order: dict[str, Mapping[str, Ranks]] = {}
        negative = False
        for split in self.splits:
            found = self._ranks(name, method, compute, split, hidden, seed)
            ends = np.cumsum(found.arrays["units"])[:-1]
            rows = np.split(found.arrays["ranks"].astype(np.int64), ends)
            order[split] = dict(zip(found.uids, rows, strict=True))
            negative |= bool(found.arrays["negative"].any())
        return order, negative

    def _ranks(
        self, name: str, method: Method, compute: Kept, split: str, hidden: Mapping[str, Hidden] | None, seed: int
    ) -> Ragged:
        of = self.setting.model.fingerprint
        if hidden is not None:
            of = _lineage(Masked(self.setting.task, hidden), self._source(seed))
        uids = list(self.splits[split].data.uids)
        file = self._file("order", [of, identity(method), self.pool, self.seed, uids])
        if file is not None and file.exists():
            return Ragged.read(file)
        setting = self.splits[split] if hidden is None else self.of(hidden, seed, split)
        explained, checked = explained_of(setting.data, "predicted"), Checked(name, method)
        first = {} if hidden is None else hidden[split]

        def ranked(batch: Batch) -> Mapping[str, NDArray[Any]]:
            tokens = token_scores(batch, checked(setting.model, batch, explained(batch))).double()
            scores, visible = pool(tokens.abs(), batch.units, self.pool)
            for row, uid in enumerate(batch.uids):
                for place in np.flatnonzero(first.get(uid, np.zeros(0)))[: scores.shape[1]]:
                    scores[row, place] = torch.inf
            rated = rated_units(batch, visible)
            keys = ranks.tie_keys(batch.uids, scores.shape[1], self.seed)
            places = ranks.descending_ranks(scores, rated, keys).masked_fill(~rated, -1)
            rows = list(_rows(batch, places))
            return {
                "ranks": np.concatenate(rows).astype(np.int32),
                "units": np.array([len(row) for row in rows]),
                "negative": (tokens.masked_fill(batch.units < 0, 0) < 0).any(1).cpu().numpy(),
            }

        found = compute(setting, ranked, f"{name} {split}")
        if file is not None:
            found.write(file)
        return found

    def _source(self, seed: int) -> Any:
        source: Source = make(self.setting.config.model)
        return replace(source, seed=seed)  # type: ignore[type-var]

    def _file(self, what: str, covered: Sequence[Any]) -> Path | None:
        if self.folder is None:
            return None
        return self.folder / "analyses" / f"roar-{what}-{digest(covered)[:16]}.safetensors"


def _lineage(task: Masked, source: Any) -> str:
    """What tells a trained model from others before it is trained."""
    return digest([task.fingerprint, identity(source)])


def _visible(batch: Batch) -> torch.Tensor:
    return pool(torch.zeros(batch.units.shape, device=batch.units.device), batch.units)[1]


def _rows(batch: Batch, places: Int[torch.Tensor, "B U"]) -> Iterator[Ranks]:
    """The ranks of each example's units; those beyond the window have −1."""
    for row, count in zip(places.cpu().numpy(), batch.n_units.tolist(), strict=True):
        own = np.full(count, -1, dtype=np.int64)
        own[: min(count, len(row))] = row[:count]
        yield own


@contextmanager
def _untold() -> Iterator[None]:
    """Of dozens of trainings none is told in the log; the progress line has them."""
    logger = logging.getLogger("benchmark.training")
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)
