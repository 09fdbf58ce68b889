"""What settings ask for that may not be there: packages of the extras, and names of the Hugging Face hub.

Both are looked for once and before any work: libraries fail late, or try the network again and again.
"""

import os
from difflib import get_close_matches
from http import HTTPStatus
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from benchmark.errors import UserError, one_line

EXTRAS = {"captum": "captum", "accelerate": "train", "h5py": "vision", "ray": "ray", "gguf": "gguf"}
"""The extra of `pyproject.toml` by package."""
_PATIENCE = 5.0  # seconds for an answer of the hub
_ABSENT = (HTTPStatus.NOT_FOUND, HTTPStatus.UNAUTHORIZED)  # what the hub answers for a name that it does not have

Kind = Literal["model", "dataset"]


def needs(package: str, part: str) -> None:
    """Nothing where the package is installed.

    Args:
        package: one of `EXTRAS`.
        part: what needs it, as its user calls it.

    Raises:
        UserError: it is not installed; with the extra that brings it.
    """
    if find_spec(package) is None:
        extra = EXTRAS[package]
        raise UserError(
            f"{part} needs {package}, which is not installed; "
            f"install the extra '{extra}': pip install '.[{extra}]' in the benchmark's folder, or pip install {package}"
        )


def check_on_hub(setting: str, name: str, kind: Kind = "model") -> None:
    """UserError where a name is no folder here, not in the hub's cache, and the hub is out of reach or does not have it.

    Args:
        setting: that holds the name, dotted.
        name: of a repository.
        kind: of the repository.
    """
    from huggingface_hub import constants, get_session

    if Path(name).expanduser().exists() or _is_cached(name, kind):
        return
    if constants.HF_HUB_OFFLINE and kind == "dataset":
        return  # its library has caches of several forms, and says at once what it does not find
    if constants.HF_HUB_OFFLINE:
        raise UserError(_refusal(setting, name, kind, "in its cache, and HF_HUB_OFFLINE forbids to ask it"))
    address = f"{constants.ENDPOINT}/api/{kind}s/{name}"
    try:
        answer: Any = get_session().head(address, timeout=_PATIENCE, follow_redirects=True)
    except Exception as error:  # the client has errors of its own for each thing that a network can lack
        raise UserError(
            _refusal(setting, name, kind, f"in its cache, and the hub does not answer ({one_line(error)})")
        ) from error
    if answer.status_code in _ABSENT:
        raise UserError(_refusal(setting, name, kind, "there (or is private: hf auth login)"))


def _is_cached(name: str, kind: Kind) -> bool:
    from huggingface_hub import constants

    prepared = Path(os.environ.get("HF_DATASETS_CACHE", Path(constants.HF_HOME) / "datasets")) / name.replace(
        "/", "___"
    )
    fetched = Path(constants.HF_HUB_CACHE) / f"{kind}s--{name.replace('/', '--')}"
    return fetched.is_dir() or (kind == "dataset" and prepared.is_dir())


def _refusal(setting: str, name: str, kind: Kind, why: str) -> str:
    what = "checkpoint" if kind == "model" else "data set"
    return (
        f"{setting}={name} is no folder here, and as the name of a {what} of the hub it is not {why}; "
        f"{_nearby(setting, name) or f'give the folder of the {what}'}"
    )


def _nearby(setting: str, name: str) -> str | None:
    """The folder that was meant, where one beside it has almost its name."""
    path = Path(name).expanduser()
    if not path.parent.is_dir():
        return None
    folders = [entry.name for entry in path.parent.iterdir() if entry.is_dir()]
    found = get_close_matches(path.name, folders, n=1, cutoff=0.6)
    return f"did you mean {setting}={path.parent / found[0]}?" if found else None
