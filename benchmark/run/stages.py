"""The stages of a cell: each is one go over batches, whose result lies in the run folder under the name of the stage.

A stage is a value: what is asked for, what it is called on disk and to a person, and which batches it goes over follow from
it, and nothing is read out of a name again.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from benchmark.run.data import Data
from benchmark.settings.identity import digest_of
from benchmark.targets import DrawnClass, Explained, OneClass, TargetName
from benchmark.types import Batch, Evaluation

Gives = Literal["attributions", "edges", "classes", "attributions and edges"]


@dataclass(frozen=True)
class Sample:
    """Examples that are not scored, on which something is calibrated: the first ones of a split.

    Attributes:
        split: whose examples they are.
        limit: how many there are at most.
    """

    split: str
    limit: int


@dataclass(frozen=True)
class Explaining:
    """A method explains: the scored examples, or with a `sample` others.

    Attributes:
        gives: what is kept. "attributions and edges" is both from one pass, which are then kept apart.
        which: what is explained; "classes" explains several, whatever this says. A sample has labels or contrasts.
        sample: the examples; None: the scored ones.
    """

    gives: Gives = "attributions"
    which: Explained = "predicted"
    sample: Sample | None = None

    @property
    def name(self) -> str:
        """What its file is called, and a step of `benchmark.progress`."""
        if self.gives == "attributions and edges":
            return "explained-with-edges"
        if self.gives == "classes":
            return "classes"
        if self.sample is not None:
            of = "" if self.which == "label" else f"-{self.which}"
            return f"{self.gives}-calibration-{self.sample.split}-{self.sample.limit}{of}"
        return f"{self.gives}-{self.which}"

    @property
    def label(self) -> str:
        """What a person reads while it goes on."""
        if self.gives == "attributions and edges":
            return "explaining and scoring edges"
        if self.gives == "edges":
            return "scoring edges"
        if self.gives == "classes":
            return "explaining several classes"
        if self.sample is not None:
            return "explaining calibration examples"
        return f"explaining {_said(self.which)}"

    @property
    def by_batch(self) -> bool:
        """Whether what it gives of a batch hangs on that batch alone."""
        return True

    @property
    def of_others(self) -> bool:
        """Whether it gives something of those scored examples alone that have another target than the predicted class."""
        return self.gives == "attributions" and self.sample is None and self.which != "predicted"

    def batches(self, data: Data) -> Sequence[Batch]:
        """What it goes over."""
        return data.batches if self.sample is None else data.calibration(self.sample.split, self.sample.limit)


@dataclass(frozen=True)
class Testing:
    """A test asks what a method gave for the scored examples.

    Attributes:
        evaluation: the test.
    """

    evaluation: Evaluation

    @property
    def name(self) -> str:
        """What its file is called until the cell is finished, and a step of `benchmark.progress`."""
        return f"rows-{digest_of(self.evaluation)[:16]}"

    @property
    def label(self) -> str:
        """What a person reads while it goes on."""
        return "testing"

    @property
    def by_batch(self) -> bool:
        """Whether its rows of a batch hang on that batch alone, and not on what calibration examples gave."""
        reads = self.evaluation.reads
        return reads in ("tokens", "classes", "edges") or (reads in PARTS and self.evaluation.calibration == "each")

    def batches(self, data: Data) -> Sequence[Batch]:
        """What it goes over."""
        return data.batches


@dataclass(frozen=True)
class Searching:
    """A test takes what it needs from the method itself, which searches calibration examples.

    Attributes:
        evaluation: the test.
    """

    evaluation: Evaluation

    @property
    def name(self) -> str:
        """What its file is called, and a step of `benchmark.progress`."""
        words = re.sub(r"(?<!^)(?=[A-Z])", "_", type(self.evaluation).__name__).lower()
        return f"{words}-{digest_of(self.evaluation)[:8]}"

    @property
    def label(self) -> str:
        """What a person reads while it goes on."""
        return "searching calibration examples"

    @property
    def by_batch(self) -> bool:
        """All examples are searched at once."""
        return False

    def batches(self, data: Data) -> Sequence[Batch]:
        """What it goes over."""
        return data.calibration(self.evaluation.calibration.split, self.evaluation.calibration.limit)


Stage = Explaining | Testing | Searching

PREDICTED = Explaining()
"""Attributions for the predicted classes: every finished cell has them."""

PARTS = ("heads", "components")
"""What a test reads of explanations that is one thing for all examples: importance of the model's parts."""

CLASSES = Explaining("classes")
PREDICTED_EDGES = Explaining("edges")
WITH_EDGES = Explaining("attributions and edges")
"""`PREDICTED` and `PREDICTED_EDGES` from one pass."""


def heads_from(calibration: Any, which: Explained) -> Explaining:
    """The explanations whose scores of a model's parts give importance: of the scored examples ("same"), or of calibration
    examples.

    Args:
        calibration: "same", or what has `split` and `limit`.
        which: what is explained of the scored examples. Calibration examples are explained for their labels, or where a
            contrast, a margin or a log-probability is asked for, for that.
    """
    if calibration == "same":
        return Explaining(which=which)
    of_sample: TargetName = which if which in ("contrast", "margin", "log_probability") else "label"
    return Explaining(which=of_sample, sample=Sample(calibration.split, calibration.limit))


def asked(evaluation: Evaluation) -> tuple[Explaining, ...]:
    """What a test reads of a method, in the order in which it is explained."""
    if evaluation.reads == "method":
        return ()
    if evaluation.reads == "edges":
        return (Explaining("edges", evaluation.target),)
    if evaluation.reads == "classes":
        return (PREDICTED, CLASSES)
    if evaluation.reads in PARTS and evaluation.calibration not in ("same", "each"):
        return (heads_from(evaluation.calibration, evaluation.target),)
    return tuple(dict.fromkeys((PREDICTED, Explaining(which=evaluation.target))))


def _said(which: Explained) -> str:
    if isinstance(which, OneClass):
        return "one class"
    if isinstance(which, DrawnClass):
        return "a drawn class"
    return {
        "predicted": "the predicted class",
        "label": "the label",
        "contrast": "the contrast",
        "margin": "the margin",
        "log_probability": "the log-probability",
    }[which]
