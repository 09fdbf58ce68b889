"""Tables that were stored before figures had keys: what is printed of them is found by what their texts were then.

Whatever computes with tables gets them with keys: those that are stored without are computed again (`comparison.analyse`).
"""

import re
from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any

from benchmark.results.tables import BOUNDS, KEY, P_KEY, Table

_OF_SEEDS = {"mean over seeds": "mean", "SD between seeds": "between_some", "standard error over examples": "error"}
_OF_ALL_SEEDS = re.compile(r"no interval: (\d+) of \1 seeds")
_PROBABILITY, _TOO_SMALL = "no interval: a probability", "n too small"


def with_keys(table: Table) -> Table:
    """The table with keys for what is printed in a way of its own, where none of its figures has one.

    These are p-values and means over seeds. A figure that is too wide to be a result has such a range, if it has none.
    """
    if table.keys.any():
        return table
    rows = table.rows.assign(**{KEY: [_key(table.name, row) for row in table.rows.to_dict("records")]})
    wide = rows["note"].str.startswith(_TOO_SMALL) & rows[[*BOUNDS]].isna().all(axis=1)
    for bound, end in zip(BOUNDS, ("low", "high"), strict=True):
        rows[bound] = rows[bound].where(~wide, rows[end])
    return replace(table, rows=rows)


def _key(table: str, row: Mapping[Hashable, Any]) -> str:
    if row["note"] == _PROBABILITY:
        return P_KEY
    if not table.endswith("_over_seeds"):
        return ""
    return "between" if _OF_ALL_SEEDS.fullmatch(row["note"]) else _OF_SEEDS.get(row["metric"], "")
