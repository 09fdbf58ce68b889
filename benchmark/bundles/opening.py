"""Open a bundle: its task, its model and its tests made again, and held to what the bundle says of them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from omegaconf import DictConfig, OmegaConf

from benchmark.bundles.bundle import ASKED, MODEL, OUTPUTS, TEXTS, Bundle, words_digest
from benchmark.errors import UserError
from benchmark.results import statistics
from benchmark.run.workbench import Setting, open_setting
from benchmark.settings.configuration import compose, missing_keys
from benchmark.settings.identity import digest_of
from benchmark.settings.making import make
from benchmark.types import Evaluation

LOGITS = 1e-3
"""Largest difference of a logit from the bundle's, over the largest magnitude: machines differ in last digits."""


def open_bundle(bundle: Bundle, folder: Path, overrides: Sequence[str] = ()) -> Setting:
    """The task and the model of a bundle, and its examples.

    Args:
        bundle: what is opened.
        folder: where it lies; a model that is part of it lies in it.
        overrides: settings of the task and the model that are folders of whoever opens it (`task.root=DIR`,
            `model.path=DIR`), and what hangs on the machine (`model.device=cpu`, `batch_size=8`).

    Raises:
        UserError: a folder is not given; or the examples, the weights or the answers of the model are not the bundle's.
    """
    setting = open_setting(settings_of(bundle, folder, overrides))
    facts, model = setting.data.facts, setting.model
    _held(bundle, "the data", facts.fingerprint, bundle.task.fingerprint)
    _held(bundle, "the version of the task", facts.version, bundle.task.version)
    _held(bundle, "the model", model.fingerprint, bundle.model.fingerprint)
    _held(bundle, "the precision of the model", str(model.dtype).removeprefix("torch."), bundle.model.dtype)
    if setting.data.uids != bundle.task.uids:
        raise UserError(f"{bundle.key}: the examples that are drawn are others, or in another order, than the bundle's")
    _check_texts(bundle, folder, setting)
    _check_outputs(bundle, folder, setting)
    return setting


def settings_of(bundle: Bundle, folder: Path, overrides: Sequence[str] = ()) -> DictConfig:
    """The configuration that opens a bundle, without methods, tests and analyses of its own.

    Raises:
        UserError: an override is none of the task, the model or the machine, or a folder is not given.
    """
    config = compose("config", ["methods=[random]", "evaluations=[aopc]", "analyses=[]", "tracking=none"])
    OmegaConf.set_struct(config, value=False)
    config.task, config.model = dict(bundle.task.settings), dict(bundle.model.settings)
    config.split, config.limit, config.seed = bundle.task.split, bundle.task.limit, bundle.task.seed or 0
    if (path := config.model.get("path")) and str(path).startswith(f"{MODEL}/"):
        config.model.path = str(folder / path)
    for text in overrides:
        key, _, value = text.partition("=")
        if not value or (not key.startswith(("task.", "model.")) and key != "batch_size"):
            raise UserError(f"{text}: of a bundle, settings of its task and model are given, and batch_size=NUMBER")
        OmegaConf.update(config, key, OmegaConf.create({"value": _parsed(value)}).value)
    asked = [key for key in missing_keys(config) if key.partition(".")[0] in ("task", "model")]
    if asked:
        raise UserError(
            f"{bundle.key} asks for {', '.join(f'{key}=FOLDER' for key in asked)}, which lie on your machine"
        )
    return config


def _parsed(value: str) -> Any:
    return OmegaConf.to_container(OmegaConf.create(f"value: {value}"))["value"]  # type: ignore[index,call-overload]  # a mapping


def tests_of(bundle: Bundle) -> dict[str, Evaluation]:
    """The tests of a bundle, made of their settings.

    Raises:
        UserError: this release has another version of a test or of the statistics, so that its rows would be others.
    """
    made: dict[str, Evaluation] = {}
    for test in bundle.tests:
        evaluation: Evaluation = make(OmegaConf.create(dict(test.settings)), Evaluation)
        if digest_of(evaluation) != test.digest:
            raise UserError(
                f"{bundle.key}: the test {test.name} of this release (version {evaluation.version}) is another one than the "
                f"bundle's (version {test.version}); use release {bundle.harness.version}, or a newer version of the bundle"
            )
        if test.statistics != statistics.VERSION:
            raise UserError(
                f"{bundle.key}: figures of {test.name} are of statistics {test.statistics}, and this release has "
                f"{statistics.VERSION}; use release {bundle.harness.version}, or a newer version of the bundle"
            )
        made[test.name] = evaluation
    return made


def outputs_of(setting: Setting) -> pd.DataFrame:
    """What the model answers: uid, label, prediction and logits of each example, in order."""
    rows = []
    for index, batch in enumerate(setting.data.batches):
        logits = setting.data.logits(index).detach().cpu().double().numpy()
        for uid, label, row in zip(batch.uids, batch.label.tolist(), logits, strict=True):
            rows.append({"uid": uid, "label": int(label), "prediction": int(row.argmax()), "logits": row.tolist()})
    return pd.DataFrame(rows)


def texts_of(setting: Setting) -> str:
    """A line for each example: its identifier and the SHA-256 of its words; empty for images."""
    batches = setting.data.batches
    if batches[0].patch is not None:
        return ""
    found = [(uid, words) for batch in batches for uid, words in zip(batch.uids, batch.words, strict=True)]
    return "".join(f"{words_digest(words)}  {uid}\n" for uid, words in found)


def words_of(setting: Setting) -> str:
    """A JSON line for each example: its identifier and its words, one for each score."""
    found = [(uid, words) for batch in setting.data.batches for uid, words in zip(batch.uids, batch.words, strict=True)]
    return "".join(json.dumps({"uid": uid, "words": words}, ensure_ascii=False) + "\n" for uid, words in found)


def _check_texts(bundle: Bundle, folder: Path, setting: Setting) -> None:
    if (folder / TEXTS).read_bytes() != texts_of(setting).encode():
        raise UserError(f"{bundle.key}: the words of some examples are others than the bundle's ({folder / TEXTS})")


def _check_outputs(bundle: Bundle, folder: Path, setting: Setting) -> None:
    known, found = pd.read_parquet(folder / OUTPUTS), outputs_of(setting)
    before, now = (np.array(table["logits"].tolist(), dtype=float) for table in (known, found))
    off = float(np.abs(before - now).max()) if before.shape == now.shape else np.inf
    if not off <= LOGITS * float(np.abs(before).max()):
        raise UserError(
            f"{bundle.key}: the model answers otherwise than in the bundle (a logit differs by {off:.2g}); versions of "
            f"libraries: {_said(bundle.environment)}"
        )


def _said(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in sorted(versions.items()))


def _held(bundle: Bundle, what: str, found: Any, known: Any) -> None:
    if found != known:
        shown = [str(value)[:12] for value in (known, found)]
        raise UserError(f"{bundle.key}: {what} is another: {shown[0]} in the bundle, {shown[1]} here")


def portable(settings: Any) -> Any:
    """Settings with `ASKED` for every folder or file of the machine on which they were given."""
    if isinstance(settings, Mapping):
        return {str(key): portable(value) for key, value in settings.items()}
    if isinstance(settings, list | tuple):
        return [portable(value) for value in settings]
    if isinstance(settings, str) and ("/" in settings or "\\" in settings) and Path(settings).exists():
        return ASKED
    return settings
