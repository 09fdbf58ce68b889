"""The batches of a comparison, encoded when they are asked for, so that memory does not grow with the number of examples."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from threading import RLock
from typing import overload

import torch

from benchmark.errors import UserError
from benchmark.models.again import MasksAgain, TensorsAgain
from benchmark.types import Batch

ROOM = 32 << 20
"""Bytes of encoded batches that are held: some 50 images of 224 × 224 pixels, or more than 10,000 sentences."""

_LEAST = 2  # batches that are held however large they are
_OF_A_WORD = 64  # bytes of a short string and of its place in a tuple


class Encoded(Sequence[Batch]):
    """Batches that are encoded when they are asked for; the last ones are held, as far as there is room.

    All are encoded once at the start, so that a mistake in an example ends a comparison before it computes anything. Of
    texts the identifiers are kept, and of images everything but pixels and masks: what goes over the units or the labels of
    images opens no file. An example that is encoded again has to give the same tensors.

    Args:
        encode: the batch of some examples.
        parts: the places of the examples of each batch.
        room: bytes of encoded batches that are held.

    Attributes:
        sizes: examples in each batch.
        uids: of all examples, in order.
        labels: the annotated class of every example, in order; -1 where there is none.
        units: of all examples together.
        lost: units of all examples that lie beyond the model's window.
    """

    def __init__(
        self, encode: Callable[[Sequence[int]], Batch], parts: Sequence[Sequence[int]], room: int | None = None
    ) -> None:
        self._encode, self._parts = encode, parts
        self._room = ROOM if room is None else room
        self._recent: OrderedDict[int, Batch] = OrderedDict()
        self._held = 0
        self._lock = RLock()
        self._outlines: list[Batch | None] = []
        self._digests: list[bytes] = []
        self.sizes: list[int] = []
        self.units = self.lost = 0
        uids: list[str] = []
        labels: list[int] = []
        for index, places in enumerate(parts):
            batch = encode(places)
            self.sizes.append(len(batch))
            self.units += int(batch.n_units.sum())
            self.lost += int(batch.lost_units.sum())
            uids += batch.uids
            labels += batch.label.tolist()
            self._digests.append(_digest(batch))
            self._outlines.append(self._outline(index, batch) if batch.patch is not None else None)
            self._hold(index, batch)
        self.uids, self.labels = tuple(uids), tuple(labels)

    def __len__(self) -> int:
        return len(self.sizes)

    @overload
    def __getitem__(self, index: int) -> Batch: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Batch]: ...
    def __getitem__(self, index: int | slice) -> "Batch | Sequence[Batch]":
        """A batch, or a choice of them that is encoded as late.

        Raises:
            UserError: its examples are not what they were at the start.
        """
        if isinstance(index, slice):
            return Chosen(self, range(len(self))[index])
        place = range(len(self))[index]
        return self._outlines[place] or self._whole(place)

    def _outline(self, index: int, batch: Batch) -> Batch:
        whole = partial(self._whole, index)
        masks = MasksAgain(len(batch.masks), whole) if batch.masks else ()
        corrupted = TensorsAgain(tuple(batch.corrupted), whole, "corrupted") if batch.corrupted else {}
        return replace(batch, tensors=TensorsAgain(tuple(batch.tensors), whole), masks=masks, corrupted=corrupted)

    def _whole(self, index: int) -> Batch:
        with self._lock:
            if index in self._recent:
                self._recent.move_to_end(index)
                return self._recent[index]
            batch = self._encode(self._parts[index])
            if _digest(batch) != self._digests[index]:
                raise UserError(
                    f"examples '{batch.uids[0]}' to '{batch.uids[-1]}' are not what they were when the command began; run "
                    "it again, and leave the task's files alone while it runs"
                )
            self._hold(index, batch)
            return batch

    def _hold(self, index: int, batch: Batch) -> None:
        self._recent[index] = batch
        self._held += _size(batch)
        while self._held > self._room and len(self._recent) > _LEAST:
            _, old = self._recent.popitem(last=False)
            self._held -= _size(old)


@dataclass(frozen=True, eq=False)
class Chosen(Sequence[Batch]):
    """Some of several batches, each asked for when it is needed.

    Attributes:
        batches: all of them.
        places: those that are chosen, in order.
    """

    batches: Sequence[Batch]
    places: Sequence[int]

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, index: int) -> Batch: ...
    @overload
    def __getitem__(self, index: slice) -> "Chosen": ...
    def __getitem__(self, index: int | slice) -> "Batch | Chosen":
        """One of them, or a choice of them."""
        if isinstance(index, slice):
            return Chosen(self.batches, self.places[index])
        return self.batches[self.places[index]]


def sizes_of(batches: Sequence[Batch]) -> list[int]:
    """Examples in each batch, without encoding any."""
    if isinstance(batches, Chosen):
        sizes = sizes_of(batches.batches)
        return [sizes[place] for place in batches.places]
    return batches.sizes if isinstance(batches, Encoded) else [len(batch) for batch in batches]


def lengths_of(batches: Sequence[Batch]) -> list[list[int]]:
    """Tokens of each example without padding, by batch; every batch is looked at."""
    return [batch.attention_mask.sum(1).tolist() for batch in batches]


def uids_of(batches: Sequence[Batch]) -> tuple[str, ...]:
    """The examples of all batches in order, without encoding any."""
    return batches.uids if isinstance(batches, Encoded) else tuple(uid for batch in batches for uid in batch.uids)


def labels_of(batches: Sequence[Batch]) -> tuple[int, ...]:
    """The annotated classes of the examples of all batches in order, -1 where there is none, without encoding any."""
    if isinstance(batches, Encoded):
        return batches.labels
    return tuple(label for batch in batches for label in batch.label.tolist())


def _size(batch: Batch) -> int:
    tensors = (batch.units, *batch.tensors.values(), *batch.corrupted.values())
    words = 0 if batch.patch is not None else sum(map(len, batch.words)) * _OF_A_WORD
    masks = sum(mask.nbytes for mask in batch.masks if mask is not None)
    return words + masks + sum(tensor.nbytes for tensor in tensors)


def _digest(batch: Batch) -> bytes:
    """Of everything that a model and a test read of it as arrays."""
    found = blake2b(digest_size=16)
    for part in _arrays(batch):
        found.update(part)
    return found.digest()


def _arrays(batch: Batch) -> Iterable[bytes]:
    for name, tensor in (*batch.tensors.items(), *batch.corrupted.items()):
        yield f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode()
        yield tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes()
    for array in (*batch.masks, *batch.rationale):
        yield b"none" if array is None else array.tobytes()
