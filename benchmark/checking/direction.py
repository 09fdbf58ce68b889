"""Direction: an edge [i, j] goes from query i to key j."""

import torch

from benchmark.checking.programs import TEXTS, family_like, place_of, vocabulary
from benchmark.checking.report import Finding
from benchmark.checking.subject import Subject
from benchmark.errors import NotApplicable
from benchmark.models.written.program import READ, Head, Layer, Program

SHARPLY = 4.0
"""Score of the word at which a token looks; that of all others is 0."""

KEY = "sun"
"""The word at which the token looks from which the answer is read."""

_EQUAL = 1e-6

PROGRAM = Program(
    words=vocabulary({KEY: {"is sun": 1.0, "says": 1.0}}),
    layers=(
        Layer(
            (
                Head(looks=((READ, "is sun", SHARPLY),), moves=(("says", "answer", 4.0),), rests=False),
                Head(rests=False),
            )
        ),
    ),
    answer={"answer": 1.0},
)
"""One head, by which the token from which the answer is read looks at one word; all others look at all words alike."""


def direction(subject: Subject) -> Finding:
    """The edge from the token that looks to the word at which it looks scores more than the edge back.

    Where the scores of a row add up to anything (attention: to 1), it is rows that do, and not columns: a normalisation
    is over keys. Asked of methods that score edges.
    """
    family = family_like(subject.model)
    inner = subject.at(place_of(PROGRAM, family, TEXTS, "one token looks at one word"))
    batch = inner.place.batch
    edges = inner.edges(batch, inner.place.of_class(1)).abs().sum((1, 2))
    read = inner.model.read_weights(batch).argmax(1)
    for row, text in enumerate(TEXTS):
        key = int((batch.units[row] == text.index(KEY)).nonzero()[0, 0])
        query = int(read[row])
        there, back = float(edges[row, query, key]), float(edges[row, key, query])
        if there == back == 0:
            raise NotApplicable("the edges of the only head that decides score 0")
        if not there > back:
            words = f"the edge from query {query} to key {key} decides and scores {there:.2g}, the edge back {back:.2g}"
            return Finding(f"{words}: queries and keys are exchanged", where=f"example {row + 1}", ok=False)
    place = subject.place
    own = subject.edges(place.batch, place.target)
    for row in range(len(place.inputs)):
        count = int(place.batch.attention_mask[row].sum())
        scores = own[row, :, :, :count, :count]
        rows, columns = scores.sum(-1), scores.sum(-2)
        if _equal(columns) and not _equal(rows):
            low, high = float(rows.min()), float(rows.max())
            words = f"rows sum to {low:.2g} to {high:.2g}, and columns to 1"
            return Finding(
                f"{words}: they are normalised over queries, not over keys", where=f"example {row + 1}", ok=False
            )
    said = (
        "rows sum to 1"
        if _equal(own[0].sum(-1)[..., : int(place.batch.attention_mask[0].sum())])
        else "rows have no common sum"
    )
    return Finding(f"the edge from the token that looks to '{KEY}' scores more than the edge back; {said}")


def _equal(sums: torch.Tensor) -> bool:
    """Whether all sums are 1."""
    return bool(((sums - 1).abs() <= _EQUAL).all())
