"""Which patterns are inserted to repair a model: those that explanations show, and what they are set against."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle

import numpy as np
import scipy

from benchmark.analyses.mining.word_pairs import Marked, Pattern, mine, plain

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
        return self.low(pair, label) > self.labels.count(label) / len(self.labels)

    def phrase(self, pair: Pattern) -> str:
        """The pair's words in the order in which most texts have them."""
        order: Counter[Pattern] = Counter()
        for text in self.holding.get(pair, ()):
            words = list(self.words[text])
            order[pair if words.index(pair[0]) < words.index(pair[1]) else (pair[1], pair[0])] += 1
        most = max(((count, found) for found, count in order.items()), default=(0, pair))
        return " ".join(most[1])

    def low(self, pair: Pattern, label: str) -> float:
        """The lower end of the interval of the label's share among the texts with the pair."""
        texts = self.holding[pair]
        found = scipy.stats.binomtest(self._with(label, texts), len(texts)).proportion_ci(method="wilson")
        return float(found.low)

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
        """Without explanations: the pairs whose texts have the label most surely, by the interval's lower end.

        Of equal ones that in the most texts; none shares a word with one before it, or all would be parts of one phrase.
        """

        def choose(label: str) -> Iterator[Pattern]:
            family = {pair: (-self.low(pair, label), -len(self.holding[pair]), pair) for pair in self.family(label)}
            taken: set[str] = set()
            for pair in sorted(family, key=lambda pair: family[pair]):
                if taken.isdisjoint(pair):
                    taken.update(pair)
                    yield pair

        return self._chosen(choose)

    def random(self, rng: np.random.Generator, others: Sequence[Patterns]) -> Patterns:
        """Pairs that are drawn, all alike probable, without the words of others."""

        def choose(label: str) -> Iterator[Pattern]:
            family = self._without(label, others)
            return (family[int(place)] for place in rng.permutation(len(family)))

        return self._chosen(choose)

    def as_frequent(self, rng: np.random.Generator, models: Sequence[Patterns]) -> Patterns:
        """For each label pairs of words that none of these has, that stand in about as many texts.

        Each is drawn among the ten nearest of a drawn one.
        """

        def choose(label: str) -> Iterator[Pattern]:
            wanted = sorted({_pair(phrase) for patterns in models for phrase in patterns.get(label, ())})
            free = self._without(label, models)
            for place in cycle(rng.permutation(len(wanted))):
                count = len(self.holding.get(wanted[int(place)], ()))
                nearest = sorted(free, key=lambda pair: (abs(len(self.holding[pair]) - count), pair))[:_NEAREST]
                if not nearest:
                    return
                drawn = nearest[int(rng.integers(len(nearest)))]
                free.remove(drawn)
                yield drawn

        return self._chosen(choose)

    def _without(self, label: str, others: Sequence[Patterns]) -> list[Pattern]:
        """Pairs in enough texts of a label, without the words of others."""
        taken = {word for patterns in others for some in patterns.values() for phrase in some for word in _pair(phrase)}
        return [pair for pair in self.family(label) if taken.isdisjoint(pair)]


def _pair(phrase: str) -> Pattern:
    first, second = sorted(map(plain, phrase.split()))
    return first, second
