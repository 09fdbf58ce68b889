"""Layers: what a layer scores belongs to that layer."""

from dataclasses import replace

import torch
from torch import Tensor

from benchmark.analyses.twins import attention_layers
from benchmark.checking.report import Finding
from benchmark.checking.subject import Subject, own_blocks
from benchmark.errors import NotApplicable
from benchmark.models.classifier import Classifier

TOLERANCE = 1e-6


def layers(subject: Subject) -> Finding:
    """In a copy whose layer l moves nothing (its values are 0), the attention of l changes nothing: its edges score 0.

    Those of the layers whose attention does change the answer do not. Asked of methods that score edges, for each layer.
    """
    subject.need_class()
    place = subject.place
    subject.edges(place.batch, place.target)  # NotApplicable where there are none
    sizes = torch.stack([_sizes(subject, without_values(subject, layer)) for layer in range(place.model.n_layers)])
    empty = sizes <= TOLERANCE * sizes.amax(1, keepdim=True)
    count = len(sizes)
    wrong = [layer for layer in range(count) if not empty[layer, layer]]
    exchanged = [(layer, other) for layer in wrong for other in range(count) if empty[layer, other]]
    if wrong:
        layer, other = exchanged[0] if exchanged else (wrong[0], None)
        own = float(sizes[layer, layer])
        words = f"its values are 0, so that its attention changes nothing, and it scores up to {own:.2g}"
        if other is not None:
            lower, upper = sorted((layer, other))
            words += f"; layer {other} scores 0 in its place: layer {lower} and layer {upper} are taken for each other"
        return Finding(words, own / float(sizes[layer].max()), TOLERANCE, f"layer {layer}")
    silent = [str(layer) for layer in range(count) if bool(empty[:, layer].all())]
    words = "a layer whose values are 0 scores 0, and the others do not"
    if len(silent) == count:
        raise NotApplicable("no layer scores anything")
    if silent:
        words += f" (layer {', '.join(silent)} scores nothing, whichever layer moves something)"
    return Finding(words, 0.0, TOLERANCE)


def without_values(subject: Subject, layer: int) -> Classifier:
    """A copy in which layer l moves nothing: weights and biases of its values are 0.

    Raises:
        NotApplicable: the layers of a block's attention cannot be told apart, or two blocks share them.
    """
    model = subject.place.copy()
    blocks = own_blocks(model, subject.place.batch)
    value = attention_layers(blocks[layer], model.n_heads).value
    with torch.no_grad():
        value.scale(0.0)
    return replace(model, fingerprint=f"{model.fingerprint}-without-{layer}")


def _sizes(subject: Subject, model: Classifier) -> Tensor:
    """The largest score of each layer, by its size."""
    place = subject.place
    return subject.edges(place.batch, place.target, model).abs().amax((0, 2, 3, 4)).cpu()
