"""What a model is: a digest that run folders are named by."""

import json
from collections.abc import Mapping
from enum import Enum
from hashlib import sha256
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from transformers import AddedToken

_UNDECIDING = {"_name_or_path", "name_or_path", "transformers_version", "dtype", "use_cache"}
_TOKENIZER = (
    "truncation_side", "padding_side", "split_special_tokens", "special_tokens_map", "all_special_ids", "pad_token_id",
    "pad_token_type_id", "mask_token_id", "unk_token_id", "model_input_names", "chat_template",
)  # fmt: skip
_PROBES = ("The film, told in 1987, was n't GOOD: naïve Öl  ½ don't [SEP] </s> 中文", "un\u200btold STORY")


def fingerprint_of(model: nn.Module, tokenizer: Any, window: int, processor: Any = None) -> str:
    """SHA-256 over configuration and weights, and over what turns an input into tensors.

    The latter are the settings of tokenizer and processor, the window that texts are cut to, and the tensors of some
    texts, a pair and an image, which also tell apart what no setting names.
    """
    digest = sha256()
    config: Any = model.config
    digest.update(_told(_deciding(config.to_dict())))
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    if tokenizer is not None:
        digest.update(_told({**_of_tokenizer(tokenizer), "window": window}))
    if processor is not None:
        digest.update(_told(_of_processor(processor)))
    return digest.hexdigest()


def _told(facts: Mapping[str, Any]) -> bytes:
    return json.dumps(_plain(facts), sort_keys=True).encode()


def _plain(value: Any) -> Any:
    """A value as JSON can say it, the same in every process: no order of a set, and no address of an object."""
    if value is None or isinstance(value, str | bool | int | float):
        return value.value if isinstance(value, Enum) else value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((_plain(item) for item in value), key=str)
    if isinstance(value, np.ndarray | np.generic | Tensor):
        return _plain(value.tolist())
    if isinstance(value, Enum):
        return _plain(value.value)
    if isinstance(value, torch.dtype | AddedToken):
        return str(value)
    return [type(value).__module__, type(value).__qualname__]


def _deciding(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if key not in _UNDECIDING}


def _of_tokenizer(tokenizer: Any) -> dict[str, Any]:
    """The tokenizer as it is stored, what its backend does not store, and what it makes of some texts."""
    encoded = [dict(tokenizer(*texts, verbose=False)) for texts in ((_PROBES[0],), (_PROBES[1],), _PROBES)]
    tokenizer.backend_tokenizer.no_truncation()  # what a call asked for is no part of what it is
    tokenizer.backend_tokenizer.no_padding()
    stored = sha256(tokenizer.backend_tokenizer.to_str().encode()).hexdigest()  # its vocabulary may have 10⁵ entries
    return {"backend": stored, "encoded": encoded, **{name: getattr(tokenizer, name, None) for name in _TOKENIZER}}


def _of_processor(processor: Any) -> dict[str, Any]:
    """Settings, and a digest of the pixels of one image; of a callable of the user's own the pixels alone."""
    settings = processor.to_dict() if hasattr(processor, "to_dict") else {}
    height, width = np.mgrid[:37, :53]
    image = np.stack([height * 6, width * 4, (height * width) % 251], axis=-1).astype(np.uint8)
    try:
        pixels = processor(images=[Image.fromarray(image)], return_tensors="pt")["pixel_values"]
        rounded = np.round(pixels.double().cpu().numpy(), 3) + 0.0  # no −0
        shown = [list(pixels.shape), sha256(rounded.tobytes()).hexdigest()]
    except (ValueError, TypeError, KeyError, RuntimeError):
        shown = []  # it is told when an image is encoded, with the image's name
    return {"settings": _deciding(settings), "pixels": shown}
