"""Read: the row of attention that counts is that of the token which the classifier reads."""

import numpy as np
from numpy.typing import NDArray

from benchmark.checking.programs import TEXTS, WORDS, family_like, place_of, vocabulary, word_scores
from benchmark.checking.report import Finding
from benchmark.checking.subject import Subject
from benchmark.models.written.mechanism import weight_of
from benchmark.models.written.program import READ, Features, Head, Layer, Program

SHARE = 0.8
"""Share of its attention that every token gives to the word at which it looks."""

LOOKS = dict(zip(WORDS, (*WORDS[2:], *WORDS[:2]), strict=True)) | {READ: "oak"}
"""The word that each word looks at, and that which the token looks at from which the answer is read."""


def _program() -> Program:
    words: dict[str, Features] = {word: {f"is {word}": 1.0, "says": 1.0} for word in WORDS}
    heads = [
        ((READ if word == READ else f"is {word}"), f"is {other}", weight_of(SHARE)) for word, other in LOOKS.items()
    ]
    looking = Head(looks=tuple(heads), moves=(("says", "answer", 4.0),))
    return Program(words=vocabulary(words), layers=(Layer((looking, Head())),), answer={"answer": 1.0})


def read_row(subject: Subject) -> Finding:
    """Every token looks at another word, and the answer is read from one token: the word at which it looks scores highest.

    All other words cannot change the answer. Where the highest score is that of a word at which another token looks in
    every input, that token's row was read.
    """
    family = family_like(subject.model)
    inner = subject.at(place_of(_program(), family, TEXTS, "each token looks at another word"))
    batch = inner.place.batch
    scores = np.abs(word_scores(batch, inner.explain(batch, inner.place.of_class(1))))
    highest = [text[place] for text, place in zip(TEXTS, scores.argmax(1), strict=True)]
    missed = [row for row, (word, own) in enumerate(zip(highest, scores, strict=True)) if not _ahead(own, word, row)]
    wrong = [row for row, word in enumerate(highest) if word != LOOKS[READ]]
    if not missed and not wrong:
        return Finding("the highest score is that of the word at which the token looks from which the answer is read")
    read = inner.model.read_weights(batch).argmax(1).tolist()
    where = f"example {(wrong or missed)[0] + 1}"
    if not scores.any():
        return Finding(
            f"all words score 0: is the row read that the model reads, row {read[0]}?", where=where, ok=False
        )
    if wrong and not missed and (named := _rows(highest)):
        token = int((batch.units[0] == named[0]).nonzero()[0, 0])
        return Finding(f"the scores are those of row {token}; the model reads row {read[0]}", where=where, ok=False)
    words = "words that cannot change the answer score as high as the one that does"
    if wrong:
        words = f"'{highest[wrong[0]]}', which cannot change the answer, scores as high as '{LOOKS[READ]}', which does"
    return Finding(words, where=where, ok=False)


def _ahead(scores: NDArray[np.float64], word: str, row: int) -> bool:
    """Whether the word's score is above all others by more than rounding."""
    others = np.delete(scores, TEXTS[row].index(word))
    return bool(scores.max() > others.max() * (1 + 1e-6) and scores.max() > 0)


def _rows(highest: list[str]) -> list[int]:
    """Places of the rows that give the word of the highest score in each input.

    It is the place of the word that looks at that one; or the word's own place, where the readout
    of a method adds the token itself.
    """
    looks = [
        place
        for place in range(len(WORDS))
        if all(word == LOOKS[text[place]] for word, text in zip(highest, TEXTS, strict=True))
    ]
    own = {text.index(word) for text, word in zip(TEXTS, highest, strict=True)}
    return looks or (list(own) if len(own) == 1 else [])
