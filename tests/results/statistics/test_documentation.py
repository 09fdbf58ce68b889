"""The tables of docs/statistics.md are those that the simulations print."""

import re

import pytest

from benchmark.results.statistics import least_examples
from tests.conftest import REPOSITORY
from tests.simulations.coverage import SIZES, coverage
from tests.simulations.errors import NULL, RATIO_NULL
from tests.simulations.samples import RATIOS, SAMPLES

TEXT = (REPOSITORY / "docs" / "statistics.md").read_text(encoding="utf-8")
ROWS = {
    tuple(cells[:2]): cells[2:]
    for line in TEXT.splitlines()
    if line.startswith("| ") and len(cells := [cell.strip() for cell in line.strip("|").split("|")]) == 2 + len(SIZES)
}


@pytest.mark.parametrize("name", [*SAMPLES, *RATIOS, *NULL, *RATIO_NULL])
def test_every_simulation_is_tabled(name):
    assert any(label == name for label, _ in ROWS)


@pytest.mark.parametrize("name", ["normal", "proportion .97", "beta(.3, 3)"])
def test_the_table_holds_what_is_computed(name):
    place = SIZES.index(20)
    held, width = map(float, re.fullmatch(r"(\S+) \((\S+)\)", ROWS[name, "here"][place]).groups())
    found = coverage(SAMPLES[name], 20)
    assert found[0] == pytest.approx(held, abs=0.0015)  # a count of 4000 that a last digit may move
    assert found[1] == pytest.approx(width, abs=0.006)


def test_coverage_below_93_is_explained():
    """At n = 20 and more; smaller samples are said to be covered less in the text."""
    explained = ("lognormal", "Student's t, 3 degrees")
    for (name, label), cells in ROWS.items():
        if label == "here" and name not in explained:
            assert all(float(cell.split(" ")[0]) >= 0.93 for cell in cells[SIZES.index(20) :]), name


def test_how_many_examples_decide():
    family, least = (
        [int(cell) for cell in re.findall(r"\d+", line)]
        for line in TEXT.splitlines()
        if line.startswith(("| hypotheses", "| examples"))
    )
    assert least == [least_examples(one) for one in family]
