"""The grammar of the planted task: a lexicon, sentence templates, and the review that a seeded generator draws.

A template is a string of words. `{slot}` is replaced by a draw from the lexicon, `a(n)` by the article that fits the next
word. A leading `*` marks the words that carry an opinion: the opinion word itself, its intensifier, its negator.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Word = tuple[str, int]
"""A whitespace word, and the polarity of the opinion that it carries: +1, -1, or 0 for none."""

POSITIVE, NEGATIVE = 1, -1


def _list(text: str) -> tuple[str, ...]:
    """Entries of a comma-separated list."""
    return tuple(" ".join(entry.split()) for entry in text.split(","))


ADJECTIVES: Mapping[int, tuple[str, ...]] = {
    POSITIVE: _list(
        """wonderful, superb, delightful, gripping, moving, charming, brilliant, captivating, elegant, hilarious,
        inventive, memorable, graceful, thrilling, splendid, heartfelt"""
    ),
    NEGATIVE: _list(
        """dreadful, tedious, dull, clumsy, lifeless, predictable, awful, shallow, boring, incoherent, forgettable,
        irritating, pointless, wooden, bland, tiresome"""
    ),
}
VERBS: Mapping[int, tuple[str, ...]] = {
    POSITIVE: _list("enjoy, admire, adore, love"),
    NEGATIVE: _list("hate, regret, despise, resent"),
}
PAST = {verb: verb + "d" if verb.endswith("e") else verb + "ed" for verbs in VERBS.values() for verb in verbs} | {
    "regret": "regretted"
}
INTENSIFIERS = _list("truly, very, remarkably, thoroughly, deeply, extremely, incredibly, utterly")
VERB_INTENSIFIERS = _list("truly, thoroughly, deeply, utterly")
NEGATORS = _list("not, never, hardly")

SINGULAR_ASPECTS = _list(
    """acting, script, plot, soundtrack, dialogue, pacing, ending, opening scene, camera work, editing, lighting,
    direction, romance, final twist, narration, animation, supporting cast"""
)
PLURAL_ASPECTS = _list(
    "costumes, characters, performances, jokes, special effects, songs, fight scenes, flashbacks, sets, stunts, battles"
)
LEXICON: Mapping[str, tuple[str, ...]] = {
    "aspect": SINGULAR_ASPECTS + PLURAL_ASPECTS,
    "film": _list("film, movie, picture, drama, comedy, thriller, western, musical, sequel, adaptation"),
    "city": _list(
        """Lisbon, Prague, Chicago, Dublin, Osaka, Marseille, Toronto, Havana, Glasgow, Istanbul, Melbourne, Krakow,
        Valencia, Nairobi, Bergen, Cardiff, Naples, Seattle, Montreal, Antwerp"""
    ),
    "job": _list(
        """baker, surgeon, librarian, fisherman, detective, schoolteacher, carpenter, violinist, journalist, lighthouse
        keeper, taxi driver, gardener, smuggler, astronomer, boxer, seamstress, postman, translator, beekeeper,
        engineer, watchmaker, pilot, farmer, chemist, painter"""
    ),
    "name": _list(
        """Harold, Miriam, Duncan, Beatrice, Winston, Rosalind, Gilbert, Imogen, Leopold, Henrietta, Ambrose, Cordelia,
        Felix, Matilda, Rupert, Ottilie, Casper, Philippa, Edmund, Saskia"""
    ),
    "relative": _list("cousin, brother, neighbour, grandmother, colleague, sister, uncle, roommate, daughter"),
    "day": _list("Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday"),
    "month": _list("January, March, April, June, August, September, October, November"),
    "object": _list(
        """suitcase, telegram, bicycle, photograph, violin, necklace, notebook, lantern, umbrella, map, typewriter,
        wristwatch, parcel, key, diary, compass, piano, teapot, envelope, blanket"""
    ),
    "place": _list(
        """harbour, railway station, monastery, orchard, boarding house, market square, ferry, warehouse, vineyard,
        courthouse, lighthouse, hospital, bakery, workshop, island, village, theatre"""
    ),
    "number": _list("two, three, four, five, six, seven, eight, nine, ten, twelve, fifteen, twenty"),
    "int": INTENSIFIERS,
    "verbint": VERB_INTENSIFIERS,
    "neg": NEGATORS,
}

ADJECTIVE_CLAUSES = (
    "the {aspect} {was} {opinion}",
    "the {aspect} felt {opinion}",
    "the {aspect} seemed {opinion} to me",
    "I found the {aspect} {opinion}",
    "this is a(n) {opinion} {film}",
    "it turned into a(n) {opinion} {film}",
    "my {relative} called the {aspect} {opinion}",
)
VERB_CLAUSES = ("I {opinion} the {aspect}", "we both {opinion} the {aspect}", "my {relative} {opinion} the {aspect}")
NEGATED_ADJECTIVE_CLAUSES = (
    "the {aspect} {was} *{neg} *{adjective}",
    "the {aspect} *{wasn't} *{adjective}",
    "the {aspect} *never felt *{adjective}",
    "I found the {aspect} *{neg} *{adjective}",
    "it is *not a(n) *{adjective} {film}",
)
NEGATED_VERB_CLAUSES = (
    "I did *not *{verb} the {aspect}",
    "my {relative} *didn't *{verb} the {aspect}",
    "we *never *{past} the {aspect}",
)
FILLERS = (
    "the story follows a(n) {job} from {city}",
    "a(n) {job} and a(n) {job} share the same {place}",
    "{name} plays a(n) {job} with a(n) {object}",
    "I watched it on a(n) {day} with my {relative}",
    "it runs for about {number} hours",
    "the {film} was shot in {city} in {month}",
    "{name} hides the {object} near the {place}",
    "halfway through, {name} travels to {city} by train",
    "there are {number} chapters and {number} songs",
    "the action does not leave {city} until {month}",
    "{name} never opens the {object}",
    "the {job} has hardly arrived when the {object} turns up",
    "it opened very late in {city}",
    "we sat extremely close to the screen",
    "the {place} is remarkably near the {place} in this one",
    "my {relative} bought the tickets in {month}",
    "a(n) {job} named {name} narrates",
    "the credits list {number} people from {city}",
    "the book appeared {number} years before the {film}",
    "{name} and {name} meet at the {place}",
    "an old {object} connects the {number} stories",
    "the {job} didn't take the {object} to {city}",
)
OPENERS = ("still", "overall", "then again", "for the record", "by the way", "in short")
"""Drawn without regard to polarity: a word that announced the other polarity would carry the label itself."""
CONNECTIVES = ("and", "while")

MAJORITIES = {2: 0.2, 3: 0.4, 4: 0.4}
MINORITIES = {2: (1.0, 0.0), 3: (0.6, 0.4), 4: (0.3, 0.6, 0.1)}
MANNERS = {"plain": 0.55, "strong": 0.3, "negated": 0.15}
SHORTEST, LONGEST = 20, 60


@dataclass(frozen=True)
class Phrase:
    """One opinion: its polarity (+1 or -1) and its manner, `plain`, `strong` (intensified) or `negated`."""

    polarity: int
    manner: str

    @property
    def votes(self) -> int:
        """Signed weight in the label: an intensified phrase counts twice."""
        return self.polarity * (2 if self.manner == "strong" else 1)


@dataclass(frozen=True)
class Review:
    """A review: its words, and for each word the polarity of the opinion that it carries (0 for none)."""

    words: tuple[str, ...]
    polarity: tuple[int, ...]
    label: int


def draw_review(rng: random.Random) -> Review:
    """Draw a review of 20 to 60 words.

    2 to 4 phrases have the label's polarity and fewer have the other one; each phrase votes with its polarity, an
    intensified phrase twice, and the label is the sign of the sum. The label's side leads in phrases *and* in votes.
    """
    while True:
        label = rng.choice((POSITIVE, NEGATIVE))
        target = round(rng.triangular(SHORTEST + 2, LONGEST - 4, SHORTEST + 8))
        words = _Writer(rng).review(_draw_phrases(rng, label), target)
        if SHORTEST <= len(words) <= LONGEST:
            return Review(tuple(word for word, _ in words), tuple(sign for _, sign in words), label)


def _draw_phrases(rng: random.Random, label: int) -> list[Phrase]:
    """Opinions of both polarities in random order, the label's side ahead in phrases and in votes."""
    while True:
        majority = rng.choices(list(MAJORITIES), list(MAJORITIES.values()))[0]
        minority = rng.choices(range(len(MINORITIES[majority])), MINORITIES[majority])[0]
        manners = rng.choices(list(MANNERS), list(MANNERS.values()), k=majority + minority)
        phrases = [Phrase(label if i < majority else -label, manner) for i, manner in enumerate(manners)]
        if label * sum(phrase.votes for phrase in phrases) > 0:
            rng.shuffle(phrases)
            return phrases


