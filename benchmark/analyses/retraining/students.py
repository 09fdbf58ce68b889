"""Models that are trained again on masked examples, what they answer, and in which order an explainer has the units."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

from benchmark.analyses.opening import of_split
from benchmark.analyses.resumed import explained_of
from benchmark.analyses.retraining.masked_task import Hidden, Masked
from benchmark.analyses.trust.randomised import correlation
from benchmark.evaluations import ranks
from benchmark.evaluations.base import rated_scores, rated_units, token_scores
from benchmark.evaluations.curves import counts
from benchmark.models import load_model
from benchmark.results.cache import cache_directory
from benchmark.results.digests import digest
from benchmark.results.locks import beside
from benchmark.results.store import Ragged
from benchmark.run.explaining import Checked, class_order
from benchmark.run.workbench import Setting
from benchmark.settings.identity import identity
from benchmark.settings.making import make
from benchmark.targets import ClassTarget
from benchmark.training.cached import forget
from benchmark.training.sources import Source, load_arguments
from benchmark.types import Batch, Method
from benchmark.units import Pool, pool

TRAIN, VALIDATION = "train", "validation"
WHAT = "the model of masked examples"
_BATCHES = 3

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

    @property
    def limits(self) -> Mapping[str, int | None]:
        """By split how many examples are used: of those that a model learns from, and of the tested one."""
        return {TRAIN: self.examples, VALIDATION: None, self.tested: self.limit}

    @cached_property
    def splits(self) -> Mapping[str, Setting]:
        """The examples of these splits, of the comparison's model."""
        return {split: of_split(self.setting, split, limit) for split, limit in self.limits.items()}

    @property
    def tested(self) -> str:
        """The split of the comparison."""
        return str(self.setting.config.split)

    @cached_property
    def uids(self) -> tuple[str, ...]:
        """Of the tested examples whose class is known, in order."""
        return tuple(uid for uid in self.splits[self.tested].data.uids if self.labels[uid] >= 0)

    @cached_property
    def labels(self) -> dict[str, int]:
        """The classes of the training and of the tested examples; gathered once, as examples are encoded for it."""
        batches = chain.from_iterable(self.splits[split].data.batches for split in (TRAIN, self.tested))
        return {uid: int(label) for batch in batches for uid, label in zip(batch.uids, batch.label, strict=True)}

    @cached_property
    def everything(self) -> Order:
        """An order of all units that can be hidden, place by place; gathered once likewise."""

        def of(batch: Batch) -> Iterator[Ranks]:
            rated = rated_units(batch, _visible(batch))
            yield from _rows(batch, (rated.long().cumsum(1) - 1).masked_fill(~rated, -1))

        return {
            split: {uid: row for batch in setting.data.batches for uid, row in zip(batch.uids, of(batch), strict=True)}
            for split, setting in self.splits.items()
        }

    def correct(self, hidden: Mapping[str, Hidden], seed: int, *, keep_model: bool) -> Float[NDArray[np.float64], " N"]:
        """Whether a model that is trained on what is left predicts the class of each tested example, as it is then.

        Args:
            hidden: by split what its examples hide.
            seed: of the training.
            keep_model: leave it in the cache, where it will be asked for explanations.
        """
        lineage = self._lineage(hidden, seed)
        file = self._file("answers", [lineage, list(self.uids)])
        with self._alone(lineage):
            if file is not None and file.exists():
                return Ragged.read(file).arrays["correct"]
            data = self._trained(hidden, seed, self.tested).data
            found = dict(zip(data.uids, data.correct.tolist(), strict=True))
            answers = np.array([found[uid] for uid in self.uids])
            if not keep_model:  # before the answers are there, as nobody asks for it afterwards
                self._forget()
            if file is not None:
                Ragged(self.uids, {"correct": answers}, {}).write(file)
        return answers

    def _trained(self, hidden: Mapping[str, Hidden], seed: int, split: str) -> Setting:
        """A model that is trained on what is left, with the examples of a split; its lock must be held."""
        task: Any = Masked(self.setting.task, hidden)
        source = self._source(seed)
        with _untold():
            directory = source.resolve(task)
        self._directories[self._lineage(hidden, seed)] = Path(directory)
        model = load_model(directory, **load_arguments(source))
        return of_split(replace(self.setting, task=task, model=model), split, None)

    @contextmanager
    def _alone(self, lineage: str) -> Iterator[None]:
        """No other process trains this model, reads it or takes it away meanwhile."""
        place = cache_directory() / "models"
        place.mkdir(parents=True, exist_ok=True)
        with beside(place / f"student-{lineage[:16]}", WHAT):
            yield

    def _forget(self) -> None:
        """Take the models that were trained out of the cache; a hundred of them fill a disk."""
        for directory in self._directories.values():
            forget(directory, WHAT)
        self._directories.clear()

    def order(
        self, name: str, method: Method, compute: Kept, hidden: Mapping[str, Hidden] | None = None, seed: int = 0
    ) -> tuple[Order, float]:
        """The units of all splits in a method's order, by the magnitude of their scores, and how often any is negative.

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
        of = self.setting.model.fingerprint if hidden is None else self._lineage(hidden, seed)
        covered = [of, identity(method), self.pool, self.seed]
        files = {
            split: self._file("order", [*covered, list(setting.data.uids)]) for split, setting in self.splits.items()
        }
        with nullcontext() if hidden is None else self._alone(of):
            known = {split: file is not None and file.exists() for split, file in files.items()}
            found = {
                split: Ragged.read(cast(Path, files[split]))
                if known[split]
                else self._ranks(Checked(name, method), compute, split, hidden, seed)
                for split in self.splits
            }
            if hidden is not None:  # before all of them are there, as nobody asks for the model afterwards
                self._forget()
            for split, file in files.items():
                if file is not None and not known[split]:
                    found[split].write(file)
        order: dict[str, Mapping[str, Ranks]] = {}
        for split, ranked in found.items():
            rows = np.split(ranked.arrays["ranks"].astype(np.int64), np.cumsum(ranked.arrays["units"])[:-1])
            order[split] = dict(zip(ranked.uids, rows, strict=True))
        return order, float(np.concatenate([one.arrays["negative"] for one in found.values()]).mean())

    def _ranks(
        self, method: Checked, compute: Kept, split: str, hidden: Mapping[str, Hidden] | None, seed: int
    ) -> Ragged:
        setting = self.splits[split] if hidden is None else self._trained(hidden, seed, split)
        explained = explained_of(setting.data, "predicted")
        first = {} if hidden is None else hidden[split]

        def ranked(batch: Batch) -> Mapping[str, NDArray[Any]]:
            tokens = token_scores(batch, method(setting.model, batch, explained(batch))).double()
            scores, visible = magnitudes(tokens, batch, self.pool)
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

        return compute(setting, ranked, f"{method.name} {split}")

    def alike(self, name: str, method: Method) -> float:
        """Spearman's ρ of the magnitudes for the predicted class and for the next, mean over the first tested examples.

        Near 1 an order is of no single class, whatever the signs of its scores are. NaN where no example has two classes
        that a method explains, or its magnitudes are constant.
        """
        setting, checked, found = self.splits[self.tested], Checked(name, method), []
        for index, batch in islice(enumerate(setting.data.batches), _BATCHES):
            order = class_order(setting.data.logits(index))
            own, other = (
                rated_scores(
                    batch, token_scores(batch, checked(setting.model, batch, ClassTarget(order[:, k]))).abs(), "max"
                )
                for k in (0, 1)
            )
            found += [correlation(*pair) for pair in zip(own, other, strict=True)]
        known = [one for one in found if np.isfinite(one)]
        return float(np.mean(known)) if known else float("nan")

    def _lineage(self, hidden: Mapping[str, Hidden], seed: int) -> str:
        """What tells a trained model from others before it is trained."""
        return digest([Masked(self.setting.task, hidden).fingerprint, identity(self._source(seed))])

    def _source(self, seed: int) -> Any:
        source: Source = make(self.setting.config.model)
        return replace(source, seed=seed)  # type: ignore[type-var]  # a dataclass behind a protocol

    def _file(self, what: str, covered: Sequence[Any]) -> Path | None:
        if self.folder is None:
            return None
        return self.folder / "analyses" / f"roar-{what}-{digest(covered)[:16]}.safetensors"


def magnitudes(
    tokens: Float[torch.Tensor, "B T"], batch: Batch, how: Pool
) -> tuple[Float[torch.Tensor, "B U"], Bool[torch.Tensor, "B U"]]:
    """|s| of each unit, and which have a token: the largest of its tokens' magnitudes, or that of their sum or mean."""
    if how == "max":
        return pool(tokens.abs(), batch.units, how)
    scores, visible = pool(tokens, batch.units, how)
    return scores.abs(), visible


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
