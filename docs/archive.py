"""What is kept of a comparison that pages show: `docs/tables/NAME/`, so that a figure can be looked up and computed again.

The folder holds `leaderboard.csv` and `differences.csv` as the report wrote them, the tables of analyses that pages show,
`drawn.csv` (the rows of three drawn pairs of a method and a batch, with all their digits), and `facts.json`: the command,
the number of examples, the hours that one process took on one core, the hash of each method's run folder, and the SHA-256 of
the files beside it.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pandas as pd

from benchmark.comparison import Comparison
from benchmark.errors import UserError
from benchmark.opened import Opened
from benchmark.results.record import Record
from benchmark.results.store import json_bytes, read_json, read_record, write_bytes
from benchmark.run.rechecking import PLACE, drawn, stored

FACTS, ROWS = "facts.json", "drawn.csv"
BATCHES = 3


def keep(
    folder: Path, command: str, hours: float | None, comparison: Comparison, opened: Opened, analyses: Sequence[str]
) -> None:
    """Write the folder of a finished comparison; the same comparison gives the same bytes.

    Args:
        folder: to be written; what it holds of an earlier one goes.
        command: that computes the comparison.
        hours: that computing took one process on one core; None: what an earlier call wrote stays.
        comparison: what it left.
        opened: its parts.
        analyses: names of the tables that pages show.
    """
    hours = hours if hours is not None else facts_of(folder).get("hours")
    if hours is None:
        raise UserError(
            f"nothing is kept of '{folder.name}' yet: say with --hours how long one process took on one core"
        )
    names = ["leaderboard.csv", "differences.csv", *(f"table-{name}.csv" for name in analyses)]
    files = {name: (comparison.folder / name).read_bytes() for name in names if (comparison.folder / name).exists()}
    if not (rows := _drawn(opened)).empty:
        files[ROWS] = rows.to_csv(index=False, lineterminator="\n").encode()
    records = {path.name: read_record(path) for path in comparison.cells}
    facts = {
        "command": command,
        "n": max(record.task.n for record in records.values()),
        "hours": hours,
        "cells": {name: record.hash for name, record in records.items()},
        "files": {name: sha256(content).hexdigest() for name, content in files.items()},
    }
    for path in folder.glob("*"):
        if path.name not in files:
            path.unlink()
    for name, content in {**files, FACTS: json_bytes(facts)}.items():
        write_bytes(folder / name, content)


def facts_of(folder: Path) -> Mapping[str, Any]:
    """What `facts.json` says; nothing where there is none."""
    facts: Mapping[str, Any] = read_json(folder / FACTS) if (folder / FACTS).exists() else {}
    return facts


def kept_rows(folder: Path) -> pd.DataFrame | None:
    """`drawn.csv` as `benchmark.run.rechecking.recheck_kept` takes it; None where there is none."""
    if not (folder / ROWS).exists():
        return None
    return pd.read_csv(folder / ROWS, dtype={"uid": str, "test": str, "metric": str, "method": str})


def _drawn(opened: Opened) -> pd.DataFrame:
    """The scores of some batches of methods that have any, drawn by a seed; of curves, their points are left out."""
    cells = {name: cell for name, cell in opened.cells().items() if _has_scores(read_record(cell.folder))}
    if not cells:
        return pd.DataFrame()
    total = sum(len(cell.data.batches) for cell in cells.values())
    parts = [
        stored(cells[name], batch).assign(method=name, batch=batch)
        for name, batch in drawn(cells, min(1.0, BATCHES / total))
    ]
    rows = pd.concat(parts, ignore_index=True)
    return rows.loc[rows["x"].isna(), ["method", "batch", *PLACE, "value"]]


def _has_scores(record: Record) -> bool:
    return any(figure.scalar for test in record.evaluations.values() for figure in test.figures)
