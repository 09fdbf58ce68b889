"""Products of cases, of which `make test` asks a part that covers them, and `make thorough` the rest."""

from collections.abc import Mapping, Sequence

import pytest


def covering(columns: Mapping[str, Sequence[str]], share: int, rows: int = 1) -> list[object]:
    """Parameters `(row, column)`; every run asks one column in so many of a row, and the next ones of the next row.

    So each row that is asked is asked of some column, and where there are many rows each column of some row.

    Args:
        columns: by row.
        share: one column in so many.
        rows: one row in so many, where a row takes long.
    """

    def is_asked(number: int, place: int, among: int) -> bool:
        return number % rows == 0 and (number // rows + place) % min(share, among) == 0

    return [
        pytest.param(row, column, marks=[] if is_asked(number, place, len(own)) else [pytest.mark.thorough])
        for number, (row, own) in enumerate(columns.items())
        for place, column in enumerate(own)
    ]


def one_in(share: int, values: Sequence[object]) -> list[object]:
    """Parameters, of which every run asks one in so many."""
    return [
        pytest.param(value, marks=[] if place % share == 0 else [pytest.mark.thorough])
        for place, value in enumerate(values)
    ]
