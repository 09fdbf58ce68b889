"""What a check is given: the method, a model in float64 with a batch, and answers of the method that say where they fail."""

import copy
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmark.analyses.twins import distinct_blocks, double_copy
from benchmark.errors import NotApplicable, UserError
from benchmark.models.classifier import Classifier
from benchmark.models.next_token import CONTINUATION
from benchmark.models.parts import Block
from benchmark.models.precision import Twin, WeightParts, around
from benchmark.run.explaining import Checked
from benchmark.targets import ClassTarget, LogProbability, Target
from benchmark.types import Attribution, Batch, Method, PlainMethod

FIELDS = ("tokens", "heads", "layers", "totals", "pixels", "nodes", "components")
"""Fields of an `Attribution` that every explanation may have; `edges` and `classes` are asked for by some tests alone."""


class MethodRaised(Exception):  # noqa: N818 - it is told as an outcome
    """The method raised something: what, and the last line of its own that did."""


class WrongForm(Exception):  # noqa: N818 - likewise
    """What the method gave has another form than a batch's `Attribution`."""


@dataclass(frozen=True)
class Place:
    """A model with inputs.

    Attributes:
        name: what reports call it.
        model: in float64; a check that lets a method touch it takes a `copy`.
        inputs: as `Classifier.encode` takes them, of several lengths.
        encoded: makes a batch of some of them.
        family: the small model's, or None of a model that somebody gave.
    """

    name: str
    model: Classifier
    inputs: tuple[Any, ...]
    encoded: Callable[[Classifier, list[Any]], Batch]
    family: str | None = None

    @cached_property
    def batch(self) -> Batch:
        """All inputs."""
        return self.encoded(self.model, list(self.inputs))

    def of(self, *rows: int) -> Batch:
        """Some inputs, padded no further than the longest of them."""
        whole = self.batch
        part = self.encoded(self.model, [self.inputs[row] for row in rows])
        return replace(part, uids=tuple(whole.uids[row] for row in rows), keys=tuple(whole.draw_keys[r] for r in rows))

    @cached_property
    def target(self) -> Target:
        """A class for each input, each class in turn."""
        return self.target_of(self.batch)

    def of_class(self, label: int) -> Target:
        """One class for all inputs."""
        return ClassTarget(torch.full_like(self.target.classes, label))

    def target_of(self, batch: Batch) -> Target:
        """A class for each input of another batch, likewise."""
        if self.model.encoder.over == CONTINUATION:  # of which there is nothing else to be explained
            return LogProbability(torch.zeros(len(batch), dtype=torch.long, device=self.model.device))
        return ClassTarget(torch.arange(len(batch), device=self.model.device) % len(self.model.labels))

    def copy(self) -> Classifier:
        """The model once more; it shares nothing with `model`."""
        module = copy.deepcopy(self.model.model)
        return replace(around(self.model, module), twin=Twin(), weight_parts=WeightParts())

    @staticmethod
    def given(model: Classifier, inputs: tuple[Any, ...], encoded: Callable[[Classifier, list[Any]], Batch]) -> "Place":
        """A model that somebody gave, in float64."""
        name = Path(model.name).name or model.name
        return Place(name, double_copy(model), inputs, encoded)


