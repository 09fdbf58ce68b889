"""What several methods say of texts or images: a heatmap in a notebook, words with scores in a terminal, a table, arrays."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from weakref import ref

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from benchmark.errors import NotApplicable
from benchmark.evaluations.maps import pixel_map
from benchmark.models import Classifier
from benchmark.models.guard import Look, forget
from benchmark.models.pictures import data_url, visible
from benchmark.notebook.heatmap import MOST_DRAWN, Line, Shades, Shown, View, html, overlay, terminal
from benchmark.results.store import Ragged
from benchmark.run.arrays import padded
from benchmark.run.explaining import Checked, Explain
from benchmark.targets import Target
from benchmark.types import Attribution, Batch, Method

_HEADS_ONLY = "it scores heads, not {}: .attributions['{}'].heads"
_NO_WORDS = "it scores no {}: see .attributions['{}']"


@dataclass(frozen=True, repr=False, eq=False)
class Explanation:
    """The scores of words (patches) of one or several texts by several methods.

    The last line of a notebook's cell shows it as a heatmap, `print` as words with scores.

    Attributes:
        batch: the encoded texts.
        words: of each text; the tokens of ready ids, and row and column of patches.
        classes: the model's, in its order.
        probabilities: of each text's classes.
        target: what is explained of each text.
        methods: the names, in the order given.
        attributions: what each method gave, by name: scores of tokens, heads, ... for the whole batch.
        reasons: why a method gave nothing, by name.
        single: whether one text was given, and not a list.
        pictures: the images as the model reads them, as data URLs; empty for texts.
        explainers: the methods themselves, by name.
        module: leads to the model that was explained, as long as it is held elsewhere.
        candidates: of each prompt of a causal language model what its classes stand for: the answer and its foils.
        own: with which token it goes on by itself, and how probable that is; of a classifier the predicted class.
    """

    batch: Batch
    words: tuple[tuple[str, ...], ...]
    classes: tuple[str, ...]
    probabilities: Float[Tensor, "B C"]
    target: Target
    methods: tuple[str, ...]
    attributions: Mapping[str, Attribution]
    reasons: Mapping[str, str]
    single: bool
    pictures: tuple[str, ...] = ()
    explainers: Mapping[str, Method] = field(default_factory=dict)
    module: "ref[Any] | None" = None
    candidates: tuple[tuple[str, ...], ...] = ()
    own: tuple[tuple[str, float], ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: the scores, and not the methods and the way to the model, which are of this process."""
        return {**self.__dict__, "explainers": {}, "module": None}

    def __len__(self) -> int:
        return len(self.batch)

    def scores(self) -> dict[str, list[NDArray[np.float64]]]:
        """By method the scores of each text's words, NaN beyond the model's window: what `benchmark.evaluate` takes."""
        return {
            name: [series.to_numpy() for series in found.words(self.batch)]
            for name, found in self.attributions.items()
            if found.tokens is not None
        }

    def table(self) -> pd.DataFrame:
        """Word × method; of several texts with the number of the text in the index. NaN where there is no score.

        A score of a word is the largest of its tokens', as the tests read them.
        """
        index: pd.Index = pd.Index([word for words in self.words for word in words], name="word")
        if not self.single:
            texts = np.repeat(np.arange(len(self)), [len(words) for words in self.words])
            index = pd.MultiIndex.from_arrays([texts, index], names=["text", "word"])
        scores = {name: np.concatenate(rows) for name, rows in self._scores.items()}
        return pd.DataFrame({name: scores.get(name, np.nan) for name in self.methods}, index=index)

    def special_tokens(self) -> pd.DataFrame:
        """Text × method: the share `Σ |s| of special tokens / Σ |s| of all tokens`, NaN where there is no score."""
        special = (self.batch.units < 0) & self.batch.attention_mask
        shares = dict.fromkeys(self.methods, np.full(len(self), np.nan))
        for name, found in self.attributions.items():
            if found.tokens is not None:
                size = found.tokens.detach().double().abs()
                with np.errstate(invalid="ignore"):
                    shares[name] = ((size * special).sum(1).cpu().numpy()) / size.sum(1).cpu().numpy()
        return pd.DataFrame(shares, index=pd.RangeIndex(len(self), name="text"))

    @cached_property
    def _scores(self) -> dict[str, list[NDArray[np.float64]]]:
        return self.scores()

    @property
    def shown(self) -> tuple[Shown, ...]:
        """What is printed and drawn of each text."""
        special, called = self.special_tokens(), self.candidates or (self.classes,) * len(self)
        named = [self.target[b : b + 1].names(classes)[0] for b, classes in enumerate(called)]
        return tuple(
            Shown(
                words=words,
                target=named[b],
                predicted=self.own[b][0],
                probability=self.own[b][1],
                lines=tuple(
                    Line(name, self._scores[name][b], float(special[name][b]), "")
                    if name in self._scores
                    else Line(name, None, np.nan, self._reason(name))
                    for name in self.methods
                ),
                columns=_columns(self.batch, len(words)),
            )
            for b, words in enumerate(self.words)
        )

    def _reason(self, name: str) -> str:
        if name in self.reasons:
            return self.reasons[name]
        units = "words" if self.batch.size is None else "patches"
        return (_HEADS_ONLY if self.attributions[name].heads is not None else _NO_WORDS).format(units, name)

    def html(self) -> str:
        """The heatmap, for a file or a page of one's own; it needs no other file."""
        return html(self.shown, self._views())

    def _views(self) -> list[View]:
        """Picture and heatmaps of each image that is drawn; none of texts."""
        size = self.batch.size
        if size is None or self.batch.grid is None or not self.pictures:
            return []
        maps = {
            name: pixel_map(self.batch, found).double().cpu().numpy()[:MOST_DRAWN]
            for name, found in self.attributions.items()
            if found.tokens is not None or found.pixels is not None
        }
        return [
            View(picture, size, {name: _overlaid(found[b]) for name, found in maps.items()})
            for b, picture in enumerate(self.pictures[:MOST_DRAWN])
        ]

    def __repr__(self) -> str:
        return terminal(self.shown)

    def _repr_html_(self) -> str:
        return self.html()


