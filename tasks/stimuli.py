"""Stimuli of Open Sesame: agreement, reflexives, and words that probes have to find (Lin et al. 2019).

Defined in docs/protocols.md, section 17.
"""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar, Literal, get_args

from benchmark.annotations import KEYS, Coreference, Marked, Mention, Stimulus
from benchmark.settings.declared import Count, Distinct, Natural, configurable
from benchmark.settings.early import SPLITS, ExistingFolder
from benchmark.types import Example
from tasks.common import check_split, digest
from tasks.opensesame_files import Line, read_marked, read_sentences, read_stimuli
from tasks.opensesame_grammar import (
    AGREEMENT,
    REFLEXIVE,
    Before,
    Generated,
    agreement_stimulus,
    auxiliary_sentence,
    reflexive_stimulus,
    subject_sentence,
)

Kind = Literal["agreement", "reflexives", "auxiliary", "subject noun", "subject noun with possessor", "n-th token"]
KINDS: tuple[Kind, ...] = get_args(Kind)
PROBES: tuple[Kind, ...] = KINDS[2:]
_NTH: Kind = "n-th token"
_FOLDERS = {
    "auxiliary": "data_aux/aux",
    "subject noun": "data_sbjn/sbjn",
    "subject noun with possessor": "data_sbjn-join/sbjn-join",
    _NTH: "data_nth/nth",
}
_PARTS = {"train": "train", "test": "test", "generalisation": "gen"}
_GENERALISE: dict[Kind, Before] = {"subject noun": "compound", "subject noun with possessor": "possessor"}
_VALIDATION = 5  # every fifth stimulus


