"""Is a test calibrated, and which methods beat random scores? (docs/protocols.md, section 11)"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmark.report.arrangement import is_control, silent, with_shares
from benchmark.report.cells import NamedCell
from benchmark.report.gains import Gain, gains_of
from benchmark.report.leaderboard import MetricColumn
from benchmark.report.samples import figure_of, sample
from benchmark.results.control_names import control_order
from benchmark.results.statistics import ALPHA, TOO_SKEWED, holm, least_examples
from benchmark.results.wording import escape_markdown, number

NOT_COMPARED = "not compared, as their maps are constant"
UNPAIRED = "not compared, as rows are missing or do not give the figure"


def is_random(cell: NamedCell) -> bool:
    """Whether a cell is a random control: `random`, or `random_3` with a seed of its own."""
    return control_order(cell.kind) == control_order("random")


def with_figure(cells: Sequence[NamedCell], column: MetricColumn) -> list[NamedCell]:
    """The cells that have a figure of the metric."""
    return [cell for cell in cells if figure_of(cell, column) is not None]


def controls_of(cells: Sequence[NamedCell], column: MetricColumn) -> dict[str, list[NamedCell]]:
    """The cells of oracle, random (all of them: their mean is the control), inverted and constant that have a figure."""
    shown = with_figure(cells, column)
    first = {name: [cell for cell in shown if cell.kind == name][:1] for name in ("oracle", "inverted", "constant")}
    return {name: list(filter(is_random, shown)) if name == "random" else first[name] for name in _CALIBRATED} | {
        "constant": first["constant"]
    }


_CALIBRATED = ("oracle", "random", "inverted")


def too_few(n: int, family: int, what: str) -> str:
    """Why n examples cannot decide, or nothing where they can: 2^(1−n) · family ≤ 5 % fails."""
    least = least_examples(family)
    return "" if not family or n >= least else f"no verdict: n = {n}, and {what} need at least {least} examples"


def calibration(cells: Sequence[NamedCell], column: MetricColumn) -> str:
    """Whether the metric ranks oracle above random above inverted, and constant scores not above random.

    Above: the 95 % interval of the paired difference lies above 0 and its p-value below 5 %, the differences not being too
    skewed for that. Every step must hold, so that nothing is corrected for there being several. Scores that say nothing,
    the same for every unit, must not be above random; where that control has no figure, the other two steps are all.
    """
    controls = controls_of(cells, column)
    if lacking := [name for name in _CALIBRATED if not controls[name]]:
        return f"calibration not assessed (no figure of {' and '.join(lacking)})"
    stepped = [cell for name in _CALIBRATED for cell in controls[name]]
    tests = [cell.evaluation(column.evaluation) for cell in stepped]
    remarks = {test and test.remark for test in tests}
    if None not in remarks:
        return f"calibration does not apply ({'; '.join(sorted(escape_markdown(str(remark)) for remark in remarks))})"
    if constant := silent(stepped, column.evaluation):  # as `inverted` is where negative scores are cut
        return f"calibration not assessed (constant maps: {with_shares(constant)})"
    steps = [("oracle", "random"), ("random", "inverted")]
    wrong = [("constant", "random")] if controls["constant"] else []
    gains = gains_of({better: (controls[better], controls[worse]) for better, worse in steps + wrong}, column)
    paired = {name: comparison for name, comparison in gains.items() if comparison is not None}
    if len(paired) < len(steps + wrong):
        return f"calibration not assessed ({UNPAIRED})"
    if reason := too_few(min(comparison.gain.n for comparison in paired.values()), 1, "the controls"):
        return f"calibration not assessed ({reason})"
    return _calibrated(steps, wrong, paired)


_Step = tuple[str, str]


def _calibrated(steps: Sequence[_Step], wrong: Sequence[_Step], paired: Mapping[str, Gain]) -> str:
    """The verdict, from steps that must hold and steps that must not."""
    above = {name: one.gain.low > 0 and one.p < ALPHA for name, one in paired.items()}
    skewed = {name for name, one in paired.items() if above[name] and one.too_skewed(1)}
    good = all(above[name] for name, _ in steps)
    if found := [better for better, _ in wrong if above[better] and better not in skewed]:
        verdict = f"**not calibrated**, since {' and '.join(found)} scores beat random ones"
    elif not good:
        verdict = "**not calibrated**"
    else:
        verdict = f"calibration {TOO_SKEWED}" if skewed else "calibrated"
    parts = [
        f"{better} {'above' if above[better] else 'not above'} {worse}: {paired[better].words}, "
        f"p {number(paired[better].p)}{f', {TOO_SKEWED}' if better in skewed else ''}"
        for better, worse in (*steps, *wrong)
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
        skewed: their differences would be significant and are too skewed for that; they are hypotheses all the same.
        constant: their maps are too often constant (`arrangement.silent`): they are not compared. Names with shares.
        n: examples of the comparison that has the fewest.
        draws: random draws whose mean is meant by random.
    """

    above: tuple[str, ...]
    undecided: tuple[str, ...]
    below: tuple[str, ...]
    missing: tuple[str, ...]
    n: int
    draws: int = 1
    skewed: tuple[str, ...] = ()
    constant: tuple[tuple[str, float], ...] = ()

    @property
    def compared(self) -> int:
        """How many methods were compared: the hypotheses of Holm's correction."""
        return len(self.above) + len(self.undecided) + len(self.below) + len(self.skewed)

    @property
    def sentence(self) -> str:
        """All groups in words, or that there are too few examples; empty groups are left out."""
        reason = (
            "" if self.above + self.below + self.skewed else too_few(self.n, self.compared, f"{self.compared} methods")
        )
        named = (
            ("better than random", self.above),
            ("not distinguishable from random", () if reason else self.undecided),
            ("worse than random", self.below),
            (TOO_SKEWED, self.skewed),
            (UNPAIRED, self.missing),
            (NOT_COMPARED, (with_shares(dict(self.constant)),) if self.constant else ()),
        )
        groups = [f"{verdict}: {', '.join(methods)}" for verdict, methods in named if methods]
        drawn = f" (random: mean of {self.draws} draws)" if self.draws > 1 else ""
        return "; ".join([reason, *groups] if reason else groups) + drawn


