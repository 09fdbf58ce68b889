"""Token heatmaps: a few examples, all methods side by side, as one self-contained HTML page."""

import math
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader

from benchmark.report.cells import NamedCell
from benchmark.report.graphs import DRAWN_EXAMPLES, drawn_graphs, pictures
from benchmark.report.leaderboard import groups
from benchmark.report.run_folders import unreadable
from benchmark.results.wording import bounds, number

_POSITIVE, _NEGATIVE = (178, 24, 43), (33, 102, 172)  # the ends of ColorBrewer's red-blue scale
_WHITE_TEXT = 0.62  # share of the full colour from which white text has more contrast than black


@dataclass(frozen=True)
class HeatmapExample:
    """One example: what is known of it, and what each method says of it.

    Attributes:
        lines: method, words with their score (None: it has none) and whether they are rationale, largest score.
        pictures: description and PNG in base64 of the attribution graphs of methods that score edges.
    """

    uid: str
    target: str
    label: str
    predicted: str
    probability: str
    lines: list[tuple[str, list["ScoredWord"], float]] = field(default_factory=list)
    pictures: list[tuple[str, str]] = field(default_factory=list)

    @property
    def wrong(self) -> bool:
        """Whether the model predicts another class than the label."""
        return self.label not in ("unknown", self.predicted)


def colour(score: float, largest: float) -> str:
    """CSS of a word: white at 0, towards red for positive and blue for negative scores, full at ±largest."""
    share = min(1.0, abs(score) / largest) if largest > 0 else 0.0
    end = _POSITIVE if score > 0 else _NEGATIVE
    red, green, blue = (round(255 + (channel - 255) * share) for channel in end)
    return f"background:rgb({red},{green},{blue})" + (";color:#fff" if share > _WHITE_TEXT else "")


ScoredWord = tuple[str, float | None, bool]


def _words(entry: Mapping[str, Any]) -> tuple[list[ScoredWord], float]:
    """Words of one example, and the scale: the largest absolute score of this method on this example."""
    numbers = (math.nan if score is None else float(score) for score in entry["scores"])
    scores = [score if math.isfinite(score) else None for score in numbers]
    rationale = entry.get("rationale") or [False] * len(scores)
    parts = zip(entry["words"], scores, rationale, strict=True)
    words = [(str(text) or "▢", score, bool(marked)) for text, score, marked in parts]
    return words, max((abs(score) for score in scores if score is not None), default=0.0)


def _example(entry: Mapping[str, Any]) -> HeatmapExample:
    label, predicted = ("unknown" if entry.get(name) is None else str(entry[name]) for name in ("label", "predicted"))
    raw = entry.get("probability")
    probability = "unknown" if raw is None else f"{float(raw):.3f}"
    return HeatmapExample(str(entry["uid"]), str(entry["target"]), label, predicted, probability)


def sections(cells: Sequence[NamedCell]) -> list[tuple[str, list[HeatmapExample]]]:
    """The examples of each task and model under its title, by example and explained class.

    Raises:
        UserError: a `heatmap.json` does not have the documented form; the message names it.
    """
    titled = []
    for task, model, members in groups(cells):
        examples: dict[tuple[str, str], HeatmapExample] = {}
        for cell in members:
            for entry in cell.heatmaps:
                try:
                    words, example = _words(entry), _example(entry)
                except (KeyError, TypeError, ValueError, AttributeError) as error:
                    raise unreadable(cell.stored.folder / "heatmap.json", repr(error)) from error
                examples.setdefault((example.uid, example.target), example).lines.append((cell.method, *words))
        for shown in (graph for cell in members for graph in drawn_graphs(cell)[:DRAWN_EXAMPLES]):
            if (shown.uid, shown.target) in examples:
                data = b64encode(pictures(shown)["png"]).decode()
                examples[shown.uid, shown.target].pictures.append((f"{shown.title}: {shown.note}", data))
        titled += [(f"{task} · {model}", list(examples.values()))] if examples else []
    return titled


def environment() -> Environment:
    """Templates of this folder; everything that is inserted is escaped."""
    folder = Path(__file__).parent
    templates = Environment(loader=FileSystemLoader(folder), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    templates.filters |= {"number": number, "bounds": bounds, "colour": colour}
    return templates


def heatmap_page(cells: Sequence[NamedCell]) -> str:
    """The whole page; says so where no cell holds heatmaps."""
    return environment().get_template("heatmaps.html.jinja").render(sections=sections(cells)) + "\n"
