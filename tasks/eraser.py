"""ERASER data sets: a document (and a query where there is one), a label, and the human rationale.

Defined in docs/protocols.md, section 9.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from benchmark.annotations import PASSAGE_SEGMENT
from benchmark.errors import NoSplit, UserError
from benchmark.settings.declared import Distinct, configurable
from benchmark.settings.early import SPLITS, ExistingFolder, FilesBelow
from benchmark.types import Example
from tasks.common import check_split, digest, json_lines
from tasks.eraser_documents import Documents
from tasks.eraser_download import SPLIT_FILES, fetch
from tasks.label_names import checked_map, label_index, renamed

FILES: Mapping[str, str] = dict(zip(SPLITS, SPLIT_FILES, strict=True))
"""The file of each split, as published."""


@dataclass(frozen=True)
class Annotation:
    """One line of a split file: where it stands, and the keys that are used."""

    where: str
    uid: str
    classification: str
    query: str
    docids: tuple[str, ...]
    spans: tuple[tuple[str, int, int], ...]


@configurable
class Eraser:
    """One data set in the format of ERASER (DeYoung 2020).

    The directory holds `{train,val,test}.jsonl` and the documents, either as `docs/<docid>` or in `docs.jsonl`. A unit is
    a token of a document, as ERASER's offsets count them (`Documents`). Inputs are the document's words, or a pair
    (query words, document words); the words of such a query are `query_units` and never rated. Where an annotation names
    several documents, they are concatenated in the order of `docids` (else of first mention in the evidences) and
    offsets are shifted. The rationale is the union of all evidence spans; an empty span, as the movie reviews have
    some, marks nothing.

    With `query="auto"` the query is left out where it says nothing. This is so where all annotations ask the same question
    (the movie reviews, whose published models read the document alone), and where the query repeats one of the annotation's
    documents; that document is then the first segment, and rated.

    `Example.meta` holds `annotation_id`, and of each document in input order `docids`, `document_lengths` (words) and
    `evidence_spans`: the annotated spans [start, end) in the document's own offsets, each once, empty ones included.

    Attributes:
        dataset: the official archive that is downloaded where `root` is not set.
        root: the data set's directory, or None.
        files: the file of each split, where another one serves: `{train: test.jsonl, test: val.jsonl}`; of the others it is
            that of the same name.
        query: "auto", "always" or "never".
        label_names: class names in their order; None for the sorted classifications of the training split, or of all splits
            together where there is no training split.
        label_map: from a classification to the class's name, where the two differ.
        base_url: where the archives lie; https, or http where `sha256` names the archive's digest.
        sha256: digests that the archives must have, by data set; None where one is not known.
        name: the task's name in run folders.

    Raises:
        UserError: for a mistake in the directory, naming the file and the line.
    """

    version: ClassVar[int] = 2

    dataset: str = "movies"
    root: Annotated[str | None, ExistingFolder()] = None
    files: Annotated[Mapping[str, str] | None, FilesBelow("root", instead="dataset")] = None
    query: Literal["auto", "always", "never"] = "auto"
    label_names: Annotated[Sequence[str | int | float | bool], Distinct()] | None = None
    label_map: Mapping[Any, Any] | None = None
    base_url: str = "https://www.eraserbenchmark.com/zipped"
    sha256: Mapping[str, str | None] = field(default_factory=dict)
    name: str = "movies"
    _splits: dict[str, tuple[Example, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _annotations: dict[str, tuple[Annotation, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        checked_map(self.label_map, self._given_names)

    @property
    def _given_names(self) -> tuple[str, ...] | None:
        return None if self.label_names is None else tuple(map(str, self.label_names))

    @property
    def _files(self) -> Mapping[str, str]:
        return {**FILES, **(self.files or {})}

    @cached_property
    def directory(self) -> Path:
        """The data set's directory; downloaded into the cache where `root` is not set."""
        if self.root is None:
            return fetch(self.dataset, self.base_url, self.sha256)
        directory = Path(self.root).expanduser()
        if not directory.is_dir():
            raise UserError(f"task.root={self.root} is not a directory; set it to an ERASER data set, or leave it out")
        if not any((directory / file).is_file() for file in self._files.values()):
            raise UserError(f"task.root={self.root} has no split files; expected {', '.join(self._files.values())}")
        return directory

    @cached_property
    def labels(self) -> Sequence[str]:
        """Class names, in the order of `Example.label`."""
        if self._given_names is not None:
            return self._given_names
        splits = self._present if "train" not in self._present else ("train",)
        annotations = (annotation for split in splits for annotation in self.annotations(split))
        return tuple(sorted({renamed(annotation.classification, self.label_map) for annotation in annotations}))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the settings that shape examples, the split files and the documents."""
        label_names = None if self._given_names is None else list(self._given_names)
        settings: dict[str, Any] = {"task": "eraser", "version": self.version, "query": self.query}
        settings["label_names"] = label_names
        if self.label_map:  # older digests do not have it
            settings["label_map"] = {str(key): str(name) for key, name in self.label_map.items()}
        if self.files:
            settings["files"] = {split: self._files[split] for split in self._present}
        files = [self.directory / self._files[split] for split in self._present]
        return digest(settings, files=[*files, *self._documents.files()])

    def split(self, name: str) -> Sequence[Example]:
        """Examples of "train", "validation" (`val.jsonl`) or "test", in the file's order."""
        check_split(self.name, name)
        if name not in self._splits:
            self._splits[name] = tuple(self._example(annotation) for annotation in self.annotations(name))
        return self._splits[name]

    def annotations(self, split: str) -> tuple[Annotation, ...]:
        """The lines of a split file."""
        if split not in self._annotations:
            file = self.directory / self._files[split]
            if not file.is_file():
                raise NoSplit(
                    f"task.root={self.directory} lacks {self._files[split]}, the file of the {split} split; "
                    f"another one can serve: task.files.{split}=FILE"
                )
            by_uid: dict[str, Annotation] = {}
            for number, line in json_lines(file):
                annotation = _annotation(f"{file}:{number}", line)
                if annotation.uid in by_uid:
                    earlier = by_uid[annotation.uid].where
                    raise UserError(
                        f"{file}:{number}: annotation_id '{annotation.uid}' occurs twice, also at {earlier}"
                    )
                by_uid[annotation.uid] = annotation
            if not by_uid:
                raise UserError(f"{file} is empty: the {split} split has no examples")
            self._annotations[split] = tuple(by_uid.values())
        return self._annotations[split]

    @cached_property
    def _documents(self) -> Documents:
        return Documents(self.directory)

    @cached_property
    def _present(self) -> tuple[str, ...]:
        """The splits whose files are there."""
        return tuple(split for split in SPLITS if (self.directory / self._files[split]).is_file())

    @cached_property
    def _constant_query(self) -> bool:
        """Whether all annotations of all splits ask the same question."""
        queries = [annotation.query for split in self._present for annotation in self.annotations(split)]
        return len(queries) > 1 and len(set(queries)) == 1

    def _example(self, annotation: Annotation) -> Example:
        where = f"{annotation.where} ('{annotation.uid}')"
        documents = {docid: self._documents.words(docid, where) for docid in annotation.docids}
        query = tuple(annotation.query.split())
        if self.query == "never" or (self.query == "auto" and self._constant_query):
            query = ()
        repeated = (
            next((docid for docid, words in documents.items() if words == query), None)
            if self.query == "auto"
            else None
        )
        order = sorted(documents, key=lambda docid: docid != repeated)  # stable: only the repeated document moves
        words = [word for docid in order for word in documents[docid]]
        n_query = 0 if repeated is not None else len(query)
        n_repeated = len(documents[repeated]) if repeated is not None and len(order) > 1 else 0
        rationale = np.concatenate([np.zeros(n_query, bool), *_marks(annotation, order, documents, where)])
        inputs: Any = (words[:n_repeated], words[n_repeated:]) if n_repeated else words
        return Example(
            uid=annotation.uid,
            inputs=(list(query), words) if n_query else inputs,
            label=label_index(annotation.classification, self.labels, where, self.label_map),
            rationale=rationale,
            query_units=n_query,
            meta={
                "annotation_id": annotation.uid,
                "docids": tuple(order),
                "document_lengths": tuple(len(documents[docid]) for docid in order),
                "evidence_spans": tuple(_spans(annotation, docid) for docid in order),
                **({PASSAGE_SEGMENT: 1} if n_repeated else {}),  # the claim comes first
            },
        )


