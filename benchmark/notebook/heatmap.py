"""What is shown of an explained text: a heatmap as HTML, for words or an image, and words with scores for a terminal.

The HTML is for anybody's page: its style is scoped, and it needs no network.
"""

import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jinja2 import Environment, FileSystemLoader
from numpy.typing import NDArray
from rich.cells import cell_len, set_cell_size

from benchmark.errors import printable
from benchmark.models.pictures import data_url

MOST_DRAWN = 20
"""How many texts are drawn."""

MOST_PRINTED = 5
"""How many texts are printed."""

MOST_WORDS = 60
"""How many words of a text are printed."""

_RED, _BLUE = "178,24,43", "67,147,195"  # of ColorBrewer's red-blue scale; laid over the page's own background
_COVER = 0.8  # of the image, under the largest score
_STRONGEST = 0.55  # of the colour: text in the page's own colour stays legible over it, on white as on black
_LONGEST_WORD = 24  # in cells of the terminal
_LONGEST_NAME = 28


@dataclass(frozen=True, eq=False)
class Line:
    """What one method says of one text: scores of its words, the special tokens' share, or the reason why there are none."""

    method: str
    scores: NDArray[np.float64] | None
    special: float
    reason: str

    @property
    def largest(self) -> float:
        """The largest absolute score, 0 where there is none."""
        known = np.abs(self.scores[np.isfinite(self.scores)]) if self.scores is not None else np.zeros(0)
        return float(known.max(initial=0.0))


@dataclass(frozen=True, eq=False)
class Shown:
    """One text: its words, what the model predicts, the class that is explained, and a line for each method.

    `columns` is the number of patches side by side in an image, 0 for a text.
    """

    words: tuple[str, ...]
    target: str
    predicted: str
    probability: float
    lines: tuple[Line, ...]
    columns: int


@dataclass(frozen=True)
class View:
    """An image as a data URL, and by method the heatmap that lies over it, with its contrast."""

    picture: str
    size: tuple[int, int]
    overlays: Mapping[str, tuple[str, "Shades"]]


@dataclass(frozen=True)
class Shades:
    """The contrast of one heatmap of an image: scores below `clear` in size have no colour, those from `full` on all of it.

    A map of one sign is shaded from its 5th percentile on: what differs little would be one colour from 0 on. The full
    colour begins at the 99th percentile, or at the largest score where that is 0.

    Attributes:
        clear, full: ends of the shades.
        signed: whether both signs occur.
        share: which part of the map lies below `full`, in words.
    """

    clear: float
    full: float
    signed: bool
    share: str

    @staticmethod
    def of(scores: NDArray[np.float64]) -> "Shades":
        """The percentiles of a map: 5 (0 where both signs occur) and 99, of the scores' sizes."""
        sizes = np.abs(scores)
        one_sign = bool((scores >= 0).all() or (scores <= 0).all())
        low, high = (float(end) for end in np.percentile(sizes, [5, 99]))
        full = high if high > 0 else float(sizes.max())
        return Shades(
            low if one_sign and low < full else 0.0, full, not one_sign, "99th percentile" if high > 0 else "largest"
        )


def html(texts: tuple[Shown, ...], views: Sequence[View] = ()) -> str:
    """The heatmap of at most `MOST_DRAWN` texts, or images with a view of each."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"scaled": scaled, "signed": signed, "share": share}
    template = environment.get_template("heatmap.html.jinja")
    return template.render(
        texts=texts[:MOST_DRAWN], views=views, more=len(texts) - MOST_DRAWN, shade=shade, finite=math.isfinite
    )


def overlay(scores: NDArray[np.float64], shades: Shades) -> str:
    """Scores of pixels as a picture: red above and blue below 0, the less transparent the larger they are."""
    share = np.clip((np.abs(scores) - shades.clear) / ((shades.full - shades.clear) or 1.0), 0.0, 1.0)
    ends = [np.array([int(part) for part in end.split(",")]) for end in (_RED, _BLUE)]
    colour = np.where((scores > 0)[:, :, None], *ends)
    return data_url(np.dstack([colour, np.rint(255 * _COVER * share)]).astype(np.uint8))


def shade(score: float, largest: float) -> str:
    """CSS of a word: no colour at 0, red above and blue below, the more the nearer to ±largest."""
    strength = _STRONGEST * min(1.0, abs(score) / largest) if largest > 0 else 0.0
    return f"background-color:rgba({_RED if score > 0 else _BLUE},{strength:.3f})"


def scaled(value: float, largest: float) -> str:
    """A score with as many decimals as show three digits of the largest of its line, so that a line has one form."""
    if not 1e-6 <= largest < 1e6:
        return "0" if value == 0 else f"{value:.2e}"
    decimals = max(0, 2 - math.floor(math.log10(largest)))
    return f"{round(value, decimals) + 0.0:.{decimals}f}"  # no "-0.00"


def signed(value: float, largest: float) -> str:
    """The same with its sign; zero has none."""
    text = scaled(value, largest)
    return text.replace("-", "−") if value <= 0 or text.strip("0.") == "" else f"+{text}"


def share(value: float) -> str:
    """A share in per cent; nothing where there is none."""
    return f"{100 * value:.0f} %" if math.isfinite(value) else ""


def terminal(texts: Sequence[Shown]) -> str:
    """A block for each of the first texts: words down, methods across, in as many tables as the width asks for."""
    lines = [line for place, text in enumerate(texts[:MOST_PRINTED]) for line in _block(text, place, len(texts))]
    if len(texts) > MOST_PRINTED:
        kind = "images" if texts[0].columns else "texts"
        lines.append(f"... {len(texts) - MOST_PRINTED} more {kind}; .table() has them all")
    return "\n".join(lines)


def _block(text: Shown, place: int, count: int) -> Iterator[str]:
    which = f"{'image' if text.columns else 'text'} {place}: " if count > 1 else ""
    explained = f"{which}explained {text.target}, predicted {text.predicted} (p = {text.probability:.3f})"
    yield printable(explained)
    words = [printable(word) or "?" for word in text.words[:MOST_WORDS]]
    left = [set_cell_size(word, min(cell_len(word), _LONGEST_WORD)) for word in words]
    labels = ["", *left, "special tokens"]
    columns = [_column(line, len(words)) for line in text.lines if line.scores is not None]
    yield from _tables(labels, columns)
    if len(text.words) > MOST_WORDS:
        yield f"... {len(text.words) - MOST_WORDS} more {'patches' if text.columns else 'words'}; .table() has them all"
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