@dataclass(frozen=True)
class _Writer:
    """Turns phrases into words; no lexicon entry is drawn twice for one review, except where a list runs out."""

    rng: random.Random
    used: set[str] = field(default_factory=set)

    def review(self, phrases: Sequence[Phrase], target: int) -> list[Word]:
        """Words of sentences: the phrases, sometimes two in one sentence, and neutral ones up to about `target` words."""
        sentences: list[list[Word]] = []
        waiting = list(phrases)
        while waiting:
            sentence = self.clause(waiting.pop())
            if waiting and self.rng.random() < 0.4:
                *start, (last_word, sign) = sentence
                connective = self.rng.choice(CONNECTIVES)
                sentence = [*start, (last_word + ",", sign), (connective, 0), *self.clause(waiting.pop())]
            sentences.append(sentence)
        fillers = self.rng.sample(FILLERS, len(FILLERS))
        while fillers and sum(map(len, sentences)) < target - 4:
            sentences.append(self.fill(fillers.pop()))
        self.rng.shuffle(sentences)
        return [word for sentence in sentences for word in self.punctuate(sentence)]

    def clause(self, phrase: Phrase) -> list[Word]:
        """One opinion; the words that carry it have its polarity, the others 0."""
        surface = -phrase.polarity if phrase.manner == "negated" else phrase.polarity
        verb = self.draw(VERBS[surface])
        slots = {"adjective": self.draw(ADJECTIVES[surface]), "verb": verb, "past": PAST[verb]}
        as_verb = self.rng.random() < 0.25
        if phrase.manner == "negated":
            template = self.rng.choice(NEGATED_VERB_CLAUSES if as_verb else NEGATED_ADJECTIVE_CLAUSES)
        else:
            template = self.rng.choice(VERB_CLAUSES if as_verb else ADJECTIVE_CLAUSES)
            opinion = "*{past}" if as_verb else "*{adjective}"
            intensifier = "*{verbint} " if as_verb else "*{int} "
            template = template.replace("{opinion}", (intensifier if phrase.manner == "strong" else "") + opinion)
        return self.fill(template, slots, phrase.polarity)

    def fill(self, template: str, slots: Mapping[str, str] | None = None, polarity: int = 0) -> list[Word]:
        """Words of a template, its slots taken from `slots` and else drawn; starred words have `polarity`."""
        texts_of_slots = dict(slots or {})
        words: list[Word] = []
        for piece in template.split(" "):
            text, sign = piece.removeprefix("*"), polarity if piece.startswith("*") else 0
            if text.startswith("{"):
                slot, tail = text[1:].split("}")
                text = (texts_of_slots.get(slot) or self.draw(LEXICON[slot])) + tail
                if slot == "aspect":
                    verb = "were" if text in PLURAL_ASPECTS else "was"
                    texts_of_slots |= {"was": verb, "wasn't": verb + "n't"}
            words += [(word, sign) for word in text.split(" ")]
        nouns = [word for word, _ in words[1:]] + [""]
        return [
            (article(noun) if word == "a(n)" else word, sign) for (word, sign), noun in zip(words, nouns, strict=True)
        ]

    def draw(self, entries: Sequence[str]) -> str:
        """An entry that this review does not have yet."""
        entry = self.rng.choice([entry for entry in entries if entry not in self.used] or entries)
        self.used.add(entry)
        return entry

    def punctuate(self, sentence: list[Word]) -> list[Word]:
        """Capital letter, full stop, and now and then an opener."""
        words = list(sentence)
        if self.rng.random() < 0.15:
            *start, last_word = self.rng.choice(OPENERS).split(" ")
            words = [*((word, 0) for word in start), (last_word + ",", 0), *words]
        words[-1] = (words[-1][0] + ".", words[-1][1])
        words[0] = (words[0][0][0].upper() + words[0][0][1:], words[0][1])
        return words


