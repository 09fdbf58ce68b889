from itertools import combinations, pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmark.results.statistics import f1_of_sums, holm, least_examples, pair_p, sign_flip_p, significance, swap_p
from benchmark.results.statistics.significance import flips_for


def enumerated(differences):
    """The slow, obvious sign-flip p-value."""
    sums = [abs(sum(s * d for s, d in zip(signs, differences, strict=True)))
            for signs in product((-1, 1), repeat=len(differences))]  # fmt: skip
    return np.mean([found >= abs(sum(differences)) - 1e-9 for found in sums])


def test_holm_on_a_worked_example():
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005}) == pytest.approx(
        {"d": 0.02, "a": 0.03, "c": 0.06, "b": 0.06}
    )


@given(st.dictionaries(st.text(max_size=3), st.floats(0, 1), max_size=8))
def test_holm_never_lowers_a_p_value_and_keeps_their_order(p_values):
    adjusted = holm(p_values)
    assert all(p_values[name] <= adjusted[name] <= 1 for name in p_values)
    ordered = sorted(p_values, key=lambda name: p_values[name])
    assert all(adjusted[a] <= adjusted[b] for a, b in pairwise(ordered))


@pytest.mark.parametrize("n", [1, 2, 3, 7, 11])
def test_small_samples_take_every_flip(n):
    generator = np.random.default_rng(n)
    columns = np.stack([generator.normal(0.4, 1, n), np.full(n, 0.3), generator.integers(-1, 2, n) / 10], axis=1)
    assert sign_flip_p(columns) == pytest.approx([enumerated(column) for column in columns.T])
    assert sign_flip_p(columns)[1] == 2.0 ** (1 - n)


def test_the_sampled_flips_approach_all_of_them(monkeypatch):
    columns = np.random.default_rng(0).normal(0.4, 1, size=(13, 20))
    exact = sign_flip_p(columns)
    monkeypatch.setattr("benchmark.results.statistics.significance.EXACT", 12)
    assert sign_flip_p(columns, flips=40_000) == pytest.approx(exact, abs=0.01)


def test_the_smallest_p_value_survives_holm_over_the_family():
    strong = np.random.default_rng(0).normal(3, 1, size=(60, 1))
    for family in (1, 39, 125, 741):
        p = sign_flip_p(np.tile(strong, family)) if family < 200 else [1 / (flips_for(family) + 1)]
        assert max(p) * family < 0.05 / 4
    assert sign_flip_p(strong) == [1 / 10_000]


def test_equal_sums_count_however_they_round():
    values = np.array([0.1, 0.2, 0.3, 0.7, 0.7, 0.1] * 5)[:, None]
    assert sign_flip_p(values[:12]) == pytest.approx([2.0**-11])
    assert sign_flip_p(np.zeros((30, 1))) == [1.0]
    table = np.random.default_rng(0).random((40, 1)) + np.array([[0.0, 1e-17]])
    assert pair_p(table, [(0, 1)]) == [1.0]


def test_pairs_of_columns_equal_their_differences():
    table = np.random.default_rng(0).normal(size=(30, 4)) + np.array([0, 0, 0.5, 1])
    pairs = [(0, 1), (2, 0), (3, 1)]
    differences = np.stack([table[:, i] - table[:, j] for i, j in pairs], axis=1)
    np.testing.assert_array_equal(pair_p(table, pairs), sign_flip_p(differences))


def counted(values, pairs, flips, first=None):
    """The p-values of all flips, or of so many first ones, pair by pair, in plain floating point."""
    signs = np.concatenate(list(significance._signs(len(values), len(pairs), flips)))[:first]
    found = []
    for i, j in pairs:
        d = values[:, i] - values[:, j]
        found.append(np.mean(np.abs(signs @ d) >= abs(d.sum()) - 1e-10 * np.abs(values[:, [i, j]]).sum()))
    return np.array(found)


@pytest.mark.parametrize(("methods", "n"), [(2, 15), (6, 40), (14, 25)])
def test_families_of_a_hundred_count_every_flip(methods, n):
    generator = np.random.default_rng(methods)
    values = generator.normal(size=(n, methods)) + 0.3 * generator.normal(size=methods)
    pairs = list(combinations(range(methods), 2))
    np.testing.assert_array_equal(pair_p(values, pairs), counted(values, pairs, 9_999))


@pytest.mark.parametrize("outlier", [1.0, 1e6])
def test_of_a_large_family_small_p_values_count_every_flip(outlier):
    """The others are done with the first 9,999; one method of another scale changes nothing."""
    generator = np.random.default_rng(0)
    values = generator.normal(size=(40, 1)) + 0.3 * generator.normal(size=(40, 24)) + 0.15 * generator.normal(size=24)
    values[:, 5] *= outlier
    values[:, 6] = values[:, 5] + 1e-13
    pairs = list(combinations(range(24), 2))
    early = counted(values, pairs, flips_for(len(pairs)), first=10_000)
    every = counted(values, pairs, flips_for(len(pairs)))
    done = early > 0.0101
    assert 20 < done.sum() < len(pairs) - 20
    np.testing.assert_array_equal(pair_p(values, pairs), np.where(done, early, every))


def test_stopping_after_the_first_flips_errs_no_more_often():
    """Of a true null hypothesis p ≤ u in at most the share u of samples, whichever of the two counts gives p."""
    found = sign_flip_p(np.random.default_rng(4).normal(size=(20, 2_000)), flips=40_000)
    for level in (0.005, 0.01, 0.011, 0.05):
        assert np.mean(found <= level) <= level + 3 * np.sqrt(level / 2_000)


def test_no_value_no_p_value():
    assert np.isnan(sign_flip_p(np.array([[1.0], [np.nan]]))).all()
    assert np.isnan(sign_flip_p(np.zeros((0, 2)))).all()
    assert len(pair_p(np.zeros((3, 1)), [])) == 0


def test_least_examples():
    assert [least_examples(family) for family in (1, 8, 39)] == [6, 9, 11]


def test_swaps_of_a_ratio_of_sums_by_enumeration():
    generator = np.random.default_rng(1)
    a, b, c = generator.integers(1, 9, (3, 6, 3)).astype(float)
    table = np.stack([a, b, c], axis=1)
    pairs = [(0, 1), (2, 1), (1, 1)]
    expected = []
    for one, other in pairs:
        found = []
        for swap in product((False, True), repeat=6):
            swapped = np.array(swap)[:, None]
            first = np.where(swapped, table[:, other], table[:, one]).sum(0)
            second = np.where(swapped, table[:, one], table[:, other]).sum(0)
            found.append(abs(2 * first[0] / (first[1] + first[2]) - 2 * second[0] / (second[1] + second[2])))
        expected.append(np.mean(np.array(found) >= found[0] - 1e-12))
    assert swap_p(table, pairs, f1_of_sums) == pytest.approx(expected)
    assert expected[2] == 1


def test_swaps_of_a_mean_are_sign_flips():
    table = np.random.default_rng(2).normal(size=(25, 3))
    pairs = [(0, 1), (1, 2)]
    assert swap_p(table[:, :, None], pairs, lambda means: means[..., 0]) == pytest.approx(pair_p(table, pairs))


def test_no_swaps_without_pairs():
    assert np.isnan(swap_p(np.zeros((0, 2, 3)), [(0, 1)], f1_of_sums)).all()
    assert len(swap_p(np.zeros((5, 2, 3)), [], f1_of_sums)) == 0
