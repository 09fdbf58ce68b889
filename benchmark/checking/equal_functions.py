"""Equal functions: two models with other weights and the same answers are explained alike."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import torch
from torch import Generator, nn

from benchmark.analyses.axiom_gaps import require_equal
from benchmark.analyses.twins import INVARIANT, Twins, move_biases, permute_heads
from benchmark.checking.padding import tolerance
from benchmark.checking.report import Finding
from benchmark.checking.subject import Subject, difference
from benchmark.errors import NotApplicable
from benchmark.models.classifier import Classifier
from benchmark.models.embeddings import embedding_modules
from benchmark.types import Attribution

PERMUTED, MOVED, BIAS = (
    "heads permuted",
    "word embeddings + c, position embeddings − c",
    "bias of values moved to the output",
)
_HINTS = {
    BIAS: "what looks at values, or at gradients of attention, has this by definition",
    MOVED: "what multiplies by an embedding has this by definition",
}


def equal_functions(subject: Subject) -> list[Finding]:
    """Scores of tokens, of heads and of pixels are the same on a twin of the model; each kind of twin is a line.

    The twins: values and output rescaled, queries and keys rescaled, feed-forward units permuted, heads permuted, a constant
    moved from the embeddings of positions to those of words, biases of values moved to the output layer. It is checked that
    the logits of a twin are the same, to 1e-10.
    """
    place, limit = subject.place, tolerance(subject.model)
    own = _compared(subject.own)
    found, left_out = [], []
    for name, twin in _twins(subject).items():
        try:
            model = twin()
            require_equal(place.model.run(place.batch).logits, model.run(place.batch).logits, "the twin")
        except NotApplicable as answer:
            left_out.append(f"{name}: {answer}")
            continue
        other = _compared(subject.explain(place.batch, place.target, model))
        if name == PERMUTED and other.heads is not None:
            other = replace(other, heads=other.heads.flip(-1))
        gap, field = difference(other, own)
        words = "equal"
        if not gap <= limit:
            words = f"{field} differ by {gap:.2g} of the largest, and the answers of the two models are equal"
            words += f"; {_HINTS[name]}: its class says so in `properties`" if name in _HINTS else ""
        found.append(Finding(words, gap, limit, name))
    if not found:
        raise NotApplicable("; ".join(left_out))
    return found


def _compared(attribution: Attribution) -> Attribution:
    """What is compared: not the sums of layers, and not nodes, which are heads by their place."""
    return replace(attribution, layers=None, totals=None, nodes=None, components=None)


def _twins(subject: Subject) -> Mapping[str, Callable[[], Classifier]]:
    place = subject.place
    twins = Twins.of(place.model)
    changes = {**INVARIANT, PERMUTED: permute_heads, BIAS: move_biases}
    return {
        **{name: partial(twins.change, name, change, place.batch) for name, change in changes.items()},
        MOVED: lambda: moved_embeddings(place.copy()),
    }


def moved_embeddings(model: Classifier) -> Classifier:
    """A constant vector is added to the embedding of every word and taken from that of every position."""
    words = [
        module
        for module in embedding_modules(model.model, model.family, model.name)
        if isinstance(module, nn.Embedding)
    ]
    positions = [
        module
        for path, module in model.model.named_modules()
        if isinstance(module, nn.Embedding) and any(part in path.split(".")[-1] for part in ("position", "wpe"))
    ]
    if len(words) != 1 or len(positions) != 1 or words[0].weight.shape[1] != positions[0].weight.shape[1]:
        raise NotApplicable("the model does not add one table of positions to one of words")
    draw = torch.randn(words[0].weight.shape[1], generator=Generator().manual_seed(0), dtype=torch.float64)
    constant = draw.to(words[0].weight) * words[0].weight.std()
    with torch.no_grad():
        words[0].weight.add_(constant)
        positions[0].weight.sub_(constant)
    return replace(model, fingerprint=f"{model.fingerprint}-moved")
