"""From what a few batches took to what any batch takes."""

import pytest

from benchmark.planning.fitting import Shape, fit, straight

FEW, FULL, LONG = Shape(4, 20), Shape(16, 12), Shape(16, 40)


def seconds(shape, once=0.0, token=0.0, pair=0.0):
    return once + token * shape.examples * shape.tokens + pair * shape.examples * shape.tokens**2


def test_two_sizes_tell_what_a_batch_and_what_a_token_costs():
    line = fit([FEW, FULL], [seconds(shape, 0.3, 0.002) for shape in (FEW, FULL)])
    assert line(LONG) == pytest.approx(seconds(LONG, 0.3, 0.002))


def test_three_lengths_tell_what_a_pair_of_tokens_costs():
    costs = (0.3, 0.002, 0.0004)
    shapes = (FEW, FULL, LONG, Shape(8, 30))
    line = fit(shapes, [seconds(shape, *costs) for shape in shapes])
    assert line(Shape(16, 100)) == pytest.approx(seconds(Shape(16, 100), *costs))


def test_a_small_batch_that_was_disturbed_makes_no_large_one_cheaper_than_it():
    line = fit([FEW, FULL], [0.9, 0.4])
    assert line(LONG) >= line(FULL) > 0
    assert min(line.coefficients) >= 0


def test_one_size_alone_gives_that_size_back():
    assert fit([FULL], [0.5])(FULL) == pytest.approx(0.5)
    assert straight([4, 4], [1.0, 3.0], 60) == 2.0


def test_what_lies_around_batches_grows_with_examples():
    assert straight([4, 16], [0.5, 1.1], 60) == pytest.approx(0.3 + 0.05 * 60)
    assert straight([4, 16], [1.1, 0.5], 60) == pytest.approx(0.6875, abs=0.2)  # never below what was measured
