"""Class: the class that is asked for is the one that is explained."""

import torch

from benchmark.checking.report import Finding
from benchmark.checking.subject import Subject, difference
from benchmark.errors import NotApplicable
from benchmark.targets import ClassTarget

_SAME = 1e-9


def target_class(subject: Subject) -> Finding:
    """Scores for one class and for the next differ if, and only if, the method says that it looks at the class."""
    place = subject.place
    count = len(place.model.labels)
    if count < 2:
        raise NotApplicable("the model has a single class")
    own = subject.explain(place.batch, ClassTarget(torch.zeros_like(place.target.classes)))
    gap, empty = 0.0, _empty(own)
    for other in range(1, min(count, 3)):
        told = subject.explain(place.batch, ClassTarget(torch.full_like(place.target.classes, other)))
        gap, empty = max(gap, difference(told, own)[0]), empty & _empty(told)
        if gap > _SAME:
            break
    if not subject.knows_class:
        if gap > _SAME:
            words = (
                f"it says class_specific = False, and the scores for class 0 and for another class differ by {gap:.2g}"
            )
            return Finding(f"{words} of the largest", gap, _SAME)
        return Finding("it says that it does not look at the class, and its scores are the same for each", gap, _SAME)
    if empty:
        raise NotApplicable("all scores are 0, for each class")
    if gap <= _SAME:
        words = "the scores for class 0 and for class 1 are the same, and it says class_specific = True"
        return Finding(f"{words}: does it explain one class, whichever is asked for?", gap, ok=False)
    return Finding(f"the scores for class 0 and for others differ, by {gap:.2g} of the largest", ok=True)


def _empty(attribution: object) -> bool:
    scores = [getattr(attribution, name) for name in ("tokens", "heads")]
    return not any(bool(one.any()) for one in scores if one is not None)
