"""Tiny causal language models of many families."""

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
