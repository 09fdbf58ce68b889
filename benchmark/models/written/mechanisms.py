"""The mechanisms: small causes of an answer, each of which some explainers find and others miss.

Every one is a function of the share of its attention that a head gives to what it looks for; `mechanism` finds one by name,
or by the dotted path of a function of your own.
"""

import random
from collections.abc import Callable, Mapping
from importlib import import_module
from math import log

from benchmark.errors import UserError, near
from benchmark.models.written.mechanism import (
    READER,
    Drawn,
    Edge,
    Mechanism,
    among,
    idle,
    reads,
    weight_of,
    words_of,
)
from benchmark.models.written.program import AWAY, MARK, ONE, READ, REST, Features, Head, Layer, Neuron, Program

SHARES: Mapping[str, float] = {"weak": 0.2, "medium": 0.4, "strong": 0.8}
"""Strengths: the share of a head's attention that one word gets which it looks for."""

_GAIN = 8.0
_SENSES = {"good": 1.0, "bad": -1.0}
_ANSWER = {"answer": 1.0}
_SAYS_NO = Neuron(reads={READ: 1.0}, writes={"answer": -_GAIN / 2})
"""What the answer is without any word."""


_LEANS = Neuron(reads={READ: 1.0}, writes={"answer": -0.05})
"""Where nothing is said the answer is no, and not what rounding makes of a draw."""


def _leaning(words: Mapping[str, Features], *layers: Layer) -> Program:
    """A program whose answer is no where nothing is said."""
    *below, last = layers
    return Program(words, (*below, Layer(last.heads, (*last.neurons, _LEANS))), _ANSWER)


def _cues() -> dict[str, dict[str, float]]:
    return {word: {"cue": 1.0, "sense": sense} for word, sense in _SENSES.items()}


def _sense(draw: random.Random) -> tuple[str, int]:
    word = draw.choice(sorted(_SENSES))
    return word, int(_SENSES[word] > 0)


def _one_cue(*others: str, ordered: bool = False, layer: int = 0) -> Callable[[random.Random], Drawn]:
    """Inputs with one cue, which alone decides, beside other words."""

    def draw(generator: random.Random) -> Drawn:
        cue, label = _sense(generator)
        words, places = among(generator, *others, cue, ordered=ordered)
        return Drawn(words, label, frozenset({places[-1]}), frozenset({(layer, READER, places[-1])}))

    return draw


def _several(count: int, *own: str) -> Callable[[random.Random], Drawn]:
    """Inputs with words that all speak for yes."""

    def draw(generator: random.Random) -> Drawn:
        words, places = among(generator, *own, *[generator.choice(own) for _ in range(count - len(own))])
        return Drawn(words, 1, frozenset(places), frozenset((0, READER, place) for place in places))

    return draw


def copy(share: float) -> Mechanism:
    """A head reads the word."""
    real = reads("cue", share, ("sense", "answer", _GAIN))
    return Mechanism(
        name="copy",
        what="a head looks at the word that decides and moves what it says to the answer",
        program=_leaning(words_of(_cues()), Layer((idle(0, 0.1), real, idle(1, 0.1)))),
        heads=frozenset({(0, 1)}),
        draw=_one_cue(),
        lesson="nothing stands between the word and the answer, and no other head looks sharply: what fails here fails "
        "everywhere",
    )


def decoy(share: float) -> Mechanism:
    """A head looks sharply at another word and moves a large vector that nobody reads."""
    real = reads("cue", share, ("sense", "answer", _GAIN))
    sharp = reads("stare", 0.999, ("loud", "noise", 10.0))
    words = words_of(_cues() | {"look": {"stare": 1.0, "loud": 1.0}})
    return Mechanism(
        name="decoy",
        what="a second head looks at another word with all its attention and moves a vector ten times as long, which "
        "nobody reads",
        program=_leaning(words, Layer((real, sharp, idle(0)))),
        heads=frozenset({(0, 0)}),
        draw=_one_cue("look"),
        lesson="attention says where a head looks, and norms how much it moves; neither says whether anybody reads it",
    )


def either(share: float) -> Mechanism:
    """One of two words is enough, and both are there."""
    found = [reads(name, share, (name, "found", 1 / share)) for name in ("a", "b")]
    enough = (
        Neuron({"found": 1.0}, {"answer": _GAIN}),
        Neuron({"found": 1.0, ONE: -1.0}, {"answer": -_GAIN}),
        _SAYS_NO,
    )
    words = words_of({"fine": {"a": 1.0}, "great": {"b": 1.0}})
    return Mechanism(
        name="either",
        what="the answer is yes where at least one of two words is there, min(a + b, 1), and both are",
        program=Program(words, (Layer((found[0], idle(0), found[1], idle(1)), enough),), _ANSWER),
        heads=frozenset({(0, 0), (0, 2)}),
        draw=_several(2, "fine", "great"),
        lesson="without one of the two nothing changes, and nothing changes with a small step: what removes one word at a "
        "time and what follows the gradient sees nothing",
    )


