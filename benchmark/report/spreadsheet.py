"""CSV that a spreadsheet shows as it is."""

import pandas as pd

_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # the last four: full-width forms


def as_text(cell: object) -> object:
    """A name that a spreadsheet would compute, with an apostrophe before it; numbers and other names as they are.

    `=HYPERLINK(...)` and its kind are executed when a table is opened. The apostrophe makes a cell text (OWASP, "CSV
    injection").
    """
    if not isinstance(cell, str) or not cell.lstrip().startswith(_FORMULA):
        return cell
    try:
        float(cell)
    except ValueError:
        return "'" + cell
    return cell


def csv_bytes(table: pd.DataFrame) -> bytes:
    """The table as CSV in UTF-8, without its index."""
    names = [name for name in table.columns if not pd.api.types.is_numeric_dtype(table[name])]
    safe = table.assign(**{name: table[name].map(as_text) for name in names})
    return safe.rename(columns=as_text).to_csv(index=False, lineterminator="\n").encode()
