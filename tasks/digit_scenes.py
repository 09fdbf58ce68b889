"""Scenes of handwritten digits whose label depends on known pixels only, so that the truth is known exactly."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import ClassVar, Literal, overload

import numpy as np
from PIL import Image

from benchmark.settings.declared import Count, Natural, configurable
from benchmark.settings.early import SPLITS
from benchmark.settings.randomness import generator
from benchmark.types import Example
from tasks.common import check_split, digest
from tasks.scene_drawing import draw_canvas, draw_digits

_SHARES = {"train": 0.65, "validation": 0.1, "test": 0.25}


@configurable
class DigitScenes:
    """Digits that people wrote, on textured canvases with distractor strokes (docs/protocols.md, section 11).

    The digits are the 1,797 of scikit-learn, 8 × 8 pixels with 16 shades, enlarged to 24 × 24 and written in light ink of a
    drawn colour on 48 × 48 pixels, in a lattice of 8 pixels. A scene has one digit, which is its label, or two different
    ones that do not overlap; the label is then the larger, or the one that begins further left. The mask has exactly the
    pixels that the label's digit covers: they give the label alone, the other digit argues for another class, and strokes
    argue for none. Canvas, places, strokes and inks are drawn before the digits and do not depend on them.

    Attributes:
        name: the task's name in run folders.
        seed: determines every scene; each scene has its own stream, so that the size of a split changes no other scene.
        digits: in a scene.
        label: which of two digits is the label.
        strokes: at most, in a scene.
        train, validation, test: number of scenes in each split; the splits share no digit that was written.
    """

    version: ClassVar[int] = 1
    rationale_is_truth: ClassVar[Literal[True]] = True

    name: str = "digit_scenes"
    seed: Natural = 0
    digits: Literal[1, 2] = 1
    label: Literal["larger", "left"] = "larger"
    strokes: Natural = 4
    train: Count = 10000
    validation: Count = 300
    test: Count = 400
    _splits: dict[str, "Scenes"] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def labels(self) -> Sequence[str]:
        """Class names: 0 to 9."""
        return tuple(map(str, range(10)))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over every pixel, mask and label: it changes with the settings and with the drawing."""
        parts = [_digest(example) for split in SPLITS for example in self.split(split)]
        return digest({"task": "digit_scenes", "version": self.version}, parts)

    def split(self, name: str) -> Sequence[Example]:
        """Examples of "train", "validation" or "test", each drawn when it is asked for; inputs are PIL images."""
        check_split(self.name, name)
        if name not in self._splits:
            count = getattr(self, name)
            self._splits[name] = Scenes(name, count, self.seed, self.digits, self.label, self.strokes)
        return self._splits[name]


@dataclass(frozen=True)
class Scenes(Sequence[Example]):
    """The scenes of one split, drawn when they are asked for.

    Attributes:
        split: its name.
        size: how many there are.
        seed, digits, label, strokes: see `DigitScenes`.
    """

    split: str
    size: int
    seed: int
    digits: int
    label: str
    strokes: int

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, index: int) -> Example: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Example]: ...
    def __getitem__(self, index: int | slice) -> Example | Sequence[Example]:
        """One scene, or those of a slice."""
        places = range(self.size)[index]
        return self._scene(places) if isinstance(places, int) else tuple(map(self._scene, places))

    def __iter__(self) -> Iterator[Example]:
        return map(self._scene, range(self.size))

    def _scene(self, index: int) -> Example:
        uid = f"{self.split}-{index:05d}"
        rng = generator(self.seed, "scene", uid)
        canvas = draw_canvas(rng, self.digits, self.strokes)
        shapes, classes = _written(self.split)
        chosen = [int(rng.integers(len(classes)))]
        while len(chosen) < self.digits:
            other = int(rng.integers(len(classes)))
            chosen += [other] if classes[other] != classes[chosen[0]] else []
        pixels, masks = draw_digits(canvas, [shapes[place] for place in chosen])
        ranks = classes[chosen] if self.label == "larger" else [-column for _, column in canvas.places]
        decisive = int(np.argmax(ranks))
        label = int(classes[chosen[decisive]])
        return Example(uid=uid, inputs=Image.fromarray(pixels), label=label, mask=masks[decisive])


@cache
def _written(split: str) -> tuple[np.ndarray, np.ndarray]:
    """The digits [N, 8, 8] of a split, ink in [0, 1], and what they say; the same for every seed."""
    from sklearn.datasets import load_digits

    found = load_digits()
    order = generator(0, "digits of splits").permutation(len(found.target))
    bounds = np.cumsum([0, *(round(share * len(order)) for share in _SHARES.values())])
    place = list(_SHARES).index(split)
    rows = np.sort(order[bounds[place] : bounds[place + 1]])
    return found.images[rows] / 16, found.target[rows]


def _digest(example: Example) -> bytes:
    content = f"{example.uid}\t{example.label}\t".encode() + example.inputs.tobytes() + example.mask.tobytes()
    return hashlib.sha256(content).digest()