def both(share: float) -> Mechanism:
    """Both of two words are needed."""
    found = [reads(name, share, (name, "found", 1 / share)) for name in ("a", "b")]
    needed = (Neuron({"found": 1.0, ONE: -1.0}, {"answer": _GAIN}), _SAYS_NO)
    words = words_of({"not": {"a": 1.0}, "dull": {"b": 1.0}})
    return Mechanism(
        name="both",
        what="the answer is yes where two words are both there, max(0, a + b − 1)",
        program=Program(words, (Layer((idle(0), *found, idle(1)), needed),), _ANSWER),
        heads=frozenset({(0, 1), (0, 2)}),
        draw=_several(2, "not", "dull"),
        lesson="each word alone does nothing: what adds one word to an empty text sees nothing",
    )


def cancellation(share: float) -> Mechanism:
    """Two heads move the same word to the answer with opposite signs."""
    real = reads("cue", share, ("sense", "answer", _GAIN))
    pushes, pulls = (reads("twin", 0.9, ("twin", "answer", gain)) for gain in (6.0, -6.0))
    words = words_of(_cues() | {"echo": {"twin": 1.0}})
    return Mechanism(
        name="cancellation",
        what="two heads move the same word to the answer, one with each sign, and cancel; a third reads the word that "
        "decides",
        program=_leaning(words, Layer((pushes, real, pulls, idle(0)))),
        heads=frozenset({(0, 0), (0, 1), (0, 2)}),
        draw=_one_cue("echo"),
        lesson="attention and norms of a head have no sign, so that what two heads do against each other adds up",
    )


def gating(share: float) -> Mechanism:
    """A third word takes the attention away from the word that would be read."""
    gain = _GAIN / share
    real = Head(
        looks=((READ, "cue", weight_of(share)), (READ, "gate", weight_of(share) + log(20))),
        moves=(("sense", "answer", gain),),
    )
    words = words_of({"good": {"cue": 1.0, "sense": 1.0}, "hush": {"gate": 1.0}})

    def draw(generator: random.Random) -> Drawn:
        found, (cue, gate) = among(generator, "good", "hush")
        return Drawn(found, 0, frozenset({gate}), frozenset({(0, READER, cue)}), frozenset({cue}))

    return Mechanism(
        name="gating",
        what="a word draws the attention of a head away from the word that it would read, and so turns the answer",
        program=Program(words, (Layer((idle(0), idle(1), real), (_SAYS_NO,)),), _ANSWER),
        heads=frozenset({(0, 2)}),
        draw=draw,
        lesson="the word acts on the softmax alone and moves nothing: what holds attention constant cannot see it",
    )


def negative(share: float) -> Mechanism:
    """Two words speak for the answer and one against it."""
    real = reads("cue", share, ("sense", "answer", 2 * _GAIN))

    def draw(generator: random.Random) -> Drawn:
        more, label = _sense(generator)
        less = "bad" if more == "good" else "good"
        words, (first, second, against) = among(generator, more, more, less)
        edges: frozenset[Edge] = frozenset((0, READER, place) for place in (first, second, against))
        return Drawn(words, label, frozenset({first, second}), edges, frozenset({against}))

    return Mechanism(
        name="negative",
        what="two words speak for the answer and one against it",
        program=_leaning(words_of(_cues()), Layer((real, idle(0), idle(1)))),
        heads=frozenset({(0, 0)}),
        draw=draw,
        lesson="what has no sign ranks the word that speaks against as high as those that speak for",
    )


def two_hops(share: float) -> Mechanism:
    """One word points to another, and the answer is read through it."""
    fetches = Head(looks=(("owner", "cue", weight_of(share)),), moves=(("sense", "held", 1.0),))
    real = reads("owner", 0.8, ("held", "answer", 1.25 * _GAIN))
    words = words_of(_cues() | {"Anna": {"owner": 1.0}})

    def draw(generator: random.Random) -> Drawn:
        cue, label = _sense(generator)
        found, (said, owner) = among(generator, cue, "Anna", ordered=True)
        edges: frozenset[Edge] = frozenset({(0, owner, said), (1, READER, owner)})
        return Drawn(found, label, frozenset({said, owner}), edges)

    return Mechanism(
        name="two_hops",
        what="a head of the first layer moves what a word says to a second word, where a head of the second layer reads it",
        program=_leaning(words, Layer((idle(0), fetches)), Layer((real, idle(1)))),
        heads=frozenset({(0, 1), (1, 0)}),
        draw=draw,
        lesson="the last layer looks at the second word, and the first one is seen only by what follows a path",
    )


