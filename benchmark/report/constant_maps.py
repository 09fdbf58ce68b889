"""Explanations that say nothing: maps whose rated units all have one and the same score, and what does not rest on them."""

from collections.abc import Iterable, Mapping

from benchmark.report.cells import NamedCell
from benchmark.results.record import MOST_CONSTANT, too_constant

RULE = (
    f"No rank, star, bold, underline, mean rank or verdict rests on a method that is constant on more than "
    f"{MOST_CONSTANT * 100:g} % of the examples"
)


def percent(share: float) -> str:
    """A share in percent; one that is not 0 is never shown as 0."""
    return "< 1 %" if 0 < share < 0.005 else f"{share * 100:.0f} %"


def constant_share(cell: NamedCell, evaluation: str) -> float | None:
    """Share of the examples on which the method's map is constant in a test; None where the test reads no such map."""
    test = cell.evaluation(evaluation)
    return None if test is None else test.constant


def says_too_little(cell: NamedCell, evaluation: str) -> bool:
    """Whether nothing rests on the method in this test."""
    return too_constant(constant_share(cell, evaluation))


def with_shares(shares: Mapping[str, float]) -> str:
    """`a (92 %), b (30 %)`."""
    return ", ".join(f"{name} ({percent(share)})" for name, share in shares.items())


def span_of(shares: Iterable[float | None]) -> str:
    """`92 %`, or `0 %–92 %` where tests differ; nothing where no test reads maps."""
    ends = sorted({share for share in shares if share is not None})
    return "–".join(dict.fromkeys(percent(share) for share in (ends[:1] + ends[-1:])))
