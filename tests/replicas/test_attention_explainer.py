"""Edge scores read out to tokens, heads and layers; the published methods made of both; and two streams of tokens."""

import numpy as np
import pytest
import torch

import benchmark
from benchmark.checking import small_models
from methods.attention_explainer import AttentionExplainer
from methods.edges.attention_norm import AttentionNorm
from methods.edges.product import FactorProduct
from methods.readouts.column_sum import ColumnSum
from methods.readouts.read_row import ReadRow
from methods.readouts.rollout import Rollout
from tests.replicas.blocks_by_hand import LENGTHS
from tests.replicas.conftest import assert_same
from tests.replicas.readouts.by_hand import flow_by_hand, generic_by_hand
from tests.replicas.registry import replicates


@replicates(AttentionExplainer, heads="max")
@pytest.mark.parametrize("edge_score", [FactorProduct(), FactorProduct(("attention", "gradient"))])
def test_heads_layers_totals_and_padding(model, batch, target, plain, edge_score):
    """Heads are the signed maximum over the example's own cells; padding enters nothing."""
    result = AttentionExplainer(edge_score, ColumnSum())(model, batch, target)
    assert result.heads.shape == (len(batch), model.n_layers, model.n_heads)
    for b, example in enumerate(plain):
        attention, gradient = example.attentions_and_gradients()
        scores = attention if edge_score == FactorProduct() else attention * gradient
        n = example.length
        for layer, head in np.ndindex(*scores.shape[:2]):
            cells = [float(scores[layer, head, i, j]) for i in range(n) for j in range(n)]
            assert float(result.heads[b, layer, head]) == pytest.approx(max(cells), abs=1e-9)
        for layer in range(model.n_layers):
            means = torch.stack([scores[layer, :, 0, j].mean() for j in range(n)])
            assert_same(result.layers[b, layer, :n], means)
            assert float(result.totals[b, layer]) == pytest.approx(float(scores[layer].sum()), abs=1e-9)
        column = torch.stack([scores[:, :, :, j].sum() for j in range(n)])
        assert_same(result.tokens[b, :n], column)
        assert not result.tokens[b, n:].any()
        assert not result.layers[b, :, n:].any()


@replicates(AttentionExplainer, heads="sum")
def test_a_head_may_have_the_sum_of_its_edges(model, batch, target, plain):
    result = AttentionExplainer(FactorProduct(("attention", "gradient")), ColumnSum(), heads="sum")(
        model, batch, target
    )
    for b, example in enumerate(plain):
        attention, gradient = example.attentions_and_gradients()
        assert_same(result.heads[b], (attention * gradient).sum((2, 3)))


def test_small_chunks_of_a_batch_give_the_same(model, batch, target):
    explainer = AttentionExplainer(FactorProduct(("attention", "gradient")), Rollout(normalize="none"))
    one_by_one = type(model)(**{**vars(model), "memory_budget": 1})
    whole, chunked = explainer(model, batch, target), explainer(one_by_one, batch, target)
    for name in ("tokens", "heads", "layers", "totals"):
        assert_same(getattr(chunked, name), getattr(whole, name))


def test_edges_without_heads_give_no_head_scores(case):
    explainers = [AttentionExplainer(edges, ReadRow()) for edges in (AttentionNorm(), AttentionNorm(heads="each"))]
    together, each = (explainer(case.model, case.batch, case.target) for explainer in explainers)
    assert together.heads is None
    assert each.heads.shape == (3, case.model.n_layers, 4)
    assert together.layers.shape == each.layers.shape
    scores = explainers[0].edge_scores(case.model, case.batch, case.target)
    assert scores.shape == (3, case.model.n_layers, 1, max(LENGTHS), max(LENGTHS))
    one_by_one = type(case.model)(**{**vars(case.model), "memory_budget": 1})
    assert explainers[0](one_by_one, case.batch, case.target).heads is None


def by_hand(name, attention, gradient):
    """Token scores of one example from A and ∂y_t/∂A [L H n n]; BERT reads token 0."""
    n_layers, n_heads, n = attention.shape[:3]
    if name == "attention_flow":
        return flow_by_hand(attention.mean(1), torch.eye(n)[0])
    if name == "generic_attention":
        return generic_by_hand(attention * gradient)[0]
    slow = torch.zeros(n, dtype=torch.float64)
    for j in range(n):
        if name == "max_attention":
            slow[j] = max(sum(float(head[0, j]) for head in layer) / n_heads for layer in attention)
        if name == "attention_gradient":
            slow[j] = sum(float(gradient[-1, h, 0, j]) for h in range(n_heads)) / n_heads
        if name == "grad_sam":  # the sum in place of the mean over layers, heads and queries
            queries = np.ndindex(n_layers, n_heads, n)
            slow[j] = sum(float(attention[at][j]) * max(float(gradient[at][j]), 0.0) for at in queries)
    return slow


