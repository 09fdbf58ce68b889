"""What differs between model families: which token the classifier reads, and why some families cannot be served."""

import logging
from dataclasses import dataclass
from typing import Any, Literal

logger = logging.getLogger(__name__)

Read = Literal["first", "last", "mean"]


@dataclass(frozen=True)
class Family:
    """Facts about a family.

    Attributes:
        read: the token whose final state the classifier reads: the `first` (CLS), the `last` that is not padding, or the
            `mean` over all tokens.
        special_ends: how many tokens at the start and at the end of a sequence are no content, for checkpoints
            without a tokenizer.
    """

    read: Read
    special_ends: tuple[int, int]


_ENCODER = Family(read="first", special_ends=(1, 1))
_DECODER = Family(read="last", special_ends=(0, 0))
_VISION = Family(read="first", special_ends=(1, 0))

FAMILIES: dict[str, Family] = {
    "bert": _ENCODER,
    "roberta": _ENCODER,
    "xlm-roberta": _ENCODER,
    "distilbert": _ENCODER,
    "electra": _ENCODER,
    "albert": _ENCODER,
    "modernbert": _ENCODER,
    "gpt2": _DECODER,
    "llama": Family(read="last", special_ends=(1, 0)),
    "qwen3": _DECODER,
    "vit": _VISION,
    "deit": Family(read="first", special_ends=(2, 0)),
}

UNSUPPORTED: dict[str, str] = {
    "deberta": "its disentangled attention adds relative-position terms inside its own attention code",
    "deberta-v2": "its disentangled attention adds relative-position terms inside its own attention code",
    "longformer": "its sparse attention has no full T × T probabilities",
    "mpnet": "its relative-position bias is computed inside its own attention code",
}


def family_of(config: Any) -> Family:
    """The family of a model configuration; one that is not in the table is guessed, with a warning that says how."""
    model_type = config.model_type
    if model_type == "modernbert" and config.classifier_pooling == "mean":
        return Family(read="mean", special_ends=(1, 1))
    if model_type in FAMILIES:
        return FAMILIES[model_type]
    image = hasattr(config, "image_size")
    guess = _VISION if image else _DECODER if getattr(config, "is_decoder", False) else _ENCODER
    logger.warning(
        "model type '%s' is not in the table of families: guessed that its classifier reads the %s token and that %d "
        "tokens at the start and %d at the end are special",
        model_type,
        guess.read,
        *guess.special_ends,
    )
    return guess
