"""Small models of every supported family with random weights, and inputs for them, made without any file."""

import logging
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor, nn

from benchmark.checking.subject import Place
from benchmark.models.checkpoints import quiet_transformers
from benchmark.models.classifier import Classifier
from benchmark.models.loading import load_model
from benchmark.types import Batch

_TEXT = {"vocab_size": 60, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24}
_BERT = _TEXT | {"hidden_size": 24, "num_hidden_layers": 3, "intermediate_size": 40}
_PADDED = {"pad_token_id": 0, "num_labels": 3}
_ENDS = {"bos_token_id": 1, "eos_token_id": 2}
_CAUSAL = {"num_key_value_heads": 2, "max_position_embeddings": 40} | _ENDS
_IMAGE = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24, "image_size": 12,
          "patch_size": 4, "num_labels": 3}  # fmt: skip

# The large ε of two families smooths their norms at 0, where paths from an embedding of zeros begin.
FAMILIES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "bert": ("BertConfig", _BERT | _PADDED | {"max_position_embeddings": 40}),
    "roberta": ("RobertaConfig", _TEXT | _PADDED | _ENDS | {"max_position_embeddings": 42}),
    "xlm-roberta": ("XLMRobertaConfig", _TEXT | _PADDED | _ENDS | {"max_position_embeddings": 42}),
    "distilbert": (
        "DistilBertConfig",
        {"vocab_size": 60, "dim": 16, "n_layers": 2, "n_heads": 4, "hidden_dim": 24, "max_position_embeddings": 40}
        | _PADDED,
    ),
    "electra": ("ElectraConfig", _TEXT | _PADDED | {"embedding_size": 12, "max_position_embeddings": 40}),
    "albert": ("AlbertConfig", _TEXT | _PADDED | _ENDS | {"embedding_size": 12, "max_position_embeddings": 40}),
    "modernbert": (
        "ModernBertConfig",
        _TEXT | _PADDED | _ENDS | {"local_attention": 8, "global_attn_every_n_layers": 2, "max_position_embeddings": 40,
        "cls_token_id": 1, "sep_token_id": 2},
    ),
    "bart": (
        "BartConfig",
        {"vocab_size": 60, "d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "max_position_embeddings": 40,
        "decoder_start_token_id": 2, "forced_eos_token_id": 2} | _PADDED | _ENDS,
    ),
    "gpt2": (
        "GPT2Config",
        {"vocab_size": 60, "n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 40} | _ENDS | _PADDED,
    ),
    "llama": ("LlamaConfig", _TEXT | _PADDED | _CAUSAL),
    "qwen3": ("Qwen3Config", _TEXT | _PADDED | _CAUSAL | {"head_dim": 4, "rms_norm_eps": 0.01}),
    "vit": ("ViTConfig", _IMAGE),
    "deit": ("DeiTConfig", _IMAGE | {"architectures": ["DeiTForImageClassification"]}),
    "deit-teacher": ("DeiTConfig", _IMAGE | {"architectures": ["DeiTForImageClassificationWithTeacher"]}),
    "dinov2": ("Dinov2Config", _IMAGE | {"mlp_ratio": 2}),
    "beit": (
        "BeitConfig",
        _IMAGE | {"use_relative_position_bias": True, "layer_scale_init_value": 0.5, "layer_norm_eps": 0.01},
    ),
}  # fmt: skip
IMAGE_FAMILIES = [
    name
    for name, (config, _) in FAMILIES.items()
    if config in ("ViTConfig", "DeiTConfig", "Dinov2Config", "BeitConfig")
]
TEXT_FAMILIES = [name for name in FAMILIES if name not in IMAGE_FAMILIES]
FLOAT32_INSIDE = ("llama", "qwen3", "modernbert")
"""Families that compute rotations or norms in float32 whatever the model's precision."""

LENGTHS = (7, 5, 9)
"""Tokens of the texts, special ones included."""

_SCALE = 12.0
_CONTENT = 5  # the first id of a word; those below are special


def new(family: str) -> Any:
    """A model of the family with weights as transformers draws them."""
    name, settings = FAMILIES[family]
    config = getattr(transformers, name)(**settings)
    auto = "AutoModelForImageClassification" if family in IMAGE_FAMILIES else "AutoModelForSequenceClassification"
    return getattr(transformers, auto).from_config(config)


def random_model(family: str, scale: float = _SCALE) -> Any:
    """The same model at every call; weights are scaled up so that attention is far from uniform."""
    with torch.random.fork_rng():
        torch.manual_seed(7)
        model = new(family)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(scale) if parameter.dim() > 1 else parameter.add_(0.1 * torch.randn_like(parameter))
            for parameter in model.parameters():
                if parameter.dim() > 1 and not parameter.any():  # tokens and position biases that start at zero
                    nn.init.normal_(parameter)
    return model


def save(family: str, folder: Path, *, scale: float = _SCALE) -> Path:
    """Save `random_model` as a checkpoint."""
    random_model(family, scale).save_pretrained(folder / family)
    return folder / family


def load(family: str, folder: Path, *, dtype: str = "float64", scale: float = _SCALE) -> Classifier:
    """The saved classifier as the benchmark loads it; double precision, as checks compare to its last digits."""
    return load_model(save(family, folder, scale=scale), dtype=dtype, device="cpu")


def inputs(family: str, lengths: tuple[int, ...] = (9, 5, 12)) -> list[dict[str, Any]]:
    """Ready inputs of several lengths (images have one size)."""
    generator = torch.Generator().manual_seed(3)
    if family in IMAGE_FAMILIES:
        return [{"pixel_values": torch.rand(3, 12, 12, generator=generator)} for _ in lengths]
    content = [torch.randint(_CONTENT, 60, (length,), generator=generator).tolist() for length in lengths]
    return [{"input_ids": [1, *ids[1:-1], 2], "attention_mask": [1] * len(ids)} for ids in content]


def words(ids: Sequence[int]) -> tuple[str, ...]:
    """A word for each id."""
    return tuple(f"word{token}" for token in ids)


def encoded(model: Classifier, chosen: Sequence[Any]) -> Batch:
    """A batch that has what texts and annotators give: a word for each unit, rationales, and corrupted inputs."""
    batch = model.encode(list(chosen))
    batch = replace(batch, corrupted=_corrupted(batch))
    rationale = tuple(np.arange(n) % 3 == 1 for n in batch.n_units.tolist())
    if "input_ids" not in batch.tensors:
        return replace(batch, rationale=rationale)
    content = [ids[units >= 0].tolist() for ids, units in zip(batch.tensors["input_ids"], batch.units, strict=True)]
    return replace(batch, rationale=rationale, words=tuple(map(words, content)))


def _corrupted(batch: Batch) -> dict[str, Tensor]:
    """The inputs with another token in the place of each first unit's, or with inverted pixels."""
    if "input_ids" not in batch.tensors:
        return {**batch.tensors, "pixel_values": -batch.tensors["pixel_values"]}
    ids = batch.tensors["input_ids"]
    other = _CONTENT + (ids - 4) % 20
    return {**batch.tensors, "input_ids": torch.where(batch.units == 0, other, ids)}


def place(family: str) -> Place:
    """A small model with three inputs."""
    loading = logging.getLogger("benchmark.models")
    level = loading.level
    loading.setLevel(logging.ERROR)  # that there is no image processor is meant to be so
    try:
        with tempfile.TemporaryDirectory() as folder, quiet_transformers():
            model = load(family, Path(folder))
    finally:
        loading.setLevel(level)
    return Place(f"small {family}", model, tuple(inputs(family, LENGTHS)), encoded, family)
