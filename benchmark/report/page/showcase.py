"""Examples with the scores of all methods, their perturbation curves and attribution graphs, in columns."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from benchmark.report.arrangement import ordered_tests, repeats
from benchmark.report.cells import NamedCell
from benchmark.report.graphs import drawn_graphs
from benchmark.report.image_maps import ImageScores, Picture
from benchmark.report.leaderboard import known_metrics
from benchmark.report.page.overview import axis_facts, metric_facts
from benchmark.report.page.packed import all_shown, significant
from benchmark.report.run_folders import unreadable

MOST_SCORES = 3_000_000
"""Scores of words that a page carries for one task and model; some ten megabytes. Further examples are left out."""

Key = tuple[str, str, tuple[str, ...]]
"""An example as methods share it: its identifier, the explained class and its words."""


@dataclass(frozen=True)
class Example:
    """What is known of an example, and the scores of each method by its place."""

    uid: str
    target: str
    words: tuple[str, ...]
    label: str | None
    predicted: str | None
    probability: float | None
    rationale: str | None
    picture: Picture | None = None
    scores: dict[int, list[float | None]] = field(default_factory=dict)
    maps: dict[int, ImageScores] = field(default_factory=dict)


def examples(cells: Sequence[tuple[int, NamedCell]]) -> tuple[list[Example], int]:
    """The examples of run folders in the order in which they stand there, and how many more there are (`MOST_SCORES`).

    Args:
        cells: place of a method in the page's lists, and its cell.

    Raises:
        UserError: a `heatmap.json` does not have the documented form; the message names it.
    """
    found: dict[Key, Example] = {}
    left_out: set[Key] = set()
    count = 0
    for place, cell in cells:
        for entry in cell.heatmaps:
            try:
                example, scores = _example(entry)
                maps = _maps(entry, example.picture)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise unreadable(cell.stored.folder / "heatmap.json", repr(error)) from error
            key = (example.uid, example.target, example.words)
            count += len(scores)
            if key in found or count <= MOST_SCORES:
                kept = found.setdefault(key, example)
                kept.scores[place] = scores
                if maps is not None:
                    kept.maps[place] = maps
            else:
                left_out.add(key)
    return list(found.values()), len(left_out)


def _example(entry: Mapping[str, Any]) -> tuple[Example, list[float | None]]:
    """An example of `heatmap.json`, and the scores of its words."""
    words = tuple(str(word) or "▢" for word in entry["words"])
    scores = [None if score is None else significant(float(score)) for score in entry["scores"]]
    marks = entry.get("rationale")
    if len(scores) != len(words) or (marks is not None and len(marks) != len(words)):
        raise ValueError("words, scores and rationale differ in length")
    label, predicted = (None if entry.get(name) is None else str(entry[name]) for name in ("label", "predicted"))
    raw = entry.get("probability")
    probability = None if raw is None or not math.isfinite(float(raw)) else float(f"{float(raw):.3f}")
    rationale = None if marks is None else "".join("1" if mark else "0" for mark in marks)
    picture = None if entry.get("image") is None else Picture.of(entry["image"], len(words))
    facts = str(entry["uid"]), str(entry["target"]), words, label, predicted, probability, rationale
    return Example(*facts, picture), scores


def _maps(entry: Mapping[str, Any], picture: Picture | None) -> ImageScores | None:
    """What a method says of an image beside the scores of its patches."""
    return None if picture is None else ImageScores.of(entry["image"], picture, len(entry["words"]))


def _pictures(chosen: Sequence[Example], methods: Sequence[int]) -> dict[str, Any]:
    """Each picture once, and what methods say of it; nothing where the examples are texts."""
    if not any(example.picture for example in chosen):
        return {}
    maps = [[example.maps.get(place) for example in chosen] for place in methods]
    return {
        "picture": [None if example.picture is None else example.picture.shown for example in chosen],
        "maps": [[None if found is None else found.shown for found in row] for row in maps],
    }


def columns(cells: Sequence[tuple[int, NamedCell]]) -> dict[str, Any]:
    """The examples in columns, with curves and graphs; `uid` is empty where no method has any."""
    chosen, left_out = examples(cells)
    facts = {
        name: [getattr(example, name) for example in chosen]
        for name in ("uid", "target", "words", "label", "predicted", "probability", "rationale")
    }
    methods = sorted({place for example in chosen for place in example.scores})
    return (
        facts
        | _pictures(chosen, methods)
        | {
            "left_out": left_out,
            "methods": methods,
            "scores": [[example.scores.get(place) for example in chosen] for place in methods],
            "curves": list(_curves(cells, facts["uid"])),
            "graphs": list(_graphs(cells, {(example.uid, example.target): i for i, example in enumerate(chosen)})),
        }
    )


def _curves(cells: Sequence[tuple[int, NamedCell]], uids: Sequence[str]) -> Iterator[dict[str, Any]]:
    """What tests of perturbation saw of each example: the probability, or all of their curves where there is none."""
    members = [cell for _, cell in cells]
    declared, about, hidden = known_metrics(members), ordered_tests(members), repeats(members)
    for test, metrics in declared.items():
        if not test.startswith("perturbation") or test in hidden:
            continue
        names = [name for name, metric in metrics.items() if metric.x is not None]
        for name in [name for name in names if name.endswith("_probability")] or names:
            tables = {place: _points(cell, test, name, uids) for place, cell in cells}
            x = sorted({float(point) for table in tables.values() for point in table.columns})
            lines = [[place, _rounded(table.reindex(columns=x))] for place, table in tables.items() if len(table)]
            if lines:
                yield metric_facts(test, name, metrics[name], about[test].about.kind) | {
                    **axis_facts(metrics[name], x, ()),
                    "lines": lines,
                }


def _points(cell: NamedCell, test: str, metric: str, uids: Sequence[str]) -> pd.DataFrame:
    """A line per example, in the order given, and a column per x; the mean where there are several draws."""
    rows = cell.rows.read(cell.evaluations.get(test, ""), metric)
    chosen = rows[rows["uid"].isin(set(uids)) & rows["x"].notna()]
    if chosen.empty:
        return pd.DataFrame()
    return chosen.pivot_table(index="uid", columns="x", values="value", aggfunc="mean").reindex(list(uids))


def _rounded(table: pd.DataFrame) -> list[Any]:
    return [all_shown(line) for line in table.to_numpy()]


def _graphs(cells: Sequence[tuple[int, NamedCell]], places: Mapping[tuple[str, str], int]) -> Iterator[list[Any]]:
    """Method, example, and graph with its edges as [query, key, layer, share]."""
    for method, cell in cells:
        for drawn in drawn_graphs(cell):
            if (example := places.get((drawn.uid, drawn.target))) is not None:
                graph = drawn.graph
                yield [
                    method,
                    example,
                    {
                        "tokens": graph.tokens,
                        "layers": graph.layers,
                        "top": graph.top,
                        "terminal": graph.terminal,
                        "states": graph.states,
                        "edges": [[e.query, e.key, e.layer, significant(e.share)] for e in graph.edges],
                        "note": drawn.note,
                    },
                ]
