"""Repairs as tables."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmark.analyses.means import CHANGE_OF_SHARE, SHARE
from benchmark.analyses.mining.miners import Patterns
from benchmark.analyses.mining.readings import Answers
from benchmark.analyses.seeds_and_examples import SeedValues, crossed_lines, of_seeds, spread_lines
from benchmark.results.statistics import ALPHA, Range, crossed_interval, crossed_p, holm
from benchmark.results.tables import P_KEY, PROBABILITY, Drawing, Table, line

BEFORE, NOTHING = "before", "nothing inserted"
RANDOM, FREQUENT, ASSOCIATED, PLANTED = (
    "random words",
    "words as frequent",
    "words that go with the label",
    "planted phrases",
)
CONTROLS = (NOTHING, RANDOM, FREQUENT, ASSOCIATED, PLANTED)

CLEAN, SHIFTED = "accuracy, clean", "accuracy, shifted"
EFFECT, OWN_BEFORE, OWN = "effect of planted phrases", "effect of its phrases before", "effect of its phrases"
CUT = "cut of the planted phrases' effect"
BEYOND = {
    FREQUENT: "beyond words as frequent",
    ASSOCIATED: "beyond words that go with the label",
    NOTHING: "beyond training on",
}
FOUND = "planted phrase"


@dataclass
class Repairs:
    """What was measured, by miner and seed.

    Attributes:
        planted: whether the task knows what was planted.
        answers: of models.
        patterns: that were inserted.
        own_before: how much the mined phrases took of the annotated label's probability before.
        refused: why an explainer mines nothing.
    """

    planted: bool
    answers: dict[tuple[str, int], Answers] = field(default_factory=dict)
    patterns: dict[tuple[str, int], Patterns] = field(default_factory=dict)
    own_before: dict[tuple[str, int], NDArray[np.float64] | None] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def add(self, miner: str, seed: int, answers: Answers, patterns: Patterns) -> None:
        """Measured of one model."""
        self.answers[miner, seed], self.patterns[miner, seed] = answers, patterns

    def refuse(self, miner: str, reason: str) -> None:
        """Leave a miner out, whatever it mined under other seeds."""
        self.refused[miner] = reason

    @property
    def miners(self) -> list[str]:
        """All of them that mined under every seed, explainers first."""
        names = list(dict.fromkeys(miner for miner, _ in self.answers if miner not in {BEFORE, *self.refused}))
        return sorted(names, key=lambda name: CONTROLS.index(name) if name in CONTROLS else -1)

    @property
    def explainers(self) -> list[str]:
        """Those that are no control."""
        return [miner for miner in self.miners if miner not in CONTROLS]

    @property
    def seeds(self) -> list[int]:
        """All seeds."""
        return sorted({seed for _, seed in self.answers})

    @property
    def with_own(self) -> set[str]:
        """Miners that mined something under every seed."""
        return {miner for miner in self.miners if all(any(self.patterns[miner, seed].values()) for seed in self.seeds)}

    def values(self, miner: str, which: str) -> SeedValues:
        """A kind of answers of every seed."""
        return np.stack([getattr(self.answers[miner, seed], which) for seed in self.seeds])

    def effects_before(self, miner: str) -> SeedValues:
        """How much the phrases that a miner of `with_own` found took before."""
        found = [self.own_before[miner, seed] for seed in self.seeds]
        return np.stack([one for one in found if one is not None])

    def gain(self, miner: str, which: str, over: str = BEFORE) -> SeedValues:
        """What a repair changes, paired by seed and text."""
        return self.values(miner, which) - self.values(over, which)


def tables(found: Repairs, trainings: int, n: int, budget: int) -> list[Table]:
    """Accuracies and effects, gains, how much seeds and texts have in them, and what was inserted."""
    accuracies, gains = list(_accuracies(found)), list(_gains(found))
    about = f"{of_seeds(trainings)} {n} texts."
    return [
        _gains_table(found, gains, about, n),
        _accuracies_table(found, accuracies, about, budget),
        _spreads_table([*accuracies, *gains], about),
        _patterns(found),
    ]


@dataclass(frozen=True)
class _Figure:
    """Values of every seed and text that a line is the mean of."""

    inserted: str
    metric: str
    values: SeedValues
    bounds: Range = CHANGE_OF_SHARE


def _accuracies(found: Repairs) -> Iterator[_Figure]:
    for miner in (BEFORE, *found.miners):
        for metric, which in ((CLEAN, "clean"), (SHIFTED, "shifted")):
            yield _Figure(miner, metric, found.values(miner, which), SHARE)
        if found.planted:
            yield _Figure(miner, EFFECT, found.values(miner, "planted"))
        if miner in found.with_own:
            yield _Figure(miner, OWN_BEFORE, found.effects_before(miner))
            yield _Figure(miner, OWN, found.values(miner, "own"))


def _gains(found: Repairs) -> Iterator[_Figure]:
    for miner in found.miners:
        yield _Figure(miner, f"gain of {CLEAN}", found.gain(miner, "clean"))
        yield _Figure(miner, f"gain of {SHIFTED}", found.gain(miner, "shifted"))
        for over, metric in BEYOND.items():
            if miner != over:
                yield _Figure(miner, f"shifted, {metric}", found.gain(miner, "shifted", over))
        if found.planted:
            yield _Figure(miner, CUT, -found.gain(miner, "planted"))
            for over in (FREQUENT, ASSOCIATED):
                if miner != over:
                    yield _Figure(miner, f"{CUT}, {BEYOND[over]}", -found.gain(miner, "planted", over))


def _lines(figures: Iterable[_Figure]) -> list[dict[str, Any]]:
    return [
        row for one in figures for row in crossed_lines({"inserted": one.inserted}, one.metric, one.values, one.bounds)
    ]


def _accuracies_table(found: Repairs, figures: Sequence[_Figure], about: str, budget: int) -> Table:
    refused = [line({"inserted": name}, CLEAN, note=reason) for name, reason in found.refused.items()]
    return Table(
        name="repair",
        title="Models before and after a repair",
        labels=("inserted",),
        rows=pd.DataFrame(_lines(figures) + refused),
        sentences=(
            about,
            f"Each miner inserts up to {budget} pairs of words for each label under other labels. Shifted: the shortcuts go "
            "with other labels. Effects: how much probability of the annotated label an inserted phrase for another takes.",
        ),
        drawing=Drawing("bars", x="inserted", y=(SHIFTED, *((EFFECT,) if found.planted else ()))),
    )


def _gains_table(found: Repairs, figures: Sequence[_Figure], about: str, n: int) -> Table:
    adjusted = holm({
        (over, name): crossed_p(found.gain(name, "shifted", over))
        for over in (FREQUENT, ASSOCIATED)
        for name in found.explainers
    })  # fmt: skip
    rows = _lines(figures)
    for over in (FREQUENT, ASSOCIATED):
        metric = f"p, Holm, {BEYOND[over]}"
        rows += [
            line({"inserted": name}, metric, adjusted[over, name], n=n, note=PROBABILITY, key=P_KEY)
            for name in found.explainers
        ]
    return Table(
        name="repair_gains",
        title="How much an explanation helps to mend a model",
        labels=("inserted",),
        rows=pd.DataFrame(rows),
        sentences=(_verdict(found, adjusted, n), about),
        drawing=Drawing("bars", x="inserted", y=(f"gain of {SHIFTED}", *((CUT,) if found.planted else ()))),
        first=True,
    )


def _spreads_table(figures: Sequence[_Figure], about: str) -> Table:
    rows = [
        row
        for one in figures
        for row in spread_lines({"inserted": one.inserted, "figure": one.metric}, one.values, one.bounds)
    ]
    return Table(
        name="repair_spread",
        title="How much seeds and how much texts have in a repair",
        labels=("inserted", "figure"),
        rows=pd.DataFrame(rows),
        sentences=(about, "Between seeds: of means over all texts. Between examples: of means over all seeds."),
    )


def _verdict(found: Repairs, adjusted: Mapping[tuple[str, str], float], n: int) -> str:
    """How much explanations help, in one sentence."""
    if not found.explainers:
        return f"No explainer mines anything, over {len(found.seeds)} seeds and {n} texts."
    gains = {name: found.gain(name, "shifted", NOTHING) for name in found.explainers}
    it = crossed_interval(np.mean(list(gains.values()), axis=0), bounds=CHANGE_OF_SHARE).mean
    least, most = (choose(gains, key=lambda name: (gains[name].mean(), name)) for choose in (min, max))
    beyond = [_how_many(found, adjusted, over) for over in (FREQUENT, ASSOCIATED)]
    where = f"{len(found.seeds)} seeds, {n} texts"
    ends = f"from {least}, {100 * gains[least].mean():+.1f}, to {most}, {100 * gains[most].mean():+.1f}"
    return (
        f"Repaired with what an explainer shows, the model is right on {100 * it.value:+.1f} [{100 * it.low:+.1f}, "
        f"{100 * it.high:+.1f}] % more of the shifted texts than trained on alone (mean of {len(gains)} explainers, "
        f"{ends}; {where}); {beyond[0]} of them help more than as many words as frequent, and {beyond[1]} more than the "
        "pairs that go with the label most surely, for which nothing is explained (Holm, .05)."
    )


def _how_many(found: Repairs, adjusted: Mapping[tuple[str, str], float], over: str) -> int:
    """Explainers whose repair is significantly better than a control's."""
    better = (found.gain(name, "shifted", over).mean() > 0 for name in found.explainers)
    return sum(adjusted[over, name] < ALPHA and more for name, more in zip(found.explainers, better, strict=True))


def _patterns(found: Repairs) -> Table:
    """What was inserted, of every seed; whether it is a planted phrase."""
    rows = []
    for (miner, seed), patterns in found.patterns.items():
        planted = found.patterns.get((PLANTED, seed), {})
        for label, phrases in patterns.items():
            for phrase in phrases:
                labels = {"inserted": miner, "seed": seed, "for": label, "phrase": phrase}
                known = any(set(phrase.split()) == set(other.split()) for other in planted.get(label, ()))
                note = "no interval: a fact" if found.planted else "not known"
                rows.append(line(labels, FOUND, float(known) if found.planted else float("nan"), note=note))
    return Table(
        name="repair_patterns",
        title="Pairs of words that were inserted under other labels",
        labels=("inserted", "seed", "for", "phrase"),
        rows=pd.DataFrame(rows),
        sentences=("1: the pair is a planted phrase for its label; of others a word may be.",) if found.planted else (),
    )
