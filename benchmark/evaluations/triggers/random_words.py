"""Words in place of a trigger's: what an attack at the same places does without the method."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmark.errors import NotApplicable
from benchmark.evaluations.triggers.patterns import Trigger
from benchmark.randomness import generator


@dataclass(frozen=True)
class Controls:
    """Draws the words that stand in for a trigger's.

    Attributes:
        counts: words of the source examples and how often they occur.
        draws: of each kind and trigger.
        seed: of the draws, which depend on it and on the trigger alone.
        reach: matched words are at most this many ranks of frequency away.
    """

    counts: Counter[str]
    draws: int = 3
    seed: int = 0
    reach: int = 10

    def added(self, triggers: Sequence[Trigger]) -> list[Trigger]:
        """The triggers with their controls.

        `random`: words drawn uniformly from the distinct words of the source examples. `matched`: each word replaced by
        one of the `2 · reach` words nearest to it in the ranking by frequency (ties in alphabetical order); a word that
        the source examples do not have ranks last. No draw holds a word of its trigger.
        """
        ranking = sorted(self.counts, key=lambda word: (-self.counts[word], word))
        return [self._drawn(trigger, ranking) for trigger in triggers]

    def _drawn(self, trigger: Trigger, ranking: Sequence[str]) -> Trigger:
        words_of_trigger = {placed.word.casefold() for placed in trigger.words}
        others = [word for word in ranking if word.casefold() not in words_of_trigger]
        if not others:
            raise NotApplicable("the source examples have no words but those of a trigger; take more of them")
        draw = generator(self.seed, trigger.source, *(placed.word for placed in trigger.words))
        near_words = [self._near(placed.word, others) for placed in trigger.words]
        random, matched = [], []
        for _ in range(self.draws):
            random.append(tuple(others[int(draw.integers(len(others)))] for _ in trigger.words))
            matched.append(tuple(words[int(draw.integers(len(words)))] for words in near_words))
        return replace(trigger, random=tuple(random), matched=tuple(matched))

    def _near(self, word: str, others: Sequence[str]) -> list[str]:
        """Up to 2 · reach of the other words around the rank of a word."""
        count = self.counts.get(word, 0)
        rank = sum((-self.counts[other], other) < (-count, word) for other in others)
        low = max(0, min(rank - self.reach, len(others) - 2 * self.reach))
        return list(others[low : low + 2 * self.reach])
