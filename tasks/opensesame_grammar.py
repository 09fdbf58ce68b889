"""Generated stimuli of the form and the conditions of Open Sesame (Lin et al. 2019), each with its parts of speech.

Written after the authors' grammars and `corp-proc.py`, with other words; no sentence is theirs.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from benchmark.annotations import Stimulus

DETERMINERS = ("the", "my", "your", "our", "her")
NOUNS = (
    ("dog", "dogs"), ("cat", "cats"), ("horse", "horses"), ("rabbit", "rabbits"), ("monkey", "monkeys"), ("snake", "snakes"),
    ("goat", "goats"), ("eagle", "eagles"), ("frog", "frogs"), ("spider", "spiders"),
)  # fmt: skip
FEMININE = ("girl", "woman", "queen", "sister", "aunt", "nun", "niece", "waitress")
MASCULINE = ("boy", "man", "king", "brother", "uncle", "monk", "nephew", "waiter")
REFLEXIVES = ("herself", "himself")
MODALS = ("can", "will", "would", "could")
INFLECTED = ("does", "do")
INTRANSITIVE = ("sleep", "run", "sing", "jump", "wait", "laugh")
TRANSITIVE = ("see", "help", "watch", "follow", "push", "like")
PREPOSITIONS = ("near", "behind", "with", "above")
RELATIVE = ("who", "that")
ADJECTIVES = ("small", "big", "old", "young", "bad", "good")
COMPOUNDS = (("queen", "snake"), ("worker", "rabbit"), ("house", "cat"), ("guide", "dog"), ("race", "horse"))

AGREEMENT = tuple(f"agr.{number}" for number in range(20))
REFLEXIVE = tuple(f"refl.{number}" for number in range(9))


@dataclass
class Words:
    """A sentence while it is made.

    Attributes:
        random: draws words.
        words, tags: so far.
    """

    random: random.Random
    words: list[str]
    tags: list[str]

    def add(self, words: Sequence[str] | str, tag: str) -> int:
        """Append a word, drawn where there are several; its number."""
        self.words.append(words if isinstance(words, str) else self.random.choice(words))
        self.tags.append(tag)
        return len(self.words) - 1

    def phrase(self, noun: str, tag: str, adjectives: float = 0.0) -> tuple[int, int]:
        """Determiner and noun, perhaps adjectives between; the numbers of both."""
        start = self.add(DETERMINERS, "Det")
        while self.random.random() < adjectives:
            self.add(ADJECTIVES, "JJ")
        return start, self.add(noun, tag)


@dataclass(frozen=True)
class Generated:
    """A stimulus or a sentence for a probe.

    Attributes:
        words, tags: the sentence and its parts of speech, named as in the authors' files.
        plural: whether the main subject is.
        stimulus: of agreement and reflexives.
        marked: the word that a probe has to find.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    plural: bool
    stimulus: Stimulus | None = None
    marked: int = -1


def _new(draw: random.Random) -> Words:
    return Words(draw, [], [])


def agreement_stimulus(draw: random.Random, number: int) -> Generated:
    """Condition 0 to 19: no distractor (0–3), one in a prepositional phrase (4–11), or in a relative clause (12–19).

    Within each, by the subject's number, the distractor's number, and a modal or an inflected auxiliary.
    """
    inside = number - (4 if number < 12 else 12) if number >= 4 else number
    modal = inside % 2 == 0
    plural = inside >= 4 if number >= 4 else inside >= 2
    other_plural = inside % 4 >= 2 if number >= 4 else None
    made = _new(draw)
    tag = "N_pl" if plural else "N_sg"
    subject = made.phrase(draw.choice(NOUNS)[plural], tag)
    distractors = []
    if other_plural is not None:
        other, other_tag = draw.choice(NOUNS)[other_plural], "N_pl" if other_plural else "N_sg"
        if number < 12:
            made.add(PREPOSITIONS, "Prep")
            distractors.append(made.phrase(other, other_tag))
        else:
            made.add(RELATIVE, "Rel")
            if draw.random() < 0.5:
                _auxiliary(made, draw.random() < 0.5, plural=plural)
                made.add(TRANSITIVE, "VT")
                distractors.append(made.phrase(other, other_tag))
            else:
                distractors.append(made.phrase(other, other_tag))
                _auxiliary(made, draw.random() < 0.5, plural=other_plural)
                made.add(TRANSITIVE, "VT")
    elif draw.random() < 0.3:
        made.add(RELATIVE, "Rel")
        _auxiliary(made, draw.random() < 0.5, plural=plural)
        made.add(INTRANSITIVE, "VI")
    target = _auxiliary(made, modal, plural=plural)
    made.add(INTRANSITIVE, "VI")
    stimulus = Stimulus(f"agr.{number}", target, subject, tuple(distractors))
    return Generated(tuple(made.words), tuple(made.tags), plural, stimulus)


def _auxiliary(made: Words, modal: bool, *, plural: bool) -> int:  # noqa: FBT001 - of two kinds
    return made.add(MODALS, "Aux") if modal else made.add(INFLECTED[plural], "AuxPl" if plural else "AuxSg")


