"""F+B, the unit of cost: one plain forward and backward pass to the input embeddings, with eager attention."""

import time
from statistics import median
from typing import Any

import torch

from benchmark.models.classifier import Classifier
from benchmark.models.embeddings import embedding_modules, observing_embeddings
from benchmark.types import Batch


def seconds_of_pass(model: Classifier, batch: Batch, rounds: int = 3) -> float:
    """Seconds of one F+B of the batch: the median of several, after one that warms up.

    Nothing of ours is between the model and its passes; the wrapped model is left as it was.
    """
    wrapped: Any = model.model
    implementation = wrapped.config._attn_implementation
    wrapped.set_attn_implementation("eager")
    try:
        times = [_timed(model, batch) for _ in range(rounds + 1)]
    finally:
        wrapped.set_attn_implementation(implementation)
    return median(times[1:])


def _timed(model: Classifier, batch: Batch) -> float:
    _wait(model)
    start = time.perf_counter()
    embeddings: list[torch.Tensor] = []
    modules = embedding_modules(model.model, model.family, model.name)
    with torch.enable_grad(), observing_embeddings(modules, embeddings, None, wants_grad=True):
        logits = model.model(**batch.tensors).logits
        torch.autograd.grad(logits[:, 0].sum(), embeddings[0])
    _wait(model)
    return time.perf_counter() - start


def _wait(model: Classifier) -> None:
    if model.device.type == "cuda":
        torch.cuda.synchronize(model.device)
