"""What the W&B runs are made of: plain values for tables, and artifacts."""

import re
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd

_LONGEST_NAME = 128  # of an artifact, as W&B's server takes it


def plain(table: pd.DataFrame) -> list[list[Any]]:
    """The rows as Python lists, None for NaN (W&B's tables know no NaN x)."""
    columns = [[None if value != value else value for value in table[name].tolist()] for name in table.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def artifact_of(wandb: ModuleType, name: str, kind: str, files: Iterable[Path]) -> Any:
    """An artifact with these files under their own names; of its name, what W&B allows.

    The files are copied, since a run folder may change before they are sent.
    """
    artifact = wandb.Artifact(re.sub(r"[^\w.-]+", "-", name, flags=re.ASCII)[:_LONGEST_NAME], type=kind)
    for path in files:
        artifact.add_file(str(path), name=path.name)
    return artifact
