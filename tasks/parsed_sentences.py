"""Sentences with their dependency trees: CoNLL-U files, or generated ones.

Defined in docs/protocols.md, section 17.
"""

import random
from collections.abc import Sequence
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from benchmark.annotations import KEYS, Coreference, Parse
from benchmark.errors import NoSplit, UserError
from benchmark.settings.declared import Count, Natural, configurable
from benchmark.settings.early import SPLITS, ExistingFolder
from benchmark.types import Example
from tasks.common import check_split, digest
from tasks.conllu import read_conllu
from tasks.parsed_grammar import draw_sentence

ENDINGS = {"train": "train.conllu", "validation": "dev.conllu", "test": "test.conllu"}


@configurable
class ParsedSentences:
    """Each example is a sentence; its words are the units, and `Example.meta` has its `Parse`.

    With `root`, the sentences of the folder's CoNLL-U files, found by how their names end: `...train.conllu`,
    `...dev.conllu` (validation), `...test.conllu`. They have no label.

    Without, sentences of a seeded grammar (`parsed_grammar`) with gold trees; the label says whether the auxiliary agrees
    with its subject ("agrees", "disagrees"), so that a model that is trained on it has to find the subject. They have a
    `Coreference` too.

    Attributes:
        root: a folder of CoNLL-U files, or None.
        name: the task's name in run folders.
        relations: names of relations as they stand (`full`), or without subtypes, as nmod of nmod:poss (`universal`).
        seed: determines every generated sentence.
        train, validation, test: number of generated sentences in each split.
    """

    version: ClassVar[int] = 1

    root: Annotated[str | None, ExistingFolder()] = None
    name: str = "parsed"
    relations: Literal["universal", "full"] = "universal"
    seed: Natural = 0
    train: Count = 8000
    validation: Count = 400
    test: Count = 500
    _splits: dict[str, tuple[Example, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def labels(self) -> Sequence[str]:
        """Class names of generated sentences: agrees, disagrees; none of those of files."""
        return ("agrees", "disagrees") if self.root is None else ()

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over every generated sentence, or over the files."""
        settings = {"task": "parsed", "version": self.version, "relations": self.relations}
        if self.root is not None:
            files = [file for split in SPLITS if (file := self._file(split)) is not None]
            return digest(settings, files=files)
        parts = [f"{e.uid}\t{e.label}\t{' '.join(e.inputs)}\t{e.meta}" for split in SPLITS for e in self.split(split)]
        return digest(settings, parts)

    def split(self, name: str) -> Sequence[Example]:
        """Examples of "train", "validation" or "test"; inputs are lists of words.

        Raises:
            NoSplit: the folder has no file of the split.
            UserError: it has several, or one that is ill-formed.
        """
        check_split(self.name, name)
        if name not in self._splits:
            self._splits[name] = tuple(self._generated(name) if self.root is None else self._read(name))
        return self._splits[name]

    def _file(self, split: str) -> Path | None:
        found = sorted(Path(str(self.root)).expanduser().glob(f"*{ENDINGS[split]}"))
        if len(found) > 1:
            raise UserError(
                f"task.root={self.root} has several files of the {split} split: {', '.join(f.name for f in found)}"
            )
        return found[0] if found else None

    def _read(self, split: str) -> list[Example]:
        if (file := self._file(split)) is None:
            raise NoSplit(f"task.root={self.root} has no file whose name ends in {ENDINGS[split]}, the {split} split")
        return [
            Example(
                f"{split}-{number:05d}", list(s.words), -1, meta={KEYS[Parse]: self._named(s.parse), "source": s.uid}
            )
            for number, s in enumerate(read_conllu(file))
        ]

    def _generated(self, split: str) -> list[Example]:
        draw = random.Random(f"{self.seed}:parsed:{split}")
        examples = []
        for number in range(getattr(self, split)):
            sentence = draw_sentence(draw)
            meta = {KEYS[Parse]: self._named(sentence.parse), KEYS[Coreference]: sentence.coreference}
            label = 0 if sentence.agrees else 1
            examples.append(Example(f"{split}-{number:05d}", list(sentence.words), label, meta=meta))
        return examples

    def _named(self, parse: Parse) -> Parse:
        if self.relations == "full":
            return parse
        return Parse(parse.heads, tuple(relation.partition(":")[0] for relation in parse.relations))
