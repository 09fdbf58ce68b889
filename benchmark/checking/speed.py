"""Speed: what an explanation costs, beside what the class says."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

from benchmark.checking.report import Finding
from benchmark.checking.subject import Subject, kind_of


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
    """The lines `Cost:` of the docstrings of a method and of the parts that it is made of, such as an edge score."""
    yield from re.findall(r"^\s*Cost: (.+)$", (inspect.getdoc(value) or "").partition("\nWith ")[0], re.MULTILINE)
    for part in fields(value) if is_dataclass(value) and not isinstance(value, type) else ():
        if is_dataclass(own := getattr(value, part.name)):
            yield from _declared(own)
