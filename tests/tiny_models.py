"""Tiny random checkpoints of every supported family, made in a temporary folder."""

from pathlib import Path

import torch
import transformers

_TEXT = {"vocab_size": 60, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 40}
_PADDED = {"pad_token_id": 0, "num_labels": 3}
_LLAMA = {"num_key_value_heads": 2, "max_position_embeddings": 40, "bos_token_id": 1, "eos_token_id": 2}

FAMILIES = {
    "bert": ("BertConfig", _TEXT | _PADDED | {"max_position_embeddings": 40}),
    "roberta": ("RobertaConfig", _TEXT | _PADDED | {"max_position_embeddings": 42, "bos_token_id": 1, "eos_token_id": 2}),
    "distilbert": (
        "DistilBertConfig",
        {"vocab_size": 60, "dim": 24, "n_layers": 3, "n_heads": 4, "hidden_dim": 40, "max_position_embeddings": 40}
        | _PADDED,
    ),
    "electra": ("ElectraConfig", _TEXT | _PADDED | {"embedding_size": 16, "max_position_embeddings": 40}),
    "albert": (
        "AlbertConfig",
        _TEXT | _PADDED | {"embedding_size": 16, "max_position_embeddings": 40, "bos_token_id": 1, "eos_token_id": 2},
    ),
    "modernbert": (
        "ModernBertConfig",
        _TEXT | _PADDED | {"local_attention": 8, "global_attn_every_n_layers": 2, "max_position_embeddings": 40,
        "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2},
    ),
    "gpt2": (
        "GPT2Config",
        {"vocab_size": 60, "n_embd": 24, "n_layer": 3, "n_head": 4, "n_positions": 40, "bos_token_id": 1,
        "eos_token_id": 2} | _PADDED,
    ),
    "llama": ("LlamaConfig", _TEXT | _PADDED | _LLAMA),
    "vit": (
        "ViTConfig",
        {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 40, "image_size": 12,
        "patch_size": 4, "num_labels": 3},
    ),
}  # fmt: skip
TEXT_FAMILIES = [name for name in FAMILIES if name != "vit"]


def save(family: str, folder: Path, *, scale: float = 4.0) -> Path:
    """Save a random classifier; weights are scaled up so that attention is far from uniform."""
    torch.manual_seed(7)
    name, settings = FAMILIES[family]
    config = getattr(transformers, name)(**settings)
    auto = "AutoModelForImageClassification" if family == "vit" else "AutoModelForSequenceClassification"
    model = getattr(transformers, auto).from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale) if parameter.dim() > 1 else parameter.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(folder / family)
    return folder / family


def inputs(family: str, lengths: tuple[int, ...] = (9, 5, 12)) -> list[dict]:
    """Ready inputs of several lengths (images have one size)."""
    generator = torch.Generator().manual_seed(3)
    if family == "vit":
        return [{"pixel_values": torch.rand(3, 12, 12, generator=generator)} for _ in lengths]
    content = [torch.randint(5, 60, (length,), generator=generator).tolist() for length in lengths]
    return [{"input_ids": [1, *ids[1:-1], 2], "attention_mask": [1] * len(ids)} for ids in content]
