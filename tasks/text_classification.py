"""Text classification from the Hugging Face hub or from local tables."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar

from benchmark.errors import UserError
from benchmark.settings.declared import configurable
from benchmark.settings.early import ExistingFolder, FilesBelow, OrGiven
from benchmark.types import Example
from tasks.common import SPLITS, check_split, digest, label_index
from tasks.hub import hub_class_names, hub_fingerprints, hub_rows
from tasks.local_tables import Quoting, Row, read_table

ENDINGS = (".tsv", ".csv", ".jsonl", ".json", ".parquet")
STEMS: Mapping[str, Sequence[str]] = {
    "train": ("train",),
    "validation": ("validation", "valid", "val", "dev"),
    "test": ("test",),
}


@configurable
class TextClassification:
    """Texts or pairs of texts with a label, and no rationale.

    Local tables are read where `root` is set, or `files` without `path`; the hub's data set `path` otherwise. Inputs are
    a text, or a tuple of two where `text_pair` names a column.

    Attributes:
        path: id of a data set on the Hugging Face hub (or a directory laid out like one).
        config: its configuration, such as "sst2" of GLUE.
        revision: its git revision; None for the newest.
        splits: names of the hub's splits for "train", "validation" and "test" (GLUE hides its test labels: the
            validation split then serves twice).
        root: directory of local tables.
        files: file of each split, relative to `root`; without it the files are found by name (`train`, then
            `validation`, `valid`, `val` or `dev`, then `test`; `.tsv`, `.csv`, `.jsonl`, `.json` or `.parquet`).
        text, text_pair, label: column names; a list of names stands for the first of them that the table has.
        label_names: class names in their order, to which whole numbers refer. None: the hub's own names, else the
            sorted values of the training split.
        quoting: "none" (quotation marks are text), "standard" (as CSV does), or "auto": none for `.tsv` alone.
        name: the task's name in run folders.

    Raises:
        UserError: neither source is set, the hub cannot be reached, or a table is broken, naming the line.
    """

    version: ClassVar[int] = 1

    path: Annotated[str | None, OrGiven(("root", "files"))] = None
    config: str | None = None
    revision: str | None = None
    splits: Mapping[str, str] = field(default_factory=lambda: {name: name for name in SPLITS})
    root: Annotated[str | None, ExistingFolder()] = None
    files: Annotated[Mapping[str, str] | None, FilesBelow("root", instead="path")] = None
    text: str | Sequence[str] = "text"
    text_pair: str | Sequence[str] | None = None
    label: str | Sequence[str] = "label"
    label_names: Sequence[str] | None = None
    quoting: Quoting = "auto"
    name: str = "text_classification"
    _examples: dict[str, tuple[Example, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _tables: dict[str, list[Row]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self._local and self.path is None:
            raise UserError("task.path is not set; give a hub id, or local tables with task.root or task.files")
        for setting, mapping in (("splits", self.splits), ("files", self.files or {})):
            if unknown := sorted(set(mapping) - set(SPLITS)):
                raise UserError(f"task.{setting} has the unknown split {unknown[0]!r}; allowed are {', '.join(SPLITS)}")

    @property
    def _local(self) -> bool:
        return self.root is not None or (self.files is not None and self.path is None)

    @cached_property
    def labels(self) -> Sequence[str]:
        """Class names, in the order of `Example.label`."""
        if self.label_names is not None:
            return tuple(self.label_names)
        if not self._local and (
            names := hub_class_names(self._hub, self._split_name("train"), self._names(self.label))
        ):
            return names
        classes = {str(_value(row, self._names(self.label), "label")).strip() for row in self._rows("train")}
        return tuple(
            sorted(classes, key=lambda name: (not name.isdecimal(), int(name) if name.isdecimal() else 0, name))
        )

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the settings and the files' bytes, or over the hub's own fingerprints of the splits."""
        settings = {
            "task": "text_classification",
            "version": self.version,
            "columns": [self._names(self.text), self._names(self.text_pair), self._names(self.label)],
            "label_names": None if self.label_names is None else list(self.label_names),
            "quoting": self.quoting,
        }
        if self._local:
            files = {split: file for split in SPLITS if (file := self._find(split)) is not None}
            return digest(settings | {"splits": list(files)}, files=list(files.values()))
        splits = {split: self._split_name(split) for split in self.splits}
        return digest(settings | {"splits": splits}, hub_fingerprints(self._hub, splits.values()))

    def split(self, name: str) -> Sequence[Example]:
        """Examples of "train", "validation" or "test", in the table's order."""
        check_split(self.name, name)
        if name not in self._examples:
            rows = self._rows(name)
            self._examples[name] = tuple(self._example(f"{name}-{i:06d}", row) for i, row in enumerate(rows))
        return self._examples[name]

    @property
    def _hub(self) -> tuple[str, str | None, str | None]:
        assert self.path is not None  # checked in __post_init__
        return (self.path, self.config, self.revision)

    def _rows(self, split: str) -> list[Row]:
        if split not in self._tables:
            if self._local:
                file = self._find(split)
                if file is None:
                    raise UserError(
                        f"task.root={self.root} has no table of the {split} split; "
                        f"name one with task.files.{split}=FILE"
                    )
                rows, place = read_table(file, self.quoting), str(file)
            else:
                rows, place = hub_rows(self._hub, self._split_name(split)), f"task.path={self.path}"
            if not rows:
                raise UserError(f"{place} is empty: the {split} split has no examples")
            self._tables[split] = rows
        return self._tables[split]

    def _split_name(self, split: str) -> str:
        if split not in self.splits:
            raise UserError(f"task.splits names no {split} split; set task.splits.{split} to one of the data set's")
        return self.splits[split]

    def _find(self, split: str) -> Path | None:
        """The local table of a split, or None where there is none."""
        root = Path(self.root or ".").expanduser()
        if self.root is not None and not root.is_dir():
            raise UserError(f"task.root={self.root} is not a directory")
        if self.files is not None:
            if split not in self.files:
                return None
            file = root / Path(self.files[split]).expanduser()
            if not file.is_file():
                raise UserError(f"{file} is missing; set task.files.{split} to the table of the {split} split")
            return file
        candidates = (root / (stem + ending) for stem in STEMS[split] for ending in ENDINGS)
        return next((file for file in candidates if file.is_file()), None)

    @staticmethod
    def _names(column: str | Sequence[str] | None) -> tuple[str, ...]:
        return () if column is None else (column,) if isinstance(column, str) else tuple(column)

    def _example(self, uid: str, row: Row) -> Example:
        texts = [_text(row, self._names(self.text), "text")]
        if self.text_pair is not None:
            texts.append(_text(row, self._names(self.text_pair), "text_pair"))
        label = label_index(_value(row, self._names(self.label), "label"), self.labels, row[0])
        inputs: Any = texts[0] if len(texts) == 1 else tuple(texts)
        return Example(uid=uid, inputs=inputs, label=label)


def _value(row: Row, names: Sequence[str], setting: str) -> Any:
    where, values = row
    for name in names:
        if values.get(name) is not None:
            return values[name]
    raise UserError(
        f"{where}: no value in column {' or '.join(map(repr, names))} (task.{setting}); columns are {', '.join(values)}"
    )


def _text(row: Row, names: Sequence[str], setting: str) -> str:
    value = _value(row, names, setting)
    if not isinstance(value, str):
        raise UserError(f"{row[0]}: column of task.{setting} holds {type(value).__name__}, expected a text")
    if not value.split():
        raise UserError(f"{row[0]}: the text has zero words (task.{setting}); drop the row or mend it")
    return value
