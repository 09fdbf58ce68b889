"""What a model is: a digest that run folders are named by."""

import json
from hashlib import sha256
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import nn

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
    settings = {key: value for key, value in config.to_dict().items() if key not in _UNDECIDING}
    digest.update(repr(sorted(settings.items(), key=str)).encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    if tokenizer is not None:
        digest.update(_told({**_of_tokenizer(tokenizer), "window": window}))
    if processor is not None:
        digest.update(_told(_of_processor(processor)))
    return digest.hexdigest()


def _told(facts: dict[str, Any]) -> bytes:
    return json.dumps(facts, sort_keys=True, default=str).encode()


def _of_tokenizer(tokenizer: Any) -> dict[str, Any]:
    backend = json.loads(tokenizer.backend_tokenizer.to_str())
    for left_by_the_last_call in ("truncation", "padding"):
        backend.pop(left_by_the_last_call, None)
    encoded = [dict(tokenizer(*texts, verbose=False)) for texts in ((_PROBES[0],), (_PROBES[1],), _PROBES)]
    return {"backend": backend, "encoded": encoded, **{name: getattr(tokenizer, name, None) for name in _TOKENIZER}}


def _of_processor(processor: Any) -> dict[str, Any]:
    """Settings, and the pixels of one image; of a callable of the user's own the pixels alone."""
    settings = processor.to_dict() if hasattr(processor, "to_dict") else {}
    height, width = np.mgrid[:37, :53]
    image = np.stack([height * 6, width * 4, (height * width) % 251], axis=-1).astype(np.uint8)
    try:
        pixels = processor(images=[Image.fromarray(image)], return_tensors="pt")["pixel_values"]
        shown = [list(pixels.shape), np.round(pixels.double().cpu().numpy(), 3).tolist()]
    except (ValueError, TypeError, KeyError, RuntimeError):
        shown = []  # it is told when an image is encoded, with the image's name
    kept = {key: value for key, value in settings.items() if key not in _UNDECIDING}
    return {"settings": kept, "pixels": shown}
