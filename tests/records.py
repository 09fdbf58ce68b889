"""Records of tests with invented figures, and their rows as a file."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from benchmark.results.record import EvaluationRecord
from benchmark.results.rows import Share, StoredRows, write_rows


def evaluation_record(**given: Any) -> EvaluationRecord:
    """One whose fields are these, and otherwise say nothing."""
    nothing = {
        "name": "t", "version": 1, "digest": "", "identity": ["t", 1, {}], "statistics": 1, "target": "predicted",
        "metrics": {}, "averaged": False, "figures": (), "dash": None, "remark": None, "derived": {},
        "rows": "",
    }  # fmt: skip
    return EvaluationRecord(**{**nothing, **given})


def rows_bytes(table: pd.DataFrame) -> bytes:
    """The file of a table in memory, see `StoredRows.of`."""
    rows = StoredRows.of(table)
    with TemporaryDirectory() as folder:
        path = Path(folder, "rows.parquet")
        write_rows(path, {test: Share(rows, test) for test in rows.tests})
        return path.read_bytes()
