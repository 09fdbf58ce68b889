"""Token heatmaps: a few examples, all methods side by side, as one self-contained HTML page."""

import math
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader

from benchmark.report.cells import NamedCell
from benchmark.report.graphs import DRAWN_EXAMPLES, drawn_graphs, picture
from benchmark.report.leaderboard import groups
from benchmark.report.run_folders import unreadable
from benchmark.results.wording import number

_POSITIVE, _NEGATIVE = (178, 24, 43), (33, 102, 172)  # the ends of ColorBrewer's red-blue scale
_WHITE_TEXT = 0.62  # share of the full colour from which white text has more contrast than black


@dataclass(frozen=True)
class Word:
    """A word as it is drawn."""

    text: str
    style: str
    score: str
    rationale: bool


@dataclass(frozen=True)
class Line:
    """One method's scores of an example."""

    method: str
    words: tuple[Word, ...]
    largest: str


@dataclass(frozen=True)
class Picture:
    """One method's attribution graph of an example; `data` is a PNG in base64."""

    text: str
    data: str


@dataclass(frozen=True)
class Shown:
    """One example: what is known of it, each method's line, and the attribution graphs of methods that score edges."""

    uid: str
    label: str
    predicted: str
    probability: str
    wrong: bool
    target: str
    lines: tuple[Line, ...]
    pictures: tuple[Picture, ...]


@dataclass(frozen=True)
class Section:
    """The examples of one task and model."""

    title: str
    examples: tuple[Shown, ...]


def colour(score: float, largest: float) -> str:
    """CSS of a word: white at 0, towards red for positive and blue for negative scores, full at ±largest."""
    share = min(1.0, abs(score) / largest) if largest > 0 else 0.0
    end = _POSITIVE if score > 0 else _NEGATIVE
    red, green, blue = (round(255 + (channel - 255) * share) for channel in end)
    return f"background:rgb({red},{green},{blue})" + (";color:#fff" if share > _WHITE_TEXT else "")


def _line(method: str, entry: dict[str, Any]) -> Line:
    """Words of one example; the scale is the largest absolute score of this method on this example."""
    scores = [math.nan if score is None else float(score) for score in entry["scores"]]
    largest = max((abs(score) for score in scores if math.isfinite(score)), default=0.0)
    rationale = entry.get("rationale") or [False] * len(scores)
    words = tuple(
        Word(
            text=str(text) or "▢",
            style=colour(score, largest) if math.isfinite(score) else "",
            score=number(score) if math.isfinite(score) else "",
            rationale=bool(marked),
        )
        for text, score, marked in zip(entry["words"], scores, rationale, strict=True)
    )
    return Line(method, words, number(largest))


def sections(cells: Sequence[NamedCell]) -> list[Section]:
    """The examples of named cells, grouped by task and model, then by example and explained class.

    Raises:
        UserError: a `heatmap.json` does not have the documented form; the message names it.
    """
    found: list[Section] = []
    for task, model, members in groups(cells):
        lines: dict[tuple[str, str], list[Line]] = {}
        facts: dict[tuple[str, str], dict[str, Any]] = {}
        pictures: dict[tuple[str, str], list[Picture]] = {}
        for cell in members:
            for entry in cell.heatmaps:
                try:
                    key = (str(entry["uid"]), str(entry["target"]))
                    lines.setdefault(key, []).append(_line(cell.method, entry))
                    probability(entry)
                except (KeyError, TypeError, ValueError, AttributeError) as error:
                    path = cell.stored.folder / "heatmap.json"
                    raise unreadable(path, repr(error)) from error
                facts.setdefault(key, entry)
            for shown in drawn_graphs(cell)[:DRAWN_EXAMPLES]:
                data = b64encode(picture(shown, "png")).decode()
                pictures.setdefault((shown.uid, shown.target), []).append(Picture(f"{shown.title}: {shown.note}", data))
        examples = tuple(
            _shown(key, facts[key], tuple(own), tuple(pictures.get(key, ()))) for key, own in lines.items()
        )
        if examples:
            found.append(Section(f"{task} · {model}", examples))
    return found


def _shown(
    key: tuple[str, str], entry: dict[str, Any], lines: tuple[Line, ...], pictures: tuple[Picture, ...]
) -> Shown:
    label, predicted = ("unknown" if entry.get(name) is None else str(entry[name]) for name in ("label", "predicted"))
    return Shown(
        key[0], label, predicted, probability(entry), label not in ("unknown", predicted), key[1], lines, pictures
    )


def probability(entry: dict[str, Any]) -> str:
    """The predicted class's probability as it is shown; ValueError or TypeError where it is none."""
    found = entry.get("probability")
    return "unknown" if found is None else f"{float(found):.3f}"


def environment() -> Environment:
    """Templates of this folder; everything that is inserted is escaped."""
    folder = Path(__file__).parent
    return Environment(loader=FileSystemLoader(folder), autoescape=True, trim_blocks=True, lstrip_blocks=True)


def heatmap_page(cells: Sequence[NamedCell]) -> str:
    """The whole page; says so where no cell holds heatmaps."""
    return environment().get_template("heatmaps.html.jinja").render(sections=sections(cells)) + "\n"
