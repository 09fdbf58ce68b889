"""A coloured square planted into images, and labels reassigned by known rules: what a model has to go by is known."""

import colorsys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, ClassVar, Literal

import numpy as np
from PIL import Image
from PIL import __version__ as pillow

from benchmark.annotations import KEYS, PlantedWords
from benchmark.errors import UserError
from benchmark.models.images import Losses, in_colours
from benchmark.settings.declared import Above, Count, Distinct, Natural, SettingError, Share, configurable
from benchmark.settings.early import SPLITS
from benchmark.types import Example, Task
from tasks.common import check_split, digest
from tasks.lazily import Lazily
from tasks.planting_rules import Rules, drawn_part

Split = Literal["train", "validation", "test"]


@configurable
class PlantedPatch:
    """The images of another task with a planted square of one colour; labels are reassigned (docs/protocols.md, section 11).

    Labels and features are drawn as by `planted_feature`. The feature of class k of K is a square in the fully saturated
    colour of hue k/K, at a drawn place; its side is a `size` of the image's shorter one. `Example.mask` is the square, in
    place of what the task's mask was, so that tests of localisation ask for it.

    Attributes:
        task: gives images and labels.
        kept: the share of labels that stay.
        size: side of the square over the shorter side of the image.
        shortcut_strength: the share of squares that are of the label's colour.
        shortcut_rate: the share of the images of a split that hold a square.
        shortcut_splits: the splits whose images hold some.
        flipped_splits: those of them in which squares go with other labels.
        train: images of the training split, drawn; None for all.
        seed: of labels, colours and places; an image's do not depend on the others.

    Raises:
        SettingError: a flipped split that holds none.
        UserError: examples that are no images.

    Source: Zhou et al. 2022 (arXiv:2104.14403), as in `planted_feature`; the square stands for the manipulations of the
    authors' published program (blur, brightness, hue, noise, watermark).
    """

    version: ClassVar[int] = 1

    task: Task
    kept: Share = 0.5
    size: Annotated[float, Above(0)] = 0.25
    shortcut_strength: Share = 0.9
    shortcut_rate: Share = 1.0
    shortcut_splits: Annotated[Sequence[Split], Distinct()] = SPLITS
    flipped_splits: Annotated[Sequence[Split], Distinct()] | None = None
    train: Count | None = None
    seed: Natural = 0
    _splits: dict[str, Lazily] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not set(self.flipped_splits or ()) <= set(self.shortcut_splits):
            raise SettingError("flipped_splits", self.flipped_splits, f"those of {list(self.shortcut_splits)}")
        if self.size > 1:
            raise SettingError("size", self.size, "above 0 up to 1")

    @property
    def name(self) -> str:
        """The task's name with the feature."""
        return f"{self.task.name}-patch"

    @property
    def labels(self) -> Sequence[str]:
        """Those of the task."""
        return self.task.labels

    @cached_property
    def fingerprint(self) -> str:
        """Of the task and the settings."""
        names = ("kept", "size", "shortcut_strength", "shortcut_rate", "train", "seed")
        settings = {name: getattr(self, name) for name in names} | {
            "splits": sorted(self.shortcut_splits),
            "flipped": sorted(self.flipped_splits or ()),
            "pillow": pillow,
        }
        return digest({"task": "planted_patch", "version": self.version, **settings}, [self.task.fingerprint])

    def split(self, name: str) -> Sequence[Example]:
        """Images of "train", "validation" or "test", each made when it is asked for."""
        check_split(self.name, name)
        if name not in self._splits:
            images = self.task.split(name)
            places = drawn_part(range(len(images)), self.train if name == "train" else None, self.seed)
            rules = Rules(len(self.labels), self.kept, self.shortcut_strength, self.shortcut_rate, self.seed)
            flipped = name in (self.flipped_splits or ())
            drawn = _Drawn(images, places, rules, self.size, name in self.shortcut_splits, flipped)
            self._splits[name] = Lazily(drawn.make, range(len(places)), image_uid_of=_uids(images, places))
        return self._splits[name]


def _uids(images: Sequence[Example], places: Sequence[int]) -> Callable[[int], str] | None:
    """What the images of places are called, where that is known without making them."""
    known = images.image_uids() if isinstance(images, Lazily) else None
    return None if known is None else lambda place: known[places[place]]


@dataclass(frozen=True)
class _Drawn:
    images: Sequence[Example]
    places: Sequence[int]
    rules: Rules
    size: float
    holds: bool
    flipped: bool
    losses: Losses = field(default_factory=Losses, compare=False)

    def make(self, index: int) -> Example:
        """The image of a place, with its new label and its square."""
        example = self.images[self.places[index]]
        if not isinstance(example.inputs, Image.Image):
            raise UserError(f"example '{example.uid}' is no image to plant a square into")
        if example.label < 0:
            return replace(example, mask=None)
        label, of, rng = self.rules.draw(example.uid, example.label, flipped=self.flipped)
        if of is None or not self.holds:
            return replace(example, label=label, mask=None)
        image = in_colours(example.inputs, example.uid, self.losses).copy()
        side = max(1, round(self.size * min(image.size)))
        left, top = (int(rng.integers(length - side + 1)) for length in image.size)
        red, green, blue = (round(255 * part) for part in colorsys.hsv_to_rgb(of / self.rules.classes, 1.0, 1.0))
        image.paste((red, green, blue), (left, top, left + side, top + side))
        mask = np.zeros((image.height, image.width), dtype=bool)
        mask[top : top + side, left : left + side] = True
        meta = {**example.meta, KEYS[PlantedWords]: PlantedWords(mask, of)}
        return replace(example, inputs=image, label=label, mask=mask, meta=meta)
