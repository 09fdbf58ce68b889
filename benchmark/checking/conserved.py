"""Conserved: relevance that reaches an operation leaves it."""

from dataclasses import replace

import torch
from torch import nn

from benchmark.checking.report import Finding
from benchmark.checking.subject import Subject
from benchmark.errors import NotApplicable
from benchmark.models.classifier import Classifier
from benchmark.models.ledger import Entry, Ledger, keeping_ledger

TOLERANCE = 1e-5
"""The largest gap, over the magnitude of what reaches an operation; what a rule's stabiliser may swallow is no gap."""


def conserved(subject: Subject) -> Finding:
    """At every operation under a relevance rule, what leaves for its operands (and its bias) is what reaches its result.

    The first operation that breaks it is named, from the output downwards. Operations whose rule is not meant to conserve
    are left out; biases of normalisation layers are 0, as their share is nobody's.
    """
    place = subject.place
    if subject.own.tokens is None:
        raise NotApplicable("relevance of nodes and of edges is read where it arrives, and goes no further down")
    model = without_biases_of_norms(place.copy())
    with keeping_ledger(len(place.inputs)) as ledger:
        subject.explain(place.batch, place.target, model)
    return found_in(ledger, TOLERANCE)


def found_in(ledger: Ledger, tolerance: float) -> Finding:
    """What a ledger says.

    Raises:
        NotApplicable: no operation was noted.
    """
    noted = [entry for entry in ledger.entries if entry.reaches is not None]
    if not noted:
        raise NotApplicable("no relevance is propagated through operations that can be seen")
    first = ledger.first_gap(tolerance)
    meant = [entry for entry in noted if not entry.exempt]
    worst = max((float(entry.gap.max()) for entry in meant), default=0.0)
    if first is None:
        left_out = sorted({entry.exempt for entry in noted if entry.exempt})
        words = f"{len(meant)} operations hand on what reaches them"
        return Finding(words + (f" (left out: {'; '.join(left_out)})" if left_out else ""), worst, tolerance)
    return Finding(_told(first, tolerance), float(first.gap.max()), tolerance, first.module)


def _told(entry: Entry, tolerance: float) -> str:
    """What reaches an operation and what leaves it, in the example where they differ most."""
    assert entry.reaches is not None
    assert entry.size is not None
    leaves = torch.zeros_like(entry.reaches) if entry.leaves is None else entry.leaves
    wrong = entry.gap > tolerance
    row = int(entry.gap.argmax())
    reaches, out = float(entry.reaches[row]), float(leaves[row])
    scale = reaches if abs(reaches) > 1e-3 * float(entry.size[row]) else 1.0
    digits = 4 if abs(out - reaches) > 1e-4 * abs(scale) else 7
    block = next((part for part in entry.module.split(".") if part.isdigit()), None)
    place = f" of block {block}" if block is not None and "fork" in entry.operation else ""
    words = f"{entry.operation}{place}: {reaches / scale:.{digits}f} reaches it, {out / scale:.{digits}f} leaves it"
    if entry.of_bias is not None and bool(entry.of_bias.any()):
        words += f", {float(entry.of_bias[row]) / scale:.{digits}f} of it as the share of its bias"
    return f"{words} (examples {int(wrong.sum())} of {len(wrong)})"


def without_biases_of_norms(model: Classifier) -> Classifier:
    """The model, which is changed: normalisation layers have the bias 0."""
    with torch.no_grad():
        for module in model.model.modules():
            bias = getattr(module, "bias", None)
            if type(module).__name__.endswith("Norm") and isinstance(bias, nn.Parameter):
                bias.zero_()
    return replace(model, fingerprint=f"{model.fingerprint}-without-biases-of-norms")
