"""Each family of the installed transformers: the same logits as plain transformers, or one clear line.

A quick part runs by default; `make families` runs all (EVERY_FAMILY=1).
"""

import inspect
import os
import sys
import time
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from transformers import CONFIG_MAPPING, AutoModelForImageClassification, AutoModelForSequenceClassification
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES,
    MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
)

import benchmark
from benchmark.errors import NotApplicable, UserError, one_line
from benchmark.settings.making import build
from tests.covering import one_in

TEXTS, IMAGES = map(
    tuple, (MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES, MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES)
)
LARGEST = 200_000_000  # weights, which a machine of CI holds
QUICK = ("bert", "roberta", "gpt2", "opt", "mistral", "bart", "canine", "ctrl", "ibert", "funnel", "vit", "clip", "resnet",
         "siglip", "t5gemma2")  # fmt: skip

_WIDTHS = dict.fromkeys(
    ("hidden_size", "d_model", "dim", "n_embd", "embedding_size", "emb_dim", "word_embed_proj_dim", "projection_dim",
     "decoder_hidden_size"), 32,
)  # fmt: skip
_LAYERS = dict.fromkeys(
    (
        "num_hidden_layers",
        "n_layer",
        "n_layers",
        "num_layers",
        "encoder_layers",
        "decoder_layers",
        "num_decoder_layers",
    ),
    2,
)
_HEADS = dict.fromkeys(
    ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads", "decoder_attention_heads"), 4
)
_INNER = dict.fromkeys(
    ("intermediate_size", "ffn_dim", "d_ff", "dff", "hidden_dim", "encoder_ffn_dim", "decoder_ffn_dim", "n_inner",
     "d_inner", "ffn_hidden_size"), 48,
)  # fmt: skip
SMALL = {
    **_WIDTHS, **_LAYERS, **_HEADS, **_INNER, "vocab_size": 60, "num_key_value_heads": 2, "head_dim": 8, "d_kv": 8,
    "d_head": 8, "max_position_embeddings": 64, "n_positions": 64, "image_size": 32, "patch_size": 8, "num_experts": 4,
    "num_local_experts": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
    "kv_lora_rank": 8, "q_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 8, "pad_token_id": 0,
    "bos_token_id": 1, "eos_token_id": 2, "sep_token_id": 2, "cls_token_id": 1, "decoder_start_token_id": 2,
    "n_group": 1, "topk_group": 1,
}  # fmt: skip


OWN = {
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "gptj": {"rotary_dim": 4},
    "lilt": {"hidden_size": 48},
}
"""Settings that fit no other family."""


class UnmadeError(Exception):
    """Small random settings make no model of this family that transformers itself can run."""


def tiny_config(kind):
    """A small configuration of a family, made from the names that its class declares."""
    made = CONFIG_MAPPING[kind]
    names = {name for base in made.__mro__ for name in getattr(base, "__annotations__", {})}
    names |= set(inspect.signature(made.__init__).parameters)
    if "qk_rope_head_dim" in names:  # the rotated part of a head, of which these families' `head_dim` speaks
        names -= {"head_dim"}
    mapped = getattr(made, "attribute_map", {})
    chosen = {
        name: value
        for name, value in SMALL.items()
        if name in names and mapped.get(name, name) == name and not isinstance(getattr(made, name, None), list | tuple)
    }
    parts = {name: tiny_config(part.model_type).to_dict() for name, part in getattr(made, "sub_configs", {}).items()
             if getattr(part, "model_type", "") in CONFIG_MAPPING}  # fmt: skip
    return made(**chosen | OWN.get(kind, {}), **parts, num_labels=3)