_OBJECT = {1: True, 2: False, 5: True, 6: True, 7: False, 8: False}
_CLAUSE = {3: True, 4: False, 5: True, 6: False, 7: True, 8: False}
"""By condition, whether a noun of the object, or of a relative clause, has the gender of the reflexive."""


def reflexive_stimulus(draw: random.Random, number: int) -> Generated:
    """Condition 0 to 8: distractors in the object (1, 2), in a relative clause (3, 4), or in both (5–8), by gender."""
    gender = draw.randrange(2)
    people = (FEMININE, MASCULINE)
    tags = ("N_F", "N_M")
    made = _new(draw)
    subject = made.phrase(draw.choice(people[gender]), tags[gender])
    distractors = []
    if number in _CLAUSE:
        other = gender if _CLAUSE[number] else 1 - gender
        made.add(RELATIVE, "Rel")
        if draw.random() < 0.5:
            made.add(MODALS, "Aux")
            made.add(TRANSITIVE, "VT")
            distractors.append(made.phrase(draw.choice(people[other]), tags[other]))
        else:
            distractors.append(made.phrase(draw.choice(people[other]), tags[other]))
            made.add(MODALS, "Aux")
            made.add(TRANSITIVE, "VT")
    made.add(MODALS, "Aux")
    made.add(TRANSITIVE, "VT")
    if number in _OBJECT:
        other = gender if _OBJECT[number] else 1 - gender
        distractors.append(made.phrase(draw.choice(people[other]), tags[other]))
        made.add("by", "Prep")
    target = made.add(REFLEXIVES[gender], ("Refl_F", "Refl_M")[gender])
    stimulus = Stimulus(f"refl.{number}", target, subject, tuple(distractors))
    return Generated(tuple(made.words), tuple(made.tags), plural=False, stimulus=stimulus)


def auxiliary_sentence(draw: random.Random, *, generalise: bool) -> Generated:
    """The main auxiliary is the first one, unless the subject has a relative clause, which only `generalise` has.

    The object may have one in every set, so that being an auxiliary is not enough to be the main one.
    """
    made = _new(draw)
    plural = draw.random() < 0.5
    made.phrase(draw.choice(NOUNS)[plural], "N")
    if generalise:
        _relative_clause(made)
    elif draw.random() < 0.6:
        made.add(PREPOSITIONS, "Prep")
        made.phrase(draw.choice(draw.choice(NOUNS)), "N", 0.4)
    target = made.add(MODALS, "MAux")
    _predicate(made, clause=0.5)
    return Generated(tuple(made.words), tuple(made.tags), plural, marked=target)


Before = Literal["nothing", "compound", "possessor"]
"""What may stand before the subject's noun."""


def subject_sentence(draw: random.Random, *, before: Before) -> Generated:
    """The subject is the first noun, unless a possessor or the first part of a compound stands before it.

    First parts of compounds are in no other sentence; possessors are nouns as any other.
    """
    made = _new(draw)
    plural = draw.random() < 0.5
    made.add(DETERMINERS, "Det")
    if before != "compound":
        if before == "possessor":
            made.add(draw.choice(NOUNS)[0], "N")
            made.add("'s", "Poss")
        while draw.random() < 0.4:
            made.add(ADJECTIVES, "JJ")
        target = made.add(draw.choice(NOUNS)[plural], "MN")
    else:
        first, second = draw.choice(COMPOUNDS)
        made.add(first, "N")
        target = made.add(second + "s" if plural else second, "MN")
    kind = draw.random()
    if kind < 0.4:
        made.add(PREPOSITIONS, "Prep")
        made.phrase(draw.choice(draw.choice(NOUNS)), "N", 0.4)
    elif kind < 0.7:
        _relative_clause(made)
    made.add(MODALS, "Aux")
    _predicate(made)
    return Generated(tuple(made.words), tuple(made.tags), plural, marked=target)


def _relative_clause(made: Words) -> None:
    draw = made.random
    made.add(RELATIVE, "Rel")
    kind = draw.randrange(3)
    if kind == 0:
        made.phrase(draw.choice(draw.choice(NOUNS)), "N", 0.4)
        made.add(MODALS, "Aux")
        made.add(TRANSITIVE, "VT")
        return
    made.add(MODALS, "Aux")
    made.add(INTRANSITIVE if kind == 1 else TRANSITIVE, "VI" if kind == 1 else "VT")
    if kind == 2:
        made.phrase(draw.choice(draw.choice(NOUNS)), "N", 0.4)


def _predicate(made: Words, clause: float = 0.0) -> None:
    """A verb, perhaps with an object, which has a relative clause with the probability `clause`."""
    draw = made.random
    if draw.random() < 0.5:
        made.add(INTRANSITIVE, "VI")
        return
    made.add(TRANSITIVE, "VT")
    made.phrase(draw.choice(draw.choice(NOUNS)), "N", 0.4)
    if clause and draw.random() < clause:
        _relative_clause(made)
