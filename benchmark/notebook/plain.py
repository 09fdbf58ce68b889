"""Words with scores as plain text that fits a terminal."""

import shutil
from collections.abc import Iterator, Sequence

import numpy as np
from rich.cells import cell_len, set_cell_size

from benchmark.errors import printable
from benchmark.notebook.heatmap import Line, Shown, scaled, share

MOST_TEXTS = 5
MOST_WORDS = 60
_LONGEST_WORD = 24
_LONGEST_NAME = 28


def terminal(texts: Sequence[Shown]) -> str:
    """A block for each of the first texts: words down, methods across, in as many tables as the width asks for."""
    lines = [line for place, text in enumerate(texts[:MOST_TEXTS]) for line in _block(text, place, len(texts))]
    if len(texts) > MOST_TEXTS:
        lines.append(f"... {len(texts) - MOST_TEXTS} more texts; .table() has them all")
    return "\n".join(lines)


def _block(text: Shown, place: int, count: int) -> Iterator[str]:
    which = f"text {place}: " if count > 1 else ""
    explained = f"{which}explained {text.target}, predicted {text.predicted} (p = {text.probability:.3f})"
    yield printable(explained)
    words = [printable(word) or "?" for word in text.words[:MOST_WORDS]]
    left = [set_cell_size(word, min(cell_len(word), _LONGEST_WORD)) for word in words]
    labels = ["", *left, "special tokens"]
    columns = [_column(line, len(words)) for line in text.lines if line.scores is not None]
    yield from _tables(labels, columns)
    if len(text.words) > MOST_WORDS:
        yield f"... {len(text.words) - MOST_WORDS} more words; .table() has them all"
    for line in text.lines:
        if line.scores is None:
            yield printable(f"{line.method}: – {line.reason}")


def _column(line: Line, n_words: int) -> list[str]:
    """Heading, scores of the words, and the share of special tokens."""
    assert line.scores is not None
    scores = [scaled(score, line.largest) if np.isfinite(score) else "–" for score in line.scores[:n_words].tolist()]
    name = printable(line.method)
    return [set_cell_size(name, min(cell_len(name), _LONGEST_NAME)), *scores, share(line.special) or "–"]


def _tables(labels: Sequence[str], columns: Sequence[Sequence[str]]) -> Iterator[str]:
    """The columns beside the labels, in blocks that fit the terminal."""
    width = max(map(cell_len, labels))
    room = max(40, shutil.get_terminal_size((100, 24)).columns) - width
    pending = list(columns)
    while pending:
        block: list[Sequence[str]] = []
        used = 0
        while pending and (not block or used + 2 + _wide(pending[0]) <= room):
            used += 2 + _wide(pending[0])
            block.append(pending.pop(0))
        for row, label in enumerate(labels):
            cells = [" " * (2 + _wide(column) - cell_len(column[row])) + column[row] for column in block]
            yield (set_cell_size(label, width) + "".join(cells)).rstrip()


def _wide(column: Sequence[str]) -> int:
    return max(map(cell_len, column))