def decided(comparisons: Mapping[str, Gain]) -> tuple[dict[str, Gain], dict[str, Gain]]:
    """The comparisons that are significant after Holm's correction over all of them, and those too skewed to be told so."""
    adjusted = holm({name: comparison.p for name, comparison in comparisons.items()})
    beyond = {name: comparison for name, comparison in comparisons.items() if adjusted[name] < ALPHA}
    skewed = {name: comparison for name, comparison in beyond.items() if comparison.too_skewed(len(comparisons))}
    return {name: comparison for name, comparison in beyond.items() if name not in skewed}, skewed


def against_random(cells: Sequence[NamedCell], column: MetricColumn) -> AgainstRandom | None:
    """Every real method against the mean of all random cells, Holm-corrected over the methods; None without either."""
    random = controls_of(cells, column)["random"]
    real = [cell for cell in with_figure(cells, column) if not is_control(cell.method)]
    constant = silent(real, column.evaluation)
    gains = gains_of({cell.method: (cell, random) for cell in real if cell.method not in constant}, column)
    if not gains and not (constant and random):
        return None
    paired = {method: comparison for method, comparison in gains.items() if comparison is not None}
    beyond, skewed = decided(paired)
    return AgainstRandom(
        above=tuple(method for method, comparison in beyond.items() if comparison.gain.value > 0),
        undecided=tuple(method for method in paired if method not in beyond and method not in skewed),
        below=tuple(method for method, comparison in beyond.items() if comparison.gain.value < 0),
        missing=tuple(method for method, comparison in gains.items() if comparison is None),
        n=min((comparison.gain.n for comparison in paired.values()), default=0),
        draws=1 if (mean := sample(random, column)) is None else mean.draws,
        skewed=tuple(skewed),
        constant=tuple(constant.items()),
    )
