"""What a person gives in a call, in the form that the core takes: inputs, classes, rationales, and scores of words."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from benchmark.errors import UserError, near, shorter
from benchmark.models import Classifier
from benchmark.rationales import rationale_of
from benchmark.targets import NO_CONTRAST, ClassTarget, Contrast, Target
from benchmark.types import Batch
from benchmark.words import joined, spans_of

logger = logging.getLogger(__name__)

_IMAGE_DIMENSIONS = 3


@dataclass(frozen=True)
class Inputs:
    """Inputs as `Classifier.encode` takes them.

    Attributes:
        values: one per example.
        single: whether one was given, and not a list of one.
    """

    values: list[Any]
    single: bool

    @staticmethod
    def of(given: Any, *, images: bool = False) -> "Inputs":
        """One text, pair (a tuple of two), mapping of ready ids or image; or several of them in a list or column.

        A list of texts is several texts: the words of one text are a list within a list. Of a model of images, a text is
        the path of one.

        Raises:
            UserError: nothing is given, or what is no input.
        """
        if isinstance(given, str | tuple | Mapping | PathLike) or _is_image(given):
            return Inputs([given], single=True)
        if not isinstance(given, Iterable) or isinstance(given, bytes):
            raise UserError(
                f"texts={_shown(given)} is no text; give a text, a pair of texts as a tuple, or a list of them"
            )
        values = list(given)
        if not values:
            raise UserError("there is nothing to explain: the list of texts is empty")
        for place, value in enumerate(values):
            if not (isinstance(value, str | list | tuple | Mapping | PathLike) or _is_image(value)):
                raise UserError(f"text {place} is {_shown(value)}, which is no text; drop it, or give one")
        lone = not images and len(values) > 1
        if lone and all(
            isinstance(value, str) and len(value.split()) == 1 and len(spans_of(value)) == 1 for value in values
        ):
            logger.warning("%d texts of one word each; the words of one text are a list in a list", len(values))
        return Inputs(values, single=False)


def _is_image(value: Any) -> bool:
    shape = getattr(value, "shape", None)
    return hasattr(value, "convert") or (shape is not None and len(shape) == _IMAGE_DIMENSIONS)


def _shown(value: Any) -> str:
    return shorter(" ".join(repr(value).split()), 60)


def checked_model(model: Any) -> Classifier:
    """The model; UserError where it is something else than `load_model` gives."""
    if not isinstance(model, Classifier):
        raise UserError(
            f"model is {type(model).__name__}; give what benchmark.load_model returns: benchmark.load_model(DIRECTORY_OR_"
            "HUB_ID), or of a transformers model that is loaded already benchmark.load_model(model, tokenizer=tokenizer)"
        )
    return model


def batch_size_of(given: Any) -> int:
    """A whole number from 1; UserError else."""
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise UserError(f"batch_size={_shown(given)}: allowed are whole numbers from 1")
    return given


def classes(model: Classifier, given: Any, n: int, what: str) -> Int[Tensor, "B"]:
    """One class for each of n texts from a name, an index, or a sequence of either.

    Raises:
        UserError: the model has no such class, or there are not n of them.
    """
    if not _is_sequence(given):
        return torch.full((n,), _class(model, given, what), device=model.device)
    indices = [_class(model, one, what) for one in given]
    if len(indices) != n:
        advice = "; give the text once for each class" if n == 1 and what == "target" else ""
        raise UserError(f"{what} has {len(indices)} classes for {n} text{'s' if n > 1 else ''}{advice}")
    return torch.tensor(indices, device=model.device)


def target_of(model: Classifier, target: Any, against: Any, predicted: Int[Tensor, "B"]) -> Target:
    """What is explained of each text: the predicted class or a given one, or that class rather than another.

    Raises:
        UserError: the model has no such class, there is not one for each text, or a class is contrasted with itself.
    """
    own = predicted if target is None else classes(model, target, len(predicted), "target")
    if against is None:
        return ClassTarget(own)
    others = classes(model, against, len(predicted), "against")
    if bool((own == others).any()):
        raise UserError(f"against={_shown(against)}: the class that is explained cannot be contrasted with itself")
    if model.multilabel:
        raise UserError(f"against={_shown(against)}: {NO_CONTRAST}")
    return Contrast(own, others)


def _is_sequence(value: Any) -> bool:
    return not isinstance(value, str) and isinstance(value, Iterable) and getattr(value, "ndim", 1) > 0


def _class(model: Classifier, given: Any, what: str) -> int:
    labels = model.labels
    if isinstance(given, str) and model.encoder.over == "vocabulary":
        raise UserError(f"{what}='{given}': a token is an id here, since a word may be several; answer= takes words")
    if isinstance(given, str):
        places = [index for index, label in enumerate(labels) if label.casefold() == given.casefold()]
        if not places:
            raise UserError(f"{what}='{given}' is no class of the model; {near(given, labels)}")
        return places[0]
    if isinstance(given, bool) or not isinstance(given, int | np.integer | Tensor):
        raise UserError(f"{what}={_shown(given)} is no class: give a name or an index")
    if not 0 <= int(given) < len(labels):
        raise UserError(f"{what}={int(given)} is no class of the model, whose classes are 0 to {len(labels) - 1}")
    return int(given)


def per_text(given: Any, *, single: bool) -> Any:
    """One row of numbers for each text: where one text was given, and not a list, its row may stand alone."""
    is_row = single and isinstance(given, Sequence | np.ndarray) and len(given) > 0 and np.ndim(given[0]) == 0
    return [given] if is_row and not isinstance(given[0], str) and given[0] is not None else given


def marks(
    given: Sequence[Any] | None, words: Sequence[Sequence[str]], inputs: Sequence[Any]
) -> list[NDArray[np.bool_] | None]:
    """One boolean per word of each text, None where a text has no rationale.

    Args:
        given: of each text one 0 or 1 per word, phrases or spans of characters (`benchmark.rationales`), or None.
        words: of each text.
        inputs: the texts.

    Raises:
        UserError: there are not as many as texts, or one is none of the forms, or does not fit its text.
    """
    if given is None:
        return [None] * len(words)
    if len(given) != len(words):
        raise UserError(
            f"rationales has {len(given)} entries; give one (a list of 0 and 1, or None) for each text ({len(words)})"
        )
    found: list[NDArray[np.bool_] | None] = []
    for place, (row, own) in enumerate(zip(given, words, strict=True)):
        if row is None:
            found.append(None)
            continue
        if _is_said(row) and (texts := _texts_of(inputs[place])):
            marked = rationale_of(row, texts, f"rationales[{place}]", "it")
            if marked is not None and len(marked) != len(own):
                marked = _as_read(marked, texts, own)
            if marked is None or len(marked) != len(own):
                raise UserError(f"rationales[{place}] is of a text whose words hold spaces; give one 0 or 1 per word")
            found.append(marked)
            continue
        array = numbers(row, own, f"rationales[{place}]")
        if not set(array.tolist()) <= {0.0, 1.0}:
            raise UserError(f"rationales[{place}] holds {_shown(row)}; give 1 for a word that is rationale, else 0")
        found.append(array.astype(bool))
    return found


def _as_read(marks: NDArray[np.bool_], texts: Sequence[str], words: Sequence[str]) -> NDArray[np.bool_]:
    """Marks of units as marks of what is read, where units that share a token became one; what does not fit as it is."""
    pieces = [text[start:end] for text in texts for start, end in spans_of(text)]
    owner: list[int] = []
    place, left = 0, ""
    for piece in pieces:
        if not left:
            if place == len(words):
                return marks
            left, place = words[place], place + 1
        if not left.lstrip().startswith(piece):
            return marks
        left = left.lstrip()[len(piece) :]
        owner.append(place - 1)
    return np.bincount(owner, weights=marks.astype(float), minlength=len(words)) > 0


def _is_said(row: Any) -> bool:
    """Whether a rationale is phrases or spans rather than marks."""
    return isinstance(row, list) and any(isinstance(part, str | list) for part in row)


def _texts_of(given: Any) -> list[str]:
    """The text, both texts of a pair, the words of a list as one text; nothing of what is no text."""
    parts = list(given) if isinstance(given, tuple) else [given]
    texts = [joined(part) if isinstance(part, list) else part for part in parts]
    return texts if all(isinstance(text, str) for text in texts) else []


def numbers(given: Any, words: Sequence[str], what: str) -> NDArray[np.float64]:
    """One number per word.

    Raises:
        UserError: they are no numbers, or not as many as words.
    """
    try:
        found = np.asarray(given.detach().cpu() if isinstance(given, Tensor) else given)
        if np.iscomplexobj(found):
            raise TypeError("complex numbers")
        array = found.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise UserError(f"{what} is {_shown(given)}; give one number per word") from error
    if array.shape != (len(words),):
        several = f"{len(array)} numbers" if array.ndim == 1 else f"an array of shape {list(array.shape)}"
        shape = several if array.ndim else f"the number {array}"
        own = f": {shorter(' '.join(words), 80)}" if any(words) else ""
        raise UserError(f"{what} is {shape}; give one for each of the {len(words)} words{own}")
    return array


def finite(array: NDArray[np.float64], batch: Batch, row: int, what: str) -> NDArray[np.float64]:
    """Scores of the words of one example, 0 for words beyond the model's window; UserError where another is not finite."""
    seen = np.isin(np.arange(len(array)), batch.units[row].cpu().numpy())
    wrong = np.flatnonzero(seen & ~np.isfinite(array))
    if len(wrong):
        word = batch.words[row][wrong[0]]
        raise UserError(f"{what} has {array[wrong[0]]} for word {wrong[0]} ('{word}'); give a finite number")
    return np.where(np.isfinite(array), array, 0.0)
