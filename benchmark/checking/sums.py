"""Sums: scores add up to what the method says that they do."""

from dataclasses import fields, is_dataclass, replace
from typing import Any

import torch

from benchmark.checking.report import Finding
from benchmark.checking.subject import Subject
from benchmark.errors import NotApplicable

_FINER = 16
_STEPS = ("steps", "n_steps", "samples", "n_samples")


def sums(subject: Subject) -> Finding:
    """`Σ_j s_j` is what `Method.sum_of_scores` says, and `Σ E_l` of each layer what `Method.sums_of_layers` says.

    The gap is that of the worst example, over the mean magnitude of what is expected; a pass is at most
    `Method.sum_tolerance`. An approximation with settings called `steps` or `samples` is asked once more with 16 times as
    many: it passes where the sum comes near with them.
    """
    own = _gap(subject)
    if own.passes:
        return own
    finer = _finer(subject.method)
    if finer is None:
        return own
    closer = _gap(replace(subject, method=finer))
    if closer.passes:
        words = f"{own.words}; with {_FINER} times as many steps they do, to {closer.gap:.1g}"
        return Finding(words, closer.gap, closer.tolerance)
    return own


def _finer(method: Any) -> Any:
    """The method with more steps, wherever a setting of its own or of a part says how many; None where there is none."""
    changes = {}
    for part in fields(method) if is_dataclass(method) else ():
        value = getattr(method, part.name)
        if part.name in _STEPS and isinstance(value, int):
            changes[part.name] = _FINER * value
        elif (finer := _finer(value)) is not None:
            changes[part.name] = finer
    return replace(method, **changes) if changes else None


def _gap(subject: Subject) -> Finding:
    place, method = subject.place, subject.method
    model = place.copy()
    try:
        expected = method.sum_of_scores(model, place.batch, place.target)
        tokens = subject.own.tokens
        if tokens is None:
            raise NotApplicable("the method does not score tokens")
        found, what = tokens.sum(1), "the scores of an example"
    except NotApplicable:
        expected = method.sums_of_layers(model, place.batch, place.target)
        found, what = subject.edges(place.batch, place.target).sum((2, 3, 4)), "the edges of a layer"
    expected, found = expected.detach().double().cpu(), found.detach().double().cpu()
    gaps, scale = (found - expected).abs(), float(expected.abs().mean())
    worst = int(gaps.flatten(1).amax(1).argmax()) if gaps.dim() > 1 else int(gaps.argmax())
    gap, limit = float(gaps.max()) / (scale or 1.0), method.sum_tolerance
    if gap <= limit:
        return Finding(f"{what} sum to what is declared", gap, limit)
    told = f"{what} sum to {_said(found[worst])}, and {_said(expected[worst])} is declared"
    return Finding(told, gap, limit, f"example {worst + 1}")


def _said(values: torch.Tensor) -> str:
    return ", ".join(f"{value:.4g}" for value in values.flatten().tolist())
