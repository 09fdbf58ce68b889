"""Determinism: the same call gives the same bytes, in another process too."""

from dataclasses import fields, is_dataclass
from typing import Any

from benchmark.checking.elsewhere import asked_elsewhere
from benchmark.checking.report import Finding
from benchmark.checking.subject import Subject, difference, gap_of
from benchmark.types import Attribution


def deterministic(subject: Subject) -> Finding:
    """The same inputs are explained twice, with another batch between, on one model; and once more in a new process.

    torch's random state is another one at the second call: what is drawn comes from a generator with a seed. A method with a `seed` gives other scores with another one.
    """
    place, model = subject.place, subject.place.copy()
    first = subject.explain(place.batch, place.target, model)
    again = subject.explain(place.batch, place.target, model, seed=1)
    if (gap := difference(again, first))[0]:
        said = "the second call on the same inputs gives other scores"
        if not difference(subject.explain(place.batch, place.target, model), first)[0]:
            said += ", as the process's random state is another (is dropout on? is anything drawn without a generator?)"
        return _differs(said, *gap)
    subject.explain(place.of(1, 0), place.target[[1, 0]], model)
    third = subject.explain(place.batch, place.target, model)
    if (gap := difference(third, first))[0]:
        return _differs("after another batch, a call on the same inputs gives other scores than before", *gap)
    said = ["two calls, and one after another batch, give the same bytes"]
    answer = asked_elsewhere(subject)
    if isinstance(answer, str):
        said.append(f"not asked in a new process: {answer}")
    else:
        worst = max(gap_of(answer[name], getattr(first, name)) for name in answer)
        if worst:
            return _differs("a new process gives other scores", worst, "")
        said.append("a new process gives them too")
    seeded = _with_another_seed(subject, first)
    if seeded is False:
        return Finding("another seed gives the same scores: the setting `seed` is not used", ok=False)
    if seeded:
        said.append("another seed gives others")
    return Finding("; ".join(said), gap=0.0, tolerance=0.0)


def _differs(what: str, gap: float, field: str) -> Finding:
    of = f" {field} differ" if field else " they differ"
    return Finding(f"{what}:{of} by {gap:.2g} of the largest", gap=gap, tolerance=0.0)


def _with_another_seed(subject: Subject, first: Attribution) -> bool | None:
    """Whether another seed gives other scores; None of a method without one."""
    method: Any = subject.method
    if not is_dataclass(method) or "seed" not in {field.name for field in fields(method)}:
        return None
    other = subject.with_settings(seed=method.seed + 1)  # type: ignore[attr-defined]
    place = subject.place
    return difference(other.explain(place.batch, place.target), first)[0] > 0
