"""How often intervals over clusters hold a share of values that come in clusters: `python -m tests.simulations.clusters`."""

from collections.abc import Callable, Mapping

import numpy as np

from benchmark.results.statistics import Interval, clustered_difference, clustered_interval, interval
from tests.simulations.coverage import covered

SIZES = (12, 20, 60, 200)
SHARES = {
    (share, alike): f"share {share:g}, {how}".replace("0.", ".")
    for share in (0.5, 0.9, 0.97)
    for alike, how in ((0.0, "independent"), (0.3, "correlation .3"), (0.8, "correlation .8"))
}
TRIALS = 1000
Drawn = tuple[np.ndarray, np.ndarray, np.ndarray]


def draw(generator: np.random.Generator, share: float, alike: float, n: int) -> Drawn:
    """Answers, right or wrong, to one to five questions about each of n passages; which passage; a kind of each question."""
    passages = np.repeat(np.arange(n), generator.integers(1, 6, n))
    chance = np.full(n, share)
    if alike > 0:  # answers to questions about one passage correlate by `alike`
        chance = generator.beta(share * (1 - alike) / alike, (1 - share) * (1 - alike) / alike, n)
    answers = generator.random(len(passages)) < chance[passages]
    return answers.astype(float), passages, generator.random(len(passages)) < 0.5


WAYS: Mapping[str, Callable[[Drawn], Interval]] = {
    "here": lambda drawn: clustered_interval(drawn[0], drawn[1], bounds=(0.0, 1.0)),
    "questions resampled": lambda drawn: interval(drawn[0], bounds=(0.0, 1.0)),
    "difference of two kinds": lambda drawn: clustered_difference(drawn[0], drawn[2], drawn[1], bounds=(0.0, 1.0)),
}


def cluster_coverage(share: float, alike: float, n: int, way: str, trials: int = TRIALS) -> tuple[float, float]:
    """Coverage and median width for n passages."""
    generator = np.random.default_rng(n)
    found = [WAYS[way](draw(generator, share, alike, n)) for _ in range(trials)]
    return covered(found, 0.0 if way == "difference of two kinds" else share)


def _line(share: float, alike: float, way: str) -> str:
    cells = [cluster_coverage(share, alike, n, way) for n in SIZES]
    shown = (f"{held:.3f} ({width:.2f})".removeprefix("0") for held, width in cells)
    return f"| {SHARES[share, alike] if way == 'here' else ''} | {way} | {' | '.join(shown)} |"


if __name__ == "__main__":
    print("| answers | interval | " + " | ".join(f"{n} passages" for n in SIZES) + " |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for setting in SHARES:
        for name in WAYS:
            print(_line(*setting, name), flush=True)
