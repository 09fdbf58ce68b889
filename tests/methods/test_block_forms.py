"""Blocks that add in another order than BERT's or GPT-2's: taken apart right, or refused with the reason."""

import pytest
import torch
import transformers

import benchmark
from benchmark.errors import NotApplicable
from methods.edges.base import each_layer
from methods.propagation.block_parts import decompose_block, residual_sums

SIZES = {
    "vocab_size": 30, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24,
    "max_position_embeddings": 32, "pad_token_id": 0, "num_labels": 2,
}  # fmt: skip
FORMS = {
    "parallel": ("GPTNeoXForSequenceClassification", {"use_parallel_residual": True}),
    "one after the other": ("GPTNeoXForSequenceClassification", {"use_parallel_residual": False}),
    "tokens of all examples in one row": ("OPTForSequenceClassification", {"ffn_dim": 24, "word_embed_proj_dim": 16}),
}
NEEDS_A_SUM = ("alti", "alti_logit", "globenc", "attention_norm_residual", "information_flow")


@pytest.fixture(scope="module", params=FORMS)
def form(request, tmp_path_factory):
    kind, settings = FORMS[request.param]
    family = getattr(transformers, kind)
    torch.manual_seed(0)
    plain = family(family.config_class(**SIZES | settings))
    for weight in plain.parameters():
        weight.data *= 4 if weight.dim() > 1 else 1
    folder = tmp_path_factory.mktemp("form")
    plain.save_pretrained(folder)
    model = benchmark.load_model(folder, dtype="float64", device="cpu")
    batch = model.encode([{"input_ids": [5, 9, 11, 4, 7]}, {"input_ids": [6, 3, 8]}])
    return request.param, model, batch


def test_parts_and_biases_are_the_sum(form):
    """Σ_j parts_ij and what belongs to no token are s_i, and the bias is the same for all tokens of all texts."""
    name, model, batch = form
    if name == "parallel":
        return
    for layer, hidden, attention in each_layer(model, batch):
        whole = residual_sums(model, batch, layer, hidden)
        parts = torch.cat(
            [part for _, part in decompose_block(model, batch, layer, hidden, attention, "residual")]
        ).sum(0)
        biases = (whole - parts)[batch.attention_mask]
        assert torch.allclose(biases, biases[:1].expand_as(biases), atol=1e-9)
        assert parts.norm() > 1


@pytest.mark.parametrize("method", NEEDS_A_SUM)
def test_no_sum_of_something_else_is_taken_for_it(form, method):
    name, model, batch = form
    built, target = benchmark.build(f"methods/{method}"), torch.tensor([0, 1])
    if name == "parallel":
        with pytest.raises(NotApplicable, match="where both stand side by side"):
            built(model, batch, target)
        return
    together, alone = built(model, batch, target), built(model, batch.select([1]), target[1:])
    assert torch.allclose(together.tokens[1, :3], alone.tokens[0, :3], atol=1e-9)
    assert together.tokens.abs().sum() > 0


def test_experts_are_constants_on_the_way_to_the_logit(tmp_path):
    settings = SIZES | {"num_local_experts": 2, "num_key_value_heads": 4, "head_dim": 4}
    torch.manual_seed(0)
    plain = transformers.MixtralForSequenceClassification(transformers.MixtralConfig(**settings))
    plain.save_pretrained(tmp_path)
    model = benchmark.load_model(tmp_path, device="cpu")  # transformers' experts know no float64
    batch, target = model.encode([{"input_ids": [5, 9, 11, 4, 7]}]), torch.tensor([1])
    found = benchmark.build("methods/direct_logit_attribution")(model, batch, target)
    assert found.heads.shape == (1, 2, 4)
    assert found.heads.abs().sum() > 0


def test_what_attention_writes_needs_no_sum(form):
    """Tokens and heads share what the same edges write."""
    _, model, batch = form
    method, target = benchmark.build("methods/direct_logit_attribution"), torch.tensor([1, 0])
    found = method(model, batch, target)
    assert found.tokens.abs().sum() > 0
    assert torch.allclose(found.tokens.sum(1), found.heads.sum((1, 2)), atol=1e-9)
