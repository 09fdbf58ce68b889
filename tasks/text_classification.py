"""Text classification from the Hugging Face hub or from local tables."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np

from benchmark.errors import NoSplit, UserError
from benchmark.rationales import rationale_of
from benchmark.settings.declared import Distinct, SettingError, configurable
from benchmark.settings.early import SPLITS, ExistingFolder, FilesBelow, OrGiven
from benchmark.settings.ways_out import typed
from benchmark.types import Example
from benchmark.words import Units, in_units, spans_of
from tasks.common import check_split, digest
from tasks.hub import hub_class_names, hub_fingerprints, hub_rows, hub_splits
from tasks.label_names import checked_map, in_order, label_index, named, renamed
from tasks.local_tables import DELIMITERS, Quoting, Row, read_table
from tasks.table_columns import has_column, text_of, unused_rationale, value_of

logger = logging.getLogger(__name__)

ENDINGS = (".tsv", ".csv", ".jsonl", ".json", ".parquet")
STEMS: Mapping[str, Sequence[str]] = {
    "train": ("train",),
    "validation": ("validation", "valid", "val", "dev"),
    "test": ("test",),
}


@configurable
class TextClassification:
    """Texts or pairs of texts with a label and, where a column has them, rationales.

    Local tables are read where `root` is set, or `files` without `path`; the hub's data set `path` otherwise. Inputs are
    a text, or a tuple of two where `text_pair` names a column. A single table is enough: what needs another split, such as
    a control that counts the words of the training split, then has a dash.

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
        query: column of a question or a claim, likewise, which the model reads first and which is never rated or removed;
            rationales are of `text` alone. In place of `text_pair`.
        rationale: column of the rationales, likewise, in one of the forms of `benchmark.rationales`; a row without a value
            is not annotated. None: the task has none.
        label_names: class names in their order, to which whole numbers refer. None: the hub's own names, else the
            sorted values of the training split, or of all splits together where there is no training split.
        label_map: from what the table says to the class's name, where the two differ; several values may share a name.
        quoting: "none" (quotation marks are text), "standard" (as CSV does), or "auto": none for `.tsv` alone.
        delimiter: of `.csv` and `.tsv`: "comma", "semicolon", "tab", "bar", or the character; "auto": the one that the
            header line holds.
        units: what is scored and removed: `words`, `characters`, `sentences`, or `tokens` of the model (`benchmark.words`).
        name: the task's name in run folders and tables.

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
    query: str | Sequence[str] | None = None
    label: str | Sequence[str] = "label"
    rationale: str | Sequence[str] | None = None
    label_names: Annotated[Sequence[str | int | float | bool], Distinct()] | None = None
    label_map: Mapping[Any, Any] | None = None
    quoting: Quoting = "auto"
    delimiter: str = "auto"
    units: Units = "words"
    name: str = "text_classification"
    _examples: dict[str, tuple[Example, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _tables: dict[str, list[Row]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self._local and self.path is None:
            raise UserError("task.path is not set; give a hub id, or local tables with task.root or task.files")
        for setting, mapping in (("splits", self.splits), ("files", self.files or {})):
            if not isinstance(mapping, Mapping):
                raise UserError(
                    f"task.{setting}={mapping} names no split; {typed(f'task.{setting}', {'test': mapping})}"
                )
            if unknown := sorted(set(map(str, mapping)) - set(SPLITS)):
                raise UserError(f"task.{setting} has the unknown split {unknown[0]!r}; allowed are {', '.join(SPLITS)}")
        if self.query is not None and self.text_pair is not None:
            raise UserError(
                "task.query and task.text_pair are both set; give the one that is read first or the second text"
            )
        if self.query is not None and self.units == "tokens":
            raise UserError("task.query needs units of the text's own; choose other task.units than tokens")
        if self.delimiter not in ("auto", *DELIMITERS, *DELIMITERS.values()):
            raise SettingError("delimiter", self.delimiter, f"auto, {', '.join(DELIMITERS)}")
        checked_map(self.label_map, self._given_names)

    @property
    def _local(self) -> bool:
        return self.root is not None or (self.files is not None and self.path is None)

    @property
    def _given_names(self) -> tuple[str, ...] | None:
        return None if self.label_names is None else tuple(map(str, self.label_names))

    @cached_property
    def labels(self) -> Sequence[str]:
        """Class names, in the order of `Example.label`."""
        if self._given_names is not None:
            return self._given_names
        splits = ["train"] if self._has("train") else [split for split in SPLITS if self._has(split)]
        columns = _names(self.label)
        if splits and not self._local and (names := hub_class_names(self._hub, self._split_name(splits[0]), columns)):
            return tuple(dict.fromkeys(renamed(name, self.label_map) for name in names))
        rows = (row for split in splits or ["train"] for row in self._rows(split))
        return in_order(named(value_of(row, columns, "label"), self.label_map, row[0]) for row in rows)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the settings and the files' bytes, or over the hub's own fingerprints of the splits."""
        settings: dict[str, Any] = {
            "task": "text_classification",
            "version": self.version,
            "columns": [_names(self.text), _names(self.text_pair), _names(self.label)],
            "label_names": None if self._given_names is None else list(self._given_names),
            "quoting": self.quoting,
        }
        # settings that older digests do not have are left out where they are not used
        if self.query is not None:
            settings["query"] = _names(self.query)
        if self.rationale is not None:
            settings["rationale"] = _names(self.rationale)
        if self.label_map:
            settings["label_map"] = {str(key): str(name) for key, name in self.label_map.items()}
        if self.delimiter != "auto":
            settings["delimiter"] = DELIMITERS.get(self.delimiter, self.delimiter)
        if self.units != "words":
            settings["units"] = self.units
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
            self._check_rationales(name, rows)
            self._examples[name] = tuple(self._example(f"{name}-{i:06d}", row) for i, row in enumerate(rows))
        return self._examples[name]

    @property
    def _hub(self) -> tuple[str, str | None, str | None]:
        assert self.path is not None  # checked in __post_init__
        return (self.path, self.config, self.revision)

    def _has(self, split: str) -> bool:
        """Whether there is data of a split."""
        if self._local:
            return self._find(split) is not None
        return self.splits.get(split) in hub_splits(self._hub)

    def _rows(self, split: str) -> list[Row]:
        if split not in self._tables:
            if self._local:
                file = self._find(split)
                if file is None:
                    place = "task.files" if self.root is None else f"task.root={self.root}"
                    there = [other for other in SPLITS if self._has(other)]
                    use = f", or use split={there[-1]}" if there else ""
                    raise NoSplit(
                        f"{place} has no table of the {split} split; name one with task.files.{split}=FILE", use
                    )
                rows, place = read_table(file, self.quoting, self.delimiter), str(file)
            else:
                rows, place = hub_rows(self._hub, self._split_name(split)), f"task.path={self.path}"
            if not rows:
                raise UserError(f"{place} is empty: the {split} split has no examples")
            unused = unused_rationale(rows)
            if self.rationale is None and unused and not any(map(unused_rationale, self._tables.values())):
                logger.warning("%s has a column '%s' that is not read: task.rationale=%s", place, unused, unused)
            self._tables[split] = rows
        return self._tables[split]

    def _check_rationales(self, split: str, rows: Sequence[Row]) -> None:
        """A table may lack the column of rationales where another has it, which is said; else UserError."""
        columns = _names(self.rationale)
        if self.rationale is None or has_column(rows, columns):
            return
        others = [other for other in SPLITS if other != split and self._has(other)]
        if not any(has_column(self._rows(other), columns) for other in others):
            value_of(rows[0], columns, "rationale")
        logger.warning(
            "the %s split has no column of task.rationale=%s: its examples have no rationale", split, columns[0]
        )

    def _split_name(self, split: str) -> str:
        if split not in self.splits:
            raise NoSplit(f"task.splits names no {split} split; set task.splits.{split} to one of the data set's")
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
                lack = "is a folder" if file.is_dir() else "is missing"
                raise UserError(f"{file} {lack}; set task.files.{split} to the table of the {split} split")
            return file
        candidates = (root / (stem + ending) for stem in STEMS[split] for ending in ENDINGS)
        return next((file for file in candidates if file.is_file()), None)

    def _example(self, uid: str, row: Row) -> Example:
        def text(setting: str) -> str:
            return in_units(text_of(row, _names(getattr(self, setting)), setting), self.units)

        texts = [text("text")] if self.text_pair is None else [text("text"), text("text_pair")]
        query = () if self.query is None else (text("query"),)
        where, values = row
        label = label_index(value_of(row, _names(self.label), "label"), self.labels, where, self.label_map)
        given = next((values[name] for name in _names(self.rationale) if values.get(name) is not None), None)
        read = (*query, *texts)
        asked = sum(len(spans_of(part)) for part in query)
        rationale = rationale_of(given, texts, where)
        return Example(
            uid=uid,
            inputs=read if len(read) > 1 else read[0],
            label=label,
            rationale=rationale if rationale is None else np.concatenate([np.zeros(asked, dtype=bool), rationale]),
            query_units=asked,
        )


def _names(column: str | Sequence[str] | None) -> tuple[str, ...]:
    return () if column is None else (column,) if isinstance(column, str) else tuple(column)
