"""Mosaics of four images of different classes, so that the pixels that speak for a class are known on real images."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
from PIL import Image, ImageOps
from PIL import __version__ as pillow

from benchmark.errors import UserError
from benchmark.models.images import Losses, in_colours
from benchmark.randomness import generator
from benchmark.settings.declared import Count, Natural, configurable
from benchmark.types import Example, Task
from tasks.common import check_split, digest
from tasks.lazily import Lazily, labels_of

CELLS = 4


@configurable
class Grid:
    """2 × 2 mosaics of another task's images, of four classes that are drawn; the label is the class in one drawn quadrant.

    The mask is that quadrant exactly: it alone is annotated with the label, and the other three with classes of their own
    (docs/protocols.md, section 11). Models learn from the wrapped task. A mosaic is one example with one label, so that its
    scores count once. Each is drawn
    from a stream of its own, so that their number changes none; an image may stand in several. An image is resized, by
    bicubic interpolation, until its shorter side is the cell's; what reaches beyond a square is cut evenly on both sides.

    The quadrants are whole patches where a model's input is square and its side divisible by twice the patch's. Of the
    default of 224 pixels, 112 is both 7 × 16 and 8 × 14; the image processor brings a mosaic to a model's own size.

    Böhle et al. 2021 place 3 × 3 images of different classes that the model classifies confidently, and explain each of
    their classes; Arias-Duart et al. 2022 place 2 × 2, of which two are of the target's class. Here no model chooses the
    images, and one of four is of the class.

    Attributes:
        task: gives images and classes.
        examples: mosaics of a split.
        side: in pixels, of one cell.
        seed: determines every mosaic.
        name: the task's name in run folders.
    """

    version: ClassVar[int] = 1
    task: Task
    examples: Count = 400
    side: Count = 112
    seed: Natural = 0
    name: str = "grid"
    _splits: dict[str, Lazily] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def learned_from(self) -> Task:
        """The wrapped task: a mosaic has four classes, and which is its label is drawn."""
        return self.task

    @property
    def labels(self) -> Sequence[str]:
        """The class names of the wrapped task."""
        return self.task.labels

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the settings and the wrapped task's fingerprint, which the mosaics follow from."""
        settings = {name: getattr(self, name) for name in ("examples", "side", "seed")}
        drawn_by = {"numpy": np.__version__, "pillow": pillow}
        return digest({"task": "grid", "version": self.version, **settings, **drawn_by}, [self.task.fingerprint])

    def split(self, name: str) -> Sequence[Example]:
        """Mosaics of the wrapped task's split, each made when it is asked for.

        Raises:
            UserError: the split has fewer than four classes, or what stands in it are no images.
        """
        check_split(self.name, name)
        if name not in self._splits:
            images = self.task.split(name)
            classes: dict[int, list[int]] = {}
            for place, label in enumerate(labels_of(images)):
                if label >= 0:
                    classes.setdefault(label, []).append(place)
            if len(classes) < CELLS:
                raise UserError(
                    f"task {self.name}: the {name} split of {self.task.name} has images of {len(classes)} classes, and a "
                    f"mosaic needs {CELLS}; use another split or task"
                )
            mosaics = _Mosaics(name, images, classes, self.side, self.seed)
            self._splits[name] = Lazily(mosaics.make, range(self.examples), mosaics.label, mosaics.uid)
        return self._splits[name]


@dataclass(frozen=True)
class Layout:
    """What stands in a mosaic.

    Attributes:
        places: of its images in the split, row by row.
        classes: of each.
        chosen: the quadrant whose class is the label.
    """

    places: tuple[int, ...]
    classes: tuple[int, ...]
    chosen: int


@dataclass(frozen=True)
class _Mosaics:
    split: str
    images: Sequence[Example]
    classes: dict[int, list[int]]
    side: int
    seed: int
    losses: Losses = field(default_factory=Losses, compare=False)

    def layout(self, index: int) -> Layout:
        """Four classes without replacement, an image of each, and a quadrant, all alike probable."""
        rng = generator(self.seed, "mosaic", self.uid(index))
        classes = rng.choice(sorted(self.classes), CELLS, replace=False).tolist()
        places = tuple(self.classes[label][int(rng.integers(len(self.classes[label])))] for label in classes)
        return Layout(places, tuple(classes), int(rng.integers(CELLS)))

    def label(self, index: int) -> int:
        """The class in the chosen quadrant."""
        layout = self.layout(index)
        return layout.classes[layout.chosen]

    def make(self, index: int) -> Example:
        """The mosaic of a place."""
        layout, side = self.layout(index), self.side
        mosaic, mask = Image.new("RGB", (2 * side, 2 * side)), np.zeros((2 * side, 2 * side), dtype=bool)
        for cell, place in enumerate(layout.places):
            top, left = side * (cell // 2), side * (cell % 2)
            mosaic.paste(self._cell(self.images[place]), (left, top))
            if cell == layout.chosen:
                mask[top : top + side, left : left + side] = True
        meta = {"classes": layout.classes, "images": tuple(self.images[place].uid for place in layout.places)}
        return Example(self.uid(index), mosaic, layout.classes[layout.chosen], mask=mask, meta=meta)

    def uid(self, index: int) -> str:
        """What the mosaic of a place is called."""
        return f"{self.split}-{index:05d}"

    def _cell(self, example: Example) -> Image.Image:
        if not isinstance(example.inputs, Image.Image):
            raise UserError(f"task grid: example '{example.uid}' is no image; wrap a task of images")
        image = in_colours(example.inputs, example.uid, self.losses)
        return ImageOps.fit(image, (self.side, self.side), Image.Resampling.BICUBIC)
