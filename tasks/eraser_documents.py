"""The documents of an ERASER directory, in either of the two layouts."""

import glob
from dataclasses import dataclass, field
from functools import cached_property
from io import StringIO
from pathlib import Path

from benchmark.errors import UserError
from tasks.common import json_lines, read_text


@dataclass(frozen=True)
class Documents:
    """Words of documents by id, from `docs/<docid>` or from `docs.jsonl` (`{"docid", "document"}` a line).

    Words are those of ERASER's own loaders, since evidence offsets and its scorer count these. Lines are stripped and split
    at single spaces; any other white space within a line (a tab, a no-break space) belongs to a word. Empty words of
    `docs/<docid>` are dropped. Those of `docs.jsonl` stay (one for an empty line, one between two spaces); an empty word has
    no token and is never explained.
    """

    directory: Path
    _read: dict[str, tuple[str, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def files(self) -> list[Path]:
        """The files that hold the documents, sorted by name; UserError where there is neither layout."""
        single, folder = self.directory / "docs.jsonl", self.directory / "docs"
        if single.is_file():
            return [single]
        if folder.is_dir():
            return sorted(path for path in folder.iterdir() if path.is_file())
        raise UserError(f"task.root={self.directory} has neither docs/ nor docs.jsonl; the documents belong there")

    def words(self, docid: str, where: str) -> tuple[str, ...]:
        """Words of a document: what evidence offsets count.

        Args:
            docid: the document's id.
            where: file, line and annotation that ask for it, for the error.

        Raises:
            UserError: there is no such document, or it has no word.
        """
        if docid not in self._read:
            self._read[docid] = self._words(docid, where)
        if not any(self._read[docid]):
            raise UserError(f"{where}: document '{docid}' has zero words; drop the annotation or mend the document")
        return self._read[docid]

    def _words(self, docid: str, where: str) -> tuple[str, ...]:
        if (self.directory / "docs.jsonl").is_file():
            if docid not in self._single:
                raise UserError(f"{where}: evidence document '{docid}' is not in {self.directory / 'docs.jsonl'}")
            return tuple(word for line in self._single[docid].split("\n") for word in line.strip().split(" "))
        lines = StringIO(self._text(docid, where), newline=None)  # \r and \r\n end a line too
        return tuple(word for line in lines for word in line.strip().split(" ") if word)

    def _text(self, docid: str, where: str) -> str:
        file = self.directory / "docs" / docid
        if not file.is_file():
            self.files()  # says so where there is no folder at all
            with_ending = next(iter(sorted(file.parent.glob(f"{glob.escape(docid)}.*"))), None)
            hint = f"; rename {with_ending.name}, for a document's file has no ending" if with_ending else ""
            raise UserError(f"{where}: evidence document '{docid}' is missing, expected {file}{hint}")
        return read_text(file)

    @cached_property
    def _single(self) -> dict[str, str]:
        texts: dict[str, str] = {}
        file = self.directory / "docs.jsonl"
        for number, line in json_lines(file):
            if not isinstance(line.get("docid"), str | int) or not isinstance(line.get("document"), str):
                raise UserError(f"{file}:{number}: needs the keys 'docid' and 'document', found {sorted(line)}")
            texts[str(line["docid"])] = line["document"]
        return texts
