"""Scenes of handwritten digits whose label depends on known pixels only, so that the truth is known exactly."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import ClassVar, Literal

import numpy as np
from PIL import Image
from PIL import __version__ as pillow

from benchmark.randomness import generator
from benchmark.settings.declared import Count, Natural, configurable
from benchmark.settings.early import SPLITS
from benchmark.types import Example
from tasks.common import check_split, digest
from tasks.lazily import Lazily
from tasks.scene_drawing import draw_canvas, draw_digits

_SHARES = {"train": 0.65, "validation": 0.1, "test": 0.25}
_LOOKED_AT = 8  # scenes of a split that the fingerprint draws


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
    test: Count = 120
    _splits: dict[str, Lazily] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def labels(self) -> Sequence[str]:
        """Class names: 0 to 9."""
        return tuple(map(str, range(10)))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the settings, the written digits, a few drawn scenes of each split, and the versions of what draws.

        A scene follows from these: drawing all of them would add nothing that another drawing code, another digit or
        another version of NumPy or Pillow does not change already, and takes seconds.
        """
        settings = {name: getattr(self, name) for name in ("seed", "digits", "label", "strokes", *SPLITS)}
        drawn_by = {"numpy": np.__version__, "pillow": pillow}
        parts = [array.tobytes() for split in SPLITS for array in _written(split)]
        parts += [_digest(example) for split in SPLITS for example in self.split(split)[:_LOOKED_AT]]
        return digest({"task": "digit_scenes", "version": self.version, **settings, **drawn_by}, parts)

    def split(self, name: str) -> Sequence[Example]:
        """Examples of "train", "validation" or "test", each drawn when it is asked for; inputs are PIL images."""
        check_split(self.name, name)
        if name not in self._splits:
            scenes = Scenes(name, self.seed, self.digits, self.label, self.strokes)
            self._splits[name] = Lazily(scenes.draw, range(getattr(self, name)), image_uid_of=scenes.uid)
        return self._splits[name]


@dataclass(frozen=True)
class Scenes:
    """How the scenes of one split are drawn.

    Attributes:
        split: its name.
        seed, digits, label, strokes: see `DigitScenes`.
    """

    split: str
    seed: int
    digits: int
    label: str
    strokes: int

    def uid(self, index: int) -> str:
        """What the scene of a place is called."""
        return f"{self.split}-{index:05d}"

    def draw(self, index: int) -> Example:
        """The scene of a place."""
        uid = self.uid(index)
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
