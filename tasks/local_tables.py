"""Local tables, row by row, with the line of each: tab-separated, comma-separated, JSON Lines and Parquet."""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from benchmark.errors import UserError
from tasks.common import json_lines, read_text

Quoting = Literal["auto", "none", "standard"]
Row = tuple[str, Mapping[str, Any]]
"""Where a row stands ("file:line"), and its values by column."""


def read_table(file: Path, quoting: str = "auto") -> list[Row]:
    """All rows of a file whose ending says what it is.

    Args:
        file: `.tsv`, `.csv` (both with a header line), `.jsonl` or `.json` (one object a line), or `.parquet`.
        quoting: of `.tsv` and `.csv`: "none" takes quotation marks as text, "standard" as CSV does; "auto" is "none" for
            `.tsv` (as GLUE is distributed) and "standard" for `.csv`.

    Returns:
        One (place, values) per row. Texts stay texts: "NA" and "null" are words.

    Raises:
        UserError: the ending is unknown, or the file is missing or broken, naming the line.
    """
    if quoting not in get_args(Quoting):
        raise UserError(f"task.quoting={quoting!r} is unknown; allowed are {', '.join(get_args(Quoting))}")
    plain = quoting == "none" or (quoting == "auto" and file.suffix == ".tsv")
    readers: Mapping[str, Callable[[], Iterator[Row]]] = {
        ".tsv": lambda: _delimited(file, "\t", plain=plain),
        ".csv": lambda: _delimited(file, ",", plain=plain),
        ".jsonl": lambda: _json(file),
        ".json": lambda: _json(file),
        ".parquet": lambda: _parquet(file),
    }
    if file.suffix not in readers:
        raise UserError(f"{file}: unknown ending '{file.suffix}'; tables end in {', '.join(readers)}")
    return list(readers[file.suffix]())


def _delimited(file: Path, delimiter: str, *, plain: bool) -> Iterator[Row]:
    numbered = _plain_lines(file, delimiter) if plain else _quoted_lines(file, delimiter)
    header: Sequence[str] | None = None
    for number, fields in numbered:
        if header is None:
            header = fields
        elif len(fields) != len(header):
            raise UserError(
                f"{file}:{number}: {len(fields)} fields under {len(header)} columns; "
                "mend the line, or set task.quoting to 'none' or 'standard'"
            )
        else:
            yield f"{file}:{number}", dict(zip(header, fields, strict=True))


def _plain_lines(file: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    # only the line feed ends a line: str.splitlines would also cut at rarer separators inside a text
    for number, line in enumerate(read_text(file).split("\n"), start=1):
        if stripped := line.removesuffix("\r"):
            yield number, stripped.split(delimiter)


def _quoted_lines(file: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(read_text(file).splitlines(keepends=True), delimiter=delimiter, strict=True)
    try:
        for fields in reader:
            if fields:
                yield reader.line_num, fields
    except csv.Error as error:
        raise UserError(f"{file}:{reader.line_num}: {error}; mend the line, or set task.quoting=none") from error


def _json(file: Path) -> Iterator[Row]:
    return ((f"{file}:{number}", line) for number, line in json_lines(file))


def _parquet(file: Path) -> Iterator[Row]:
    import pyarrow
    import pyarrow.parquet

    try:
        rows = pyarrow.parquet.read_table(file).to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(f"{file}: cannot be read as Parquet ({str(error).splitlines()[0]})") from error
    return ((f"{file}: row {index}", row) for index, row in enumerate(rows))
