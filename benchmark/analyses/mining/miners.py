"""Which patterns are inserted to repair a model: those that explanations show, and what they are set against."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from benchmark.analyses.mining.word_pairs import Marked, Pattern, mine, plain
from benchmark.results.statistics import interval

Patterns = Mapping[str, Sequence[str]]
"""By label the phrases that go with it, two words each."""

_NEAREST = 10


@dataclass(frozen=True)
class Corpus:
    """The training texts that are read, and what may be inserted: pairs of words in enough texts of a label.

    Attributes:
        words: of each text, as patterns have them.
        labels: the name of each text's annotated label.
        names: of the labels.
        least: texts of a label that hold a pair.
        sensible: words by which a model should go; no pair holds one.
        budget: pairs for each label.
    """

    words: Sequence[Sequence[str]]
    labels: Sequence[str]
    names: Sequence[str]
    least: int
    sensible: frozenset[str]
    budget: int

    @cached_property
    def holding(self) -> Mapping[Pattern, list[int]]:
        """The texts that hold each pair of words that may be inserted."""
        found: dict[Pattern, list[int]] = {}
        for text, words in enumerate(self.words):
            kept = sorted({word for word in words if word} - self.sensible)
            for i, first in enumerate(kept):
                for second in kept[i + 1 :]:
                    found.setdefault((first, second), []).append(text)
        return {pair: texts for pair, texts in sorted(found.items()) if len(texts) >= self.least}

    def family(self, label: str) -> list[Pattern]:
        """Pairs in enough texts of a label."""
        return [pair for pair, texts in self.holding.items() if self._with(label, texts) >= self.least]

    def goes_with(self, pair: Pattern, label: str) -> bool:
        """Whether the texts with the pair have the label more often than all texts have; the whole interval does."""
        right = np.array([self.labels[text] == label for text in self.holding[pair]], float)
        return bool(interval(right, bounds=(0.0, 1.0)).low > self.labels.count(label) / len(self.labels))

    def phrase(self, pair: Pattern) -> str:
        """The pair's words in the order in which most texts have them."""
        order: Counter[Pattern] = Counter()
        for text in self.holding.get(pair, ()):
            words = list(self.words[text])
            order[pair if words.index(pair[0]) < words.index(pair[1]) else (pair[1], pair[0])] += 1
        most = max(((count, found) for found, count in order.items()), default=(0, pair))
        return " ".join(most[1])

    def _with(self, label: str, texts: Sequence[int]) -> int:
        return sum(self.labels[text] == label for text in texts)

    def _chosen(self, choose: Callable[[str], Iterator[Pattern]]) -> Patterns:
        """Of each label the first pairs, as phrases."""
        found: dict[str, list[str]] = {}
        for label in self.names:
            pairs = choose(label)
            found[label] = [self.phrase(pair) for pair, _ in zip(pairs, range(self.budget), strict=False)]
        return found

    def explained(self, examples: Sequence[Marked], best: int, label_of: Mapping[int, str]) -> Patterns:
        """What an explainer puts first beyond chance, most significant first, of pairs that go with the explained class.

        Significant or not: every explainer has as many, where there are as many.
        """
        mined = sorted(mine(examples, best, self.least), key=lambda one: (one.p, -one.lift, one.pattern))
        return self._chosen(
            lambda label: (
                one.pattern
                for one in mined
                if label_of.get(one.label) == label
                and one.pattern in self.holding
                and self.goes_with(one.pattern, label)
            )
        )

    def associated(self) -> Patterns:
        """Without explanations: the pairs whose texts have the label most surely, by the interval's lower end."""

        def choose(label: str) -> Iterator[Pattern]:
            shares = {
                pair: self._with(label, self.holding[pair]) / len(self.holding[pair]) for pair in self.family(label)
            }
            likely = sorted(shares, key=lambda pair: (-shares[pair], -len(self.holding[pair]), pair))[
                : 50 * self.budget
            ]
            ends = {pair: self._low(label, pair) for pair in likely}
            return iter(sorted(likely, key=lambda pair: (-ends[pair], pair)))

        return self._chosen(choose)

    def _low(self, label: str, pair: Pattern) -> float:
        right = np.array([self.labels[text] == label for text in self.holding[pair]], float)
        return interval(right, bounds=(0.0, 1.0)).low

    def random(self, rng: np.random.Generator) -> Patterns:
        """Pairs that are drawn, all alike probable."""

        def choose(label: str) -> Iterator[Pattern]:
            family = self.family(label)
            return (family[int(place)] for place in rng.permutation(len(family)))

        return self._chosen(choose)

    def as_frequent(self, rng: np.random.Generator, models: Sequence[Patterns]) -> Patterns:
        """For each label pairs that stand in about as many texts as these, of other words.

        Each is drawn among the ten nearest of a drawn one.
        """

        def choose(label: str) -> Iterator[Pattern]:
            wanted = sorted({_pair(phrase) for patterns in models for phrase in patterns.get(label, ())})
            taken = {word for pair in wanted for word in pair}
            free = [pair for pair in self.family(label) if taken.isdisjoint(pair)]
            for place in rng.permutation(len(wanted)):
                count = len(self.holding.get(wanted[int(place)], ()))
                nearest = sorted(free, key=lambda pair: (abs(len(self.holding[pair]) - count), pair))[:_NEAREST]
                if nearest:
                    drawn = nearest[int(rng.integers(len(nearest)))]
                    free.remove(drawn)
                    yield drawn

        return self._chosen(choose)


def _pair(phrase: str) -> Pattern:
    first, second = sorted(map(plain, phrase.split()))
    return first, second
