"""Causes: what a method finds of mechanisms that are written into a model by hand, misses, and is fooled by."""

import torch

from benchmark.checking.programs import family_like, mechanism_place
from benchmark.checking.report import Finding
from benchmark.checking.subject import Subject
from benchmark.evaluations.known import KnownHeads, KnownWords, outcome
from benchmark.models.written.families import FAMILIES
from benchmark.models.written.mechanisms import NAMES, SHARES, mechanism

INPUTS = 6
_STRENGTH = "medium"
_FIGURES = ("found", "missed", "fooled")


def causes(subject: Subject) -> list[Finding]:
    """A line for each mechanism: in how many inputs the words that decide (else the heads) are above all others.

    Nothing fails here: docs/mechanisms.md says of each mechanism what theory says of it, and the analysis `mechanisms` has
    intervals.
    """
    subject.need_class()
    family = family_like(subject.model)
    found = []
    for name in NAMES:
        known = mechanism(name, SHARES[_STRENGTH])
        if FAMILIES[family].form == "image" and not known.of_patches:
            continue
        inner = subject.at(mechanism_place(known, family, INPUTS))
        batch = inner.place.batch
        target = inner.model.target(batch, "predicted")
        attribution = inner.explain(batch, target)
        test = KnownHeads() if attribution.tokens is None else KnownWords()
        pairs = [pair for pair in test.compared(inner.model, batch, attribution) if pair is not None]
        pairs = [pair for pair in pairs if pair[0].any() and not pair[0].all()]
        if not pairs:
            continue
        counts = torch.tensor([outcome(*pair)[1:] for pair in pairs]).sum(0).int().tolist()
        told = ", ".join(f"{what} in {count}" for what, count in zip(_FIGURES, counts, strict=True) if count)
        found.append(Finding(f"{told} of {len(pairs)} inputs ({test.parts_called}): {known.what}", where=name))
    return found
