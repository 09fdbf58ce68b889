"""Untouched: a method leaves the model, its inputs and the process as it found them."""

from benchmark.checking.report import Finding
from benchmark.checking.subject import Subject
from benchmark.models.guard import ModelChangedError, watched


def untouched(subject: Subject) -> Finding:
    """Weights, buffers, hooks, flags, `.grad`, training mode, configuration, inputs, random states and switches.

    They are compared before and after a call (`benchmark.models.guard`).
    """
    place, model = subject.place, subject.place.copy()
    target = place.target.clone()
    try:
        with watched(subject.name, model, [place.batch], target):
            subject.explain(place.batch, target, model)
    except ModelChangedError as error:
        return Finding(f"the call left changed: {'; '.join(error.what)}", ok=False)
    return Finding("weights, hooks, flags, gradients, inputs, random states and switches are as they were")