def save_tiny(kind, folder):
    """A random classifier of the family, its weights scaled so that attention is far from even."""
    torch.manual_seed(3)
    auto = AutoModelForImageClassification if kind in IMAGES else AutoModelForSequenceClassification
    config = tiny_config(kind)
    with torch.device("meta"):
        size = sum(parameter.numel() for parameter in auto.from_config(config).parameters())
    if size > LARGEST:
        raise UnmadeError(f"{size:,} weights: its configuration is not made small by these names")
    model = auto.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(4)
    model.save_pretrained(folder)
    return auto


@cache
def method_called(name):
    return build(f"methods/{name}")


def inputs_of(kind, config):
    generator = torch.Generator().manual_seed(1)
    if kind in IMAGES:
        channels = getattr(config, "num_channels", 3)
        size = getattr(config, "image_size", 32)
        high, wide = (size, size) if isinstance(size, int) else size
        return [{"pixel_values": torch.rand(channels, high, wide, generator=generator)} for _ in range(2)]
    rows = [torch.randint(5, 60, (length,), generator=generator).tolist() for length in (9, 5, 12)]
    return [{"input_ids": [1, *row[1:-1], 2]} for row in rows]


def plain_logits(kind, folder):
    """Inputs and the logits of each alone in plain transformers; UnmadeError where there is no such model."""
    try:
        auto = save_tiny(kind, folder)
        plain = auto.from_pretrained(folder, attn_implementation="eager").eval()
        inputs = inputs_of(kind, plain.config)
        with torch.no_grad():
            tensors = [{name: torch.as_tensor(value)[None] for name, value in one.items()} for one in inputs]
            return inputs, torch.cat([plain(**one).logits for one in tensors])
    except Exception as error:  # of a family of transformers: the table shows it
        raise UnmadeError(f"{type(error).__name__}: {one_line(error)}") from error


def outcome(kind, folder):
    """("equal", ""), or ("refused", why); AssertionError where logits differ, whatever else is a fault of ours."""
    inputs, expected = plain_logits(kind, folder)
    try:
        model = benchmark.load_model(folder, device="cpu")
    except UserError as error:
        return "refused", str(error)
    scale = max(1.0, float(expected.abs().max()))
    batch = model.encode(inputs)
    for name, found in (
        ("alone", torch.cat([model.run(model.encode([one])).logits for one in inputs])),
        ("batched", model.run(batch).logits),
        ("recorded", model.run(batch, record=("attentions",)).logits),
    ):
        assert float((found - expected).abs().max()) <= 1e-5 * scale, f"logits {name} differ"
    target = expected.argmax(1)
    for method in ("rollout", "gradient_x_input"):
        try:
            scores = method_called(method)(model, batch, target).tokens
        except (NotApplicable, UserError):
            continue
        assert torch.isfinite(scores).all(), f"{method} is not finite"
    return "equal", ""


def _chosen():
    everything = dict.fromkeys((*TEXTS, *IMAGES))
    return tuple(everything) if os.environ.get("EVERY_FAMILY") else QUICK


@pytest.mark.parametrize("kind", one_in(2, _chosen()))
def test_a_family_has_the_logits_of_transformers_or_one_line(tmp_path, kind):
    try:
        found, reason = outcome(kind, tmp_path / kind)
    except UnmadeError as error:
        assert kind not in QUICK
        pytest.skip(str(error))
    assert found == "equal" or any(name in reason for name in (kind, "ForSequence", "ForImage"))
    assert "\n" not in reason


def test_the_quick_part_holds_both():
    assert set(QUICK) <= {*TEXTS, *IMAGES}


if __name__ == "__main__":  # a table of all
    for one in sys.argv[1:] or dict.fromkeys((*TEXTS, *IMAGES)):
        began = time.monotonic()
        with TemporaryDirectory() as place:
            try:
                result = outcome(one, Path(place) / one)
            except UnmadeError as error:
                result = "unmade", str(error)
            except Exception as error:  # the table shows it
                result = "FAULT", f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        print(f"{one}\t{result[0]}\t{time.monotonic() - began:.1f}\t{result[1]}", flush=True)
