"""Reading of files that may come from anybody: what they may cost is checked before they are read.

All functions raise ValueError (or OSError, for the file itself) for what is too large, too deep or broken.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]  # has no types

MAX_JSON = 1 << 26
"""Bytes of a JSON file: a record takes some tens of kilobytes, the graphs of eight long texts a few megabytes."""

MAX_YAML = 1 << 18
"""Bytes of a YAML file: the settings of one cell take some kilobytes, and a megabyte takes ten seconds to parse."""

MAX_DEPTH = 64
"""Lists and objects within each other: ours hold at most ten. Python's own limit is about a thousand calls."""

MAX_DIGITS = 40
"""Digits of a whole number: a float64 has 17 that count, and the time to read thousands grows with their square."""

MAX_ROWS = 500_000_000
"""Rows of a Parquet table, of which some are in memory at a time: 100,000 examples with 5,000 values each."""

MAX_ROWS_PER_EXAMPLE = 20_000
"""Rows of a table for each example, where no record declares the table: all tests of this project together write some
hundreds, unless a setting asks for thousands of draws."""

MAX_OTHER = 1 << 33
"""Bytes of any other file, tables among them."""

_LIMITS = {".json": MAX_JSON, ".yaml": MAX_YAML}
_TOKENS = re.compile(r'"(?:[^"\\]|\\.?)*+(?:"|\Z)|[\[{]|[\]}]', re.DOTALL)
_LONGEST_SCALAR = 1 << 13  # of YAML, unquoted: 1:1:1:… is a number to the base of 60


def check_file(path: Path) -> int:
    """Bytes of a regular file; how many it may have depends on the ending of its name."""
    if path.exists() and not path.is_file():
        raise ValueError("it is no regular file")
    size, limit = path.stat().st_size, _LIMITS.get(path.suffix, MAX_OTHER)
    if size > limit:
        raise ValueError(f"it holds {size} bytes, more than {limit}")
    return size


def read_bytes(path: Path) -> bytes:
    """The content of a regular file, see `check_file`."""
    check_file(path)
    return path.read_bytes()


def check_written(name: str, size: int) -> None:
    """ValueError where a file of this name and size would not be read again."""
    if size > (limit := _LIMITS.get(Path(name).suffix, MAX_OTHER)):
        raise ValueError(f"it would hold {size} bytes, more than {limit}")


def parse_json(content: bytes) -> Any:
    """What a JSON file holds."""
    text = content.decode()
    if _depth(_json_steps(text)) > MAX_DEPTH:
        raise ValueError(f"more than {MAX_DEPTH} lists and objects within each other")
    return json.loads(text, parse_int=_parse_whole, parse_float=_parse_real)


def _json_steps(text: str) -> Iterator[int]:
    """+1 for every bracket that opens, −1 for every one that closes, outside strings."""
    for match in _TOKENS.finditer(text):
        if (symbol := match[0])[0] != '"':
            yield 1 if symbol in "[{" else -1


def _depth(steps: Iterator[int]) -> int:
    """The deepest nesting; counting stops where it is too deep."""
    depth = deepest = 0
    for step in steps:
        depth += step
        deepest = max(deepest, depth)
        if deepest > MAX_DEPTH:
            break
    return deepest


def _parse_whole(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _parse_real(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"the number {digits[:20]} is too large")
    return number


def parse_yaml(content: bytes) -> Any:
    """What a YAML file holds; aliases, which can unfold to any size, are refused."""
    text = content.decode()
    try:
        if _depth(_yaml_steps(text)) > MAX_DEPTH:
            raise ValueError(f"more than {MAX_DEPTH} lists and mappings within each other")
        value = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, OverflowError, TypeError, AttributeError) as error:  # of odd tags
        raise ValueError(str(error)) from error
    _check_numbers(value)
    return value


def _yaml_steps(text: str) -> Iterator[int]:
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise ValueError("it holds an alias (*name); write the value out")
        if isinstance(event, yaml.ScalarEvent) and event.style is None and len(event.value) > _LONGEST_SCALAR:
            raise ValueError(f"a value of {len(event.value)} characters")
        yield isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)


def _check_numbers(content: Any) -> None:
    """ValueError for a whole number of more digits than are read; that the depth is small has been checked."""
    if isinstance(content, dict):
        for key, value in content.items():
            _check_numbers(key)
            _check_numbers(value)
    elif isinstance(content, list | tuple | set):
        for value in content:
            _check_numbers(value)
    elif isinstance(content, int) and content.bit_length() > 4 * MAX_DIGITS:
        raise ValueError(f"a number of {content.bit_length()} bits")


def check_rows(rows: int, examples: int | None = None) -> None:
    """ValueError where a table claims more rows than so many examples can have."""
    most = MAX_ROWS if examples is None else min(MAX_ROWS, MAX_ROWS_PER_EXAMPLE * max(examples, 1))
    if rows > most:
        raise ValueError(f"it has {rows} rows, more than {most}")
