"""Intervals and verdicts of a test of tests hold as often as docs/statistics.md says, of whose tables n = 20 is computed."""

import pytest

from benchmark.analyses.trust.randomised import FAILS
from benchmark.analyses.trust.strange import OUT
from benchmark.analyses.trust.which_test import CONTROLS, HALVES, USE
from tests.conftest import REPOSITORY
from tests.simulations.trust import AGAIN, GAPS, SIZES, STEPS, coverage, coverage_again, of_noise, verdicts_again

_TEXT = (REPOSITORY / "docs" / "statistics.md").read_text(encoding="utf-8").split("### A test of the tests")[1]
LINES = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in _TEXT.split("\n### ")[0].splitlines()
    if line.startswith("|")
]


def shown(mean, held):
    return f"{mean:.2f}: {held:.2f}"


def row(*start):
    (found,) = (line[len(start) :] for line in LINES if tuple(line[: len(start)]) == start and ":" in line[-1])
    return found


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    "figure",
    [figure if figure.startswith("shift") else pytest.param(figure, marks=pytest.mark.thorough) for figure in AGAIN],
)
def test_the_table_holds_what_is_asked_again(figure, step):
    cells = row(figure, f"{step:g}")
    assert cells[0] == shown(*coverage_again(figure, SIZES[0], step))
    assert all(float(cell.split(": ")[1]) >= 0.93 for cell in cells)


def test_nothing_is_said_where_there_is_nothing():
    found = verdicts_again(SIZES[0])
    assert found[OUT] <= 0.06
    assert found[FAILS] <= 0.06
    rows = [line for line in LINES if len(line) == 5 and line[0] == str(SIZES[0])]
    assert rows == [[str(SIZES[0]), *(f"{share:.3f}" for share in found.values())]]


@pytest.mark.thorough
@pytest.mark.parametrize("gap", GAPS)
def test_the_table_holds_what_rows_answer(gap):
    assert row(f"{gap:g}", str(SIZES[0])) == [shown(*cell) for cell in coverage(SIZES[0], gap).values()]


@pytest.mark.thorough
def test_ten_tests_of_noise_are_hardly_ever_recommended():
    found = of_noise(SIZES[0], tests=10, trials=8)
    assert found[USE] <= 0.06
    assert found["controls alone"] <= 0.06
    assert found[CONTROLS] <= 0.06
    assert found[HALVES] <= 0.06
