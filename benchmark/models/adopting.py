"""Models and tokenizers that are loaded already: copied, so that the caller's stay what they are."""

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from benchmark.errors import UserError
from benchmark.models.attention_interface import IMPLEMENTATION
from benchmark.models.families import UNSUPPORTED
from benchmark.models.next_token import Answers, ask_for_the_next_token, cut_at_the_start, is_causal_lm
from benchmark.models.special_tokens import read_as_words

_TEXT, _IMAGE = "ForSequenceClassification", "ForImageClassification"


@dataclass(frozen=True)
class Loaded:
    """A model that is not instrumented yet, and nobody else's.

    Attributes:
        source: what messages call it.
        name: what run folders call it.
        model: the transformers model.
        dtype: what it computes in.
        tokenizer: a fast one, or None.
        processor: of images, or None.
        image: whether it classifies images.
        answers: what it is asked.
    """

    source: str
    name: str
    model: nn.Module
    dtype: torch.dtype
    tokenizer: Any = None
    processor: Any = None
    image: bool = False
    answers: Answers = "class"


def adopt(model: Any, dtype: torch.dtype | None, tokenizer: Any, processor: Any, answers: Answers = "class") -> Loaded:
    """A copy of a transformers model that is loaded already, in another precision where one is asked for.

    The copy shares neither weights nor configuration with the model, and takes as much memory. So the model can be trained
    on, moved or deleted, and the copy still gives the same numbers.

    Raises:
        UserError: it is no transformers classifier (no causal language model, where that is asked for), or its weights do
            not lie on one device as plain numbers.
    """
    kind = type(model).__name__
    if not isinstance(model, PreTrainedModel):
        raise UserError(
            f"load_model takes a directory, a hub id or a transformers model, found {kind}; of a model that is wrapped "
            "(compiled, or with adapters), give the transformers model inside, its adapters merged"
        )
    classes = [base.__name__ for base in type(model).__mro__]
    image = any(name.endswith(_IMAGE) for name in classes)
    if answers == "next_token":
        check_causal(type(model), kind)
    elif not image and not any(name.endswith(_TEXT) for name in classes):
        also = '; of a causal language model: load_model(model, task="next_token")' if is_causal_lm(type(model)) else ""
        raise UserError(f"{kind} is no classifier; give a model whose class ends in {_TEXT} or {_IMAGE}{also}")
    if model.config.model_type in UNSUPPORTED:
        reason = UNSUPPORTED[model.config.model_type]
        raise UserError(f"{kind} is of the family {model.config.model_type}, which is not supported: {reason}")
    _check_place(model, kind)
    copied = copy.deepcopy(model)
    for tensor in copied.state_dict(keep_vars=True).values():  # as from a checkpoint: what is in no state keeps its own
        if dtype is not None and tensor.is_floating_point():
            tensor.data = tensor.data.to(dtype)
    name = str(model.config._name_or_path or kind).rstrip("/").rpartition("/")[2]
    given = None if image or tokenizer is None else adopt_tokenizer(tokenizer)
    if answers == "next_token":
        copied, given = ask_for_the_next_token(copied), cut_at_the_start(given)
    return Loaded(kind, name, copied, dtype or model.dtype, given, processor if image else None, image, answers)


def check_causal(kind: type, shown: str) -> None:
    """UserError unless a class of transformers is a causal language model."""
    if not is_causal_lm(kind):
        raise UserError(
            f"{shown} is no causal language model, whose next token is asked for (task=next_token); of a classifier leave "
            "the task out"
        )


def _check_place(model: Any, kind: str) -> None:
    if getattr(model, "is_quantized", False):
        raise UserError(f"the {kind} is quantised and has no gradients; load it without quantisation")
    spread = {str(place) for place in (getattr(model, "hf_device_map", None) or {}).values()}
    devices = sorted({str(tensor.device) for tensor in model.parameters()} | (spread if len(spread) > 1 else set()))
    if len(devices) != 1 or devices == ["meta"]:
        raise UserError(f"the {kind} lies on {', '.join(devices)}; load it on one device, without device_map")


def adopt_tokenizer(tokenizer: Any) -> Any:
    """A copy of a fast tokenizer that reads special tokens in texts as `read_as_words` says, padding on the right.

    Raises:
        UserError: it is no fast tokenizer, and cannot align words.
    """
    if not getattr(tokenizer, "is_fast", False):
        raise UserError(
            f"tokenizer={type(tokenizer).__name__} cannot align words; give a fast tokenizer of transformers, such as "
            "AutoTokenizer.from_pretrained(...)"
        )
    return read_as_words(copy.deepcopy(tokenizer))


def prepared(model: Any) -> nn.Module:
    """The model with our attention function, in evaluation mode, its parameters frozen."""
    model.set_attn_implementation(IMPLEMENTATION)
    if getattr(model.config, "use_cache", False):
        model.config.use_cache = False
    return model.eval().requires_grad_(requires_grad=False)  # type: ignore[no-any-return]  # of transformers
