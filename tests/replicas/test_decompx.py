"""DecompX against loops over tokens and parts for BERT and GPT-2, and its completeness in every family."""

import pytest
import torch
import torch.nn.functional as F

from benchmark.checking import small_models
from benchmark.errors import NotApplicable
from benchmark.targets import ClassTarget
from methods.decompx import DecompX
from methods.propagation.decomposed import decomposed
from methods.propagation.mode import propagating
from methods.propagation.part_rules import Parts
from tests.replicas.blocks_by_hand import LENGTHS, norm_of_part
from tests.replicas.conftest import assert_same
from tests.replicas.registry import replicates


class Vectors:
    """The vectors that one token's state is the sum of, the bias' own part last, and one operation after the other."""

    def __init__(self, vectors, bias_rule):
        self.vectors, self.bias_rule = vectors, bias_rule

    @property
    def whole(self):
        return sum(self.vectors)

    def map(self, function):
        return Vectors([function(part) for part in self.vectors], self.bias_rule)

    def plus(self, bias):
        *tokens, own = self.vectors
        dots = [abs(float(bias @ part)) for part in tokens]
        if self.bias_rule == "apart" or sum(dots) == 0:
            return Vectors([*tokens, own + bias], self.bias_rule)
        shared = [part + dot / sum(dots) * bias for part, dot in zip(tokens, dots, strict=True)]
        return Vectors([*shared, own], self.bias_rule)

    def linear(self, weight, bias=None):
        product = self.map(lambda part: weight @ part)
        return product if bias is None else product.plus(bias)

    def norm(self, module):
        whole = self.whole
        return self.map(lambda part: norm_of_part(module, whole, part)).plus(module.bias)

    def activation(self, function):
        slope = function(self.whole) / self.whole
        return self.map(lambda part: slope * part)

    def add(self, other):
        return Vectors([a + b for a, b in zip(self.vectors, other.vectors, strict=True)], self.bias_rule)

    def owned_by(self, token, bias):
        """All that belongs to nobody, and a bias, is the token's."""
        *tokens, own = self.vectors
        tokens[token] = tokens[token] + own + bias
        return Vectors([*tokens, 0 * own], self.bias_rule)


def attention_sublayer(values, x, attention, value_bias, out, order, first):
    """Residual sum of every token: `values` without their bias, `out` = (W_O, b_O)."""
    weight, bias = out
    if first and order == "code":
        values = [value.owned_by(j, value_bias) for j, value in enumerate(values)]
    else:
        bias = weight @ value_bias + bias
    mixed = [context.linear(weight) for context in mix(values, attention)]
    if order == "code":
        return [a.add(b).plus(bias) for a, b in zip(mixed, x, strict=True)]
    return [a.plus(bias).add(b) for a, b in zip(mixed, x, strict=True)]


def mix(values, attention):
    """Attention over tokens: part k of every head of token i is Σ_j A_hij of part k of v_hj."""
    n_heads, n, _ = attention.shape
    mixed = []
    for i in range(n):
        vectors = []
        for k in range(len(values[0].vectors)):
            heads = [values[j].vectors[k].view(n_heads, -1) for j in range(n)]
            rows = [sum(attention[h, i, j] * heads[j][h] for j in range(n)) for h in range(n_heads)]
            vectors.append(torch.cat(rows))
        mixed.append(Vectors(vectors, values[0].bias_rule))
    return mixed


def bert_block(layer, states, attention, order, first):
    inner, out = layer.attention.self, layer.attention.output
    values = [x.linear(inner.value.weight) for x in states]
    output = out.dense.weight, out.dense.bias
    result = []
    for summed in attention_sublayer(values, states, attention, inner.value.bias, output, order, first):
        r = summed.norm(out.LayerNorm)
        up = r.linear(layer.intermediate.dense.weight, layer.intermediate.dense.bias).activation(F.gelu)
        down = up.linear(layer.output.dense.weight, layer.output.dense.bias)
        result.append(down.add(r).norm(layer.output.LayerNorm))
    return result


def bert_head(model, states, target):
    pooled = states[0].linear(model.bert.pooler.dense.weight, model.bert.pooler.dense.bias).activation(torch.tanh)
    return pooled.linear(model.classifier.weight, model.classifier.bias)


def gpt2_block(layer, states, attention, order, first):
    width = len(states[0].whole)
    weight, value_bias = layer.attn.c_attn.weight.T[2 * width :], layer.attn.c_attn.bias[2 * width :]
    values = [x.norm(layer.ln_1).linear(weight) for x in states]
    output = layer.attn.c_proj.weight.T, layer.attn.c_proj.bias
    result = []
    for r in attention_sublayer(values, states, attention, value_bias, output, order, first):
        up = r.norm(layer.ln_2).linear(layer.mlp.c_fc.weight.T, layer.mlp.c_fc.bias).activation(layer.mlp.act)
        result.append(r.add(up.linear(layer.mlp.c_proj.weight.T, layer.mlp.c_proj.bias)))
    return result