def _marks(
    annotation: Annotation, order: Sequence[str], documents: Mapping[str, Sequence[str]], where: str
) -> list[np.ndarray]:
    """For each document in order, one boolean per word: whether an evidence span covers it."""
    marks = {docid: np.zeros(len(documents[docid]), bool) for docid in order}
    for docid, start, end in annotation.spans:
        length = len(documents[docid])
        if not 0 <= start <= end <= length:
            raise UserError(
                f"{where}: evidence [{start}, {end}) lies outside document '{docid}' of {length} words; "
                "mend start_token and end_token"
            )
        marks[docid][start:end] = True
    return [marks[docid] for docid in order]


def _spans(annotation: Annotation, docid: str) -> tuple[tuple[int, int], ...]:
    """The annotated spans of one document, each once."""
    return tuple(dict.fromkeys((start, end) for name, start, end in annotation.spans if name == docid))


def _annotation(where: str, line: Mapping[str, Any]) -> Annotation:
    """The used keys of one line, checked; UserError names a missing or ill-typed one."""
    for key in ("annotation_id", "classification", "evidences"):
        if line.get(key) is None:
            raise UserError(f"{where}: key '{key}' is missing; found {', '.join(sorted(line))}")
    try:
        spans = tuple(
            (str(evidence["docid"]), int(evidence["start_token"]), int(evidence["end_token"]))
            for group in line["evidences"]
            for evidence in group
        )
    except KeyError as error:
        raise UserError(
            f"{where}: an evidence lacks the key {error}; it needs docid, start_token, end_token"
        ) from error
    except (TypeError, ValueError) as error:
        raise UserError(f"{where}: evidences must be a list of lists of objects with whole-number offsets") from error
    uid = str(line["annotation_id"])
    named = [str(docid) for docid in line.get("docids") or ()]
    # the movie reviews name no documents: an annotation without evidences is that of the document of the same name
    docids = tuple(dict.fromkeys([*named, *(docid for docid, _, _ in spans)])) or (uid,)
    query = line.get("query") or ""
    if not isinstance(query, str):
        raise UserError(f"{where}: key 'query' must be a text, found {type(query).__name__}")
    return Annotation(where, uid, str(line["classification"]), query, docids, spans)