_NAMES = ("bako", "demi", "fulo", "gani")


def induction(share: float) -> Mechanism:
    """What followed a word the last time decides."""
    tells = Head(  # not where the answer is read, nor at the last word, which would find themselves
        looks=((READ, REST, AWAY), (MARK, REST, AWAY)),
        moves=tuple((f"is_{name}", f"after_{name}", 1.0) for name in _NAMES),
        back=1,
    )
    asks = Head(moves=tuple((f"is_{name}", f"wants_{name}", 1.0) for name in _NAMES), back=1)
    real = Head(
        looks=tuple((f"wants_{name}", f"after_{name}", weight_of(share)) for name in _NAMES),
        moves=(("sense", "answer", _GAIN),),
    )
    own = {name: {f"is_{name}": 1.0} for name in _NAMES}
    senses = {word: {"sense": sense} for word, sense in _SENSES.items()}

    def draw(generator: random.Random) -> Drawn:
        name, other = generator.sample(_NAMES, 2)
        word, label = _sense(generator)
        opposite = "bad" if word == "good" else "good"
        pairs = [(name, word), (other, opposite)]
        first = 0 if generator.random() < 0.5 else 2
        words = [*pairs[0], *pairs[1]] if first == 0 else [*pairs[1], *pairs[0]]
        words += [generator.choice(("cup", "hat", "moon")), name]
        edges: frozenset[Edge] = frozenset({(0, first + 1, first), (0, READER, 5), (1, READER, first + 1)})
        return Drawn(tuple(words), label, frozenset({first, first + 1, 5}), edges)

    return Mechanism(
        name="induction",
        what="two heads of the first layer tell each position which word stands before it, as what it is and as what is "
        "wanted; one of the second layer looks for the position before which the last word stood",
        program=_leaning(words_of(own | senses), Layer((tells, idle(0), asks)), Layer((idle(1), real))),
        heads=frozenset({(0, 0), (0, 2), (1, 1)}),
        draw=draw,
        lesson="two of the three words act on where a head looks and move nothing to the answer",
    )


def sink(share: float) -> Mechanism:
    """Heads that have nothing to do rest on a word."""
    real = reads("cue", share, ("sense", "answer", _GAIN))
    rests = Head(looks=((ONE, "sink", weight_of(0.999)),))
    words = words_of(_cues() | {"well": {"sink": 1.0}})
    return Mechanism(
        name="sink",
        what="three of four heads rest on a word of the text from everywhere and move nothing",
        program=_leaning(words, Layer((rests, rests, real, rests))),
        heads=frozenset({(0, 2)}),
        draw=_one_cue("well"),
        lesson="most of the attention is where heads have nothing to do",
    )


def position(share: float) -> Mechanism:
    """Every word could decide, and the third one does."""
    real = Head(moves=(("sense", "answer", _GAIN * share),), back=4)
    words = words_of({word: {"sense": sense} for word, sense in _SENSES.items()})

    def draw(generator: random.Random) -> Drawn:
        found = [_sense(generator) for _ in range(6)]
        edges = frozenset({(0, READER, 2)})
        return Drawn(tuple(word for word, _ in found), found[2][1], frozenset({2}), edges)

    return Mechanism(
        name="position",
        what="all words say something, and a head reads the third one, whatever it is",
        program=_leaning(words, Layer((idle(0), real, idle(1)))),
        heads=frozenset({(0, 1)}),
        draw=draw,
        lesson="what a word is says nothing of whether it is read",
    )


def count(share: float) -> Mechanism:
    """Two of three words are enough."""
    two = 2 * share / (1 - share) / (1 + 2 * share / (1 - share)) / share  # what two words give where one gives 1
    low, high = 1 + 0.3 * (two - 1), 1 + 0.7 * (two - 1)
    rise = _GAIN / (high - low)
    enough = (
        Neuron({"found": 1.0, ONE: -low}, {"answer": rise}),
        Neuron({"found": 1.0, ONE: -high}, {"answer": -rise}),
        _SAYS_NO,
    )
    real = reads("a", share, ("a", "found", 1 / share))
    return Mechanism(
        name="count",
        what="the answer is yes where at least two words of a kind are there, and three are",
        program=Program(words_of({"fine": {"a": 1.0}}), (Layer((idle(0), real, idle(1)), enough),), _ANSWER),
        heads=frozenset({(0, 1)}),
        draw=_several(3, "fine"),
        lesson="as with two words of which one is enough: no single one of them changes anything",
    )


