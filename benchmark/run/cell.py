"""One cell of a comparison: explain with one method, test, and keep everything in its run folder."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import compress
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from benchmark.engines.base import Series, Work
from benchmark.errors import Corrupt, NotApplicable
from benchmark.models import Classifier
from benchmark.models.guard import Look
from benchmark.results import commits, locks
from benchmark.results.digests import digest
from benchmark.results.store import Ragged
from benchmark.run import origins
from benchmark.run.arrays import overlaid, padded
from benchmark.run.contract import Checked
from benchmark.run.data import Data, Explained
from benchmark.run.encoded import sizes_of, uids_of
from benchmark.run.explaining import Explain, ExplainAnother, ExplainClasses, ExplainWithEdges, ScoreEdges, class_order
from benchmark.run.offers import AggregatingMethod, JointMethod
from benchmark.run.stages import Stage
from benchmark.types import Batch, Compared, EdgeMethod, Method, Target


@dataclass(frozen=True)
class Cell:
    """Computes and stores one method's attributions and test rows.

    What is not stored yet is computed under the cell's lock, so that processes with one `out` take turns.

    Attributes:
        folder: the run folder; its name ends in the hash of everything that the attributions depend on.
        name: the method's name.
        method: the explainer, or a search.
        model: the classifier.
        data: the examples.
        identity: what the hash covers, for the record.
        config: the method's configuration, for `config.yaml`.
        checkpoint_seconds: least time between two parts of an unfinished stage.
        refusal: why the method cannot explain here, as the task lacks what it is fitted on; None where it can.
    """

    folder: Path
    name: str
    method: Compared
    model: Classifier
    data: Data
    identity: Mapping[str, Any]
    config: Mapping[str, Any]
    checkpoint_seconds: float
    refusal: str | None = None

    @cached_property
    def lock(self) -> locks.Lock:
        """Held while anything in the run folder changes."""
        return locks.beside(self.folder, self.name)

    def explain(self, which: Explained) -> Ragged:
        """Attributions of all scored examples for the predicted or another class; reused where they are stored.

        Those for another class are stored for the examples whose class is another.
        """
        if which == "predicted":
            targets = partial(self._target, which)
            return self._stored_or_computed("attributions-predicted", self.data.batches, Explain, targets)
        predicted = self.explain("predicted")

        def inputs(index: int) -> tuple[object, ...]:
            batch, target = self.data.batches[index], self.data.target(index, which)
            return target, padded(predicted, self.data.start(index), batch)

        target = torch.cat([self.data.target(index, which) for index in range(len(self.data.batches))]).cpu().numpy()
        changed = (target != predicted.arrays["target"]) & self.method.class_specific
        uids = tuple(compress(predicted.uids, changed))
        others = self._stored_or_computed(f"attributions-{which}", self.data.batches, ExplainAnother, inputs, uids)
        return overlaid(predicted, others, target)

    def head_scores(self, calibration: Any, which: Target) -> Float[Tensor, "N L H"]:
        """Head scores of each calibration example, explained for its label (`same`: of each scored one).

        Raises:
            NotApplicable: the method does not score heads.
        """
        if calibration == "same":
            stored = self.explain(which)
        else:
            batches = self.data.calibration(calibration.split, calibration.limit)
            name = calibration_stage(calibration)
            stored = self._stored_or_computed(name, batches, Explain, lambda index: (batches[index].label,))
        if "heads" not in stored.arrays:
            raise NotApplicable("the method does not score heads")
        return torch.as_tensor(stored.arrays["heads"])

    def aggregate(self, scores: Float[Tensor, "N L H"]) -> Float[Tensor, "L H"]:
        """Importance from the scores of several examples: their mean, or what the method says."""
        method = self.method
        return method.aggregate_heads(scores) if isinstance(method, AggregatingMethod) else scores.mean(0)

    def edges(self, which: Target) -> Ragged:
        """Edge scores of all scored examples, summed over heads; reused where they are stored.

        Raises:
            NotApplicable: the method does not score edges.
        """
        if not isinstance(self.method, EdgeMethod):
            raise NotApplicable("the method does not score edges")
        targets = partial(self._target, which)
        return self._stored_or_computed(f"edges-{which}", self.data.batches, ScoreEdges, targets)

    def explain_with_edges(self) -> None:
        """Attributions and edge scores for the predicted class at once, where the method can and neither is stored."""
        names = ("attributions-predicted", "edges-predicted")
        if not isinstance(self.method, JointMethod) or any(map(self.holds, names)):
            return
        series = Series(
            self.model, ExplainWithEdges(self._explainer), self.data.batches, partial(self._target, "predicted")
        )
        with self.lock:
            try:
                both, stage = self._computed("explained-with-edges", series, self.data.uids)
            except NotApplicable:
                return  # one of the two may serve all the same: each is asked for by itself
            edges = {name: both.arrays[name] for name in ("target", "lengths", "edges")}
            tokens = {name: array for name, array in both.arrays.items() if name != "edges"}
            for name, arrays in zip(names, (tokens, edges), strict=True):
                self._store(name, replace(both, arrays=arrays))
            stage.clear()

    def classes(self) -> Ragged:
        """Token scores of all scored examples for the most probable classes (`class_order`); reused where stored.

        Raises:
            NotApplicable: the method gives no token scores, or the model has a single class.
        """
        predicted = self.explain("predicted")

        def inputs(index: int) -> tuple[object, ...]:
            order = class_order(self.data.logits(index))
            return order, padded(predicted, self.data.start(index), self.data.batches[index])

        return self._stored_or_computed("classes", self.data.batches, ExplainClasses, inputs)

    def _stored_or_computed(
        self,
        name: str,
        batches: Sequence[Batch],
        work: Callable[[Checked], Work[Ragged]],
        inputs: Callable[[int], tuple[object, ...]],
        uids: tuple[str, ...] | None = None,
    ) -> Ragged:
        """What is stored of all examples of these batches, or of those with the `uids`."""
        uids = uids_of(batches) if uids is None else uids
        if not self.holds(name):
            with self.lock:
                if not self.holds(name):  # another process may have been at it
                    series = Series(self.model, work(self._explainer), batches, inputs)
                    result, stage = self._computed(name, series, uids)
                    self._store(name, result)
                    stage.clear()
                    return result
        stored = Ragged.read(self._path(name))
        if stored.uids != uids:
            raise Corrupt(self._path(name), "it holds other examples than this comparison asks for")
        return stored

    def _computed(self, name: str, series: Series[Ragged], uids: tuple[str, ...]) -> tuple[Ragged, Stage[Ragged]]:
        """The result for these examples, each once, and its stage, to be cleared when the result is stored."""
        stage = Stage[Ragged](
            folder=self.parts(name, series.batches),
            suffix=".safetensors",
            write=lambda ragged, part: ragged.write(part),
            read=Ragged.read,
            merge=Ragged.merge,
            seconds=self.checkpoint_seconds,
        )
        sizes, before = sizes_of(series.batches), Look(self.model)
        result = stage.follow(sizes, partial(self.data.runner.results, series), name, _label(name))
        before.check(f"methods.{self.name}")
        if result.uids != uids:
            raise Corrupt(stage.folder, "its parts do not hold each example once")
        return result, stage

    def _store(self, name: str, result: Ragged) -> None:
        origins.keep(self.folder, self._path(name).name)
        result.write(self._path(name))
        commits.note(self._path(name))

    def holds(self, name: str) -> bool:
        """Whether the result of a stage of explaining is stored."""
        return self._path(name).exists()

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.safetensors"

    def parts(self, stage: str, batches: Sequence[Batch]) -> Path:
        """Where the parts of an unfinished stage over these batches lie."""
        cut = digest(sizes_of(batches))[:8]
        return self.folder / "parts" / f"{stage}-{cut}"

    def _target(self, which: Target, index: int) -> tuple[object, ...]:
        return (self.data.target(index, which),)

    @property
    def _explainer(self) -> Checked:
        if not isinstance(self.method, Method):
            raise NotApplicable("a search scores no tokens, heads or edges")
        if self.refusal is not None:
            raise NotApplicable(self.refusal)
        return Checked(self.name, self.method)


CALIBRATION = "attributions-calibration"
"""How the names of stages begin that explain calibration examples."""


def calibration_stage(calibration: Any) -> str:
    """Name of the stage that explains the calibration examples of a split and a limit."""
    return f"{CALIBRATION}-{calibration.split}-{calibration.limit}"


def stage_batches(data: Data, stage: str) -> Sequence[Batch]:
    """What the stage of this name goes over."""
    if not stage.startswith(CALIBRATION):
        return data.batches
    split, _, limit = stage.removeprefix(f"{CALIBRATION}-").rpartition("-")
    return data.calibration(split, int(limit))


_LABELS = {
    "attributions-predicted": "explaining the predicted class",
    "attributions-label": "explaining the label",
    "attributions-class": "explaining one class",
    "attributions-drawn": "explaining a drawn class",
    "attributions-calibration": "explaining calibration examples",
    "explained-with-edges": "explaining and scoring edges",
    "edges": "scoring edges",
    "classes": "explaining several classes",
}


def _label(stage: str) -> str:
    """What a person reads for a stage of explaining."""
    return next((label for begin, label in _LABELS.items() if stage.startswith(begin)), stage)
