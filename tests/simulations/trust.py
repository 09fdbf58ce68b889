"""How often the intervals of a test of tests hold, and what it says of noise: `python -m tests.simulations.trust`."""

from collections.abc import Mapping

import numpy as np

from benchmark.analyses.trust import questions
from benchmark.analyses.trust.columns import Column
from benchmark.analyses.trust.ladder import RUNGS, order_of_rungs
from benchmark.analyses.trust.randomised import FAILS, PASSES, Randomised
from benchmark.analyses.trust.strange import IN, OUT, told_apart, verdict
from benchmark.analyses.trust.which_test import CONTROLS, HALVES, TRUTH, USE, WhichTest
from benchmark.results.statistics import Interval, crossed_interval

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
    asked = (CONTROLS, HALVES, TRUTH)
    draw, passed = np.random.default_rng(n), dict.fromkeys((*asked, USE, "controls alone"), 0)
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
                    told |= {name: told[name] or bool(one.passed[name]) for name in asked}
        passed = {name: count + told[name] for name, count in passed.items()}
    return {name: count / trials for name, count in passed.items()}


KINDS = ("inverted", "random", "oracle")

AGAIN = ("ladder", "shift of one share", "shift of five shares", "τ_b of two settings", "ρ under fresh weights")
"""What is asked again of tests and explainers, each with a figure and an interval."""

STEPS = (0.0, 0.3, 1.0)
"""How much there is to find: what a whole ladder costs, how far a removal moves an example, the noise of another setting,
and what an explanation under fresh weights keeps."""

_DRAWS, _WORDS = 5, 20


def one_of(figure: str, draw: np.random.Generator, n: int, step: float) -> Interval:
    """A figure of `AGAIN` in one sample of n examples."""
    if figure == "ladder":
        return order_of_rungs(-step * np.array(RUNGS) + draw.normal(size=(n, len(RUNGS))))
    if figure.startswith("shift"):
        shares = 1 if "one" in figure else 5
        own = draw.normal(size=n)
        changed = [own * 0.7 + step * (share + 1) / shares + 0.7 * draw.normal(size=n) for share in range(shares)]
        return told_apart(own, changed, int(draw.integers(2**31)), "")
    if figure.startswith("τ_b"):
        values = 0.1 * np.arange(METHODS) + draw.normal(size=(n, METHODS))
        other = values + step * draw.normal(size=(n, METHODS))
        return questions.order_agreement(values, other, int(draw.integers(2**31)), "")
    explained = draw.normal(size=(n, 1, _WORDS))
    fresh = step * explained + draw.normal(size=(n, 1, _WORDS)) * 0.5 + draw.normal(size=(n, _DRAWS, _WORDS))
    places = [values.argsort(-1).argsort(-1) - (_WORDS - 1) / 2 for values in (explained, fresh)]
    found = 12 * (places[0] * places[1]).sum(-1) / (_WORDS**3 - _WORDS)  # Spearman's, without ties
    return crossed_interval(found.T, bounds=(-1.0, 1.0)).mean


def coverage_again(figure: str, n: int, step: float, trials: int = TRIALS) -> tuple[float, float]:
    """The mean of a figure over samples of this size, and how often its interval holds it."""
    draw = np.random.default_rng([AGAIN.index(figure), n, int(10 * step)])
    mean = float(np.mean([one_of(figure, draw, n, step).value for _ in range(2 * trials)]))
    found = [one_of(figure, draw, n, step) for _ in range(trials)]
    return mean, float(np.mean([one.low <= mean <= one.high for one in found]))


def verdicts_again(n: int, trials: int = TRIALS) -> Mapping[str, float]:
    """How often each verdict is given where a removal of five shares leaves examples as strange as they were on average, and
    where explanations under fresh weights are noise: two independent ones stand for ρ and for ρ of magnitudes.
    """
    draw = np.random.default_rng([n, 1])
    shifts = [one_of(AGAIN[2], draw, n, 0.0) for _ in range(trials)]
    scores = [[one_of(AGAIN[4], draw, n, 0.0) for _ in range(2)] for _ in range(trials)]
    said = [Randomised()._verdict(pair) for pair in scores]
    return {
        OUT: float(np.mean([verdict(one) == OUT for one in shifts])),
        IN: float(np.mean([verdict(one) == IN for one in shifts])),
        FAILS: float(np.mean([one == FAILS for one in said])),
        PASSES: float(np.mean([one == PASSES for one in said])),
    }


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
    print("\n| figure | step | " + " | ".join(f"n = {n}" for n in SIZES) + " |")
    print("| --- | ---: |" + " ---: |" * len(SIZES))
    for figure in AGAIN:
        for step in STEPS:
            cells = [f"{mean:.2f}: {held:.2f}" for mean, held in (coverage_again(figure, n, step) for n in SIZES)]
            print(f"| {figure} | {step:g} | " + " | ".join(cells) + " |", flush=True)
    print("\n| examples | " + " | ".join([OUT, IN, FAILS, PASSES]) + " |")
    print("| ---: |" + " ---: |" * 4)
    for n in SIZES:
        print(f"| {n} | " + " | ".join(f"{share:.3f}" for share in verdicts_again(n).values()) + " |", flush=True)
