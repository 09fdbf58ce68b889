"""Blocks are taken apart the same way in every family; what cannot be told apart is said so."""

import pytest
import torch
import transformers

from benchmark import load_model
from benchmark.checking import small_models
from benchmark.errors import NotApplicable
from benchmark.models.blocks import blocks_of
from benchmark.models.parts import PARTS, blocks_parts, editing_branches

# Blocks with two attentions cannot be taken apart; that they say so is tested below.
APART = [family for family in small_models.FAMILIES if family != "bart"]


@pytest.fixture(scope="module", params=APART)
def loaded(request, tmp_path_factory):
    model = small_models.load(request.param, tmp_path_factory.mktemp("models"))
    return model, model.encode(small_models.inputs(request.param))


# What computes queries, keys and values; the output layer; the feed-forward layers; by the families' own code.
EXPECTED = {
    "bert": (["query", "key", "value"], ["dense"], ["dense", "dense"]),
    "distilbert": (["q_lin", "k_lin", "v_lin"], ["out_lin"], ["lin1", "lin2"]),
    "albert": (["query", "key", "value"], ["dense"], ["ffn", "ffn_output"]),
    "modernbert": (["Wqkv"], ["Wo"], ["Wi", "Wo"]),
    "gpt2": (["c_attn"], ["c_proj"], ["c_fc", "c_proj"]),
    "llama": (["q_proj", "k_proj", "v_proj"], ["o_proj"], ["gate_proj", "up_proj", "down_proj"]),
    "vit": (["q_proj", "k_proj", "v_proj"], ["o_proj"], ["fc1", "fc2"]),
}
EXPECTED |= dict.fromkeys(("roberta", "xlm-roberta", "electra"), EXPECTED["bert"])
EXPECTED |= dict.fromkeys(("deit", "dinov2", "beit"), EXPECTED["vit"]) | {"qwen3": EXPECTED["llama"]}
# Factors per feature between the last linear layer of a sublayer and the residual stream.
SCALES = {"dinov2": ("layer_scale1.lambda1", "layer_scale2.lambda1"), "beit": ("lambda_1", "lambda_2")}


def test_every_block_has_its_linear_layers_in_their_places(loaded):
    model, batch = loaded
    blocks = blocks_parts(model, batch)
    assert len(blocks) == model.n_layers
    for block in blocks:
        found = [[name for name, _ in part] for part in (block.projections, block.output, block.feed_forward)]
        assert tuple(found) == EXPECTED[model.config.model_type]
        assert [name for name, _ in block.norms] == ["q_norm", "k_norm"] * (model.config.model_type == "qwen3")
        assert [name for name, _ in block.head_tables] == ["relative_position_bias"] * (
            model.config.model_type == "beit"
        )


def branch_scale(model, layer, part):
    names = SCALES.get(model.config.model_type)
    block = blocks_of(model.model, model.attention_modules)[layer]
    return 1 if names is None else block.get_parameter(names[PARTS.index(part)])


def test_the_edited_operand_is_what_the_sublayers_last_linear_layer_gave(loaded):
    """In evaluation mode at most a scale lies between the last linear layer of a sublayer and the residual stream."""
    model, batch = loaded
    blocks = blocks_parts(model, batch)
    outputs, seen = [], []
    ends = {id(m): m for block in blocks for m in (block.output[-1][1], block.feed_forward[-1][1])}
    handles = [m.register_forward_hook(lambda _m, _a, output: outputs.append(output)) for m in ends.values()]
    with editing_branches(model, blocks, lambda layer, part, x: seen.append((layer, part, x)) or x):
        edited = model.run(batch).logits
    for handle in handles:
        handle.remove()
    assert [(layer, part) for layer, part, _ in seen] == [
        (layer, part) for layer in range(model.n_layers) for part in ("attention", "feed_forward")
    ]
    for (layer, part, x), output in zip(seen, outputs, strict=True):
        assert torch.equal(x, output * branch_scale(model, layer, part))
    assert torch.allclose(edited, model.run(batch).logits, rtol=1e-12, atol=1e-12)


def test_an_edit_reaches_the_logits_and_is_gone_afterwards(loaded):
    model, batch = loaded
    before = model.run(batch).logits
    with editing_branches(model, blocks_parts(model, batch), lambda _l, part, x: x * (part == "attention")):
        edited = model.run(batch).logits
    assert (edited - before).abs().max() > 1e-3
    assert torch.equal(model.run(batch).logits, before)


def test_blocks_with_cross_attention_cannot_be_told_apart(tmp_path):
    model = small_models.load("bart", tmp_path)
    batch = model.encode(small_models.inputs("bart"))
    with pytest.raises(NotApplicable, match="4 blocks hold 6 attention layers: not one in each"):
        blocks_parts(model, batch)


def test_parallel_sublayers_cannot_be_told_apart(tmp_path):
    torch.manual_seed(0)
    config = transformers.GPTNeoXConfig(
        vocab_size=30, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=32, pad_token_id=0, use_parallel_residual=True, is_decoder=True,
    )  # fmt: skip
    transformers.GPTNeoXForSequenceClassification(config).save_pretrained(tmp_path)
    model = load_model(tmp_path, dtype="float64", device="cpu")
    with pytest.raises(NotApplicable, match="block 0 cannot be told apart"):
        blocks_parts(model, model.encode([{"input_ids": [5, 6, 7]}]))