@configurable
class Stimuli:
    """Sentences with a word that depends on another (`Stimulus`), and sentences with a word to find (`Marked`).

    - `agreement`: the auxiliary depends on its subject; conditions agr.0 to agr.19. `reflexives`: the reflexive depends on
      its antecedent; refl.0 to refl.8, which also have a `Coreference`. Every fifth stimulus is in the validation split, the
      rest in the test split.
    - `auxiliary`, `subject noun`, `subject noun with possessor`, `n-th token`: the main auxiliary, the subject's noun, the
      n-th word. Sentences to train on are in the training split; those of the test and of the generalisation set, in which
      the first auxiliary (noun) is not the one to find, are in the test split, told apart by `Marked.part`. Before the
      subject's noun stands there the first part of a compound (queen bee), of words that no training sentence has, or a
      possessor (the dog 's cat), a noun as any other; both probes are trained and tested on sentences alike. The
      generalisation set of the n-th token is other sentences. For several n there is a probe for each.

    With `root`, the first lines of the authors' files: `data_agr/agr.0`, ..., `data_refl/refl.0`, ..., `data_aux/aux.train`,
    ..., `data_sbjn/sbjn.train`, ..., `data_sbjn-join/sbjn-join.gen_apost`, ..., `data_nth/nth.test`, ... They have no label.
    In some sentences with possessors the subject is a compound as well. Where `nth.train` is missing, the probe of the n-th
    token is trained on the second half of `nth.test` and tested on the first.

    Without, sentences of a seeded grammar of the same form; the label is the number of the main subject (singular, plural),
    so that a model that is trained on it has to find the subject.

    Attributes:
        root: the folder of the authors' stimuli, or None.
        name: the task's name in run folders.
        kinds: which sentences.
        stimuli: of every condition.
        train: sentences of every probe that it is trained on.
        probes: sentences of every probe in the test set, and in the generalisation set.
        nth: every n, counted from 1; 1 to 9 in the paper.
        seed: determines every generated sentence.

    Raises:
        UserError: a file is missing or ill-formed; it names file and line.
    """

    version: ClassVar[int] = 2

    root: Annotated[str | None, ExistingFolder()] = None
    name: str = "stimuli"
    kinds: Annotated[Sequence[Kind], Distinct()] = KINDS
    stimuli: Count = 60
    train: Count = 1500
    probes: Count = 200
    nth: Annotated[Sequence[Count], Distinct()] = (5,)
    seed: Natural = 0
    _splits: dict[str, tuple[Example, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def labels(self) -> Sequence[str]:
        """Class names of generated sentences; none of those of files."""
        return ("singular", "plural") if self.root is None else ()

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over every sentence and what is known of it."""
        parts = [f"{e.uid}\t{e.label}\t{' '.join(e.inputs)}\t{e.meta}" for split in SPLITS for e in self.split(split)]
        return digest({"task": "stimuli", "version": self.version}, parts)

    def split(self, name: str) -> Sequence[Example]:
        """Examples of "train", "validation" or "test"; inputs are lists of words."""
        check_split(self.name, name)
        if not self._splits:
            found: dict[str, list[Example]] = {split: [] for split in SPLITS}
            for kind in self.kinds:
                for split, example in self._marked(kind) if kind in PROBES else self._stimuli(kind):
                    found[split].append(example)
            self._splits.update({split: tuple(examples) for split, examples in found.items()})
            if not self._splits["train"]:  # what a tokenizer and a model can be trained on
                self._splits["train"] = self._splits["validation"]
        return self._splits[name]

    def _stimuli(self, kind: Kind) -> Iterator[tuple[str, Example]]:
        agreement = kind == "agreement"
        for number, condition in enumerate(AGREEMENT if agreement else REFLEXIVE):
            if self.root is not None:
                folder = "data_agr" if agreement else "data_refl"
                lines: Sequence[Line | Generated] = read_stimuli(
                    self._path(f"{folder}/{condition}"), condition, self.stimuli
                )
            else:
                draw = random.Random(f"{self.seed}:{condition}")
                make = agreement_stimulus if agreement else reflexive_stimulus
                lines = [make(draw, number) for _ in range(self.stimuli)]
            for place, line in enumerate(lines):
                assert line.stimulus is not None
                meta = {KEYS[Stimulus]: line.stimulus}
                more = {} if agreement else {KEYS[Coreference]: _mentions(line.stimulus)}
                split = "validation" if place % _VALIDATION == _VALIDATION - 1 else "test"
                yield split, Example(f"{condition}-{place:04d}", list(line.words), _label(line), meta=meta | more)

    def _marked(self, kind: Kind) -> Iterator[tuple[str, Example]]:
        for nth in self.nth if kind == _NTH else (0,):
            probe = kind if len(self.nth) == 1 or kind != _NTH else f"{kind}, n = {nth}"
            name = re.sub(r"[^a-z0-9]+", "-", probe)
            for part, ending in _PARTS.items():
                count = self.train if part == "train" else self.probes
                for place, line in enumerate(self._lines(kind, part, ending, count, nth)):
                    meta = {KEYS[Marked]: Marked(probe, part, line.marked, by_place=kind == _NTH)}
                    uid = f"{name}-{ending}-{place:05d}"
                    yield (
                        "train" if part == "train" else "test",
                        Example(uid, list(line.words), _label(line), meta=meta),
                    )

    def _lines(self, kind: Kind, part: str, ending: str, count: int, nth: int) -> Sequence[Line | Generated]:
        if self.root is None:
            draw = random.Random(f"{self.seed}:{kind}:{part}")
            if kind == _NTH:
                return _generated_nth(draw, count, nth)
            generalise = part == "generalisation"
            if kind == "auxiliary":
                return [auxiliary_sentence(draw, generalise=generalise) for _ in range(count)]
            before: Before = _GENERALISE[kind] if generalise else "nothing"
            return [subject_sentence(draw, before=before) for _ in range(count)]
        stem = _FOLDERS[kind]
        if kind != _NTH:
            apart = "_apost" if ending == "gen" and kind == "subject noun with possessor" else ""
            return read_marked(self._path(f"{stem}.{ending}{apart}"), count)
        if ending != "gen" and not self._path(f"{stem}.train").is_file():
            both = read_sentences(self._path(f"{stem}.test"), nth, 10**9)
            half = len(both) // 2
            return (both[half:] if ending == "train" else both[:half])[:count]
        return read_sentences(self._path(f"{stem}.{ending}"), nth, count)

    def _path(self, name: str) -> Path:
        return Path(str(self.root)).expanduser() / name


def _generated_nth(draw: random.Random, count: int, nth: int) -> list[Generated]:
    """Sentences that have an n-th word."""
    found: list[Generated] = []
    while len(found) < count:
        made = subject_sentence(draw, before="nothing")
        if len(made.words) >= nth:
            found.append(Generated(made.words, made.tags, made.plural, marked=nth - 1))
    return found


def _label(line: Line | Generated) -> int:
    return int(line.plural) if isinstance(line, Generated) else -1


def _mentions(stimulus: Stimulus) -> Coreference:
    """The reflexive, its antecedent and the distractors; a phrase stands for itself by its last word."""
    phrases = [
        (stimulus.antecedent, "antecedent"),
        *((words, f"distractor {i}") for i, words in enumerate(stimulus.distractors)),
    ]
    mentions = [Mention(words[0], words[-1] + 1, words[-1], entity, "nominal") for words, entity in phrases]
    mentions.append(Mention(stimulus.target, stimulus.target + 1, stimulus.target, "antecedent", "pronoun"))
    return Coreference(tuple(sorted(mentions, key=lambda mention: mention.head)))
