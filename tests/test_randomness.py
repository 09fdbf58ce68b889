"""The recipe for an example's own generator: every argument counts, and figures can be drawn again."""

from itertools import combinations

import numpy as np

from benchmark.randomness import generator


def test_every_argument_makes_other_draws():
    arguments = [(0, "ties", "a"), (1, "ties", "a"), (0, "noise", "a"), (0, "ties", "b"), (0, "ties", "a", "1")]
    drawn = [generator(*each).random(3).tolist() for each in arguments]
    assert all(one != other for one, other in combinations(drawn, 2))
    assert drawn == [generator(*each).random(3).tolist() for each in arguments]


def test_the_recipe_is_that_of_published_figures():
    drawn = generator(0, "ties", "test-1").random(3)
    assert np.allclose(drawn, [0.43349091, 0.12131586, 0.51262985], rtol=0, atol=1e-8)