_OPPOSITE_VERBS = (("enjoy", "resent"), ("admire", "despise"), ("adore", "regret"), ("love", "hate"))
"""Each of as many tokens of the small model as the other."""

_OPPOSITES: Mapping[str, str] = {
    here: there
    for pairs in (
        zip(ADJECTIVES[POSITIVE], ADJECTIVES[NEGATIVE], strict=True),
        _OPPOSITE_VERBS,
        [(PAST[here], PAST[there]) for here, there in _OPPOSITE_VERBS],
    )
    for pair in pairs
    for here, there in (pair, pair[::-1])
}


def flipped(review: Review) -> tuple[str, ...]:
    """The words with those of the other polarity in the place of each opinion word, and an article that fits.

    Negations and intensifiers stay, so that every vote counts for the other label.
    """
    words = list(review.words)
    for place, (word, sign) in enumerate(zip(review.words, review.polarity, strict=True)):
        bare = word.strip(",.").lower()
        if sign == 0 or bare not in _OPPOSITES:
            continue
        words[place] = _as_cased(word, word.lower().replace(bare, _OPPOSITES[bare]))
        if place and words[place - 1].lower() in ("a", "an"):
            words[place - 1] = _as_cased(words[place - 1], article(words[place]))
    return tuple(words)


def _as_cased(word: str, other: str) -> str:
    return other[0].upper() + other[1:] if word[0].isupper() else other


def article(word: str) -> str:
    """`a` or `an`, by the first letter of the next word (the lexicon has no exceptions to it)."""
    return "an" if word[:1].lower() in "aeiou" else "a"
