"""What a model is: a digest that run folders are named by."""

import hashlib
from typing import Any

import torch
from torch import nn


def fingerprint_of(model: nn.Module, tokenizer: Any, window: int | None = None) -> str:
    """SHA-256 over configuration, weights and tokenizer, and over the window where texts are cut shorter than need be."""
    digest = hashlib.sha256()
    config: Any = model.config
    ignored = {"_name_or_path", "transformers_version", "dtype", "use_cache"}
    settings = {key: value for key, value in config.to_dict().items() if key not in ignored}
    digest.update(repr(sorted(settings.items(), key=str)).encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    if tokenizer is not None:
        digest.update(tokenizer.backend_tokenizer.to_str().encode())
        digest.update(b"special tokens in texts are text" if tokenizer.split_special_tokens else b"")
    if window is not None:
        digest.update(f"window {window}".encode())
    return digest.hexdigest()