@dataclass(frozen=True)
class Subject:
    """A method on a model.

    Attributes:
        method: the explainer.
        name: of the method.
        place: the model with its inputs.
        stands_in: whether the model is of another family than the one that is checked, in whose place it was written.
    """

    method: Method
    name: str
    place: Place
    stands_in: bool = False
    _pristine: Any = field(default=None, init=False, repr=False, compare=False)

    @property
    def model(self) -> Classifier:
        """The model of the place."""
        return self.place.model

    @property
    def checked(self) -> Checked:
        """The method with its form looked at; what it leaves changed is the business of one check alone."""
        return _Unwatched(self.name, self.method)

    @property
    def knows_class(self) -> bool:
        """What the method says of itself."""
        return bool(self.method.class_specific)

    def need_class(self) -> None:
        """NotApplicable where the method does not look at the class, and so not at what the model answers."""
        if not self.knows_class:
            raise NotApplicable("the method does not look at the class, and so not at what changes the answer")

    @cached_property
    def unused(self) -> "Subject":
        """The method as it was before its first call, as far as it can be copied."""
        return replace(self, method=self._pristine)

    def __post_init__(self) -> None:
        pristine = self.method
        with suppress(Exception):  # whatever a class of somebody's raises when it is copied
            pristine = copy.deepcopy(self.method)
        object.__setattr__(self, "_pristine", pristine)

    @cached_property
    def own(self) -> Attribution:
        """What the method says of all inputs."""
        return self.explain(self.place.batch, self.place.target)

    def explain(self, batch: Batch, target: Target, model: Classifier | None = None, seed: int = 0) -> Attribution:
        """What the method says of a batch, with this seed of torch's random state.

        Raises:
            NotApplicable: it cannot explain here.
            MethodRaised: it raised anything else.
            WrongForm: it gave something else than an attribution of this batch.
        """
        with self._told():
            torch.manual_seed(seed)  # as comparisons have it
            answer = self.checked(self.place.copy() if model is None else model, batch, target)
            return replace(
                answer, **{name: own.detach() for name in FIELDS if (own := getattr(answer, name)) is not None}
            )

    def edges(self, batch: Batch, target: Target, model: Classifier | None = None) -> Tensor:
        """Edge scores [B L H T T], 0 at padding; NotApplicable of a method that scores no edges."""
        with self._told():
            torch.manual_seed(0)
            scores = self.checked.edge_scores(self.place.copy() if model is None else model, batch, target)
            return scores.detach() * batch.cells[:, None, None].to(scores.device)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except NotApplicable:
            raise
        except UserError as error:
            said = str(error).removeprefix(f"methods.{self.name}: ")
            raise WrongForm(said) from error
        except Exception as error:  # whatever the method of somebody raises is told as an outcome
            said = f"it raised {type(error).__name__}: {error}{_line_of(error)}"
            if self.stands_in:
                raise NotApplicable(f"the method cannot run on {self.place.name}: {said}") from error
            raise MethodRaised(said) from error

    def at(self, place: Place) -> "Subject":
        """The same method on another model, which may be of another family."""
        kinds = {getattr(each.model.config, "model_type", "") for each in (self.place, place)}
        return Subject(self.method, self.name, place, stands_in=len(kinds) > 1)

    def with_settings(self, **settings: Any) -> "Subject":
        """The same with other settings of the method."""
        method: Any = self.method
        return replace(self, method=replace(method, **settings))


class _Unwatched(Checked):
    """Its answers are looked at, and what it does to the model is not undone."""

    @property
    def ours(self) -> bool:
        """So that nothing is compared before and after."""
        return True


def _line_of(error: Exception) -> str:
    """Where it was raised, in the file that is nearest to the user's own."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [
        frame
        for frame in frames
        if "site-packages" not in frame.filename and "benchmark" not in Path(frame.filename).parts
    ]
    frame = (own or frames)[-1]
    return f" ({Path(frame.filename).name}:{frame.lineno})"


def kind_of(value: Any) -> Any:
    """What the user wrote: the callable of a `PlainMethod`, else the method itself."""
    return value.function if isinstance(value, PlainMethod) else value


def difference(one: Attribution, other: Attribution) -> tuple[float, str]:
    """The largest difference of two attributions over the largest score, and the field that has it.

    A field that one of them has and the other has not differs by infinity; two scores that are no numbers are equal.
    """
    worst, named = 0.0, ""
    for name in FIELDS:
        a, b = getattr(one, name), getattr(other, name)
        if a is None and b is None:
            continue
        gap = float("inf") if a is None or b is None or a.shape != b.shape else gap_of(a, b)
        if not gap <= worst:
            worst, named = gap, name
    return worst, named


def gap_of(one: Tensor, other: Tensor) -> float:
    """`max |a − b| / max |b|`; the difference itself where b is 0 everywhere."""
    a, b = one.detach().double().cpu(), other.detach().double().cpu()
    same = (a == b) | (a.isnan() & b.isnan())
    if bool(same.all()):
        return 0.0
    scale = float(b.nan_to_num().abs().max()) or 1.0
    gap = float(torch.where(same, torch.zeros_like(a), (a - b).abs()).max()) / scale
    return float("inf") if np.isnan(gap) else gap


def cut(attribution: Attribution, row: int, width: int) -> Attribution:
    """What an attribution says of one example, without padding."""
    parts: dict[str, tuple[Any, ...]] = {"tokens": (slice(width),), "layers": (slice(None), slice(width))}
    held = {name: getattr(attribution, name) for name in FIELDS if getattr(attribution, name) is not None}
    kept = {name: value[(slice(row, row + 1), *parts.get(name, ()))] for name, value in held.items()}
    return Attribution(attribution.target[row : row + 1], **kept)


def own_blocks(model: Classifier, batch: Batch) -> list[Block]:
    """The blocks of a model, each with weights of its own.

    Raises:
        NotApplicable: two blocks share theirs, so that none can be changed by itself, or their parts cannot be told apart.
    """
    blocks = distinct_blocks(model, batch)
    if len(blocks) != model.n_layers:
        raise NotApplicable("blocks share their weights, so that none can be changed by itself")
    return blocks
