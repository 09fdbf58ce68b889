"""What differs between model families: which token the classifier reads, and why some families cannot be served."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

logger = logging.getLogger(__name__)

Read = Literal["first", "first_two", "last", "last_end", "mean", "patches", "first_and_patches"]


@dataclass(frozen=True)
class Family:
    """Facts about a family.

    Attributes:
        read: the tokens whose final states the classifier reads; see `read_weights`.
        special_ends: how many tokens at the start and at the end of a sequence are no content, for checkpoints
            without a tokenizer.
        mask_token: whether its pretraining knows a mask token, so that a text can be removed by masking.
        positions_after_padding: positions are numbered from `pad_token_id + 1` on, which shortens the window.
        embeddings: the modules that embed tokens, as paths inside the base model, where they are not the one that
            `get_input_embeddings` names (encoder first, then decoder).
        cross_attention: name of the modules in which a decoder attends to an encoder; empty without an encoder–decoder.
        guessed: whether it is not in the table.
    """

    read: Read
    special_ends: tuple[int, int]
    mask_token: bool = True
    positions_after_padding: bool = False
    embeddings: tuple[str, ...] = ()
    cross_attention: str = ""
    guessed: bool = False


_ENCODER = Family(read="first", special_ends=(1, 1))
_ROBERTA = replace(_ENCODER, positions_after_padding=True)
_DECODER = Family(read="last", special_ends=(0, 0), mask_token=False)
_ENCODER_DECODER = Family(
    read="last_end",
    special_ends=(1, 1),
    embeddings=("encoder.embed_tokens", "decoder.embed_tokens"),
    cross_attention="encoder_attn",
)
_VISION = Family(read="first", special_ends=(1, 0), mask_token=False)

FAMILIES: dict[str, Family] = {
    "bert": _ENCODER,
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "camembert": _ROBERTA,
    "distilbert": _ENCODER,
    "electra": _ENCODER,
    "albert": _ENCODER,
    "modernbert": _ENCODER,
    "bart": _ENCODER_DECODER,
    "gpt2": _DECODER,
    "llama": replace(_DECODER, special_ends=(1, 0)),
    "qwen3": _DECODER,
    "vit": _VISION,
    "deit": replace(_VISION, special_ends=(2, 0)),
    "dinov2": replace(_VISION, read="first_and_patches"),
    "beit": replace(_VISION, read="patches"),
}

# Settings of a configuration that change what the classifier reads.
_VARIANTS: dict[str, Callable[[Any], Read | None]] = {
    "modernbert": lambda config: "mean" if config.classifier_pooling == "mean" else None,
    "deit": lambda config: "first_two" if any("WithTeacher" in name for name in config.architectures or ()) else None,
    "beit": lambda config: None if config.use_mean_pooling else "first",
}

UNSUPPORTED: dict[str, str] = {
    "deberta": "its disentangled attention adds relative-position terms inside its own attention code",
    "deberta-v2": "its disentangled attention adds relative-position terms inside its own attention code",
    "longformer": "its sparse attention has no full T × T probabilities",
    "mpnet": "its relative-position bias is computed inside its own attention code",
    "canine": "it reads characters, hashed, and attends over groups of them, so that it has no embedding of a token",
    "ibert": "it computes with integers, so that it has no gradients",
    "ctrl": "it multiplies its embeddings in place and computes attention in code of its own",
    "bigbird_pegasus": "its encoder computes attention in blocks, in code of its own",
    "funnel": "it pools tokens between its blocks, so that its layers attend over different numbers of them",
    "imagegpt": "it reads colours as tokens, in place of patches of pixels",
}


def family_of(model: nn.Module) -> Family:
    """The family of a model; one that is not in the table is guessed, with a warning that says how."""
    config: Any = model.config
    family = FAMILIES.get(config.model_type)
    if family is not None:
        read = _VARIANTS.get(config.model_type, lambda _: None)(config)
        return family if read is None else replace(family, read=read)
    guess = replace(_guess(model), guessed=True)
    logger.warning(
        "model type '%s' is not in the table of families; guessed: its classifier reads %s; %d tokens at the start and %d "
        "at the end are special%s",
        config.model_type,
        _READ_IN_WORDS[guess.read],
        *guess.special_ends,
        f"; its cross-attention is called '{guess.cross_attention}'" if guess.cross_attention else "",
    )
    return guess


def _guess(model: nn.Module) -> Family:
    config: Any = model.config
    if getattr(config, "is_encoder_decoder", False):
        return _ENCODER_DECODER
    if hasattr(config, "image_size"):
        return _VISION
    causal = any(getattr(module, "is_causal", False) is True for module in model.modules())
    return _DECODER if causal or getattr(config, "is_decoder", False) else _ENCODER


_READ_IN_WORDS: dict[Read, str] = {
    "first": "the first token",
    "last": "the last token",
    "last_end": "the decoder's position of the last end-of-sequence token",
}


def read_weights(
    family: Family, mask: Bool[Tensor, "B T"], ids: Int[Tensor, "B T"] | None, config: Any, dtype: torch.dtype
) -> Float[Tensor, "B T"]:
    """How much of each token's final state the classifier reads; rows sum to 1.

    `first`: 1 at token 0 (CLS). `last`: 1 at the last token whose id is not that of padding. `last_end`: 1 at the last
    end-of-sequence token (of an encoder–decoder: the decoder's state at that position). `mean`: the mean over all
    tokens. `patches`: the mean over patches, CLS left out (BEiT). `first_two`: 1/2 at each of the first two tokens
    (DeiT with a teacher averages the logits of CLS and distillation token). `first_and_patches`: 1/2 at CLS and 1/(2P) at
    each of P patches. DINOv2's classifier is linear in the concatenation [CLS ; mean over patches]; how much it makes of
    each half depends on its weights and the class, so each half gets 1/2.

    Args:
        family: of the model.
        mask: True for tokens, False for padding.
        ids: of the tokens; None for images.
        config: says which ids are padding and end of sequence.
        dtype: of the weights.
    """
    first_token, second_token = torch.zeros_like(mask), torch.zeros_like(mask)
    first_token[:, 0], second_token[:, 1:2] = True, True
    patches = mask.clone()
    patches[:, : family.special_ends[0]] = False
    parts: tuple[Tensor, ...]
    match family.read:
        case "first":
            parts = (first_token,)
        case "first_two":
            parts = (first_token, second_token)
        case "mean":
            parts = (mask,)
        case "patches":
            parts = (patches,)
        case "first_and_patches":
            parts = (first_token, patches)
        case "last":
            parts = (only_last(mask & (ids != config.get_text_config().pad_token_id)),)
        case "last_end":
            parts = (only_last(mask & (ids == config.eos_token_id)),)
    return torch.stack([part.to(dtype) / part.sum(1, keepdim=True) for part in parts]).mean(0)


def last_token(ids: Int[Tensor, "B T"], config: Any) -> Int[Tensor, "B"]:
    """Where the last token stands whose id is not that of padding, attended to or not: decoders of transformers read it."""
    return only_last(ids != config.get_text_config().pad_token_id).int().argmax(1)


def only_last(chosen: Bool[Tensor, "B T"]) -> Bool[Tensor, "B T"]:
    """True at the last True of each row."""
    index = (torch.arange(chosen.shape[1], device=chosen.device) * chosen).argmax(1)
    return nn.functional.one_hot(index, chosen.shape[1]).bool()