def loud(share: float) -> Mechanism:
    """A head hardly looks at a word whose value is very large, and which nobody reads."""
    real = reads("cue", share, ("sense", "answer", _GAIN))
    moves = reads("loud", 0.05, ("loud", "noise", 100.0))
    words = words_of(_cues() | {"boom": {"loud": 1.0}})
    return Mechanism(
        name="loud",
        what="a head gives a twentieth of its attention to a word and moves a vector a hundred times as long, which nobody "
        "reads",
        program=_leaning(words, Layer((moves, idle(0), real))),
        heads=frozenset({(0, 2)}),
        draw=_one_cue("boom"),
        lesson="norms say how much a head moves, and not whether anybody reads it",
    )


def detour(share: float) -> Mechanism:
    """A word counts only through the feed-forward network."""
    real = reads("cue", share, ("sense", "raw", 1.0))
    through = (Neuron({"raw": 1.0}, {"answer": _GAIN}), Neuron({"raw": -1.0}, {"answer": -_GAIN}))
    return Mechanism(
        name="detour",
        what="a head moves what the word says to where nobody reads it but neurons, and these write the answer",
        program=_leaning(words_of(_cues()), Layer((idle(0), real, idle(1)), through)),
        heads=frozenset({(0, 1)}),
        draw=_one_cue(),
        lesson="what leaves the feed-forward network out sees a head that does nothing for the answer",
    )


def late(share: float) -> Mechanism:
    """The word waits in the residual stream while three layers mix other words into its position."""
    real = reads("cue", share, ("sense", "answer", _GAIN))
    mixes = Head(looks=((ONE, "stir", weight_of(0.9)),), moves=(("stir", "dirt", 1.0),))
    words = words_of(_cues() | {"spoon": {"stir": 1.0}})
    mixing = Layer((mixes, idle(0), idle(1)))
    return Mechanism(
        name="late",
        what="three layers move another word to every position, where nobody reads it; the fourth reads the word itself, "
        "which waited in the residual stream",
        program=_leaning(words, mixing, mixing, mixing, Layer((idle(0), idle(1), real))),
        heads=frozenset({(3, 2)}),
        draw=_one_cue("spoon", ordered=True, layer=3),
        lesson="what multiplies the attention of layers takes the position for what was mixed into it",
    )


def pieces(share: float) -> Mechanism:
    """A word of two pieces, which together mean what neither does."""
    before = Head(moves=(("un", "negated", 1.0),), back=1)
    meaning = (
        Neuron({"root": 1.0, "negated": 1.0, ONE: -1.0}, {"unhappy": 1.0}),
        Neuron({"root": 1.0, "negated": -1.0}, {"happy": 1.0}),
    )
    real = reads("root", share, ("happy", "answer", _GAIN), ("unhappy", "answer", -_GAIN))
    words = words_of({"un": {"un": 1.0}, "so": {}, "##happy": {"root": 1.0}, "##box": {}})

    def draw(generator: random.Random) -> Drawn:
        word = generator.choice(("unhappy", "sohappy"))
        found, (place, _) = among(generator, word, generator.choice(("unbox", "sobox")))
        read: tuple[int, int] = (place, 1)
        edges = {(1, READER, read)} | ({(0, read, (place, 0))} if word == "unhappy" else set())
        heads = frozenset({(0, 0), (1, 1)} if word == "unhappy" else {(1, 1)})
        return Drawn(found, int(word == "sohappy"), frozenset({place}), frozenset(edges), heads=heads)

    return Mechanism(
        name="pieces",
        what="a word is cut into two pieces: the second looks back at the first, and a neuron makes of both what neither "
        "means",
        program=_leaning(words, Layer((before, idle(0)), meaning), Layer((idle(1), real))),
        heads=frozenset({(0, 0), (1, 1)}),
        draw=draw,
        lesson="both pieces are one word: its score is made of theirs",
        of_patches=False,
    )


NAMES = (
    "copy", "decoy", "loud", "sink", "cancellation", "negative", "either", "both", "count", "gating", "detour", "two_hops",
    "late", "induction", "position", "pieces",
)  # fmt: skip
"""Of all mechanisms, the simplest first."""

MECHANISMS: Mapping[str, Callable[[float], Mechanism]] = {name: globals()[name] for name in NAMES}
"""By name."""


def mechanism(name: str, share: float) -> Mechanism:
    """The mechanism of that name, or that which a function gives whose dotted path the name is.

    Raises:
        UserError: there is none.
    """
    if (made := MECHANISMS.get(name)) is not None:
        return made(share)
    module, _, function = name.rpartition(".")
    if not module:
        raise UserError(f"there is no mechanism {name}; {near(name, tuple(MECHANISMS))}")
    try:
        make = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise UserError(f"the mechanism {name} cannot be imported: {error}") from error
    own = make(share)
    if not isinstance(own, Mechanism):
        raise UserError(f"the mechanism {name} gave {type(own).__name__}, and no Mechanism")
    return own
