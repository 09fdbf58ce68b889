"""Speed: what an explanation costs, beside what the class says."""

import inspect
import re
from dataclasses import replace

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
    declared = re.search(r"^\s*Cost: (.+)$", inspect.getdoc(kind_of(subject.method)) or "", re.MULTILINE)
    return Finding(f"{counted}; declared: {declared[1]}" if declared else f"{counted}; none is declared")
