"""In which order tests and methods stand, the same in every table, which tests are not shown, and what is not ranked.

No rank rests on controls, nor on explanations that say nothing: maps whose rated units all have one and the same score.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from benchmark.report.cells import NamedCell, natural
from benchmark.results.control_names import control_order
from benchmark.results.record import KINDS, MOST_CONSTANT, About, EvaluationRecord, too_constant
from benchmark.results.tables import is_too_wide
from benchmark.results.wording import span

ORDER = (
    "Methods stand in the same order in every table: by the mean of their ranks on the ranked metrics of the overview that "
    "they have a figure of, best first; controls stand below and are not ranked, nor are methods in tests in which their "
    "maps are constant on more than a tenth of the examples."
)

RULE = (
    f"No rank, star, bold, underline, mean rank or verdict rests on a method that is constant on more than "
    f"{MOST_CONSTANT * 100:g} % of the examples"
)

_Key = tuple[tuple[int, float, str], ...]


def ordered_tests(cells: Sequence[NamedCell]) -> dict[str, EvaluationRecord]:
    """Name shown -> what the first cell that has the test says of it: faithfulness, plausibility, descriptive, unknown."""
    found: dict[str, EvaluationRecord] = {}
    for cell in cells:
        for shown in cell.evaluations:
            if shown not in found and (test := cell.evaluation(shown)) is not None:
                found[shown] = test
    return dict(sorted(found.items(), key=lambda item: _test_place(item[1].about, item[0])))


def _test_place(about: About, name: str) -> tuple[int, int, _Key]:
    return (KINDS.index(about.kind) if about.kind in KINDS else len(KINDS), about.order, natural(name))


def repeats(cells: Sequence[NamedCell]) -> dict[str, str]:
    """Tests that give every method the rows that an earlier test of their class gives it -> that test.

    So does perturbation for the annotated class where the model predicts it for every example.
    """
    in_order = ordered_tests(cells)
    seen: dict[tuple[object, ...], str] = {}
    repeated = {}
    for shown, test in in_order.items():
        rows = tuple(None if (own := cell.evaluation(shown)) is None else own.rows for cell in cells)
        key = (test.identity[0], tuple(test.metrics), rows)
        if not any(own.figures for cell in cells if (own := cell.evaluation(shown)) is not None):
            continue
        if (first := seen.setdefault(key, shown)) != shown:
            repeated[shown] = first
    return repeated


def repeated_line(repeated: Mapping[str, str]) -> str:
    """Which tests are not shown, in words; nothing where all are."""
    told = [f"{name} (equal to {first} in every value)" for name, first in repeated.items()]
    return f"Not shown: {', '.join(told)}; leaderboard.csv has it all the same." if told else ""


def control_place(method: str) -> int:
    """0 for the shown name of a real method, then the controls' in their order."""
    return control_order(method.split(" (", 1)[0])


def is_control(method: str) -> bool:
    """Whether a method's shown name is a control's."""
    return control_place(method) > 0


def percent(share: float) -> str:
    """A share in percent; one that is not 0 is never shown as 0."""
    return "< 1 %" if 0 < share < 0.005 else f"{share * 100:.0f} %"


def constant_share(cell: NamedCell, evaluation: str) -> float | None:
    """Share of the examples on which the method's map is constant in a test; None where the test reads no such map."""
    test = cell.evaluation(evaluation)
    return None if test is None else test.constant


def silent(cells: Sequence[NamedCell], evaluation: str) -> dict[str, float]:
    """The methods on which nothing rests in a test, with the share of the examples on which their maps are constant."""
    shares = {cell.method: constant_share(cell, evaluation) for cell in cells}
    return {method: share for method, share in shares.items() if share is not None and too_constant(share)}


def with_shares(shares: Mapping[str, float]) -> str:
    """`a (92 %), b (30 %)`."""
    return ", ".join(f"{name} ({percent(share)})" for name, share in shares.items())


def span_of(shares: Iterable[float | None]) -> str:
    """`92 %`, or `0 %–92 %` where tests differ; nothing where no test reads maps."""
    return span((share for share in shares if share is not None), percent)


def ranks(
    values: Mapping[str, float], higher_is_better: object, bounds: tuple[float, float] = (-math.inf, math.inf)
) -> dict[str, int]:
    """Competition rank of each finite value; equal values share the better rank.

    Empty where fewer than two are finite, where all are equal, and where the best one is the worst that is possible: then
    none is better than another.

    Args:
        values: by method.
        higher_is_better: the metric's direction; None where it is not ranked.
        bounds: least and largest possible value.
    """
    finite = {method: value for method, value in values.items() if math.isfinite(value)}
    if higher_is_better is None or len(finite) < 2:
        return {}
    signed = {method: value if higher_is_better else -value for method, value in finite.items()}
    best, worst = max(signed.values()), bounds[0] if higher_is_better else -bounds[1]
    if best == min(signed.values()) or best <= worst:
        return {}
    return {method: 1 + sum(other > value for other in signed.values()) for method, value in signed.items()}


def ranked_values(rows: Sequence[Mapping[Any, Any]]) -> dict[str, float]:
    """The figures of a metric that are ranked, by method: those of real methods whose maps say something.

    One that has no interval, or one that spans more than half of the metric's range, counts as no figure.

    Args:
        rows: of the leaderboard, of one scalar metric.
    """
    return {
        str(row["method"]): row["value"]
        for row in rows
        if not is_control(str(row["method"])) and not too_constant(row["constant"]) and is_told(row)
    }


def is_told(row: Mapping[Any, Any]) -> bool:
    """Whether a figure has a 95 % interval that says where it lies: one of at most half of its metric's range."""
    return math.isfinite(row["high"] - row["low"]) and not is_too_wide(row)


def method_order(rows: pd.DataFrame) -> list[str]:
    """The methods of one task and model from best to worst (`ORDER`; ties by name), controls after them.

    Args:
        rows: of the leaderboard, without the tests that are not shown.
    """
    methods = [str(method) for method in dict.fromkeys(rows["method"])]
    ranked = rows[rows["x"].isna() & rows["higher_is_better"].notna()]
    headline = ranked[ranked["headline"]]
    of_methods: dict[str, list[int]] = {}
    for _, part in (ranked if headline.empty else headline).groupby(["evaluation", "metric"], sort=False):
        records = part.to_dict("records")
        bounds = records[0]["least"], records[0]["most"]
        for method, rank in ranks(ranked_values(records), records[0]["higher_is_better"], bounds).items():
            of_methods.setdefault(method, []).append(rank)

    def place(method: str) -> tuple[int, float, _Key]:
        own = of_methods.get(method)
        return control_place(method), sum(own) / len(own) if own else math.inf, natural(method)

    return sorted(methods, key=place)
