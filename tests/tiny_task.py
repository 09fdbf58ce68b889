"""A task and a method of a third party: what a folder of YAMLs beside ours adds to a comparison."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from omegaconf import DictConfig

from benchmark.comparison import Comparison, run_comparison
from benchmark.errors import NotApplicable
from benchmark.settings.configuration import compose
from benchmark.types import Attribution, Example, Method
from tests import text_models

CALLS: list[tuple[str, ...]] = []
"""The uids of every batch that `Probe` explained."""


@dataclass(frozen=True)
class TinyTask:
    """Texts of three to eight words; the first word is the rationale, where there is one."""

    name: str = "tiny"
    version: int = 1
    size: int = 12
    rationales: bool = True
    names: Sequence[str] = ("bad", "good")

    @property
    def labels(self):
        return tuple(self.names)

    @property
    def fingerprint(self):
        return f"{self.size}/{self.rationales}"

    def split(self, name):
        words = text_models.WORDS[:9]
        examples = []
        for i in range(self.size):
            generator = np.random.default_rng([i, len(name)])
            text = [str(word) for word in generator.choice(words, size=3 + i % 6)]
            rationale = np.arange(len(text)) == 0 if self.rationales else None
            examples.append(Example(f"{name}-{i:02d}", " ".join(text), i % 2, rationale))
        return examples


@dataclass(frozen=True)
class Probe(Method):
    """Scores a word by its length; `how` makes it fail in the ways in which a method can.

    Waits for $TINY_SECONDS at every batch, so that a test can kill it in between, and adds a line to the file $TINY_CALLS,
    so that one can count the batches that several processes explained.
    """

    how: str = "lengths"
    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = False

    def explain(self, model, batch, target):
        CALLS.append(batch.uids)
        if log := os.environ.get("TINY_CALLS"):
            with open(log, "a") as file:
                file.write(f"{self.how} {' '.join(batch.uids)}\n")
        time.sleep(float(os.environ.get("TINY_SECONDS", "0")))
        if self.how == "bug":
            raise ZeroDivisionError("a bug in a method")
        if self.how == "refuse":
            raise NotApplicable("it does not feel like it")
        tokens = torch.zeros(batch.units.shape, dtype=model.dtype)
        for b, row in enumerate(batch.units.tolist()):
            for t, unit in enumerate(row):
                tokens[b, t] = len(batch.words[b][unit]) if unit >= 0 else 0
        if self.how == "list":
            return tokens.tolist()
        if self.how == "short":
            return Attribution(target=target, tokens=tokens[:, 1:])
        return Attribution(target=target, tokens=tokens * torch.nan if self.how == "not_finite" else tokens)


def write_yamls(folder: Path) -> Path:
    """A folder for `--config-dir`: task `tiny_task`, method `probe`."""
    for group, name, text in (
        ("task", "tiny_task", "_target_: tests.tiny_task.TinyTask\nsize: 12\nrationales: true\nnames: [bad, good]\n"),
        ("methods", "probe", "probe:\n  _target_: tests.tiny_task.Probe\n  how: lengths\n"),
    ):
        (folder / group).mkdir(parents=True, exist_ok=True)
        (folder / group / f"{name}.yaml").write_text(text)
    return folder


def settings(place: Path, out: Path, *overrides: str) -> DictConfig:
    """Of a comparison of the tiny task and the checkpoint `bert` of the fixture `place`, without tracking and analyses."""
    given = (
        "task=tiny_task",
        "model=hf",
        f"model.path={place / 'bert'}",
        "tracking=none",
        "batch_size=4",
        "analyses=[]",
    )
    return compose("config", [*given, f"out={out}", *overrides], str(place / "conf"))


def compared(place: Path, out: Path, *overrides: str) -> Comparison:
    """The comparison of these settings."""
    return run_comparison(settings(place, out, *overrides))
