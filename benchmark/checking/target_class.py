"""Class: the class that is asked for is the one that is explained."""

from itertools import combinations

from benchmark.checking.report import Finding
from benchmark.checking.subject import FIELDS, Subject, difference
from benchmark.errors import NotApplicable
from benchmark.targets import ClassTarget

_SAME = 1e-9


def target_class(subject: Subject) -> Finding:
    """Scores for one class and for the next differ if, and only if, the method says that it looks at the class."""
    place = subject.place
    count = len(place.model.labels)
    if count < 2:
        raise NotApplicable("the model has a single class")
    if not isinstance(place.target, ClassTarget):
        raise NotApplicable("a continuation is explained, beside which there is no other class")
    told = [subject.explain(place.batch, place.of_class(one)) for one in range(min(count, 3))]
    gaps = {(a, b): difference(told[b], told[a])[0] for a, b in combinations(range(len(told)), 2)}
    gap, empty = max(gaps.values()), all(map(_empty, told))
    if not subject.knows_class:
        if gap > _SAME:
            words = f"it says class_specific = False, and the scores for two classes differ by {gap:.2g}"
            return Finding(f"{words} of the largest", gap, _SAME)
        return Finding("it says that it does not look at the class, and its scores are the same for each", gap, _SAME)
    if empty:
        raise NotApplicable("all scores are 0, for each class")
    if same := [pair for pair, each in gaps.items() if each <= _SAME]:
        a, b = same[0]
        words = f"the scores for class {a} and for class {b} are the same, and it says class_specific = True"
        return Finding(f"{words}: does it explain one class, whichever is asked for?", gaps[a, b], ok=False)
    return Finding(f"the scores for each class are others, by up to {gap:.2g} of the largest", ok=True)


def _empty(attribution: object) -> bool:
    scores = [getattr(attribution, name) for name in FIELDS]
    return not any(bool(one.any()) for one in scores if one is not None)
