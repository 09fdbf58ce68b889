"""ImageNet-Segmentation: photographs of ImageNet whose object is outlined, in one file of MATLAB's HDF5 format."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from PIL import Image

from benchmark.errors import NoSplit, UserError
from benchmark.settings.availability import needs
from benchmark.settings.declared import configurable
from benchmark.settings.early import ExistingFile
from benchmark.types import Example
from tasks.common import check_split, digest
from tasks.image_files import class_names, digests
from tasks.lazily import Lazily


@configurable
class ImagenetSegmentation:
    """The 4,276 images of `gtsegs_ijcv.mat` (Guillaumin et al. 2014), whose masks are the pixels of the object.

    The file holds two columns of references: `/value/img` to images and `/value/gt` to cells of one reference to a
    segmentation, which is 1 on the object. MATLAB writes arrays column by column, so that an image is [3, width, height]
    and a segmentation [width, height] here. Where there is `/value/target`, it refers to the class of each image, a text
    such as n02084071, as characters; these classes of WordNet need not be among the 1,000 of a classifier, so that labels
    are unknown unless a file names them. There is one split, "test".

    Attributes:
        path: of the file.
        class_names: file with a line for each class that counts: its number in WordNet, a tab or a space, and its names.
            Images of other classes have no label. None: no image has one, and what is tested is the predicted class.
        name: the task's name in run folders.

    Raises:
        UserError: h5py is not installed, the file is not there or of another form, or a mask is not of its image's size.
    """

    version: ClassVar[int] = 1

    path: Annotated[str, ExistingFile()]
    class_names: Annotated[str | None, ExistingFile()] = None
    name: str = "imagenet_segmentation"
    _labels: dict[str, list[int]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        needs("h5py", "task=imagenet_segmentation")

    @property
    def labels(self) -> Sequence[str]:
        """The names of the classes that `class_names` lists."""
        return tuple(self._names.values())

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the settings and the file: its size, beginning, middle and end (`image_files.digests`)."""
        settings = {"task": "imagenet_segmentation", "version": self.version, "labels": list(self._names.items())}
        with self._reading() as (_, images):
            settings["images"] = len(images)
        return digest(settings, list(digests([("gtsegs", Path(self.path).expanduser())])))

    def split(self, name: str) -> Sequence[Example]:
        """The examples of "test", each read when it is asked for; inputs are PIL images."""
        check_split(self.name, name)
        if name != "test":
            raise NoSplit(f"task {self.name} has no {name} split, only test", "; use split=test")
        if "test" not in self._labels:
            with self._reading() as (file, images):
                self._labels["test"] = [self._label(file, place) for place in range(len(images))]
        labels = self._labels["test"]
        places = range(len(labels))
        return Lazily(lambda place: self._example(place, labels[place]), places, labels.__getitem__, _uid)

    @cached_property
    def _names(self) -> Mapping[str, str]:
        return {} if self.class_names is None else class_names(Path(self.class_names).expanduser())

    @contextmanager
    def _reading(self) -> Iterator[tuple[Any, Any]]:
        """The open file and its column of images; UserError where it is of another form."""
        import h5py

        try:
            with h5py.File(Path(self.path).expanduser(), "r") as file:
                yield file, file["value/img"]
        except (OSError, KeyError, ValueError, IndexError, TypeError) as error:
            reason = str(error).splitlines()[0].strip("\"'")
            raise UserError(
                f"task.path={self.path} is not read as gtsegs_ijcv.mat ({reason}); fetch it again"
            ) from error

    def _label(self, file: Any, place: int) -> int:
        if "target" not in file["value"] or not self._names:
            return -1
        characters = np.asarray(file[file["value/target"][place, 0]]).ravel()
        return _index(self._names)("".join(map(chr, characters)))

    def _example(self, place: int, label: int) -> Example:
        uid = _uid(place)
        with self._reading() as (file, images):
            pixels = np.asarray(file[images[place, 0]]).T
            mask = np.asarray(file[file[file["value/gt"][place, 0]][0, 0]]).T > 0
        image = Image.fromarray(np.ascontiguousarray(pixels))
        if mask.shape != (image.height, image.width):
            found = " × ".join(map(str, mask.shape))
            raise UserError(f"{self.path}: {uid} has a mask of {found} pixels for {image.height} × {image.width}")
        return Example(uid, image, label, mask=np.ascontiguousarray(mask))


def _uid(place: int) -> str:
    return f"test-{place:05d}"


def _index(names: Mapping[str, str]) -> Callable[[str], int]:
    index = {kind: place for place, kind in enumerate(names)}
    return lambda kind: index.get(kind, -1)
