"""Where images with classes come from: a folder on the disk, or a data set of the Hugging Face hub."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from PIL import Image

from benchmark.errors import NoSplit, UserError
from benchmark.models.images import opened
from benchmark.settings.early import SPLITS
from tasks.hub import HubDataSet, hub_class_names, hub_fingerprints, hub_split, hub_splits
from tasks.image_files import LISTS, Listed, class_folders, digests, in_folders, in_list
from tasks.label_names import label_text
from tasks.text_classification import STEMS


@dataclass(frozen=True)
class Pictures:
    """The images of a split, none of them open.

    Attributes:
        uids: their identifiers: a file's path below the root, or split and row.
        kinds: their classes, as the source calls them.
        image: opens that of a place.
        listed: their files, where they are files.
    """

    uids: Sequence[str]
    kinds: Sequence[str]
    image: Callable[[int], Image.Image]
    listed: Sequence[Listed] = ()


class Source(Protocol):
    """A folder or a data set of the hub."""

    @property
    def kinds(self) -> Sequence[str]:
        """All classes, in a fixed order."""

    def pictures(self, split: str) -> Pictures:
        """Those of a split; NoSplit where there is none, UserError where it is empty."""

    def fingerprints(self) -> Sequence[bytes | str]:
        """Digests of what all splits hold."""


@dataclass(frozen=True)
class FolderSource:
    """Images in `<root>/<split>/<class>/`, in `<root>/<class>/`, or named by a list for each split.

    Attributes:
        root: the folder.
        splits: list or folder of each split, below the root; None to look for them by name (`train`; `validation`, `valid`,
            `val` or `dev`; `test`; of a list also `split-train.json`). Without any, the root's class folders are "test".
        without: a folder that is no class, such as that of the masks.
    """

    root: Path
    splits: Mapping[str, str] | None = None
    without: Path | None = None
    _listed: dict[str, list[Listed]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def places(self) -> Mapping[str, Path]:
        """The list or the folder of each split that there is."""
        wanted = self.splits or {split: split for split in SPLITS}
        found = {split: place for split, name in wanted.items() if (place := self._find(name)) is not None}
        if missing := [split for split in self.splits or () if split not in found]:
            named = (self.splits or {})[missing[0]]
            raise UserError(f"task.splits.{missing[0]}={named} is neither a folder nor a list in task.path={self.root}")
        return found or {"test": self.root}

    @cached_property
    def kinds(self) -> Sequence[str]:
        """The classes of all splits, by name: those of lists, and every class folder."""
        kinds = {
            kind
            for split, place in self.places.items()
            for kind in (
                [path.name for path in self.class_folders(place)]
                if place.is_dir()
                else [image.kind for image in self.listed(split)]
            )
        }
        return sorted(kinds)

    def class_folders(self, place: Path) -> list[Path]:
        """The class folders of a split's folder."""
        return class_folders(place, self.without)

    def listed(self, split: str) -> list[Listed]:
        """The images of a split, found once."""
        if split not in self.places:
            raise NoSplit(
                f"task.path={self.root} has no {split} split, only {', '.join(self.places)}; name its folder or list "
                f"with task.splits.{split}=NAME",
                f", or use split={[*self.places][-1]}",
            )
        if split not in self._listed:
            place = self.places[split]
            read = in_folders(place, self.root, self.without) if place.is_dir() else in_list(place, self.root)
            if not read:
                raise UserError(
                    f"{place} has no images: put them into {place}/CLASS/, with endings that Pillow reads (.jpg, .png, .tif)"
                )
            self._listed[split] = read
        return self._listed[split]

    def pictures(self, split: str) -> Pictures:
        """Those of a split, in the order of their paths or of the list."""
        listed = self.listed(split)
        return Pictures(
            [image.file for image in listed],
            [image.kind for image in listed],
            lambda place: opened(listed[place].path),
            listed,
        )

    def fingerprints(self) -> Sequence[bytes | str]:
        """Name, class and content of every image of every split."""
        files: dict[str, Path] = {}
        parts: list[bytes | str] = []
        for split in self.places:
            images = self.listed(split)
            files |= {image.file: image.path for image in images}
            parts += [split, *(f"{image.file}\t{image.kind}" for image in images)]
        return [*parts, *digests(files.items())]

    def _find(self, name: str) -> Path | None:
        stems = STEMS.get(name, (name,))
        lists = [f"{stem}{ending}" for stem in stems for ending in LISTS]
        candidates = [self.root / file for file in (*(f"split-{stem}.json" for stem in stems), *lists)]
        candidates += [self.root / stem for stem in stems if (self.root / stem).is_dir() or Path(stem).suffix in LISTS]
        return next((path for path in candidates if path.is_file() or path.is_dir()), None)


@dataclass(frozen=True)
class HubSource:
    """A data set of the hub with a column of images and one of classes.

    Attributes:
        source: id, configuration, revision.
        splits: the hub's names for "train", "validation" and "test"; None: the same.
        image, label: the columns.
    """

    source: HubDataSet
    splits: Mapping[str, str] | None
    image: str
    label: str

    @cached_property
    def kinds(self) -> Sequence[str]:
        """The names of the classes in the data set's own order; of a column without, its values in order."""
        there = [name for name in map(self._name, SPLITS) if name in hub_splits(self.source)]
        if not there:
            raise NoSplit(
                f"task.path={self.source[0]} has the splits {', '.join(hub_splits(self.source))}: set task.splits"
            )
        named = hub_class_names(self.source, there[0], (self.label,))
        return named or sorted({label_text(value) for name in there for value in self._column(name, self.label)})

    def pictures(self, split: str) -> Pictures:
        """Those of a split, decoded when they are asked for."""
        name = self._name(split)
        if name is None:
            raise NoSplit(f"task.splits names no {split} split; set task.splits.{split} to one of the data set's")
        data = hub_split(self.source, name)
        values = self._column(name, self.label)
        if not len(values):
            raise UserError(f"task.path={self.source[0]} is empty: the {split} split has no images")
        self._column(name, self.image)
        return Pictures(
            [f"{name}-{place:06d}" for place in range(len(values))],
            [self._kind(value, name, place) for place, value in enumerate(values)],
            lambda place: self._opened(data[place][self.image], f"{self.source[0]} {name}[{place}]"),
        )

    def fingerprints(self) -> Sequence[bytes | str]:
        """The library's own, of the splits that there are."""
        return hub_fingerprints(self.source, [name for name in map(self._name, SPLITS) if name is not None])

    def _name(self, split: str) -> str | None:
        return split if self.splits is None else self.splits.get(split)

    def _column(self, split: str, column: str) -> Any:
        data = hub_split(self.source, split)
        if column not in data.features:
            setting = "image" if column == self.image else "label"
            raise UserError(f"task.{setting}={column}: {self.source[0]} has the columns {', '.join(data.features)}")
        return data[column]

    def _kind(self, value: Any, split: str, place: int) -> str:
        if isinstance(value, int) and hub_class_names(self.source, split, (self.label,)):
            if not 0 <= value < len(self.kinds):
                where = f"{self.source[0]} {split}[{place}]"
                raise UserError(f"{where}: the label {value} is hidden; use a split with labels (task.splits)")
            return self.kinds[value]
        return label_text(value)

    def _opened(self, image: Any, where: str) -> Image.Image:
        if not isinstance(image, Image.Image):
            raise UserError(
                f"{where}: column {self.image} holds {type(image).__name__} and no image; set task.image=COLUMN"
            )
        return image
