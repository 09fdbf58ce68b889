"""The models that something is checked on: small ones by name, or one that somebody gives."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from benchmark.checking import small_models
from benchmark.checking.subject import Place
from benchmark.errors import UserError, near
from benchmark.models.classifier import Classifier
from benchmark.models.next_token import CANDIDATES
from benchmark.types import Batch

NAMES = list(small_models.FAMILIES)
"""Small models that there are."""

_PREFIX = "tiny_"
_TEXTS = (
    "a warm and funny film that never tries too hard",
    "very dull",
    "the plot is thin , but two of the actors are very good in it",
)


def of(model: Any) -> Iterator[Place]:
    """The places that a setting names.

    Args:
        model: None for the small BERT; a name, several, a classifier, or a place itself.

    Raises:
        UserError: there is no small model of that name, or it is no model.
    """
    if model is None or isinstance(model, str):
        yield from _small([model or NAMES[0]])
    elif isinstance(model, Place):
        yield model
    elif isinstance(model, Classifier):
        yield given(model)
    elif isinstance(model, Sequence) and model and all(isinstance(name, str) for name in model):
        yield from _small(model)
    else:
        raise UserError(
            f"model={type(model).__name__} is neither a loaded model (benchmark.load_model) nor the name of one"
        )


def _small(names: Sequence[str]) -> Iterator[Place]:
    for name in names:
        family = name.removeprefix(_PREFIX)
        if family not in NAMES:
            raise UserError(f"model={name}: there is no small model of that name; {near(family, NAMES)}")
        yield small_models.place(family)


def given(model: Classifier) -> Place:
    """Somebody's model, with three short texts, prompts, or images of noise."""
    if model.encoder.patch is not None and model.tokenizer is None:
        return Place.given(model, tuple(_images(model)), small_models.encoded)
    if model.tokenizer is None:
        return Place.given(model, tuple(small_models.inputs("bert", small_models.LENGTHS)), small_models.encoded)

    def encoded(own: Classifier, chosen: list[Any]) -> Batch:
        return own.encode(chosen, candidates=[_words_of(own)] * len(chosen) if own.encoder.over is not None else ())

    return Place.given(model, _TEXTS, encoded)


def _words_of(model: Classifier) -> list[int]:
    """As many words of a language model's vocabulary as it is asked about; they need not be likely."""
    ids = model.tokenizer(" ".join(_TEXTS), add_special_tokens=False, verbose=False)["input_ids"]
    count = len(model.labels) if model.encoder.over == CANDIDATES else 1
    return list(dict.fromkeys(ids))[:count]


def _images(model: Classifier) -> Iterator[dict[str, Any]]:
    generator = torch.Generator().manual_seed(0)
    size = getattr(model.config, "image_size", 224)
    height, width = (size, size) if isinstance(size, int) else size
    for _ in range(3):
        yield {"pixel_values": torch.rand(3, height, width, generator=generator)}
