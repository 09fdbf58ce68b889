"""Padding: tokens that are not there change nothing and score nothing."""

from benchmark.checking.report import Finding
from benchmark.checking.small_models import FLOAT32_INSIDE
from benchmark.checking.subject import Subject, cut, difference
from benchmark.errors import NotApplicable
from benchmark.models.classifier import Classifier

TOLERANCE, IN_FLOAT32 = 1e-6, 1e-5
"""Largest differences, over the largest score; the second holds for models that compute parts of a pass in float32."""


def padding(subject: Subject) -> Finding:
    """A text alone and the same text padded to the length of the longest: equal scores, and 0 at padding.

    Both are a batch of one example, so that nothing but the padding differs (`order` asks about other examples).
    """
    place = subject.place
    whole = place.batch
    if "input_ids" not in whole.tensors:
        raise NotApplicable("images are not padded")
    lengths = whole.attention_mask.sum(1)
    row = int(lengths.argmin())
    width = int(lengths[row])
    alone = subject.explain(place.of(row), place.target[[row]])
    padded = subject.explain(whole.select([row]), place.target[[row]])
    count = whole.units.shape[1] - width
    for name, dimension in (("tokens", 1), ("layers", 2)):
        scores = getattr(padded, name)
        behind = None if scores is None else scores.narrow(dimension, width, count)
        if behind is not None and bool(behind.any()):
            size = float(behind.abs().max())
            return Finding(
                f"padding scores up to {size:.2g} in {name}, and has to score 0", size, 0.0, f"example {row + 1}"
            )
    gap, field = difference(cut(padded, 0, width), alone)
    limit = tolerance(subject.model)
    words = f"a text of {width} tokens alone, and in a batch with {count} tokens of padding behind it"
    if gap <= limit:
        return Finding(f"{words}, scores the same, and padding scores 0", gap, limit)
    return Finding(f"{words}: {field} differ by {gap:.2g} of the largest", gap, limit, f"example {row + 1}")


def tolerance(model: Classifier) -> float:
    """The largest difference of two calls that should be equal up to rounding."""
    return IN_FLOAT32 if computes_in_float32(model) else TOLERANCE


def computes_in_float32(model: Classifier) -> bool:
    """Whether a model computes rotations or norms in float32 whatever its precision is."""
    return getattr(model.config, "model_type", "") in (*FLOAT32_INSIDE, *_OTHERS)


_OTHERS = ("qwen2", "mistral", "gemma", "gemma2", "gemma3")
"""Families that are none of the small models."""
