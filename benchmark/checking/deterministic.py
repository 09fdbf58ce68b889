"""Determinism: the same call gives the same bytes, in another process too."""

from dataclasses import fields, is_dataclass
from typing import Any

from benchmark.checking.elsewhere import NotAsked, asked_elsewhere
from benchmark.checking.report import Finding
from benchmark.checking.subject import Subject, difference, gap_of
from benchmark.models.classifier import Classifier
from benchmark.types import Attribution

ELSEWHERE, SEED = "a new process", "another seed"


def deterministic(subject: Subject) -> list[Finding]:
    """The same inputs are explained twice, with another batch between, on one model; and once more in a new process.

    torch's random state is another one at the second call, since what is drawn comes from a generator with a seed. A method
    with a setting `seed` gives other scores with another one.
    """
    place, model = subject.place, subject.place.copy()
    training: list[bool] = []
    noting = model.model.register_forward_pre_hook(
        lambda module, _: training.append(any(part.training for part in module.modules()))
    )
    first = subject.explain(place.batch, place.target, model)
    noting.remove()
    if any(training):
        words = (
            "the model is in training mode while it explains, so that dropout is on: the second call gives other scores"
        )
        return [Finding(words, ok=False)]
    found = [_again(subject, model, first)]
    answer = asked_elsewhere(subject)
    if isinstance(answer, NotAsked):
        found.append(Finding(f"not asked: {answer.why}", where=ELSEWHERE, tested=False))
    elif isinstance(answer, str):
        found.append(Finding(answer, where=ELSEWHERE, ok=False))
    else:
        worst = max(gap_of(answer[name], getattr(first, name)) for name in answer)
        words = "gives other scores" if worst else "gives the same bytes"
        found.append(Finding(words, worst, 0.0, ELSEWHERE))
    seeded = _with_another_seed(subject, first)
    if seeded is not None:
        words = "gives other scores" if seeded else "gives the same scores: `seed` is not used with these settings"
        found.append(Finding(words, where=SEED, ok=seeded))
    return found


def _again(subject: Subject, model: Classifier, first: Attribution) -> Finding:
    """Two more calls on a model that has been asked once."""
    place = subject.place
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
    return Finding("two calls, and one after another batch, give the same bytes", 0.0, 0.0)


def _differs(what: str, gap: float, field: str) -> Finding:
    return Finding(f"{what}: {field} differ by {gap:.2g} of the largest", gap=gap, tolerance=0.0)


def _with_another_seed(subject: Subject, first: Attribution) -> bool | None:
    """Whether another seed gives other scores; None of a method without one."""
    method: Any = subject.method
    if not is_dataclass(method):
        return None
    seed = {field.name: getattr(method, field.name) for field in fields(method)}.get("seed")
    if type(seed) is not int:
        return None
    try:
        other = subject.with_settings(seed=seed + 1)
    except TypeError:  # a class that makes itself in a way of its own
        return None
    place = subject.place
    return difference(other.explain(place.batch, place.target), first)[0] > 0
