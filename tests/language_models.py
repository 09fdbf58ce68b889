"""Tiny causal language models of many families."""

from pathlib import Path

import torch
import transformers
from transformers import AutoTokenizer

from tests import text_models

SMALL = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 24,
    "max_position_embeddings": 64, "head_dim": 4,
}  # fmt: skip
FAMILIES = {
    "GPT2LMHeadModel": {"n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 64},
    "LlamaForCausalLM": SMALL,
    "Qwen3ForCausalLM": SMALL,
    "MistralForCausalLM": SMALL | {"sliding_window": 4},
    "Gemma2ForCausalLM": SMALL | {"query_pre_attn_scalar": 4, "sliding_window": 4},
    "GemmaForCausalLM": SMALL,
    "OlmoForCausalLM": SMALL,
    "GPTNeoXForCausalLM": SMALL,
}
"""Class -> settings of a tiny model: grouped keys, sliding windows, capped logits, rotary and absolute positions."""


def save(kind: str, folder: Path) -> Path:
    """Save a model of the class `kind`, with the words of `text_models`."""
    words = AutoTokenizer.from_pretrained(text_models.save_bert(folder / "words"))
    torch.manual_seed(0)
    family = getattr(transformers, kind)
    pads = words.convert_tokens_to_ids("film")
    config = family.config_class(vocab_size=len(words), pad_token_id=pads, **FAMILIES[kind])
    family(config).save_pretrained(folder / kind)
    words.save_pretrained(folder / kind)
    return folder / kind
