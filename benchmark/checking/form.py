"""Form: shapes, numbers, and the target."""

from benchmark.checking.report import Finding
from benchmark.checking.subject import FIELDS, Subject


def form(subject: Subject) -> Finding:
    """An explanation has one score for each token (or head, pixel, node) of each example, all of them numbers.

    The target that was asked for is the one that is told.
    """
    own, asked = subject.own, subject.place.target
    held = {name: value for name in FIELDS if (value := getattr(own, name)) is not None}
    if not held:
        return Finding("the attribution holds no scores: give tokens, heads, pixels, nodes or components", ok=False)
    for name, value in held.items():
        if broken := (~value.isfinite()).flatten(1).any(1).nonzero().flatten().tolist():
            return Finding(f"{name} are not finite numbers", where=f"example {broken[0] + 1}", ok=False)
    if own.target.ids != asked.ids:
        return Finding(f"the attribution says that it explains {own.target.ids}, and {asked.ids} was asked", ok=False)
    return Finding(f"{', '.join(f'{name} {list(value.shape)}' for name, value in held.items())}, all finite")
