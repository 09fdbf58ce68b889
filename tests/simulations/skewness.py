"""Wrong verdicts of skewed differences, right ones lost of symmetric differences: `python -m tests.simulations.skewness`."""

from collections.abc import Callable, Mapping

import numpy as np

from benchmark.results.statistics import sign_flip_p, too_skewed

FAMILY = 39
SIZES = (12, 20, 40, 100)
ALPHA = 0.05
FLIPS = 3_999

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def _zeros(share: float) -> Draw:
    """Uniform between 0 and 1 in a share of the examples, else 0."""
    return lambda generator, shape: (generator.random(shape) < share) * generator.random(shape) - share / 2


AGAINST_A_CONSTANT: Mapping[str, Draw] = {
    "normal": lambda generator, shape: generator.normal(size=shape),
    "beta(2, 5)": lambda generator, shape: generator.beta(2, 5, shape) - 2 / 7,
    "beta(.3, 3)": lambda generator, shape: generator.beta(0.3, 3, shape) - 0.3 / 3.3,
    "exponential": lambda generator, shape: generator.exponential(size=shape) - 1,
    "lognormal": lambda generator, shape: generator.lognormal(size=shape) - np.exp(0.5),
    "0 in 80 %, else uniform": _zeros(0.2),
    "0 in 95 %, else uniform": _zeros(0.05),
    "right in 90 %": lambda generator, shape: (generator.random(shape) < 0.9) - 0.9,
}
"""Differences of mean 0, of values and the constant that is their mean."""

ALIKE: Mapping[str, Draw] = {
    "exponential, and half of another": lambda generator, shape: (
        generator.exponential(size=shape) - 1 - (generator.exponential(size=shape) - 1) / 2
    ),
    "exponential, two alike": lambda generator, shape: (
        generator.exponential(size=shape) - generator.exponential(size=shape)
    ),
}
"""The same of two sides that vary alike."""

FOUND = (3, 5, 8)
"""True differences of normal values, in standard errors of their mean."""


def judged(values: np.ndarray, family: int, *, alike: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Which columns [n, k] sign flips decide at the smallest level of Holm's correction, and which are decided here."""
    flipped = sign_flip_p(values, flips=FLIPS) * family <= ALPHA
    return flipped, flipped & ~too_skewed(values, family, alike=alike)


def errors(draw: Draw, n: int, trials: int, family: int = FAMILY, *, alike: bool = False) -> tuple[float, float]:
    """Share of trials with any verdict, by flips alone and here."""
    values = draw(np.random.default_rng(n), (n, trials * family))
    both = judged(values, family, alike=alike)
    alone, here = (float(found.reshape(trials, family).any(axis=1).mean()) for found in both)
    return alone, here


def lost(shift: float, n: int, trials: int, family: int, *, alike: bool = False) -> tuple[float, float]:
    """Share of true differences that are found, by flips alone and here."""
    values = np.random.default_rng(n).normal(shift / np.sqrt(n), 1, (n, trials))
    alone, here = (float(found.mean()) for found in judged(values, family, alike=alike))
    return alone, here


def _row(name: str, test: str, found: list[float]) -> str:
    return f"| {name} | {test} | " + " | ".join(f"{one:.3f}".removeprefix("0") for one in found) + " |"


def main(trials: int = 500) -> None:
    """Print both tables."""
    head = " | ".join(f"n = {n}" for n in SIZES)
    print(f"| differences of mean 0 | verdicts | {head} |\n| --- | --- " + "| ---: " * len(SIZES) + "|")
    for name, draw in {**AGAINST_A_CONSTANT, **ALIKE}.items():
        alike = name in ALIKE
        for family, many, count in ((FAMILY, trials, f"any of {FAMILY}"), (1, 10 * trials, "one")):
            found = [errors(draw, n, many, family, alike=alike) for n in SIZES]
            print(_row(name, f"{count}, sign flips", [alone for alone, _ in found]), flush=True)
            print(_row(name, f"{count}, here", [here for _, here in found]), flush=True)
    print(f"\n| true difference | found | {head} |\n| --- | --- " + "| ---: " * len(SIZES) + "|")
    for shift in FOUND:
        for family, alike, count in (
            (1, False, "one"),
            (FAMILY, True, "one of 39, alike"),
            (FAMILY, False, "one of 39"),
        ):
            found = [lost(shift, n, 10 * trials, family, alike=alike) for n in SIZES]
            print(_row(f"{shift} standard errors", f"{count}, sign flips", [alone for alone, _ in found]), flush=True)
            print(_row(f"{shift} standard errors", f"{count}, here", [here for _, here in found]), flush=True)


if __name__ == "__main__":
    main()
