"""One cell of a comparison: a method on a task and a model, and the run folder in which everything of it lies."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import compress
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from benchmark.engines.base import Series, Work
from benchmark.errors import Corrupt, NoSplit, NotApplicable, UserError
from benchmark.models import Classifier
from benchmark.models.guard import Look
from benchmark.results import commits, locks, store
from benchmark.results.digests import digest, sealed
from benchmark.results.store import Ragged
from benchmark.run import origins
from benchmark.run.arrays import overlaid, padded, target_of_stored
from benchmark.run.data import Data
from benchmark.run.encoded import Chosen, sizes_of, uids_of
from benchmark.run.explaining import (
    Checked,
    Explain,
    ExplainAnother,
    ExplainClasses,
    ExplainWithEdges,
    ScoreEdges,
    class_order,
)
from benchmark.run.resumable import Resumable, batches_in
from benchmark.run.stages import (
    CLASSES,
    PREDICTED,
    PREDICTED_EDGES,
    WITH_EDGES,
    Explaining,
    Stage,
    heads_from,
)
from benchmark.targets import Explained, TargetName
from benchmark.types import SCORED, Attribution, Compared, Example, Method, Part

Step = Literal["explain", "test", "reduce"]
"""What brings a cell up to date, one after the other: attributions, then rows of tests, then figures."""

STEPS: tuple[Step, ...] = ("explain", "test", "reduce")

OTHERS = "-others"
"""How the folder of parts ends that holds rows of those examples alone whose rows no other test has."""


@dataclass(frozen=True)
class Cell:
    """Computes and stores one method's attributions.

    What is not stored yet is computed under the cell's lock, so that processes with one `out` take turns.

    Attributes:
        folder: the run folder; its name ends in the hash of everything that the attributions depend on.
        name: the method's name.
        compared: the explainer, or a search, as the configuration has it.
        model: the classifier.
        data: the examples.
        identity: what the hash covers, for the record.
        config: the method's configuration, for `config.yaml`.
        checkpoint_seconds: least time between two parts of an unfinished stage.
        training: the training examples that a method is fitted on, told when it is first asked; None for one that is not.
        steps: what may be computed; what is missing of another step is a mistake of whoever asks for it.
        whole: the cell that this one is an excerpt of, where there is one: see `excerpt`.
        texts: whether its folder may hold the words of the examples, in files for people.
    """

    folder: Path
    name: str
    compared: Compared
    model: Classifier
    data: Data
    identity: Mapping[str, Any]
    config: Mapping[str, Any]
    checkpoint_seconds: float
    training: Callable[[], Sequence[Example]] | None = None
    steps: Sequence[Step] = STEPS
    whole: "Cell | None" = None
    texts: bool = True
    _refusals: dict[Stage, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def _fitted(self) -> tuple[Compared, str | None]:
        """The method after it has seen the training examples, and why it has not, where it cannot."""
        if self.training is None:
            return self.compared, None
        assert isinstance(self.compared, Method)
        try:
            return self.compared.fit(self.training()), None
        except NoSplit:
            return self.compared, "it is fitted on the training split, which the task does not have"
        except NotApplicable as reason:
            return self.compared, str(reason)

    @property
    def method(self) -> Compared:
        """The explainer, or a search: one that is fitted has seen its training examples."""
        return self._fitted[0]

    @property
    def refusal(self) -> str | None:
        """Why the method cannot explain here, as the task lacks what it is fitted on; None where it can."""
        return self._fitted[1]

    @cached_property
    def lock(self) -> locks.Lock:
        """Held while anything in the run folder changes."""
        return locks.beside(self.folder, self.name)

    def excerpt(self, folder: Path, data: Data) -> "Cell":
        """The same cell over some of its batches, in a folder of its own, to be taken through all steps.

        What is computed there of a batch, and hangs on nothing else, is a part of this cell: a run of it goes on from there.

        Args:
            folder: for what the excerpt leaves.
            data: an excerpt of this cell's, whose batches are `Chosen`.
        """
        return replace(self, folder=folder, data=data, whole=self, steps=STEPS)

    def explain(self, which: Explained) -> Ragged:
        """Attributions of all scored examples for the predicted or another class; reused where they are stored.

        Raises:
            NotApplicable: the method cannot explain here, with the reason.
        """
        predicted = self.explained(PREDICTED)
        if which == "predicted":
            return predicted
        return overlaid(predicted, self.explained(Explaining(which=which), predicted), self.data.targets(which))

    def edges(self, which: Explained) -> Ragged:
        """Edge scores of all scored examples, summed over heads; reused where they are stored.

        Raises:
            NotApplicable: the method does not score edges.
        """
        return self.explained(Explaining("edges", which))

    def classes(self) -> Ragged:
        """Token scores of all scored examples for the most probable classes (`class_order`); reused where stored.

        Raises:
            NotApplicable: the method gives no token scores, or the model has a single class.
        """
        return self.explained(CLASSES)

    def head_scores(self, calibration: Any, which: TargetName) -> Float[Tensor, "N L H"]:
        """Head scores of each calibration example (`same`: of each scored one), see `stages.heads_from`.

        Raises:
            NotApplicable: the method does not score heads.
        """
        return self.part_scores("heads", calibration, which)

    def part_scores(self, part: Part, calibration: Any, which: TargetName) -> Float[Tensor, "N ..."]:
        """The same of heads, of nodes of the computation graph, or of its edges (`components`).

        Raises:
            NotApplicable: the method does not score them.
        """
        stage = heads_from(calibration, which)
        stored = self.explain(which) if stage.sample is None else self.explained(stage)
        if part not in stored.arrays:
            raise NotApplicable(f"the method does not score {SCORED[part]}")
        return torch.as_tensor(stored.arrays[part])

    def explained(self, stage: Explaining, predicted: Ragged | None = None) -> Ragged:
        """What lies on disk of a stage when it is done; it is computed where it is not there.

        Of another class than the predicted one there are the examples whose class is another: `explain` has all of them.

        Args:
            stage: what is asked for.
            predicted: the attributions for the predicted classes, where whoever asks has read them.

        Raises:
            NotApplicable: the method does not give it, with the reason.
        """
        if predicted is None and stage.of_others:
            predicted = self.explained(PREDICTED)
        if not self.holds(stage):
            with self.lock:
                if not self.holds(stage):  # another process may have been at it
                    result, resumable = self._computed(stage, predicted)
                    self._store(stage, result)
                    resumable.clear()
                    return result
        stored = Ragged.read(self.path(stage))
        if stored.uids != self._uids(stage, predicted):
            raise Corrupt(self.path(stage), "it holds other examples than this comparison asks for")
        return stored

    def explain_with_edges(self) -> None:
        """Attributions and edge scores for the predicted class at once, where the method can and neither is stored."""
        can = isinstance(self.method, Method) and self.method.edges_come_along
        if not can or any(map((self.whole or self).holds, (PREDICTED, PREDICTED_EDGES))):
            return  # an excerpt asks for what the whole cell will ask for
        with self.lock:
            try:
                both, resumable = self._computed(WITH_EDGES)
            except NotApplicable:
                return  # one of the two may serve all the same: each is asked for by itself
            edges = {name: both.arrays[name] for name in ("target", "lengths", "edges")}  # of the predicted class
            tokens = {name: array for name, array in both.arrays.items() if name != "edges"}
            for stage, arrays in ((PREDICTED, tokens), (PREDICTED_EDGES, edges)):
                self._store(stage, replace(both, arrays=arrays))
            resumable.clear()

    def aggregate(self, scores: Float[Tensor, "N L H"]) -> Float[Tensor, "L H"]:
        """Importance from the scores of several examples, as the method says."""
        return self._explainer.method.aggregate_heads(scores)

    def holds(self, stage: Stage) -> bool:
        """Whether the result of a stage of explaining is stored."""
        return self.path(stage).exists()

    def path(self, stage: Stage) -> Path:
        """Where the result of a stage of explaining lies."""
        return self.folder / f"{stage.name}.safetensors"

    def parts(self, stage: Stage, ending: str = "") -> Path:
        """Where the parts of an unfinished stage lie; how its batches are cut is in the name."""
        owner = self if self.whole is None or not stage.by_batch else self.whole
        cut = digest(sizes_of(stage.batches(owner.data)))[:8]
        return owner.folder / "parts" / f"{stage.name}{ending}-{cut}"

    def numbers(self, stage: Stage) -> Sequence[int] | None:
        """The numbers that the batches of a stage have in the cell whose parts they are; None where that is this cell."""
        if self.whole is None or not stage.by_batch:
            return None
        batches = stage.batches(self.data)
        return batches.places if isinstance(batches, Chosen) else None

    def in_parts(self, stage: Stage) -> set[int]:
        """The numbers of the batches of an unfinished stage whose results lie in parts."""
        return batches_in(self.parts(stage)) | batches_in(self.parts(stage, OTHERS))

    def refused(self, stage: Stage) -> str | None:
        """Why a stage that was tried gives nothing; None where it was not tried, or gives something."""
        if stage not in self._refusals and (path := self._refusal(stage)).exists():
            self._refusals[stage] = str(store.read_sealed(path)["reason"])
        return self._refusals.get(stage)

    def refuse(self, stage: Stage, reason: str) -> None:
        """Note why a stage gives nothing, so that it is not tried again; on disk where a later command goes on."""
        self._refusals[stage] = reason
        if "reduce" not in self.steps:
            store.write_json(self._refusal(stage), sealed({"reason": reason}))

    def require(self, step: Step, stage: Stage) -> None:
        """Refuse to compute what belongs to another step than this command is for.

        Raises:
            UserError: the step is none of `steps`.
        """
        if step not in self.steps:
            raise UserError(f"{self.name}: {stage.label} is not done yet, which is stage={step}; run that first")

    def _refusal(self, stage: Stage) -> Path:
        return self.folder / "parts" / f"{stage.name}.refused.json"

    def _computed(self, stage: Explaining, predicted: Ragged | None = None) -> tuple[Ragged, Resumable[Ragged]]:
        """The result of a stage, and its parts, to be cleared when the result is stored."""
        if (reason := self.refused(stage)) is not None:
            raise NotApplicable(reason)
        self.require("explain", stage)
        batches = stage.batches(self.data)
        resumable = Resumable[Ragged](
            folder=self.parts(stage),
            suffix=".safetensors",
            write=lambda ragged, part: ragged.write(part),
            read=Ragged.read,
            merge=Ragged.merge,
            seconds=self.checkpoint_seconds,
            excerpt=self.numbers(stage),
        )
        before = Look(self.model)
        try:
            work, inputs = self._work(stage, predicted)
            results = partial(self.data.runner.results, Series(self.model, work(self._explainer), batches, inputs))
            result = Ragged.merge(resumable.parts(sizes_of(batches), results, stage.name, stage.label))
        except NotApplicable as reason:
            self.refuse(stage, str(reason))
            raise
        before.check(f"methods.{self.name}")
        if result.uids != self._uids(stage, predicted):
            raise Corrupt(resumable.folder, "its parts do not hold each example once")
        return result, resumable

    def _work(
        self, stage: Explaining, predicted: Ragged | None
    ) -> tuple[Callable[[Checked], Work[Ragged]], Callable[[int], tuple[object, ...]]]:
        """What is done with each batch of a stage, and what that needs beside the batch."""
        data = self.data
        if stage.sample is not None:
            batches, which = stage.batches(data), stage.which
            assert isinstance(which, str)  # `stages.heads_from`
            return Explain, lambda index: (self.model.target(batches[index], which),)
        if stage.gives == "edges":
            if not isinstance(self.method, Method) or not self.method.scores_edges:
                raise NotApplicable("the method does not score edges")
            return ScoreEdges, lambda index: (data.target(index, stage.which),)
        if stage in (PREDICTED, WITH_EDGES):
            return Explain if stage == PREDICTED else ExplainWithEdges, lambda index: (data.target(index, "predicted"),)
        known = self.explained(PREDICTED) if predicted is None else predicted

        def base(index: int) -> Attribution:
            return padded(known, data.start(index), data.batches[index])

        if stage == CLASSES:
            return ExplainClasses, lambda index: (class_order(data.logits(index)), base(index))
        return ExplainAnother, lambda index: (data.target(index, stage.which), base(index))

    def _uids(self, stage: Explaining, predicted: Ragged | None) -> tuple[str, ...]:
        """The examples that a stage gives something of, in order."""
        uids = uids_of(stage.batches(self.data))
        if predicted is None or not stage.of_others:
            return uids
        if not self.method.class_specific:
            return ()
        return tuple(compress(uids, self.data.targets(stage.which).differs(target_of_stored(predicted)).tolist()))

    def _store(self, stage: Explaining, result: Ragged) -> None:
        path = self.path(stage)
        origins.keep(self.folder, path.name)
        result.write(path)
        commits.note(path)

    @property
    def _explainer(self) -> Checked:
        if not isinstance(self.method, Method):
            raise NotApplicable("a search scores no tokens, heads or edges")
        if self.refusal is not None:
            raise NotApplicable(self.refusal)
        return Checked(self.name, self.method)