@pytest.mark.parametrize(
    "name", ["attention_flow", "generic_attention", "max_attention", "attention_gradient", "grad_sam"]
)
def test_methods(model, batch, target, plain, name):
    found = benchmark.build(f"methods/{name}")(model, batch, target).tokens
    for row, example in enumerate(plain):
        slow = by_hand(name, *example.attentions_and_gradients())
        assert float((found[row, : example.length] - slow).abs().max()) < (1e-7 if name == "attention_flow" else 1e-9)
        assert not found[row, example.length :].any()


@pytest.fixture(scope="module")
def bart(tmp_path_factory):
    return small_models.load("bart", tmp_path_factory.mktemp("bart"))


@pytest.fixture(scope="module")
def bart_batch(bart):
    return bart.encode(small_models.inputs("bart"))


def normalised(matrix):
    return matrix / matrix.sum(axis=1, keepdims=True)


def folded(encoder, decoder):
    """Decoder position p holds input token p - 1; position 0 holds the start token."""
    return [encoder[j] + (decoder[j + 1] if j + 1 < len(decoder) else 0.0) for j in range(len(encoder))]


def test_rollout_of_an_encoder_decoder(bart, bart_batch):
    found = benchmark.build("methods/rollout")(bart, bart_batch, torch.tensor([0, 1, 2])).tokens
    attentions = [layer.mean(1).numpy() for layer in bart.run(bart_batch, record=("attentions",)).attentions]
    for b, length in enumerate(bart_batch.attention_mask.sum(1).tolist()):
        encoder_0, encoder_1, decoder_0, cross_0, decoder_1, cross_1 = (a[b, :length, :length] for a in attentions)
        eye = np.eye(length)
        encoder = normalised(eye + encoder_1) @ normalised(eye + encoder_0)  # encoder states from encoder inputs
        from_decoder, from_encoder = eye, np.zeros((length, length))  # decoder states from the inputs of either
        for self_attention, cross_attention in ((decoder_0, cross_0), (decoder_1, cross_1)):
            mixing = normalised(eye + self_attention)
            from_decoder, from_encoder = mixing @ from_decoder, mixing @ from_encoder
            # half of a cross-attended state is its own residual, half comes from the encoder's last states
            from_decoder, from_encoder = from_decoder / 2, (from_encoder + cross_attention @ encoder) / 2
        expected = folded(from_encoder[length - 1], from_decoder[length - 1])
        assert np.allclose(found[b, :length].numpy(), expected, atol=1e-12)
        # all of the state is shared out, but for what falls on the decoder's start token
        assert sum(expected) == pytest.approx(1 - from_decoder[length - 1, 0])


def test_attattr_of_every_call_against_full_passes(bart, bart_batch):
    """Restarts are exact: each step is here a whole forward pass in which one call's probabilities are replaced."""
    method = benchmark.build("methods/attattr", "edges.steps=3", "edges.quadrature=midpoint")
    target = torch.tensor([0, 1, 2])
    found = method.edges(bart, bart_batch, target)
    attentions = bart.run(bart_batch, record=("attentions",)).attentions
    total = torch.zeros(len(bart_batch), 2 * bart_batch.units.shape[1], dtype=torch.float64)
    for call, attention in enumerate(attentions):
        gradient = torch.zeros_like(attention)
        for alpha in (1 / 6, 3 / 6, 5 / 6):
            scaled = (alpha * attention).requires_grad_()
            with torch.enable_grad():
                probability = bart.run(bart_batch, replace={call: scaled}, grad=True).probabilities
            gradient += torch.autograd.grad(probability.gather(1, target[:, None]).sum(), scaled)[0] / 3
        expected = attention * gradient
        assert torch.allclose(found[call], expected, atol=1e-14)
        assert bool(expected.any())
        side = slice(12, 24) if bart.attention_names[call].startswith("decoder") else slice(0, 12)
        total[:, side] += (expected * bart_batch.attention_mask[:, None, :, None]).clamp(min=0).sum((1, 2))
    tokens = method(bart, bart_batch, target).tokens
    for b, length in enumerate(bart_batch.attention_mask.sum(1).tolist()):
        slow = folded(total[b, :length].tolist(), total[b, 12 : 12 + length].tolist())
        assert torch.allclose(tokens[b, :length], torch.tensor(slow, dtype=torch.float64), atol=1e-14)


def test_raw_attention_is_the_last_cross_attention_of_the_state_that_is_read(bart, bart_batch):
    found = benchmark.build("methods/raw_attention")(bart, bart_batch, torch.tensor([0, 1, 2])).tokens
    last = bart.run(bart_batch, record=("attentions",)).attentions[-1]
    for b, length in enumerate(bart_batch.attention_mask.sum(1).tolist()):
        expected = [float(np.mean([last[b, h, length - 1, j] for h in range(bart.n_heads)])) for j in range(length)]
        assert found[b, :length].tolist() == pytest.approx(expected, abs=1e-15)
