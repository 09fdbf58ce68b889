"""Images in class folders or named by lists, with what is marked in them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from PIL import Image

from benchmark.errors import UserError
from benchmark.settings.declared import configurable
from benchmark.settings.early import SPLITS, Checkpoint, Surroundings
from benchmark.settings.ways_out import typed
from benchmark.types import Example
from tasks.common import check_split, digest
from tasks.image_files import NAMES_FILES, Listed, class_names, digests
from tasks.image_marks import Boxes, Ends, boxes_beside, boxes_of_table, filled, found, mask_files, read_mask
from tasks.image_sources import FolderSource, HubSource, Pictures, Source
from tasks.lazily import Lazily


@configurable
class ImageFolder:
    """Images with a class each, and masks where a file of boxes or a folder of masks marks what decides.

    A folder is laid out as torchvision's `ImageFolder` reads it, `<path>/<split>/<class>/**/*.jpg` (and all other endings
    that Pillow reads), with split folders or without; or a list for each split names its files: a table with the columns
    `file` and `label`, or a JSON array of [file, label]. A `path` that is no folder is an id of the Hugging Face hub. Images
    are opened one by one, when they are asked for, the first frame of an animated one, and turned by their EXIF orientation,
    as `datasets` and transformers turn them; masks are turned by their own, and boxes are of the upright image.

    Boxes become filled rectangles; several of an image's class are united, and the boxes that a file gives to another class
    are other objects. An image without any has no mask.

    Attributes:
        path: the folder, or the hub's id.
        splits: folder or list of each split, below `path` (of the hub: its names). None: those called `train`;
            `validation`, `valid`, `val` or `dev`; `test`; of lists also `split-train.json`; a list is read where both are
            there. A folder of class folders alone is the split "test".
        class_names: file with a line for each class: the class as its folder or list calls it, a tab or a space, and its
            names. "auto": `words.txt` or `LOC_synset_mapping.txt` below `path`, where one is there; null: none.
        boxes: table with the columns `file` (below `path`, or the name alone), `x0`, `y0`, `x1`, `y1` in pixels of the image
            from 0 on and, where the boxes have classes, `label`. "auto": the `<class>/<class>_boxes.txt` of Tiny-ImageNet,
            where they are there; null: none.
        box_ends: whether the right column and the lower row of a box belong to it. Those of Tiny-ImageNet do: they run
            from 0 to 63 in images of 64 pixels.
        masks: folder with an image for each image, of the same path or name: what is not black is marked.
        image, label: columns of a data set of the hub.
        config, revision: its configuration and git revision.
        name: the task's name in run folders.

    Raises:
        UserError: the folder or a file of it is not there, has no images, or is broken; with the file and the line.
    """

    version: ClassVar[int] = 2  # 2: images are turned by their EXIF orientation
    class_by_class: ClassVar[bool] = True

    path: Annotated[str, Checkpoint("data set")]
    splits: Mapping[str, str] | None = None
    class_names: str | None = "auto"
    boxes: str | None = "auto"
    box_ends: Ends = "inclusive"
    masks: str | None = None
    image: str = "image"
    label: str = "label"
    config: str | None = None
    revision: str | None = None
    name: str = "image_folder"
    _splits: dict[str, Lazily] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if unknown := sorted({*map(str, self.splits or ())} - {*SPLITS}):
            raise UserError(f"task.splits has the unknown split {unknown[0]!r}; allowed are {', '.join(SPLITS)}")
        if self.masks is not None and self.boxes not in ("auto", None):
            raise UserError("task.masks and task.boxes are both set; give one of them")
        if not self._local and self.masks is not None:
            raise UserError(f"task.masks={self.masks}: a data set of the hub has no files; {typed('task.masks', None)}")

    @property
    def labels(self) -> Sequence[str]:
        """The names of the classes in the order of what their folders or lists call them; all names of a synset."""
        return tuple(self._names.get(kind, kind) for kind in self._source.kinds)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the settings, and names, classes and contents of all files that are read (`image_files.digests`)."""
        settings: dict[str, Any] = {
            "task": "image_folder",
            "version": self.version,
            "labels": list(self.labels),
            "box_ends": self.box_ends,
            "columns": [self.image, self.label],
        }
        parts = list(self._source.fingerprints())
        for split in self._source.places if isinstance(self._source, FolderSource) else ():
            pictures = self._source.pictures(split)
            marked = self._boxes(pictures)
            parts += [f"{file}\t{[box.corners for box in boxes]}" for file, boxes in marked.items()]
            if self._masks is not None:
                parts += digests((file, path) for file, path in self._mask_files(pictures).items())
        return digest(settings, parts)

    def split(self, name: str) -> Sequence[Example]:
        """Examples of "train", "validation" or "test", each opened when it is asked for; inputs are PIL images."""
        check_split(self.name, name)
        if name not in self._splits:
            pictures = self._source.pictures(name)
            index = {kind: place for place, kind in enumerate(self._source.kinds)}
            labels = [index[kind] for kind in pictures.kinds]
            mark = self._marking(pictures)

            def example(place: int) -> Example:
                image = pictures.image(place)
                return Example(pictures.uids[place], image, labels[place], mask=mark(place, image))

            self._splits[name] = Lazily(example, range(len(labels)), labels.__getitem__, pictures.uids.__getitem__)
        return self._splits[name]

    @property
    def _local(self) -> bool:
        return Path(self.path).expanduser().is_dir()

    @cached_property
    def _source(self) -> Source:
        if self._local:
            return FolderSource(Path(self.path).expanduser(), self.splits, self._masks)
        if mistake := Checkpoint("data set").mistake("task.path", self.path, Surroundings()):
            raise UserError(mistake)
        return HubSource((self.path, self.config, self.revision), self.splits, self.image, self.label)

    @cached_property
    def _names(self) -> Mapping[str, str]:
        if self.class_names == "auto":
            places = [Path(self.path).expanduser() / name for name in NAMES_FILES]
            file = next((place for place in places if place.is_file()), None)
        else:
            file = self._below("class_names", self.class_names, "file")
        return {} if file is None else class_names(file)

    @cached_property
    def _masks(self) -> Path | None:
        return self._below("masks", self.masks, "folder")

    @cached_property
    def _all_boxes(self) -> Boxes:
        if not isinstance(self._source, FolderSource) or self._masks is not None:
            return {}
        if self.boxes != "auto":
            file = self._below("boxes", self.boxes, "file")
            return {} if file is None else self._of_images(boxes_of_table(file), file)
        folders = {parent for image in self._everywhere for parent in (image.path.parent, image.path.parent.parent)}
        return boxes_beside(sorted(folders))

    def _of_images(self, boxes: Boxes, file: Path) -> Boxes:
        """The boxes of a file, of which at least one is an image's: names in another form match none."""
        known = {name for image in self._everywhere for name in (image.file, image.path.name)}
        if boxes and known.isdisjoint(boxes):
            raise UserError(
                f"{file}: none of its files is an image below task.path={self.path}, neither by its path, such as "
                f"{self._everywhere[0].file}, nor by its name; the first is {next(iter(boxes))}"
            )
        return boxes

    def _boxes(self, pictures: Pictures) -> Boxes:
        return found(self._all_boxes, pictures.listed, self._everywhere, self._source.kinds)

    def _mask_files(self, pictures: Pictures) -> Mapping[str, Path]:
        if self._masks is None:
            return {}
        if not (all_masks := mask_files(self._masks, self._everywhere)):
            raise UserError(
                f"task.masks={self.masks}: no file in it has the path or the name of an image, such as "
                f"{Path(self._everywhere[0].file).with_suffix('.png')}"
            )
        return {file: all_masks[file] for file in pictures.uids if file in all_masks}

    @cached_property
    def _everywhere(self) -> Sequence[Listed]:
        """The images of all splits."""
        if not isinstance(self._source, FolderSource):
            return ()
        return [image for split in self._source.places for image in self._source.listed(split)]

    def _marking(self, pictures: Pictures) -> Callable[[int, Image.Image], np.ndarray | None]:
        """What makes an example's mask of its place and its image."""
        boxes, masks = self._boxes(pictures), self._mask_files(pictures)

        def mask(place: int, image: Image.Image) -> np.ndarray | None:
            if self._masks is not None:
                file = masks.get(pictures.uids[place])
                return None if file is None else read_mask(file, image)
            own = boxes.get(pictures.uids[place])
            return None if own is None else filled(own, image, self.box_ends)

        return mask

    def _below(self, setting: str, value: str | None, kind: Literal["file", "folder"]) -> Path | None:
        """The file or folder of a setting: as it is written, or below `path`."""
        if value is None:
            return None
        places = (Path(value).expanduser(), Path(self.path).expanduser() / value)
        there = next((place for place in places if (place.is_dir() if kind == "folder" else place.is_file())), None)
        if there is None:
            raise UserError(f"task.{setting}={value} is no {kind}, neither here nor in task.path={self.path}")
        return there
