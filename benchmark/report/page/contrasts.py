"""Pairs of methods, the calibration of each test and the methods against random, as the page shows them."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmark.report.cells import NamedCell
from benchmark.report.gains import Gain
from benchmark.report.page.packed import all_shown, whole
from benchmark.report.pairs import MethodPairs
from benchmark.report.verdicts import UNPAIRED, against_random, calibration


def contrasts(
    cells: Sequence[NamedCell], pairs: Sequence[MethodPairs], places: Mapping[str, int]
) -> list[dict[str, Any]]:
    """What follows of each judged metric: sentences, and all pairs in columns.

    Args:
        cells: of one task and model.
        pairs: of the same (`pairs.every_pair`).
        places: the place of each method in the page's lists.
    """
    return [
        {
            "test": of_metric.column.evaluation,
            "name": of_metric.column.metric,
            "calibration": calibration(cells, of_metric.column).replace("**", ""),
            "random": None if (verdict := against_random(cells, of_metric.column)) is None else verdict.sentence,
            "sentences": of_metric.sentences,
            "methods": [places[name] for name in of_metric.methods],
            "controls": [places[name] for name in of_metric.controls],
            **_columns(of_metric, places),
        }
        for of_metric in pairs
    ]


def _columns(of_metric: MethodPairs, places: Mapping[str, int]) -> dict[str, Any]:
    """Of every pair: how much better the first is, with interval, p-values and examples."""
    ordered = list(of_metric.comparisons.items())
    gains = [None if comparison is None else comparison.gain for _, comparison in ordered]
    return {
        "first": [places[pair[0]] for pair, _ in ordered],
        "second": [places[pair[1]] for pair, _ in ordered],
        "gain": all_shown(None if gain is None else gain.value for gain in gains),
        "low": all_shown(None if gain is None else gain.low for gain in gains),
        "high": all_shown(None if gain is None else gain.high for gain in gains),
        "n": whole([0 if gain is None else gain.n for gain in gains]),
        "p": all_shown(None if comparison is None else comparison.p for _, comparison in ordered),
        "holm": all_shown(of_metric.adjusted.get(pair) for pair, _ in ordered),
        "verdict": [_verdict(of_metric, *pair) for pair, _ in ordered],
        "note": whole([_note(comparison) for _, comparison in ordered]),
    }


def _verdict(of_metric: MethodPairs, first: str, second: str) -> int | None:
    """1 where the first is significantly better, -1 where the second is, 0 where undecided, None of controls."""
    if (first, second) not in of_metric.adjusted:
        return None
    return int(of_metric.better(first, second)) - int(of_metric.better(second, first))


def _note(comparison: Gain | None) -> str | None:
    return UNPAIRED if comparison is None else comparison.remark or None
