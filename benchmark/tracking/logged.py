"""What the W&B runs are made of: plain values for tables, and artifacts."""

import re
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd

_LONGEST_NAME = 128  # of an artifact, as W&B's server takes it


def plain(table: pd.DataFrame) -> list[list[Any]]:
    """The rows as Python lists for W&B's tables, which know no NaN (it becomes None) and one type in each column.

    Where a column has texts beside other values, such as layers and "all", all of it is text.
    """
    columns = [[None if value != value else value for value in table[name].tolist()] for name in table.columns]
    return [list(row) for row in zip(*map(_of_one_type, columns), strict=True)]


def _of_one_type(values: list[Any]) -> list[Any]:
    known = [value for value in values if value is not None]
    texts = sum(isinstance(value, str) for value in known)
    return values if texts in (0, len(known)) else [None if value is None else str(value) for value in values]


def artifact_of(wandb: ModuleType, name: str, kind: str, files: Iterable[Path]) -> Any:
    """An artifact with these files under their own names; of its name, what W&B allows.

    The files are copied, since a run folder may change before they are sent.
    """
    artifact = wandb.Artifact(re.sub(r"[^\w.-]+", "-", name, flags=re.ASCII)[:_LONGEST_NAME], type=kind)
    for path in files:
        artifact.add_file(str(path), name=path.name)
    return artifact
