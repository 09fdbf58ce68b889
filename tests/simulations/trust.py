"""How often the intervals of a test of tests hold, and what it says of noise: `python -m tests.simulations.trust`."""

from collections.abc import Mapping

import numpy as np

from benchmark.analyses.trust import questions
from benchmark.analyses.trust.columns import Column
from benchmark.analyses.trust.which_test import CONTROLS, HALVES, TRUTH, USE, WhichTest
from benchmark.results.statistics import Interval

SIZES, GAPS, TRIALS = (20, 60, 200), (0.0, 0.1, 0.3), 200
METHODS, EXACT = 9, 4000
"""Nine methods; what an interval should hold is the mean of so many samples."""


def drawn(draw: np.random.Generator, n: int, gap: float) -> dict[str, np.ndarray]:
    """Figures of a test and of the truth [n, methods]: half of the methods' differences are the same in both."""
    skills = gap * np.arange(METHODS)
    others = skills[np.random.default_rng(0).permutation(METHODS)]
    hard = draw.normal(size=(n, 1))
    truth = skills + hard + draw.normal(size=(n, METHODS))
    return {"test": (skills + others) / 2 + hard + draw.normal(size=(n, METHODS)), "truth": truth}


def answers(draw: np.random.Generator, n: int, gap: float) -> dict[str, Interval]:
    """What is found in one sample."""
    sample, seed = drawn(draw, n, gap), int(draw.integers(2**31))
    better, worse = draw.normal(gap, 1, n), draw.normal(0, 1, n)
    return {
        "separation": questions.separation(better, worse),
        "halves": questions.halves(sample["test"], seed, ""),
        "order": questions.order_agreement(sample["test"], sample["truth"], seed, ""),
        "concordance": questions.concordance(sample["test"], sample["truth"]),
    }


def expected(n: int, gap: float) -> dict[str, float]:
    """The mean of each answer over samples of this size; of the order in halves the correlation of two samples."""
    draw = np.random.default_rng([n, int(10 * gap)])
    found: dict[str, list[float]] = {name: [] for name in ("separation", "halves", "order", "concordance")}
    for _ in range(EXACT // 4):
        one, two = drawn(draw, n, gap), drawn(draw, n, gap)
        ranks = [sample["test"].mean(0).argsort().argsort() for sample in (one, two)]
        found["halves"].append(float(np.corrcoef(*ranks)[0, 1]))
        tau = questions.order_agreement(one["test"], one["truth"], 0, "").value
        found["order"].append(tau)
        found["concordance"].append(questions.concordance(one["test"], one["truth"]).value)
        found["separation"].append(questions.separation(draw.normal(gap, 1, n), draw.normal(0, 1, n)).value)
    means = {name: float(np.mean(values)) for name, values in found.items()}
    return means | {"halves": max(0.0, means["halves"])}  # what is not positive is told as 0


def coverage(n: int, gap: float, trials: int = TRIALS) -> dict[str, tuple[float, float]]:
    """By question its mean, and how often the interval holds it."""
    draw, truth = np.random.default_rng(n), expected(n, gap)
    found = [answers(draw, n, gap) for _ in range(trials)]
    return {
        name: (mean, float(np.mean([one[name].low <= mean <= one[name].high for one in found])))
        for name, mean in truth.items()
    }


def of_noise(n: int, tests: int, trials: int = TRIALS) -> Mapping[str, float]:
    """Shares of comparisons whose `tests` tests are noise in which any passes a question, and in which any is recommended.

    Controls are noise, too, but for the last figure: there they are told apart, and nothing else is.
    """
    draw, passed = np.random.default_rng(n), dict.fromkeys((CONTROLS, HALVES, TRUTH, USE, "controls alone"), 0)
    uids, methods = tuple(map(str, range(n))), tuple(map(str, range(METHODS)))
    for trial in range(trials):
        analysis = WhichTest(seed=trial)
        truth = Column("truth", "", "", "", uids, methods, drawn(draw, n, 0.3)["truth"], {})
        told: dict[str, bool] = dict.fromkeys(passed, False)
        for number in range(tests):
            noise = draw.normal(size=(n, METHODS))
            for shift in (0.0, 3.0):
                controls = {name: draw.normal(shift * place, 1, n) for place, name in enumerate(KINDS)}
                one = analysis.ask(Column(f"noise {number}", "", "", "", uids, methods, noise, controls), truth)
                if shift:
                    told["controls alone"] |= one.verdict == USE
                else:
                    told[USE] |= one.verdict == USE
                    told |= {name: told[name] or bool(answer) for name, answer in one.passed.items()}
        passed = {name: count + told[name] for name, count in passed.items()}
    return {name: count / trials for name, count in passed.items()}


KINDS = ("inverted", "random", "oracle")


if __name__ == "__main__":
    print(
        "| difference of neighbours | examples | " + " | ".join(["separation", "halves", "order", "concordance"]) + " |"
    )
    print("| ---: | ---: |" + " ---: |" * 4)
    for gap in GAPS:
        for n in SIZES:
            cells = " | ".join(f"{mean:.2f}: {held:.2f}" for mean, held in coverage(n, gap).values())
            print(f"| {gap:g} | {n} | {cells} |", flush=True)
    print("\n| examples | " + " | ".join([CONTROLS, HALVES, TRUTH, USE, "use it, controls told apart"]) + " |")
    print("| ---: |" + " ---: |" * 5)
    for n in SIZES:
        print(f"| {n} | " + " | ".join(f"{share:.3f}" for share in of_noise(n, 10).values()) + " |", flush=True)
