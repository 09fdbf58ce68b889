"""Small folders of images that tests write."""

import json
from pathlib import Path

import numpy as np
from PIL import Image

COLOURS = {"banana": (250, 220, 40), "koala": (130, 130, 140), "bus": (240, 120, 20), "alp": (60, 110, 220)}
OTHER = (9, 9, 9)


def write_image(path: Path, colour=(9, 9, 9), size=(8, 6), mode="RGB") -> Path:
    """A plain image of a colour, [width, height]."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).convert(mode).save(path)
    return path


def write_folder(root: Path, split: str = "", each: int = 2, kinds=tuple(COLOURS), size=(8, 6)) -> Path:
    """So many images of each class in `<root>/<split>/<class>/`."""
    for kind in kinds:
        for number in range(each):
            write_image(root / split / kind / f"{kind}_{number}.png", COLOURS.get(kind, OTHER), size)
    return root


def write_tiny_imagenet(root: Path) -> Path:
    """Two classes in Tiny-ImageNet's layout: images of 8 × 6 pixels, boxes, names and lists of splits."""
    lists = {"train": [], "test": []}
    for kind, name in (("n02", "koala, koala bear"), ("n01", "goldfish, Carassius auratus")):
        boxes = []
        for number in range(3):
            file = write_image(root / "train" / kind / "images" / f"{kind}_{number}.JPEG")
            boxes.append(f"{file.name}\t{number}\t1\t{number + 2}\t5")
            lists["test" if number == 2 else "train"].append(
                [file.relative_to(root).as_posix(), name.partition(",")[0]]
            )
        (root / "train" / kind / f"{kind}_boxes.txt").write_text("\n".join(boxes) + "\n", encoding="utf-8")
        with (root / "words.txt").open("a", encoding="utf-8") as words:
            words.write(f"{kind}\t{name}\n")
    for split, items in lists.items():
        (root / f"split-{split}.json").write_text(json.dumps(items), encoding="utf-8")
    return root


def corners(mask) -> tuple[int, int, int, int]:
    """Left, top, right, lower (not included) of a filled rectangle."""
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    left, top, right, lower = columns[0], rows[0], columns[-1] + 1, rows[-1] + 1
    assert mask.sum() == (right - left) * (lower - top)
    return int(left), int(top), int(right), int(lower)
