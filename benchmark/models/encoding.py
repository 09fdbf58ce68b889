"""From examples to tensors, and from words to tokens: the alignment is computed here, once."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmark.errors import UserError
from benchmark.models.devices import on_device
from benchmark.models.families import Family
from benchmark.models.images import Losses, Patch, fitted_mask, in_colours, marked_patches, opened
from benchmark.types import Batch

logger = logging.getLogger(__name__)

Words = tuple[str, ...]


_Encoding = tuple[dict[str, Tensor], Tensor, list[int], tuple[Words, ...]]
"""Tensors for the model, the unit of each token, how many units each example has, and its words."""


def height_and_width(size: int | Sequence[int]) -> tuple[int, int]:
    """Of an image or a patch, which configurations give as one number where they are equal."""
    return (int(size), int(size)) if isinstance(size, int) else (int(size[0]), int(size[1]))


@dataclass(frozen=True)
class _Segment:
    """One text with the character span of each of its words."""

    text: str
    words: Words
    starts: np.ndarray

    @staticmethod
    def of(value: str | Sequence[str]) -> "_Segment":
        words = tuple(value.split()) if isinstance(value, str) else tuple(value)
        if isinstance(value, str):
            starts, position = [], 0
            for word in words:
                position = value.index(word, position)
                starts.append(position)
                position += len(word)
            return _Segment(value, words, np.array(starts, dtype=np.int64))
        lengths = np.array([len(word) + 1 for word in words], dtype=np.int64)
        return _Segment(" ".join(words), words, np.concatenate([[0], np.cumsum(lengths)[:-1]]) if words else lengths)

    def word_of(self, start: int, end: int) -> int:
        """Index of the word that the characters [start, end) belong to; -1 for white space alone."""
        token = self.text[start:end]
        stripped = token.lstrip()
        if not stripped:
            return -1
        return int(np.searchsorted(self.starts, start + len(token) - len(stripped), side="right")) - 1


@dataclass(frozen=True)
class Encoder:
    """Turns texts, pairs, word lists, ready ids or images into a `Batch`.

    Attributes:
        tokenizer: a fast tokenizer, or None for a checkpoint that takes ids only.
        processor: an image processor, or None.
        family: where special tokens stand when no tokenizer says so.
        window: how many tokens the model can read.
        pad_token_id: fills the shorter rows of a batch of ready ids.
        device: where the tensors go.
        dtype: of pixel values.
        patch: size of a patch, of an image model.
        size: height and width of the images that the model reads; None where it reads any.
        channels: of the images that the model reads.
        losses: says what images lose on their way to the model.
    """

    tokenizer: Any
    processor: Any
    family: Family
    window: int
    pad_token_id: int
    device: torch.device
    dtype: torch.dtype
    patch: Patch | None = None
    size: Patch | None = None
    channels: int = 3
    losses: Losses = field(default_factory=Losses, repr=False, compare=False)

    def __call__(
        self,
        inputs: Sequence[Any],
        *,
        uids: Sequence[str],
        labels: Sequence[int],
        rationale: Sequence[np.ndarray | None],
        query_units: Sequence[int],
        meta: Sequence[Mapping[str, Any]],
        masks: Sequence[np.ndarray | None] = (),
    ) -> Batch:
        """Encode one batch; all inputs of a batch are of one kind (texts, ids or images).

        An image is a PIL image, an array, or, for a model of images, the path of a file.

        `masks` are those of `Example.mask`; one gives the rationale of its example.
        """
        if not inputs:
            raise UserError("nothing to encode: the list of inputs is empty")
        if self.patch is not None:
            inputs = [opened(Path(value)) if isinstance(value, str | PathLike) else value for value in inputs]
        if all(isinstance(value, Mapping) for value in inputs):
            tensors, units, n_units, words = self._ready(inputs)
        elif all(isinstance(value, str | Sequence) for value in inputs):
            tensors, units, n_units, words = self._text(inputs, uids)
        else:
            tensors, units, n_units, words = self._images(inputs, uids)
        fitted = [
            None if mask is None else self._fitted(mask, marks, value, uid)
            for mask, marks, value, uid in zip(masks or [None] * len(inputs), rationale, inputs, uids, strict=True)
        ]
        if self.patch is not None:
            pairs = zip(fitted, rationale, strict=True)
            rationale = [marks if mask is None else marked_patches(mask, self.patch) for mask, marks in pairs]
        batch = Batch(
            uids=tuple(uids),
            tensors={name: on_device(tensor, self.device) for name, tensor in tensors.items()},
            units=on_device(units, self.device),
            n_units=on_device(torch.tensor(n_units), self.device),
            words=words,
            label=on_device(torch.tensor(list(labels)), self.device),
            rationale=tuple(rationale),
            query_units=tuple(query_units),
            meta=tuple(meta),
            patch=self.patch if "pixel_values" in tensors else None,
            masks=tuple(fitted) if "pixel_values" in tensors else (),
        )
        for uid, marks, count in zip(uids, rationale, n_units, strict=True):
            if marks is not None and len(marks) != count:
                kind = "words" if self.patch is None else "patches"
                raise UserError(f"example '{uid}' has a rationale of {len(marks)} marks for {count} {kind}")
        if lost := int(batch.lost_units.sum()):
            logger.info("%d of %d words lie beyond the window of %d tokens", lost, sum(n_units), self.window)
        return batch

    def _text(self, inputs: Sequence[Any], uids: Sequence[str]) -> _Encoding:
        if self.tokenizer is None:
            raise UserError(
                "the model has no tokenizer: give ready ids ({'input_ids': [...]}), a model.path with one, or "
                "load_model(model, tokenizer=...)"
            )
        pairs = [isinstance(value, tuple) for value in inputs]
        if any(pairs) and not all(pairs):
            raise UserError("single texts and pairs cannot be mixed in one batch")
        if wrong := [
            uid for uid, value in zip(uids, inputs, strict=True) if isinstance(value, tuple) and len(value) != 2
        ]:
            raise UserError(f"example '{wrong[0]}' is a tuple, but no pair: give two texts, or a list of words")
        segments = [[_Segment.of(part) for part in (v if isinstance(v, tuple) else (v,))] for v in inputs]
        for uid, parts in zip(uids, segments, strict=True):
            if not all(part.words for part in parts):
                raise UserError(f"example '{uid}' has a text of zero words")
        encoding = self.tokenizer(
            [parts[0].text for parts in segments],
            [parts[1].text for parts in segments] if all(pairs) else None,
            truncation="longest_first",
            max_length=self.window,
            padding=True,
            return_offsets_mapping=True,
            return_tensors="np",
        )
        offsets = encoding.pop("offset_mapping")
        rows = [
            [
                -1
                if segment is None or (word := parts[segment].word_of(*map(int, span))) < 0
                else word + segment * len(parts[0].words)
                for segment, span in zip(encoding.sequence_ids(row), offsets[row], strict=True)
            ]
            for row, parts in enumerate(segments)
        ]
        words = tuple(tuple(word for part in parts for word in part.words) for parts in segments)
        tensors = {name: torch.from_numpy(np.asarray(array)).long() for name, array in encoding.items()}
        tensors["input_ids"] = self._without_spelled(tensors["input_ids"], torch.tensor(rows))
        return tensors, torch.tensor(rows), [len(row) for row in words], words

    def _without_spelled(self, ids: Tensor, units: Tensor) -> Tensor:
        """The ids with "unknown" in place of a special token that is a word's.

        A tokenizer splits a special token that is spelled in a text (`split_special_tokens`), but a unigram model may still
        hold it among its pieces.
        """
        unknown = self.tokenizer.unk_token_id
        special = torch.tensor(sorted({*self.tokenizer.all_special_ids} - {unknown}), dtype=torch.long)
        spelled = (units >= 0) & torch.isin(ids, special)
        return ids if unknown is None else ids.masked_fill(spelled, unknown)

    def _ready(self, inputs: Sequence[Mapping[str, Any]]) -> _Encoding:
        names = [name for name in inputs[0] if name != "special_tokens_mask"]
        if "pixel_values" in names:
            pixels = torch.stack([torch.as_tensor(value["pixel_values"], dtype=self.dtype) for value in inputs])
            return self._patches(pixels)
        if "input_ids" not in names:
            raise UserError(f"ready inputs need 'input_ids' or 'pixel_values', found {sorted(names)}")
        if decoder := [name for name in names if name.startswith("decoder_")]:
            raise UserError(
                f"ready inputs hold {decoder[0]}, but a decoder is given the input ids, shifted; leave it out"
            )
        columns = {name: [torch.as_tensor(value[name]).long().flatten() for value in inputs] for name in names}
        columns.setdefault("attention_mask", [torch.ones_like(ids) for ids in columns["input_ids"]])
        if (longest := max(len(ids) for ids in columns["input_ids"])) > self.window:
            raise UserError(f"ready ids of {longest} tokens do not fit the model's window of {self.window}")
        fills = {"input_ids": self.pad_token_id}
        tensors = {
            name: torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=fills.get(name, 0))
            for name, rows in columns.items()
        }
        content = self._content(tensors, inputs)
        units = torch.where(content, content.long().cumsum(1) - 1, -1)
        n_units = content.sum(1).tolist()
        return tensors, units, n_units, tuple(("",) * n for n in n_units)

    def _content(self, tensors: dict[str, Tensor], inputs: Sequence[Mapping[str, Any]]) -> Tensor:
        """True where a token of ready ids is content: neither special nor padding."""
        attended = tensors["attention_mask"].bool()
        if all("special_tokens_mask" in value for value in inputs):
            special = [torch.as_tensor(value["special_tokens_mask"]).bool() for value in inputs]
            return attended & ~torch.nn.utils.rnn.pad_sequence(special, batch_first=True, padding_value=True)
        if self.tokenizer is not None:
            special_ids = torch.tensor(sorted(self.tokenizer.all_special_ids))
            return attended & ~torch.isin(tensors["input_ids"], special_ids)
        start, end = self.family.special_ends
        position = attended.long().cumsum(1)
        return attended & (position > start) & (position <= attended.sum(1, keepdim=True) - end)

    def _images(self, inputs: Sequence[Any], uids: Sequence[str]) -> _Encoding:
        if self.processor is None:
            raise UserError(
                "the model has no image processor: give {'pixel_values': ...}, a model.path with one, or "
                "load_model(model, processor=...)"
            )
        images = [in_colours(value, uid, self.losses, self.channels) for value, uid in zip(inputs, uids, strict=True)]
        try:
            pixels = self.processor(images=images, return_tensors="pt")["pixel_values"]
        except ValueError as error:
            raise UserError(
                f"the image processor fails on the images '{uids[0]}' … '{uids[-1]}', of {self.channels} channels "
                f"({' '.join(str(error).split())}); set what makes them alike in its preprocessor_config.json "
                "(size, do_center_crop, image_mean and image_std)"
            ) from error
        return self._patches(pixels.to(self.dtype))

    def _fitted(self, mask: np.ndarray, marks: np.ndarray | None, image: Any, uid: str) -> np.ndarray:
        if marks is not None:
            raise UserError(f"example '{uid}' has both a mask and a rationale; give one")
        if self.patch is None:
            raise UserError(f"example '{uid}' has a mask of pixels, but the model reads texts")
        return fitted_mask(mask, image, self.processor, uid)

    def _patches(self, pixels: Tensor) -> _Encoding:
        if self.patch is None:
            raise UserError("the inputs are images, but the model reads texts")
        channels, height, width = pixels.shape[1:]
        if channels != self.channels:
            raise UserError(
                f"images of {channels} channels, and the model reads {self.channels}; set image_mean, image_std and "
                "do_convert_rgb in its preprocessor_config.json"
            )
        high, wide = self.patch
        n_patches = (height // high) * (width // wide)
        if self.size is not None and self.size != (height, width):
            reads = (self.size[0] // high) * (self.size[1] // wide)
            raise UserError(
                f"images of {height} × {width} pixels have {n_patches} patches of {high} × {wide}, and the model reads "
                f"{reads}, of {self.size[0]} × {self.size[1]} pixels; set the size in its preprocessor_config.json"
            )
        start, end = self.family.special_ends
        row = torch.cat([torch.full((start,), -1), torch.arange(n_patches), torch.full((end,), -1)])
        units = row.expand(len(pixels), -1).contiguous()
        return {"pixel_values": pixels}, units, [n_patches] * len(pixels), (("",) * n_patches,) * len(pixels)
