"""Folders that hold an adapter (LoRA and its kind): merged into the weights beside it, or named."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torch import nn

from benchmark.errors import UserError, one_line

_FILES = ("adapter_config.json", "adapter_model.safetensors", "adapter_model.bin")


def adapter_of(source: str) -> str:
    """What the adapter of a folder is called in messages; empty where the folder holds none.

    Raises:
        UserError: the folder holds an adapter and no model, or one that cannot be merged since peft is not installed.
    """
    folder = Path(source)
    found = [name for name in _FILES if (folder / name).is_file()]
    if not found:
        return ""
    kind, base = _described(folder)
    said = f"model.path={source} holds an adapter ({kind}: {', '.join(found)})"
    if not (folder / "config.json").is_file():
        raise UserError(
            f"{said} and no model; merge it into its base{base} with peft "
            "(AutoPeftModelForSequenceClassification.from_pretrained(...).merge_and_unload().save_pretrained(...)) and give "
            "the merged folder"
        )
    if find_spec("peft") is None:
        raise UserError(
            f"{said} beside the weights, which alone are another model than the two together; install peft, with which "
            "it is merged, or take the adapter's files away"
        )
    return kind


def _described(folder: Path) -> tuple[str, str]:
    try:
        settings = json.loads((folder / "adapter_config.json").read_text("utf-8"))
    except (OSError, ValueError):
        settings = {}
    settings = settings if isinstance(settings, dict) else {}
    base = settings.get("base_model_name_or_path")
    return str(settings.get("peft_type") or "adapter"), f" '{base}'" if base else ""


@contextmanager
def without_adapter(source: str) -> Iterator[str]:
    """A folder that holds the files of the checkpoint but those of its adapter, which transformers would load by itself."""
    with TemporaryDirectory() as name:
        for path in Path(source).resolve().iterdir():
            if path.name not in _FILES:
                (Path(name) / path.name).symlink_to(path)
        yield name


def merged(model: nn.Module, source: str) -> nn.Module:
    """The model with the weights of the folder's adapter added to its own.

    Raises:
        UserError: peft cannot read the adapter, or put it on this model.
    """
    peft = import_module("peft")

    wrapped: Any
    try:
        wrapped = peft.PeftModel.from_pretrained(model, source)
        whole: nn.Module = wrapped.merge_and_unload()
    except Exception as error:  # peft raises undocumented ones of many kinds, as transformers does
        raise UserError(f"model.path={source}: its adapter cannot be merged: {one_line(error)}") from error
    return whole
