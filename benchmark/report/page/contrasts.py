"""Pairs of methods, the calibration of each test and the methods against random, as the page shows them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from benchmark.report.cells import NamedCell
from benchmark.report.naming import Names
from benchmark.report.page.packed import all_shown, whole
from benchmark.report.pairs import MethodPairs
from benchmark.report.verdicts import AgainstRandom, calibration


def contrasts(
    cells: Sequence[NamedCell], pairs: Sequence[MethodPairs], places: Mapping[str, int], called: Names
) -> list[dict[str, Any]]:
    """What follows of each judged metric: sentences, and all pairs in columns.

    Args:
        cells: of one task and model.
        pairs: of the same (`pairs.every_pair`).
        places: the place of each method in the page's lists.
        called: what sentences call methods.
    """
    return [
        {
            "test": of_metric.column.evaluation,
            "name": of_metric.column.metric,
            "calibration": calibration(cells, of_metric.column).replace("**", ""),
            "random": _against_random(of_metric.random, called),
            "sentences": _worded(of_metric, called).sentences,
            "methods": [places[name] for name in of_metric.methods],
            "controls": [places[name] for name in of_metric.controls],
            **_columns(of_metric, places),
        }
        for of_metric in pairs
    ]


def _against_random(verdict: AgainstRandom | None, called: Names) -> str | None:
    if verdict is None:
        return None

    def told(methods: Sequence[str]) -> tuple[str, ...]:
        return tuple(map(called.method, methods))

    return replace(
        verdict, above=told(verdict.above), undecided=told(verdict.undecided), below=told(verdict.below),
        missing=told(verdict.missing), skewed=told(verdict.skewed),
        constant=tuple((called.method(name), share) for name, share in verdict.constant),
    ).sentence  # fmt: skip


def _worded(of_metric: MethodPairs, called: Names) -> MethodPairs:
    """The same with methods by their titles."""

    def told(pair: tuple[str, str]) -> tuple[str, str]:
        return called.method(pair[0]), called.method(pair[1])

    return replace(
        of_metric,
        methods=tuple(map(called.method, of_metric.methods)),
        comparisons={told(pair): gain for pair, gain in of_metric.comparisons.items()},
        adjusted={told(pair): p for pair, p in of_metric.adjusted.items()},
        constant={called.method(name): share for name, share in of_metric.constant.items()},
    )


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
        "note": whole([of_metric.note(pair) or None for pair, _ in ordered]),
    }


def _verdict(of_metric: MethodPairs, first: str, second: str) -> int | None:
    """1 where the first is significantly better, -1 where the second is, 0 where undecided, None of controls."""
    if (first, second) not in of_metric.adjusted:
        return None
    return int(of_metric.better(first, second)) - int(of_metric.better(second, first))
