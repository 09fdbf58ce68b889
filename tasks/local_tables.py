"""Local tables, row by row, with the line of each: tab-separated, comma-separated, JSON Lines, JSON arrays and Parquet."""

import csv
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from threading import Lock
from typing import Any, Literal, get_args

from benchmark.errors import UserError
from tasks.common import check_kind, json_array, json_lines, read_bytes, read_text, text_lines

Quoting = Literal["auto", "none", "standard"]
Row = tuple[str, Mapping[str, Any]]
"""Where a row stands ("file:line"), and its values by column."""

DELIMITERS: Mapping[str, str] = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|"}
"""By the names that `task.delimiter` takes, since a shell takes some of the characters for itself."""

_OF_ENDING = {".csv": "comma", ".tsv": "tab"}
_WORKBOOKS = (".xlsx", ".xlsm", ".xls", ".ods")


def read_table(file: Path, quoting: str = "auto", delimiter: str = "auto") -> list[Row]:
    """All rows of a file whose ending says what it is.

    Args:
        file: `.tsv`, `.csv` (both with a header line), `.jsonl` or `.json` (one object a line, or one array of objects), or
            `.parquet`.
        quoting: of `.tsv` and `.csv`: "none" takes quotation marks as text, "standard" as CSV does; "auto" is "none" for
            `.tsv` (as GLUE is distributed) and "standard" for `.csv`.
        delimiter: of `.tsv` and `.csv`: a name of `DELIMITERS` or its character; "auto" for the one that the header has
            (`_recognised`).

    Returns:
        One (place, values) per row. Texts stay texts: "NA" and "null" are words.

    Raises:
        UserError: the ending is unknown, or the file is missing or broken, naming the line.
    """
    if quoting not in get_args(Quoting):
        raise UserError(f"task.quoting={quoting!r} is unknown; allowed are {', '.join(get_args(Quoting))}")
    ending = file.suffix.lower()
    plain = quoting == "none" or (quoting == "auto" and ending == ".tsv")
    readers: Mapping[str, Callable[[], Iterator[Row]]] = {
        ".tsv": lambda: _delimited(file, delimiter, plain=plain),
        ".csv": lambda: _delimited(file, delimiter, plain=plain),
        ".jsonl": lambda: _json(file),
        ".json": lambda: _json(file),
        ".parquet": lambda: _parquet(file),
    }
    if ending in _WORKBOOKS:
        raise UserError(
            f"{file}: a workbook is not read; save the sheet as “CSV UTF-8”, or with pandas: "
            f'read_excel("{file.name}").to_csv("{file.stem}.csv", index=False)'
        )
    if ending not in readers:
        raise UserError(f"{file}: unknown ending '{file.suffix}'; tables end in {', '.join(readers)}")
    return list(readers[ending]())


def _delimited(file: Path, delimiter: str, *, plain: bool) -> Iterator[Row]:
    character = _recognised(file) if delimiter == "auto" else DELIMITERS.get(delimiter, delimiter)
    numbered = _plain_lines(file, character) if plain else _quoted_lines(file, character)
    header: Sequence[str] | None = None
    for number, fields in numbered:
        if header is None:
            header = [name.strip() for name in fields]
            if twice := [name for name, count in Counter(header).items() if name and count > 1]:
                raise UserError(f"{file}:{number}: the column '{twice[0]}' occurs twice; rename one of the two")
        elif len(fields) != len(header):
            raise UserError(
                f"{file}:{number}: {len(fields)} fields under {len(header)} columns; "
                f"mend the line, or set task.quoting to {'standard' if plain else 'none'} "
                f"or task.delimiter to {', '.join(DELIMITERS)}"
            )
        else:
            yield f"{file}:{number}", dict(zip(header, fields, strict=True))


def _recognised(file: Path) -> str:
    """The delimiter of the header line: that of the ending in a `.tsv` that has a tab, else the only one that it holds.

    A bar counts where there is no other. A header without any has a single column.

    Raises:
        UserError: it holds several.
    """
    text = read_text(file)
    header = next((line for line in text_lines(text) if line.strip()), "")
    own = _OF_ENDING[file.suffix.lower()]
    if own == "tab" and DELIMITERS[own] in header:
        return DELIMITERS[own]
    outside = "".join(header.split('"')[::2])  # of the quoted names, whose delimiters are text
    *held, bar = (name for name, character in DELIMITERS.items() if character in outside or name == "bar")
    if len(held) > 1:
        choices = " or ".join(f"task.delimiter={name}" for name in held)
        raise UserError(
            f"{file}: the header line holds {' and '.join(held)}; say which one separates columns: {choices}"
        )
    if not held and DELIMITERS[bar] in outside:
        return DELIMITERS[bar]
    return DELIMITERS[held[0] if held else own]


def _plain_lines(file: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(text_lines(read_text(file)), start=1):
        if line:
            yield number, line.split(delimiter)


def _quoted_lines(file: Path, delimiter: str) -> list[tuple[int, list[str]]]:
    text = read_text(file)
    # what ends a line is the csv module's business: it is handed the line ends as they are
    reader = csv.reader(StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        with _cells_up_to(len(text)):
            return [(reader.line_num, fields) for fields in reader if fields]
    except csv.Error as error:
        raise UserError(f"{file}:{reader.line_num}: {error}; mend the line, or set task.quoting=none") from error


_LIMIT = Lock()


@contextmanager
def _cells_up_to(characters: int) -> Iterator[None]:
    """The csv module reads cells of that many characters, and afterwards what it read before.

    Its limit (131,072) is one for the whole process, so one table is read at a time.
    """
    with _LIMIT:
        before = csv.field_size_limit()
        csv.field_size_limit(max(before, characters))
        try:
            yield
        finally:
            csv.field_size_limit(before)


def _json(file: Path) -> Iterator[Row]:
    if (items := json_array(file)) is not None:
        return ((f"{file}: item {index}", item) for index, item in enumerate(items))
    return ((f"{file}:{number}", line) for number, line in json_lines(file))


def _parquet(file: Path) -> Iterator[Row]:
    import pyarrow
    import pyarrow.parquet

    check_kind(file, read_bytes(file))
    try:
        rows = pyarrow.parquet.read_table(file).to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(f"{file}: cannot be read as Parquet ({str(error).splitlines()[0]})") from error
    return ((f"{file}: row {index}", row) for index, row in enumerate(rows))
