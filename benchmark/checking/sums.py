"""Sums: scores add up to what the method says that they do."""

import torch

from benchmark.checking.report import Finding
from benchmark.checking.subject import Subject
from benchmark.errors import NotApplicable


def sums(subject: Subject) -> Finding:
    """`Σ_j s_j` is what `Method.sum_of_scores` says, and `Σ E_l` of each layer what `Method.sums_of_layers` says.

    The gap is that of the worst example, over the mean magnitude of what is expected; a pass is at most
    `Method.sum_tolerance`, as approximations of an integral are off by their quadrature.
    """
    place, method = subject.place, subject.method
    model = place.copy()
    expected, found, what = None, None, ""
    try:
        expected = method.sum_of_scores(model, place.batch, place.target)
        own = subject.own.tokens
        found, what = None if own is None else own.sum(1), "the scores of an example"
    except NotApplicable:
        expected = method.sums_of_layers(model, place.batch, place.target)
        found, what = subject.edges(place.batch, place.target).sum((2, 3, 4)), "the edges of a layer"
    if found is None:
        raise NotApplicable("the method does not score tokens")
    expected, found = expected.detach().double().cpu(), found.detach().double().cpu()
    scale = float(expected.abs().mean())
    gaps = (found - expected).abs()
    gap = float(gaps.max()) / scale if scale else float(gaps.max())
    worst = int(gaps.flatten(1).amax(1).argmax()) if gaps.dim() > 1 else int(gaps.argmax())
    told = f"{what} sum to {_said(found[worst])}, and {_said(expected[worst])} is declared"
    if gap <= method.sum_tolerance:
        return Finding(f"{what} sum to what is declared", gap, method.sum_tolerance)
    return Finding(told, gap, method.sum_tolerance, f"example {worst + 1}")


def _said(values: torch.Tensor) -> str:
    return ", ".join(f"{value:.4g}" for value in values.flatten().tolist())
