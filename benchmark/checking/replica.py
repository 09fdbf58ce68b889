"""Replica: scores equal those of another program for the same method."""

import inspect
from typing import Any

from benchmark.checking.report import Finding
from benchmark.checking.subject import Subject, difference
from benchmark.errors import NotApplicable
from benchmark.settings.making import build
from benchmark.types import Method, as_compared

TOLERANCE = 1e-9


def replica(subject: Subject) -> Finding:
    """Where the class says which method it `replicates`: the name of one of the benchmark's, or a callable.

    A slow transcription of an equation is the best one.
    """
    told: Any = inspect.getattr_static(subject.method, "replicates", None)  # a function there is no method of the class
    told = told.__func__ if isinstance(told, staticmethod) else told
    if told is None:
        raise NotApplicable("the class does not say which method it `replicates`")
    other = build(f"methods/{told}") if isinstance(told, str) else told
    other = as_compared(other)
    if not isinstance(other, Method):
        return Finding(f"{told} explains no single examples", ok=False)
    place = subject.place
    expected = Subject(other, f"{subject.name}.replicates", place).own
    own = subject.own
    shared = [name for name in ("tokens", "heads", "nodes", "components", "pixels") if _both(own, expected, name)]
    if not shared:
        return Finding("the two score nothing in common", ok=False)
    name = told if isinstance(told, str) else getattr(told, "__name__", type(told).__name__)
    kept = {field: (getattr(own, field), getattr(expected, field)) for field in shared}
    gap, field = difference(
        type(own)(own.target, **{name: pair[0] for name, pair in kept.items()}),
        type(own)(own.target, **{name: pair[1] for name, pair in kept.items()}),
    )
    if gap <= TOLERANCE:
        return Finding(f"{', '.join(shared)} equal those of {name}", gap, TOLERANCE)
    return Finding(f"{field} differ by {gap:.2g} of the largest from those of {name}", gap, TOLERANCE)


def _both(own: Any, other: Any, name: str) -> bool:
    return getattr(own, name) is not None and getattr(other, name) is not None
