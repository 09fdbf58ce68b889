"""Prompts for a causal language model: what comes next, and what might have come in its place."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np

from benchmark.errors import NoSplit, UserError
from benchmark.rationales import rationale_of
from benchmark.settings.declared import configurable
from benchmark.settings.early import SPLITS, ExistingFolder, FilesBelow
from benchmark.types import Example
from benchmark.words import Units, in_units, spans_of
from tasks.common import check_split, digest, json_lines


@configurable
class Prompts:
    """JSON Lines, a prompt each: `{"prompt": "When Mary and John went to the store, John gave a drink to", "answer": "Mary",
    "foils": ["John"], "rationale": ["Mary"]}`.

    The classes of an example are its candidates for the next token, the answer first. All prompts have as many foils: one at
    least, or none (`"foils": []`) where the classes are all tokens or the answer is a continuation of several tokens
    (`models.next_token.Over`).

    `rationale` says which words decide, and `rated` which of them are scored and removed, each in one of the forms of
    `benchmark.rationales`. Without `rated` they are all but the last one: where it is removed, another place is read. What a
    rationale marks of the other words is left out, since nothing is asked of them.

    `corrupted` is a prompt of as many tokens in which what decides is another, with which circuits are patched: all prompts
    of a file have one, or none has.

    Attributes:
        files: the file of each split, `{test: prompts.jsonl}`.
        root: the folder in which they lie, or None.
        units: what is scored and removed: `words`, `characters` or `sentences`.
        name: the task's name in run folders and tables.

    Raises:
        UserError: a line lacks something or does not fit the others; it names the line.
    """

    version: ClassVar[int] = 1

    files: Annotated[Mapping[str, str], FilesBelow("root", instead="")]
    root: Annotated[str | None, ExistingFolder()] = None
    units: Units = "words"
    name: str = "prompts"
    _splits: dict[str, tuple[Example, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not set(self.files) & set(SPLITS):
            raise UserError('task.files names no split; give "task.files={test: PROMPTS.jsonl}"')
        if self.units == "tokens":
            raise UserError(
                "task.units=tokens: rationales and rated words are of the prompts' own units; choose others"
            )

    @cached_property
    def labels(self) -> Sequence[str]:
        """What the candidates are called: answer, then foil, or foil 1, foil 2, ..., or none."""
        split = next(split for split in reversed(SPLITS) if split in self.files)
        foils = len(self.split(split)[0].candidates) - 1
        return ("answer", *(["foil"] if foils == 1 else [f"foil {number}" for number in range(1, foils + 1)]))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the settings that shape examples, and the files."""
        settings = {"task": "prompts", "version": self.version, "units": self.units, "splits": sorted(self.files)}
        return digest(settings, files=[self._file(split) for split in sorted(self.files)])

    def split(self, name: str) -> Sequence[Example]:
        """Examples of "train", "validation" or "test", in the file's order."""
        check_split(self.name, name)
        if name not in self._splits:
            file = self._file(name)
            found = [self._example(f"{name}-{n:06d}", f"{file}:{n}", line) for n, line in json_lines(file)]
            if not found:
                raise UserError(f"{file} is empty: the {name} split has no prompts")
            if (without := [one.uid for one in found if one.corrupted is None]) and len(without) < len(found):
                raise UserError(
                    f"{file}: '{without[0]}' has no 'corrupted', and others do; give every prompt a counterpart, or none"
                )
            counts = {len(example.candidates): example.uid for example in found}
            if len(counts) > 1:
                (one, first), (other, second), *_ = counts.items()
                raise UserError(
                    f"{file}: '{first}' has {one - 1} foils and '{second}' has {other - 1}; give as many to every prompt"
                )
            self._splits[name] = tuple(found)
        return self._splits[name]

    def _file(self, split: str) -> Path:
        if split not in self.files:
            raise NoSplit(f"task.files names no file of the {split} split; add task.files.{split}=FILE")
        return Path(self.root or ".").expanduser() / Path(self.files[split]).expanduser()

    def _example(self, uid: str, where: str, line: Mapping[str, Any]) -> Example:
        for key in ("prompt", "answer"):
            if not isinstance(line.get(key), str) or not line[key].strip():
                raise UserError(f"{where}: '{key}' is missing or no text; found {', '.join(sorted(line))}")
        foils = line.get("foils")
        foils = [foils] if isinstance(foils, str) else foils
        if foils is None:
            raise UserError(
                f"{where}: 'foils' is missing; give at least one token that might have come in the answer's place, or "
                '"foils": [] for model.labels=vocabulary or model.labels=continuation'
            )
        if not isinstance(foils, list) or not all(isinstance(foil, str) for foil in foils):
            raise UserError(f"{where}: 'foils' is {json.dumps(foils)}; give a list of texts")
        corrupted = line.get("corrupted")
        if corrupted is not None and not (isinstance(corrupted, str) and corrupted.strip()):
            raise UserError(f"{where}: 'corrupted' is {json.dumps(corrupted)}; give a prompt")
        prompt = in_units(str(line["prompt"]), self.units)
        rated = rationale_of(line.get("rated"), [prompt], where, "'rated'")
        if rated is None:
            rated = np.arange(len(spans_of(prompt))) < len(spans_of(prompt)) - 1
        rationale = rationale_of(line.get("rationale"), [prompt], where, "'rationale'")
        if rationale is not None and rationale.any() and not (rationale & rated).any():
            raise UserError(
                f"{where}: 'rationale' marks words alone that are not rated; name those that are with 'rated'"
            )
        return Example(
            uid=uid,
            inputs=prompt,
            label=0,
            rationale=None if rationale is None else rationale & rated,
            rated=rated,
            candidates=(str(line["answer"]), *foils),
            corrupted=None if corrupted is None else in_units(corrupted, self.units),
        )
