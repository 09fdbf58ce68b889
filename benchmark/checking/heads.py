"""Heads: a head that does nothing changes no score, however it attends."""

from dataclasses import replace

import torch

from benchmark.analyses.twins import attention_layers
from benchmark.checking.padding import tolerance
from benchmark.checking.report import Finding
from benchmark.checking.subject import Subject, gap_of, own_blocks
from benchmark.errors import NotApplicable
from benchmark.models.classifier import Classifier

HEAD = 0
"""The head of every layer that is made to do nothing."""


def heads(subject: Subject) -> Finding:
    """In two copies one head of every layer moves nothing (its columns of the output layer are 0), and attends differently.

    The two are one function, so that a method that looks at the answer gives equal scores of tokens.
    """
    subject.need_class()
    place = subject.place
    one, other = (silenced(subject, queries) for queries in (1.0, -2.0))
    first = subject.explain(place.batch, place.target, one).tokens
    if first is None:
        raise NotApplicable("the method does not score tokens")
    second = subject.explain(place.batch, place.target, other).tokens
    assert second is not None
    gap, limit = gap_of(second, first), tolerance(subject.model)
    if gap <= limit:
        words = f"where head {HEAD} of every layer moves nothing, how it attends changes no score of a token"
        return Finding(words, gap, limit)
    words = f"head {HEAD} of every layer does nothing, and how it attends changes scores by {gap:.2g} of the largest"
    return Finding(words, gap, limit, f"head {HEAD}")


def silenced(subject: Subject, queries: float) -> Classifier:
    """A copy in which the head of every layer moves nothing, with its queries multiplied by a factor.

    Raises:
        NotApplicable: the layers of a block's attention cannot be told apart, or two blocks share them.
    """
    model = subject.place.copy()
    blocks = own_blocks(model, subject.place.batch)
    if any(block.norms for block in blocks):
        raise NotApplicable("queries are normalised, so that a factor of one head's does not change how it attends")
    with torch.no_grad():
        for block in blocks:
            attention = attention_layers(block, model.n_heads)
            attention.output_of(HEAD).zero_()
            attention.head(attention.query, HEAD).scale(queries)
    return replace(model, fingerprint=f"{model.fingerprint}-silenced-{queries:g}")