def by_hand(case, row, bias_rule, order):
    """(token contributions, the bias' own) of one example alone."""
    layers = case.layers(row)
    first = layers[0][1]
    n, zero = len(first), torch.zeros_like(first[0])
    states = [Vectors([first[i] if k == i else zero for k in range(n)] + [zero], bias_rule) for i in range(n)]
    block = bert_block if case.plain.config.model_type == "bert" else gpt2_block
    for number, (by_layer, _, attention) in enumerate(layers):
        states = block(by_layer.block, states, attention, order, number == 0)
    target = int(case.target[row])
    if case.plain.config.model_type == "bert":
        logits = bert_head(case.plain, states, target)
    else:
        logits = states[-1].norm(case.plain.transformer.ln_f).linear(case.plain.score.weight)
    found = torch.stack([part[target] for part in logits.vectors])
    return found[:-1], found[-1]


@replicates(DecompX)
@pytest.mark.parametrize("order", ["code", "paper"])
@pytest.mark.parametrize("bias", ["absdot", "apart"])
def test_decompx(case, bias, order):
    tokens, rest = DecompX(bias, order).contributions(case.model, case.batch, ClassTarget(case.target))
    for row, n in enumerate(LENGTHS):
        with torch.no_grad():
            slow, slow_rest = by_hand(case, row, bias, order)
        assert_same(tokens[row, :n], slow)
        assert_same(rest[row], slow_rest)
    assert_same(DecompX(bias, order)(case.model, case.batch, case.target).tokens, tokens * case.batch.attention_mask)


def test_the_two_orders_differ(case):
    """Else the tests above would not tell them apart."""
    one, other = (DecompX("absdot", order)(case.model, case.batch, case.target).tokens for order in ("code", "paper"))
    assert float((one - other).abs().max()) > 1e-4 * float(one.abs().max())


@pytest.mark.parametrize("bias", ["absdot", "apart"])
def test_small_chunks_give_the_same(case, bias):
    small = type(case.model)(**{**vars(case.model), "memory_budget": 1})
    pairs = [DecompX(bias).contributions(model, case.batch, ClassTarget(case.target)) for model in (case.model, small)]
    for one, other in zip(*pairs, strict=True):
        assert_same(one, other)


def tolerance(model):
    return 1e-6 if model.config.model_type in small_models.FLOAT32_INSIDE else 1e-12  # its norms compute in float32


@pytest.mark.parametrize("bias", ["absdot", "apart"])
@pytest.mark.parametrize("target", [0, 2])
def test_contributions_and_the_rest_add_up_to_the_logit(any_model, bias, target):
    model, batch = any_model
    chosen = ClassTarget(torch.full((len(batch),), target))
    tokens, rest = DecompX(bias).contributions(model, batch, chosen)
    logits = model.run(batch).logits[:, target]
    assert torch.allclose(tokens.sum(1) + rest, logits, atol=tolerance(model), rtol=0)
    if bias == "absdot":  # every bias has found its tokens
        assert not rest.any()
    assert not (tokens * ~batch.attention_mask).any()


def test_the_gradient_gives_what_the_parts_give(any_model):
    """Two routes to one linear map: its Jacobian's rows, and its images of one token at a time."""
    model, batch = any_model
    target = ClassTarget(torch.tensor([0, 1, 2]))
    tokens, rest = DecompX("apart").contributions(model, batch, target)
    owners = torch.eye(tokens.shape[1], dtype=tokens.dtype)[:, None].expand(-1, len(batch), -1)
    hidden = model.run(batch, record=("hidden",)).hidden[0]
    rows = torch.eye(hidden.shape[1], dtype=hidden.dtype)
    own = torch.cat([rows, torch.zeros_like(rows[:1])])[:, None, :, None]
    parts = DecompX._logit_parts(model, batch, target, decomposed(hidden, hidden * own), Parts("apart", owners=owners))
    assert torch.allclose(parts[:-1].T, tokens, atol=tolerance(model), rtol=0)
    assert torch.allclose(parts[-1], rest, atol=tolerance(model), rtol=0)


def test_the_model_computes_what_it_computed(any_model):
    """The parts ride along: the whole is the model's own, to the last bit."""
    model, batch = any_model
    hidden = model.run(batch, record=("hidden",)).hidden[0]
    start = decomposed(hidden, hidden[None].repeat(2, 1, 1, 1))
    with propagating(model.model, Parts()):
        logits = model.run(batch, start=(0, start)).logits.as_subclass(torch.Tensor)
    assert torch.equal(logits, model.run(batch, record=("attentions",)).logits)


def test_cross_attention_is_refused(case, monkeypatch):
    monkeypatch.setattr(case.model.config, "is_encoder_decoder", True)
    with pytest.raises(NotApplicable, match="cross-attention mixes two sequences"):
        DecompX()(case.model, case.batch, case.target)
