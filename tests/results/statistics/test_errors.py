"""A family without any difference gets a verdict no more often than said; docs/statistics.md has larger simulations."""

import pytest

from tests.simulations.errors import NULL, RATIO_NULL, SIZES, control_errors, pair_errors, ratio_errors

SYMMETRIC = [name for name in NULL if not name.startswith("skewed")]
FLIPS = 1999  # fewer than in a report, which keeps the test cheap and the p-values valid


@pytest.mark.thorough
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", SYMMETRIC)
def test_family_wise_error_against_a_control(name, n):
    found = control_errors(NULL[name], n, 200, flips=FLIPS)
    assert found <= 0.06
    assert (found == 0) == (n < 11)  # 39 methods need 11 examples; a test that never decides would hold anything


@pytest.mark.parametrize("name", SYMMETRIC)
def test_family_wise_error_of_all_pairs(name):
    assert pair_errors(NULL[name], 20, 200, flips=FLIPS) <= 0.06


@pytest.mark.thorough
def test_the_percentile_bootstrap_would_not_hold():
    assert control_errors(NULL["normal"], 12, 100, bootstrap=True) > 0.15
    assert control_errors(NULL["normal"], 5, 100, bootstrap=True) > 0.5


def test_skewed_differences_are_the_limit_that_the_documentation_names():
    assert 0.1 < control_errors(NULL["skewed (exponential less its mean)"], 20, 200, flips=FLIPS) < 0.35


@pytest.mark.parametrize("n", [12, 20])
@pytest.mark.parametrize("name", RATIO_NULL)
def test_errors_of_swaps(name, n):
    assert ratio_errors(name, n, 2000, flips=399) <= 0.06  # one pair: nominally .05, with a standard error of .005
