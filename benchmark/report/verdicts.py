"""Is a test calibrated, and which methods beat random scores? (docs/protocols.md, section 11)"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmark.report.arrangement import is_control
from benchmark.report.cells import NamedCell
from benchmark.report.gains import Gain, gains_of
from benchmark.report.leaderboard import MetricColumn
from benchmark.report.samples import figure_of, sample
from benchmark.results.control_names import control_order
from benchmark.results.statistics import ALPHA, holm, least_examples
from benchmark.results.wording import escape_markdown, number

UNPAIRED = "not compared, as rows are missing or do not give the figure"


def is_random(cell: NamedCell) -> bool:
    """Whether a cell is a random control: `random`, or `random_3` with a seed of its own."""
    return control_order(cell.kind) == control_order("random")


def with_figure(cells: Sequence[NamedCell], column: MetricColumn) -> list[NamedCell]:
    """The cells that have a figure of the metric."""
    return [cell for cell in cells if figure_of(cell, column) is not None]


def controls_of(cells: Sequence[NamedCell], column: MetricColumn) -> dict[str, list[NamedCell]]:
    """The cells of oracle, random (all of them: their mean is the control) and inverted that have a figure."""
    shown = with_figure(cells, column)
    first = {name: [cell for cell in shown if cell.kind == name][:1] for name in ("oracle", "inverted")}
    return {"oracle": first["oracle"], "random": list(filter(is_random, shown)), "inverted": first["inverted"]}


def too_few(n: int, family: int, what: str) -> str:
    """Why n examples cannot decide, or nothing where they can: 2^(1−n) · family ≤ 5 % fails."""
    least = least_examples(family)
    return "" if not family or n >= least else f"no verdict: n = {n}, and {what} need at least {least} examples"


def calibration(cells: Sequence[NamedCell], column: MetricColumn) -> str:
    """Whether the metric ranks oracle above random above inverted.

    Above: the 95 % interval of the paired difference lies above 0 and its p-value below 5 %. Both steps must hold, so that
    nothing is corrected for there being two.
    """
    controls = controls_of(cells, column)
    if lacking := [name for name, side in controls.items() if not side]:
        return f"calibration not assessed (no figure of {' and '.join(lacking)})"
    tests = [cell.evaluation(column.evaluation) for side in controls.values() for cell in side]
    remarks = {test and test.remark for test in tests}
    if None not in remarks:
        return f"calibration does not apply ({'; '.join(sorted(escape_markdown(str(remark)) for remark in remarks))})"
    steps = (("oracle", "random"), ("random", "inverted"))
    gains = gains_of({better: (controls[better], controls[worse]) for better, worse in steps}, column)
    paired = {name: comparison for name, comparison in gains.items() if comparison is not None}
    if len(paired) < len(steps):
        return f"calibration not assessed ({UNPAIRED})"
    if reason := too_few(min(comparison.gain.n for comparison in paired.values()), 1, "the controls"):
        return f"calibration not assessed ({reason})"
    above = {name: comparison.gain.low > 0 and comparison.p < ALPHA for name, comparison in paired.items()}
    verdict = "calibrated" if all(above.values()) else "**not calibrated**"
    parts = [
        f"{better} {'above' if above[better] else 'not above'} {worse}: {paired[better].words}, p {number(paired[better].p)}"
        for better, worse in steps
    ]
    return f"{verdict} ({'; '.join(parts)})"


@dataclass(frozen=True)
class AgainstRandom:
    """The real methods by how they compare to the random control on one metric.

    Attributes:
        above: better, Holm-corrected over the methods compared.
        undecided: neither better nor worse.
        below: worse.
        missing: they have a figure, but no rows that give it.
        n: examples of the comparison that has the fewest.
        draws: random draws whose mean is meant by random.
    """

    above: tuple[str, ...]
    undecided: tuple[str, ...]
    below: tuple[str, ...]
    missing: tuple[str, ...]
    n: int
    draws: int = 1

    @property
    def compared(self) -> int:
        """How many methods were compared: the hypotheses of Holm's correction."""
        return len(self.above) + len(self.undecided) + len(self.below)

    @property
    def sentence(self) -> str:
        """All four groups in words, or that there are too few examples; empty groups are left out."""
        reason = "" if self.above + self.below else too_few(self.n, self.compared, f"{self.compared} methods")
        named = (
            ("better than random", self.above),
            ("not distinguishable from random", () if reason else self.undecided),
            ("worse than random", self.below),
            (UNPAIRED, self.missing),
        )
        groups = [f"{verdict}: {', '.join(methods)}" for verdict, methods in named if methods]
        drawn = f" (random: mean of {self.draws} draws)" if self.draws > 1 else ""
        return "; ".join([reason, *groups] if reason else groups) + drawn


def decided(comparisons: Mapping[str, Gain]) -> dict[str, Gain]:
    """The comparisons that are significant after Holm's correction over all of them."""
    adjusted = holm({name: comparison.p for name, comparison in comparisons.items()})
    return {name: comparison for name, comparison in comparisons.items() if adjusted[name] < ALPHA}


def against_random(cells: Sequence[NamedCell], column: MetricColumn) -> AgainstRandom | None:
    """Every real method against the mean of all random cells, Holm-corrected over the methods; None without either."""
    random = controls_of(cells, column)["random"]
    real = [cell for cell in cells if not is_control(cell.method)]
    gains = gains_of({cell.method: (cell, random) for cell in real}, column)
    if not gains:
        return None
    paired = {method: comparison for method, comparison in gains.items() if comparison is not None}
    beyond = decided(paired)
    return AgainstRandom(
        above=tuple(method for method, comparison in beyond.items() if comparison.gain.value > 0),
        undecided=tuple(method for method in paired if method not in beyond),
        below=tuple(method for method, comparison in beyond.items() if comparison.gain.value < 0),
        missing=tuple(method for method, comparison in gains.items() if comparison is None),
        n=min((comparison.gain.n for comparison in paired.values()), default=0),
        draws=1 if (mean := sample(random, column)) is None else mean.draws,
    )
