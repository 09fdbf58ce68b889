"""All pairs of a hundred methods on one metric, on one thread."""

import time
from itertools import combinations

import numpy as np
import pytest

from benchmark.results.statistics import pair_p

METHODS, EXAMPLES = 100, 60


@pytest.mark.parametrize("spread", [0.0, 0.05, 0.4])
def test_a_hundred_methods_take_seconds(spread):
    """No pair differs, some do, nearly all do: where few do, few need all of the 495,000 flips."""
    generator = np.random.default_rng(0)
    easy, better = generator.normal(size=(EXAMPLES, 1)), spread * generator.normal(size=METHODS)
    values = easy + better + 0.2 * generator.normal(size=(EXAMPLES, METHODS))
    start = time.process_time()
    found = pair_p(values, list(combinations(range(METHODS), 2)))
    taken = time.process_time() - start
    print(f"{taken:.2f} s, {np.mean(found < 0.01):.2f} of pairs below .01")
    assert taken < 2.5
