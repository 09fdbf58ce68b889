"""A small repository of results: a bundle, and the package of a third party that submits to it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmark.bundles.bundle import files_below
from benchmark.bundles.submission import FILE
from benchmark.commands.board import COMMANDS
from benchmark.comparison import run_comparison
from benchmark.results import store
from benchmark.results.digests import sealed
from benchmark.settings.configuration import compose

SMALL = (
    "task.train=200", "task.validation=20", "task.test=40", "limit=8", "tracking=none", "analyses=[]",
)  # fmt: skip
TRAINED = "model.steps=20"
TESTS = "evaluations=[perturbation,aopc,class_specificity]"
METHODS = "methods=[rollout,gradient_x_input,random]"

PACKAGE = '''
"""The explainer of somebody else."""

import torch

from benchmark.types import Attribution, Method


class EmbeddingTimesGradient(Method):
    """x · ∂ log p / ∂ x, as its author computes it."""

    version = 1

    def __init__(self, power: float = 1.0):
        self.power = power

    def explain(self, model, batch, target):
        from methods.gradient_x_input import GradientXInput

        tokens = GradientXInput().explain(model, batch, target).tokens
        return Attribution(target=target, tokens=tokens.sign() * tokens.abs() ** self.power)


class Position(Method):
    """The place of a word, for every class."""

    version = 1
    class_specific = False

    def explain(self, model, batch, target):
        return Attribution(target=target, tokens=batch.attention_mask.float().cumsum(1))
'''


def command(name: str, *words: str) -> str:
    """What a command of the leaderboard prints; a mistake is the `UserError` that it raises."""
    text, status = COMMANDS[name][0](words)
    assert status == 0, text
    return text


def compared(place: Path, *overrides: str, trained: bool = True) -> Path:
    """The folder of a small comparison; of a model that is trained for it, or of the one that is given."""
    words = [METHODS, TESTS, *SMALL, *([TRAINED] if trained else []), f"out={place / 'runs'}", *overrides]
    return run_comparison(compose("config", words)).folder


def bundled(place: Path, comparison: Path, version: str = "1.0", texts: str = "true") -> Path:
    """A bundle of it."""
    command(
        "bundle", str(comparison), "name=planted", f"version={version}", "licence=MIT", f"texts={texts}", "date=2026-01-02",
        f"out={place / 'bundles'}",
    )  # fmt: skip
    return place / "bundles" / f"planted@{version}"


def submitted(
    place: Path, target: str = "theirs.EmbeddingTimesGradient", name: str = "theirs", **settings: float
) -> Path:
    """A submission of a class of the third party."""
    lines = [f"{name}:", f"  _target_: {target}", *(f"  {key}: {value}" for key, value in settings.items())]
    (place / f"{name}.yaml").write_text("\n".join(lines) + "\n")
    out = place / f"submission-{name}"
    shutil.rmtree(out, ignore_errors=True)
    command(
        "submit", str(place / f"{name}.yaml"), f"bundle={place / 'bundles' / 'planted@1.0'}", "author=Third Party",
        "licence=MIT", "date=2026-01-03", f"out={out}",
    )  # fmt: skip
    return out


def tampered(submission: Path, place: Path, change: Callable[[Path], None], *, resealed: bool = True) -> Path:
    """A copy of a submission that was changed, and sealed again as somebody would who wants it to be taken.

    Args:
        submission: which is copied to `place`.
        place: of the copy.
        change: of the copy's folder.
        resealed: whether the digests are made anew.
    """
    shutil.copytree(submission, place)
    change(place)
    if resealed:
        said = json.loads((place / FILE).read_text())
        said["files"] = {
            name: {"sha256": one.sha256, "bytes": one.bytes} for name, one in files_below(place, FILE).items()
        }
        store.write_json(place / FILE, sealed(said))
    return place


def run_of(place: Path) -> Path:
    """The run folder of a submission."""
    return next(path.parent for path in place.glob("run/*/record.json"))


def record_changed(change: Callable[[dict], None]) -> Callable[[Path], None]:
    """Changes the record of a submission, which is sealed again."""

    def changed(place: Path) -> None:
        path = run_of(place) / "record.json"
        content = json.loads(path.read_text())
        change(content)
        store.write_json(path, sealed(content))

    return changed


def said_changed(**values: object) -> Callable[[Path], None]:
    """Changes what `submission.json` says."""

    def changed(place: Path) -> None:
        content = json.loads((place / FILE).read_text())
        store.write_json(place / FILE, sealed({**content, **values}))

    return changed


def scores_changed(
    change: Callable[[store.Ragged], store.Ragged], name: str = "attributions-predicted"
) -> Callable[[Path], None]:
    """Changes stored explanations, with the digest of their file in the record."""

    def changed(place: Path) -> None:
        path = run_of(place) / f"{name}.safetensors"
        record = json.loads((path.parent / "record.json").read_text())
        ragged = change(store.Ragged.read(path))
        path.unlink()
        (path.parent / "record.json").rename(path.parent / "aside")
        ragged.write(path)
        (path.parent / "aside").unlink()
        record["files"][path.name] = store.hash_of(path)
        store.write_json(path.parent / "record.json", sealed(record))

    return changed


def flipped(name: str) -> Callable[[Path], None]:
    """Turns a bit in the middle of a file of the run folder."""

    def changed(place: Path) -> None:
        path = run_of(place) / name
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(bytes(content))

    return changed


def without_example(ragged: store.Ragged, place: int = 0) -> store.Ragged:
    """The explanations without one of the examples."""
    lengths = ragged.arrays["lengths"].astype(int)
    owner = np.repeat(np.arange(len(ragged.uids)), lengths)
    kept = {
        name: array[owner != place] if len(array) == len(owner) else np.delete(array, place, axis=0)
        for name, array in ragged.arrays.items()
    }
    return store.Ragged(tuple(uid for i, uid in enumerate(ragged.uids) if i != place), kept, ragged.cost)
