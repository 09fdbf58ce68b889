"""Sizes in a checkpoint's configuration beside those of its weights, looked at before anything of that size is built."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from benchmark.errors import UserError

_LAYERS = (
    "num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers", "decoder_layers", "num_hidden_groups",
    "num_encoder_layers", "num_decoder_layers",
)  # fmt: skip
_WIDTHS = (
    "hidden_size", "d_model", "n_embd", "dim", "emb_dim", "embedding_size", "intermediate_size", "n_inner", "hidden_dim",
    "d_ff", "encoder_ffn_dim", "decoder_ffn_dim", "vocab_size", "type_vocab_size", "num_labels", "num_attention_heads",
    "n_head", "n_heads", "encoder_attention_heads", "decoder_attention_heads",
)  # fmt: skip
_TIMES = 16
"""How much wider than any stored tensor a configuration may be here: what differs by less is told by what does not fit."""

_FEW = 200
_SMALL_WIDTH = 1000
_SMALL = {"vocab_size": 500_000}  # image models of some families have one that nothing is made of
"""Sizes that are never refused here."""

_LEAST_BYTES = 64  # that a tensor takes in a file, its name included


def check_size(folder: Path) -> None:
    """UserError where a configuration asks for far more layers, or far wider ones, than its weights can fill.

    Every layer has a tensor of its own, so that there are no more layers than tensors; every width is one side of a tensor.
    Of a file whose tensors cannot be listed without executing it, its length is the bound. Sizes that cost nothing to try
    are let pass: what does not fit is told of when it is loaded.
    """
    config = _json(folder / "config.json")
    shapes, size = dict(_shapes(folder)), _pickled(folder)
    if not shapes and not size:
        return
    tensors = len(shapes) + size // _LEAST_BYTES
    widest = max((side for shape in shapes.values() for side in shape), default=0) + size
    for name, bound in (*((name, tensors) for name in _LAYERS), *((name, _TIMES * widest) for name in _WIDTHS)):
        value = config.get(name)
        if type(value) is int and value > max(bound, _SMALL.get(name, _SMALL_WIDTH if name in _WIDTHS else _FEW)):
            raise UserError(
                f"model.path={folder}: config.json has {name}={value}, and the weights {_told(shapes, size)}; "
                "use the config.json that the weights were saved with"
            )


def _told(shapes: Mapping[str, tuple[int, ...]], size: int) -> str:
    if not shapes:
        return f"are a file of {size} bytes"
    numbers = [int(found[1]) for name in shapes if (found := re.search(r"\.(\d+)\.", name))]
    widest = max((side for shape in shapes.values() for side in shape), default=0)
    layers = f" of {max(numbers) + 1} layers" if numbers else ""
    return f"have {len(shapes)} tensors{layers}, none with a side above {widest}"


def _shapes(folder: Path) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Name and shape of every tensor in files of safetensors; broken ones are told of when they are read."""
    for file in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(file, framework="pt") as stored:
                for name in stored.keys():  # noqa: SIM118 - it is no mapping
                    yield name, tuple(stored.get_slice(name).get_shape())
        except (SafetensorError, OSError):
            continue


def _pickled(folder: Path) -> int:
    """Bytes of weights that are no safetensors."""
    return sum(file.stat().st_size for file in folder.glob("*.bin"))


def _json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
