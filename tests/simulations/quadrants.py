"""How often a method is wrongly said to lack a quality, or to have one: `python -m tests.simulations.quadrants`.

Methods of a plane of plausibility and faithfulness: some with the largest advantage over random scores, the others with a
share of it. Their values correlate by .5, as those of methods on the same examples do.
"""

from itertools import product

import numpy as np

from benchmark.analyses.debate.plausibility_and_faithfulness import verdicts
from benchmark.results.statistics import holm, sign_flip_p

SIZES, BEST, SHARES, LARGEST = (30, 60, 100), (1, 5), (0.0, 0.25, 0.5, 0.6), (0.5, 1.0)
METHODS, TRIALS = 10, 300


def judged(generator: np.random.Generator, n: int, best: int, share: float, largest: float) -> list[bool | None]:
    """What is said of the methods whose advantage is `share` of the largest one, in standard deviations of an example."""
    advantages = np.full(METHODS, share * largest)
    advantages[:best] = largest
    noise = generator.standard_normal((n, 1)) + generator.standard_normal((n, METHODS))
    values = advantages + noise / np.sqrt(2)
    other_axis = {METHODS + place: 0.0 for place in range(METHODS)}  # all found
    adjusted = holm(dict(enumerate(map(float, sign_flip_p(values)))) | other_axis)
    return verdicts(values, [adjusted[place] for place in range(METHODS)])[best:]


def main() -> None:
    """Print a line for each case: shares of methods that lack it and that have it, and of trials in which any lacks it."""
    print(
        "| n | best methods | largest advantage | true share of it | said to lack it | any of them | said to have it |"
    )
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for n, best, largest, share in product(SIZES, BEST, LARGEST, SHARES):
        generator = np.random.default_rng([n, best, int(100 * largest), int(100 * share)])
        said = [judged(generator, n, best, share, largest) for _ in range(TRIALS)]
        lacks = np.array([[verdict is False for verdict in trial] for trial in said])
        has = np.array([[verdict is True for verdict in trial] for trial in said])
        figures = " | ".join(f"{value:.3f}" for value in (lacks.mean(), lacks.any(1).mean(), has.mean()))
        print(f"| {n} | {best} | {largest} | {share} | {figures} |")


if __name__ == "__main__":
    main()
