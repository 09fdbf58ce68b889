"""Untouched: a method leaves the model, its inputs and the process as it found them."""

import torch

from benchmark.checking.report import Finding
from benchmark.checking.subject import Subject
from benchmark.models.guard import ModelChangedError, watched

_SEED = 20_011
"""Another one than anybody would set."""


def untouched(subject: Subject) -> Finding:
    """Weights, buffers, hooks, flags, `.grad`, training mode, configuration, inputs, random states and switches.

    They are compared before and after the first call of the method (`benchmark.models.guard`).
    """
    place, model = subject.place, subject.place.copy()
    target, unused = place.target.clone(), subject.unused
    torch.manual_seed(_SEED)
    before = torch.get_rng_state()
    try:
        with watched(subject.name, model, [place.batch], target):
            unused.explain(place.batch, target, model, seed=_SEED)
            drawn = not torch.equal(torch.get_rng_state(), before)
    except ModelChangedError as error:
        return Finding(f"the call left changed: {'; '.join(error.what)}", ok=False)
    if drawn:
        return Finding("the call left changed: torch's random state (draw from a torch.Generator)", ok=False)
    return Finding("weights, hooks, flags, gradients, inputs, random states and switches are as they were")
