"""Generated sentences with their dependency trees: does the auxiliary agree with its subject, whatever stands between?"""

import random
from dataclasses import dataclass, field

from benchmark.annotations import Coreference, Mention, Parse

NOUNS = (
    ("dog", "dogs"), ("cat", "cats"), ("horse", "horses"), ("bird", "birds"), ("farmer", "farmers"), ("doctor", "doctors"),
    ("teacher", "teachers"), ("guard", "guards"), ("pilot", "pilots"), ("singer", "singers"),
)  # fmt: skip
PEOPLE = (("king", "himself"), ("uncle", "himself"), ("monk", "himself"), ("queen", "herself"), ("aunt", "herself"),
          ("nun", "herself"))  # fmt: skip
AUXILIARIES = (("is", "are"), ("was", "were"))
ACTS = ("sleeping", "running", "waiting", "singing")
ACTS_ON = ("helping", "watching", "following", "hurting")
DID = ("helped", "watched", "followed", "liked")
PREPOSITIONS = ("near", "behind", "with", "above")
ADJECTIVES = ("old", "small", "young", "tired")
ADVERBS = ("now", "often", "again")


@dataclass
class Draft:
    """A sentence while it is made: words, and for each the number of its head and its relation to it.

    Attributes:
        random: draws words and forms.
        words, heads, relations: so far; a head of None is not known yet.
        mentions: noun phrases and reflexives, each with its entity.
    """

    random: random.Random
    words: list[str] = field(default_factory=list)
    heads: list[int | None] = field(default_factory=list)
    relations: list[str] = field(default_factory=list)
    mentions: list[Mention] = field(default_factory=list)

    def add(self, word: str, relation: str, head: int | None = None) -> int:
        """Append a word; its number."""
        self.words.append(word)
        self.heads.append(head)
        self.relations.append(relation)
        return len(self.words) - 1

    def hang(self, words: list[int], head: int) -> None:
        """Give these words their head."""
        for word in words:
            self.heads[word] = head

    def noun_phrase(self, relation: str, noun: str, entity: str = "", *, adjective: bool = True) -> int:
        """Article, perhaps an adjective, and the noun, whose head is still open; the noun's number."""
        start = len(self.words)
        left = [self.add("the", "det")]
        if adjective and self.random.random() < 0.3:
            left.append(self.add(self.random.choice(ADJECTIVES), "amod"))
        number = self.add(noun, relation)
        self.hang(left, number)
        self.mentions.append(Mention(start, number + 1, number, entity or f"noun {number}", "nominal"))
        return number

    def prepositional(self, relation: str) -> int:
        """Preposition and noun phrase; the noun's number."""
        case = self.add(self.random.choice(PREPOSITIONS), "case")
        noun = self.noun_phrase(relation, self.random.choice(self.random.choice(NOUNS)))
        self.hang([case], noun)
        return noun


@dataclass(frozen=True)
class GeneratedSentence:
    """A sentence with what is known of it."""

    words: tuple[str, ...]
    parse: Parse
    coreference: Coreference
    agrees: bool


def draw_sentence(random: random.Random) -> GeneratedSentence:
    """A statement of one clause: subject, auxiliary, verb, object.

    A phrase may stand before the subject, and a phrase or a relative clause behind it, with nouns of either number. The
    auxiliary has the subject's number in half of the sentences, the other in the rest. In a fourth of them the subject is a
    person, in the singular, and the object a reflexive of the person's gender.
    """
    draft, agrees = Draft(random), random.random() < 0.5
    fronted = draft.prepositional("obl") if random.random() < 0.3 else None
    comma = draft.add(",", "punct") if fronted is not None else None
    reflexive = None
    if random.random() < 0.25:
        noun, reflexive = random.choice(PEOPLE)
        plural = False
    else:
        plural = random.random() < 0.5
        noun = random.choice(NOUNS)[plural]
    subject = draft.noun_phrase("nsubj", noun, "subject")
    _modify(draft, subject)
    auxiliary = draft.add(random.choice(AUXILIARIES)[plural is agrees], "aux")
    acts_on = reflexive is not None or random.random() < 0.5
    verb = draft.add(random.choice(ACTS_ON if acts_on else ACTS), "root", -1)
    hanging = [subject, auxiliary]
    if reflexive is not None:
        hanging.append(draft.add(reflexive, "obj"))
        draft.mentions.append(Mention(hanging[-1], hanging[-1] + 1, hanging[-1], "subject", "pronoun"))
    elif acts_on:
        hanging.append(draft.noun_phrase("obj", random.choice(random.choice(NOUNS))))
    if random.random() < 0.3:
        hanging.append(draft.add(random.choice(ADVERBS), "advmod"))
    hanging.append(draft.add(".", "punct"))
    draft.hang([*hanging, *(word for word in (fronted, comma) if word is not None)], verb)
    heads = tuple(head for head in draft.heads if head is not None)
    mentions = tuple(sorted(draft.mentions, key=lambda mention: mention.head))
    return GeneratedSentence(tuple(draft.words), Parse(heads, tuple(draft.relations)), Coreference(mentions), agrees)


def _modify(draft: Draft, noun: int) -> None:
    """A phrase or a relative clause behind a noun, or neither."""
    kind = draft.random.random()
    if kind < 0.35:
        draft.hang([draft.prepositional("nmod")], noun)
    elif kind < 0.7:
        by_noun = draft.random.random() < 0.5
        pronoun = draft.add("that", "obj" if by_noun else "nsubj")
        other = draft.random.choice(draft.random.choice(NOUNS))
        left = [draft.noun_phrase("nsubj", other, adjective=False)] if by_noun else []
        verb = draft.add(draft.random.choice(DID), "acl:relcl")
        right = [] if by_noun else [draft.noun_phrase("obj", other, adjective=False)]
        draft.hang([pronoun, *left, *right], verb)
        draft.hang([verb], noun)
