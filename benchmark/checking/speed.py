"""Speed: what an explanation costs, beside what the class says."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

from benchmark.checking.report import Finding
from benchmark.checking.subject import Subject, kind_of
from benchmark.settings.docstrings import Docstring


def speed(subject: Subject) -> Finding:
    """Forward and backward passes per example, counted; beside the line `Cost:` of the docstring where there is one."""
    place, model = subject.place, subject.place.copy()
    before = replace(model.cost)
    subject.explain(place.batch, place.target, model)
    count = len(place.inputs)
    forward = (model.cost.forward_passes - before.forward_passes) / count
    backward = (model.cost.backward_passes - before.backward_passes) / count
    counted = f"{forward:.3g} forward and {backward:.3g} backward passes per example"
    declared = "; ".join(dict.fromkeys(_declared(kind_of(subject.method))))
    return Finding(f"{counted}; declared: {declared}" if declared else f"{counted}; none is declared")


def _declared(value: Any) -> Iterator[str]:
    """The lines `Cost:` of the docstrings of a method and of its parts, for the settings that they have."""
    parts = fields(value) if is_dataclass(value) and not isinstance(value, type) else ()
    held = {part.name: getattr(value, part.name) for part in parts}
    settings = {name: list(own) if isinstance(own, tuple) else own for name, own in held.items()}
    told = Docstring.of(inspect.getdoc(value) or "").read(settings)
    yield from (cost for cost in re.findall(r"^Cost: (.+?)\.?$", told, re.MULTILINE) if cost != _NO_PASS)
    for own in held.values():
        if is_dataclass(own):
            yield from _declared(own)


_NO_PASS = "no pass"