def _overlaid(pixels: NDArray[np.float64]) -> tuple[str, Shades]:
    """The heatmap of the pixels of one image, and its contrast."""
    shades = Shades.of(pixels)
    return overlay(pixels, shades), shades


def attributed_by(
    chosen: Mapping[str, Method], model: Classifier, batch: Batch, parts: list[Batch], target: Target
) -> tuple[dict[str, Attribution], dict[str, str]]:
    """What each method gave for the batch, and why others gave nothing, by name."""
    attributions: dict[str, Attribution] = {}
    reasons: dict[str, str] = {}
    for name, method in chosen.items():
        try:
            attributions[name] = _attributed(model, name, method, batch, parts, target)
        except NotApplicable as reason:
            reasons[name] = str(reason)
    return attributions, reasons


def _attributed(
    model: Classifier, name: str, method: Method, batch: Batch, parts: list[Batch], target: Target
) -> Attribution:
    """The attribution of the whole batch, explained part by part; ModelChangedError where the method changed the model."""
    stored, start, before, explain_part = list[Ragged](), 0, Look(model), Explain(Checked(name, method))
    for part in parts:
        stored.append(explain_part(model, part, target[start : start + len(part)].clone()))
        start += len(part)
    before.check(f"methods.{name}")
    return padded(Ragged.merge(stored), 0, batch)


@contextmanager
def repeatable(model: Classifier) -> Iterator[None]:
    """Methods draw as in a comparison, and the caller's random numbers go on as if nothing had been drawn."""
    forget(model)
    devices = [model.device] if model.device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        yield


def labelled(model: Classifier, batch: Batch) -> tuple[tuple[str, ...], ...]:
    """What the units of each example are called: words; tokens of ready ids; row and column of patches."""
    if "pixel_values" in batch.tensors:
        wide = _columns(batch, len(batch.words[0]))
        return tuple(tuple(f"{u // wide},{u % wide}" for u in range(len(words))) for words in batch.words)
    if all(any(words) for words in batch.words):
        return batch.words
    ids = [row[units >= 0].tolist() for row, units in zip(batch.tensors["input_ids"], batch.units, strict=True)]
    if model.tokenizer is None:
        return tuple(tuple(f"id {number}" for number in row) for row in ids)
    return tuple(tuple(map(str, model.tokenizer.convert_ids_to_tokens(row))) for row in ids)


def pictures_of(model: Classifier, batch: Batch) -> tuple[str, ...]:
    """The first images as data URLs, as many as are drawn; none of texts."""
    if batch.grid is None:
        return ()
    pixels = batch.tensors["pixel_values"][:MOST_DRAWN].detach().float().cpu().numpy()
    return tuple(data_url(visible(image, model.encoder.processor)) for image in pixels)


def _columns(batch: Batch, n_units: int) -> int:
    """How many patches stand side by side in an image; 0 for texts."""
    if "pixel_values" not in batch.tensors:
        return 0
    height, width = batch.tensors["pixel_values"].shape[2:]
    return max(1, round(math.sqrt(n_units * width / height)))
