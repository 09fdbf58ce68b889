"""Figures that hang on draws: `python -m tests.simulations.draws` prints the tables of docs/seeds-and-examples.md."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from benchmark.results.statistics import Interval, drawn_p, intervals, of_orders, of_resamples, sign_flip_p, widened
from tests.simulations.samples import accuracy_area

ORDERS, RESAMPLES = 5, 5
SIZES = (20, 60, 200)
KINDS = ("normal", "areas")
PARTS = {
    "as on SST-2": (0.06, 0.06, 0.11),
    "examples more": (0.1, 0.02, 0.05),
    "examples alone": (0.1, 0.0, 0.05),
    "orders more": (0.02, 0.06, 0.02),
}
"""Standard deviations of the effects of examples, of orders, and of both together."""
AREAS = accuracy_area(np.random.default_rng(0), (2, 20_000))
STEPS = (AREAS[0] - AREAS[1] - (AREAS[0] - AREAS[1]).mean()) / (AREAS[0] - AREAS[1]).std()
"""Differences of two areas under accuracies, in steps of 1/16."""


def noise(kind: str, generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Mean 0, variance 1."""
    return generator.normal(size=shape) if kind == "normal" else generator.choice(STEPS, shape)


def draw(kind: str, parts: Sequence[float], generator: np.random.Generator, trials: int, n: int, k: int) -> np.ndarray:
    """Values [trials, n, k] whose mean is 0, crossed effects of examples and of orders."""
    example, order, both = parts
    values = example * noise(kind, generator, (trials, n))[:, :, None]
    values = values + order * generator.normal(size=(trials, 1, k))
    return values + both * noise(kind, generator, (trials, n, k))


def held(found: Iterable[Interval]) -> float:
    """How many intervals hold 0."""
    return float(np.mean([interval.low <= 0 <= interval.high for interval in found]))


def coverage_of_orders(kind: str, parts: str, n: int, trials: int) -> tuple[float, float]:
    """Coverage over examples alone, and over examples and random orders."""
    values = draw(kind, PARTS[parts], np.random.default_rng(n), trials, n, ORDERS)
    alone = intervals(values.mean(axis=2).T)
    return held(alone), held(widened(one, of_orders(v)) for one, v in zip(alone, values, strict=True))


def coverage_of_calibration(kind: str, parts: str, n: int, trials: int) -> tuple[float, float]:
    """Coverage over examples alone, and over examples and the calibration examples of one order."""
    values = draw(kind, PARTS[parts], np.random.default_rng(n), trials, n, 1 + RESAMPLES)
    alone = intervals(values[:, :, 0].T)
    return held(alone), held(widened(one, of_resamples(v[:, 1:])) for one, v in zip(alone, values, strict=True))


def p_values(kind: str, parts: str, n: int, trials: int, *, resampled: bool) -> tuple[np.ndarray, np.ndarray]:
    """Of a method no better than random orders: sign flips alone, and with what is drawn."""
    generator = np.random.default_rng([n, trials])
    random = draw(kind, PARTS[parts], generator, trials, n, ORDERS)
    example, order, both = PARTS[parts]
    own = draw(kind, (example, order if resampled else 0.0, both), generator, trials, n, 1 + RESAMPLES)
    differences = own[:, :, 0] - random.mean(axis=2)
    flips = sign_flip_p(differences.T, flips=999)
    beside = [[*of_orders(x), *(of_resamples(y[:, 1:]) if resampled else [])] for x, y in zip(random, own, strict=True)]
    return flips, np.array([drawn_p(d, b, p) for d, b, p in zip(differences, beside, flips, strict=True)])


def family_errors(parts: str, methods: int, n: int, trials: int) -> tuple[float, float]:
    """How often any of several methods, none better than one random control, differs after Holm: flips alone, and all."""
    generator = np.random.default_rng(n)
    alone = whole = 0
    for _ in range(trials):
        random = draw("normal", PARTS[parts], generator, 1, n, ORDERS)[0]
        differences = 0.06 * generator.normal(size=(n, methods)) - random.mean(axis=1, keepdims=True)
        flips = sign_flip_p(differences, flips=1999)
        p = [drawn_p(d, of_orders(random), f) for d, f in zip(differences.T, flips, strict=True)]
        alone += float(flips.min()) < 0.05 / methods
        whole += min(p) < 0.05 / methods
    return alone / trials, whole / trials


def _shown(values: Iterable[float]) -> str:
    return " / ".join(f"{value:.3f}".removeprefix("0") for value in values)


def rows(kind: str, parts: str, *, trials: int = 1000, tests: int = 3000) -> tuple[str, str]:
    """A line of each table."""
    named = f"| {kind} | {' + '.join(f'{value:g}'.removeprefix('0') or '0' for value in PARTS[parts])} |"
    orders, calibration = (
        [found(kind, parts, n, trials) for n in SIZES] for found in (coverage_of_orders, coverage_of_calibration)
    )
    covered = [_shown(pair[side] for pair in found) for found in (orders, calibration) for side in (0, 1)]
    errors = []
    for resampled in (False, True):
        found = [p_values(kind, parts, n, tests, resampled=resampled) for n in SIZES]
        errors += [_shown(float((pair[side] < 0.05).mean()) for pair in found) for side in (0, 1)]
    return f"{named} {' | '.join(covered)} |", f"{named} {' | '.join(errors)} |"


def tables() -> Iterator[str]:
    """Coverage, rates of p < .05, and errors of families."""
    found = [rows(kind, parts) for kind in KINDS for parts in PARTS]
    yield from (line for line, _ in found)
    yield ""
    yield from (line for _, line in found)
    yield ""
    for methods, trials in ((8, 1000), (39, 300)):
        for parts in PARTS:
            families = [family_errors(parts, methods, n, trials) for n in SIZES]
            shown = [_shown(pair[side] for pair in families) for side in (0, 1)]
            yield f"| {methods} methods, {parts} | {' | '.join(shown)} |"


if __name__ == "__main__":
    for text in tables():
        print(text, flush=True)
