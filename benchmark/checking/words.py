"""Words: what becomes of a word that is cut into pieces, and of special tokens."""

import numpy as np

from benchmark.checking.programs import TEXTS, family_like, place_of, vocabulary
from benchmark.checking.report import Finding
from benchmark.checking.sign import PROGRAM, WEIGHTS
from benchmark.checking.subject import Subject
from benchmark.errors import NotApplicable
from benchmark.models.written.program import Program
from benchmark.units import pool

WORD, PIECES = "map", ("m", "##ap")
"""The word that says most, and what it is cut into."""

IN_PIECES = Program(
    words=vocabulary(
        {word: {"says": weight} for word, weight in WEIGHTS.items() if word != WORD}
        | {piece: {"says": WEIGHTS[WORD] / len(PIECES)} for piece in PIECES},
        without=(WORD,),
    ),
    layers=PROGRAM.layers,
    answer=PROGRAM.answer,
)
"""The bag of words of the check `sign` in which two pieces say together what one word says there."""


def words(subject: Subject) -> Finding:
    """How the score of a word changes where it is two tokens that say together what it said as one; nothing fails.

    A test of words takes the largest score of a word's tokens, or their sum: a method that shares a score out between them
    loses by the first. Beside it, which share of all scores special tokens have.
    """
    family = family_like(subject.model)
    if family == "vit":
        raise NotApplicable("patches are not cut into pieces")
    found = {}
    for name, program in (("whole", PROGRAM), ("pieces", IN_PIECES)):
        inner = subject.at(place_of(program, family, TEXTS, f"a bag of words, {name}"))
        batch = inner.place.batch
        tokens = inner.explain(batch, inner.place.of_class(1)).tokens
        if tokens is None:
            raise NotApplicable("the method does not score tokens")
        places = [text.index(WORD) for text in TEXTS]
        rows = np.arange(len(TEXTS))
        found[name] = [pool(tokens, batch.units, how)[0].double().cpu().numpy()[rows, places] for how in ("max", "sum")]
        if name == "whole":
            special = float(
                tokens.abs()[(batch.units < 0) & batch.attention_mask].sum() / tokens.abs().sum().clamp(min=1e-300)
            )
    whole = found["whole"][0]
    if not np.abs(whole).min() > 0:
        raise NotApplicable(f"'{WORD}' scores 0 as a whole")
    largest, together = (float(np.mean(one / whole)) for one in found["pieces"])
    return Finding(
        f"a word in two pieces scores {largest:.2f} (largest piece) or {together:.2f} (sum) of what it scores whole; "
        f"special tokens have {special:.0%} of all scores by size"
    )
