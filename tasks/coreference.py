"""Documents with the mentions of each entity: CoNLL-2012 files, or generated sentences with reflexives.

Defined in docs/protocols.md, section 17.
"""

from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar

from benchmark.annotations import KEYS, Coreference, Mention
from benchmark.errors import NoSplit
from benchmark.settings.declared import Count, Natural, configurable
from benchmark.settings.early import SPLITS, ExistingFolder
from benchmark.types import Example
from tasks.common import check_split, digest
from tasks.conll2012 import Document, read_conll2012
from tasks.parsed_sentences import ParsedSentences

FOLDERS = {"train": "train", "validation": "dev", "test": "test"}
"""Names that a file's path holds, and by which its split is known."""


@configurable
class CoreferenceDocuments:
    """Each example is a stretch of a document; its words are the units, and `Example.meta` has its `Coreference`.

    With `root`, the `*_conll` and `*.conll` files below the folder, of the split whose name (train, dev, test) is that of a
    folder on the way, or that the file's name begins with. A document is cut into stretches of whole sentences of at most
    `words` words, since models have a window; mentions of an entity in other stretches are lost to each other. They have no
    label.

    Without, the sentences of `task=parsed` that hold a reflexive, with their label.

    Attributes:
        root: a folder, or None.
        name: the task's name in run folders.
        words: of a stretch at most; a longer sentence is a stretch of its own.
        seed: determines every generated sentence.
        train, validation, test: generated sentences in each split that those with a reflexive are taken from.

    Raises:
        UserError: a file is ill-formed; it names file and line.
        NoSplit: the folder has no file of the split.
    """

    version: ClassVar[int] = 1

    root: Annotated[str | None, ExistingFolder()] = None
    name: str = "coreference"
    words: Count = 250
    seed: Natural = 0
    train: Count = 8000
    validation: Count = 1200
    test: Count = 1600
    _splits: dict[str, tuple[Example, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def labels(self) -> Sequence[str]:
        """Class names of generated sentences; none of those of files."""
        return ("agrees", "disagrees") if self.root is None else ()

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over every generated sentence, or over the files."""
        settings = {"task": "coreference", "version": self.version, "words": self.words}
        if self.root is not None:
            return digest(settings, files=[file for split in SPLITS for file in self._files(split)])
        parts = [f"{e.uid}\t{e.label}\t{' '.join(e.inputs)}\t{e.meta}" for split in SPLITS for e in self.split(split)]
        return digest(settings, parts)

    def split(self, name: str) -> Sequence[Example]:
        """Examples of "train", "validation" or "test"; inputs are lists of words."""
        check_split(self.name, name)
        if name not in self._splits:
            self._splits[name] = tuple(self._generated(name) if self.root is None else self._read(name))
        return self._splits[name]

    def _generated(self, split: str) -> Iterator[Example]:
        sentences = ParsedSentences(seed=self.seed, train=self.train, validation=self.validation, test=self.test)
        for example in sentences.split(split):
            mentions = example.meta[KEYS[Coreference]].mentions
            if any(mention.kind == "pronoun" for mention in mentions):
                yield example

    def _files(self, split: str) -> list[Path]:
        root, name = Path(str(self.root)).expanduser(), FOLDERS[split]
        found = [*root.rglob("*_conll"), *root.rglob("*.conll")]
        inside = [f for f in found if name in f.relative_to(root).parts[:-1] or f.name.startswith(name)]
        return sorted(file for file in inside if file.is_file())

    def _read(self, split: str) -> list[Example]:
        if not (files := self._files(split)):
            raise NoSplit(f"task.root={self.root} has no CoNLL-2012 file of the {split} split ({FOLDERS[split]})")
        examples = []
        for file in files:
            for document in read_conll2012(file):
                for words, coreference in _stretches(document, self.words):
                    meta = {KEYS[Coreference]: coreference, "source": document.uid}
                    examples.append(Example(f"{split}-{len(examples):05d}", list(words), -1, meta=meta))
        return examples


def _stretches(document: Document, most: int) -> Iterator[tuple[tuple[str, ...], Coreference]]:
    """Stretches of whole sentences with the mentions that lie inside, words counted from their start."""
    start, words = 0, list[str]()
    for sentence in (*document.sentences, None):
        if words and (sentence is None or len(words) + len(sentence) > most):
            inside = [m for m in document.coreference.mentions if start <= m.start and m.stop <= start + len(words)]
            moved = [Mention(m.start - start, m.stop - start, m.head - start, m.entity, m.kind) for m in inside]
            yield tuple(words), Coreference(tuple(moved))
            start, words = start + len(words), []
        words += sentence or ()
