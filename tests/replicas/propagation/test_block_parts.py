"""Value zeroing, norm-based attention, ALTI and GlobEnc against loops over tokens and heads, and their laws."""

import numpy as np
import pytest
import torch

import benchmark
from benchmark.errors import NotApplicable
from methods.attention_explainer import AttentionExplainer
from methods.edges.alti import Alti
from methods.edges.attention_norm import AttentionNorm, AttentionNormResidual
from methods.edges.attention_x_input_norm import AttentionTimesInputNorm
from methods.edges.value_zeroing import ValueZeroing
from methods.propagation.block_parts import decompose_block, head_vectors, mixed
from methods.readouts.read_row import ReadRow
from tests import tiny_models
from tests.replicas.blocks_by_hand import LENGTHS, Case, layer_norm, norm_of_part
from tests.replicas.conftest import assert_same


@pytest.fixture(scope="module", params=["bert", "gpt2"])
def case(request, tmp_path_factory):
    return Case(request.param, tmp_path_factory.mktemp("decomposition"))


def sublayer_part(block, x, attention, i, j):
    """f_ij = Σ_h A_hij v_hj W_O^h."""
    v = block.value(x[j])
    return sum(attention[h, i, j] * block.project(h, v[h]) for h in range(block.heads))


def residual_part(block, x, attention, i, j):
    return sublayer_part(block, x, attention, i, j) + (x[i] if i == j else 0)


def residual_sum(block, x, attention, i):
    return sum(residual_part(block, x, attention, i, j) for j in range(len(x))) + block.output_bias


def normed(block, x, attention, i):
    """What the feed-forward network's sum takes in."""
    whole = residual_sum(block, x, attention, i)
    return layer_norm(block.norm_1, whole) if block.post_norms else whole


def normed_part(block, x, attention, i, j):
    part = residual_part(block, x, attention, i, j)
    return norm_of_part(block.norm_1, residual_sum(block, x, attention, i), part) if block.post_norms else part


def output(block, x, attention, i):
    r = normed(block, x, attention, i)
    whole = r + block.feed_forward(r)
    return layer_norm(block.norm_2, whole) if block.post_norms else whole


def output_part(block, x, attention, i, j):
    r, part = normed(block, x, attention, i), normed_part(block, x, attention, i, j)
    return norm_of_part(block.norm_2, r + block.feed_forward(r), part) if block.post_norms else part


def by_cell(block, x, attention, score):
    n = len(x)
    return torch.stack([torch.stack([score(block, x, attention, i, j) for j in range(n)]) for i in range(n)])


def norm_by_hand(part):
    return lambda *cell: part(*cell).square().sum().sqrt()


def rows_divided(scores):
    return torch.stack([row / row.sum() if row.sum() > 0 else row for row in scores])


def alti_by_hand(block, x, attention):
    def contribution(block, x, attention, i, j):
        y = normed(block, x, attention, i)
        return (y.abs().sum() - (y - normed_part(block, x, attention, i, j)).abs().sum()).clamp(min=0)

    return rows_divided(by_cell(block, x, attention, contribution))


def value_zeroing_by_hand(block, x, attention):
    """Zeroing v_j zeroes column j of the attention."""

    def distance(block, x, attention, i, j):
        without = attention.clone()
        without[:, :, j] = 0
        # The residual of token i stays; only what attention carries from j goes.
        whole, changed = output(block, x, attention, i), output(block, x, without, i)
        return 1 - torch.nn.functional.cosine_similarity(whole, changed, dim=0, eps=0)

    return rows_divided(by_cell(block, x, attention, distance))


def compare(edges, case, slow, heads=1):
    found = edges(case.model, case.batch, case.target)
    with torch.no_grad():
        for row, n in enumerate(LENGTHS):
            for layer, (block, x, attention) in enumerate(case.layers(row)):
                expected = slow(block, x, attention)
                expected = expected if expected.dim() == 3 else expected[None]
                assert found[layer].shape[1] == len(expected) == heads
                own = found[layer][row, :, :n, :n]
                assert torch.allclose(own, expected, atol=1e-9, rtol=1e-9), float((own - expected).abs().max())
                assert not found[layer][row, :, :n, n:].any()  # no token mixes padding in


def test_value_zeroing(case):
    compare(ValueZeroing(), case, value_zeroing_by_hand)


def test_attention_norm(case):
    compare(AttentionNorm(), case, lambda *block: by_cell(*block, norm_by_hand(sublayer_part)))


def test_attention_norm_of_each_head(case):
    def slow(block, x, attention):
        scores = torch.zeros_like(attention)
        for h, i, j in np.ndindex(*attention.shape):
            scores[h, i, j] = (attention[h, i, j] * block.project(h, block.value(x[j])[h])).square().sum().sqrt()
        return scores

    compare(AttentionNorm(heads="each"), case, slow, heads=4)


@pytest.mark.parametrize(("through", "part"), [("residual", residual_part), ("layer_norm", normed_part)])
def test_attention_norm_residual(case, through, part):
    compare(AttentionNormResidual(through), case, lambda *block: by_cell(*block, norm_by_hand(part)))


def test_alti(case):
    compare(Alti(), case, alti_by_hand)


def test_globenc(case):
    compare(AttentionNormResidual("block"), case, lambda *block: by_cell(*block, norm_by_hand(output_part)))


def test_attention_times_input_norm(case):
    def slow(_, x, attention):
        scores = torch.zeros_like(attention)
        for h, i, j in np.ndindex(*attention.shape):
            scores[h, i, j] = attention[h, i, j] * x[j].square().sum().sqrt()
        return scores

    compare(AttentionTimesInputNorm(), case, slow, heads=4)


@pytest.mark.parametrize("edges", [ValueZeroing(), AttentionNorm(), Alti(), AttentionNormResidual("block")])
def test_small_chunks_give_the_same(case, edges):
    small = type(case.model)(**{**vars(case.model), "memory_budget": 1})
    found = edges(small, case.batch, case.target)
    for one, other in zip(edges(case.model, case.batch, case.target), found, strict=True):
        assert_same(one, other)


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


def test_what_the_first_token_of_a_decoder_mixes_is_itself(tmp_path):
    case = Case("gpt2", tmp_path)
    for edges in (ValueZeroing(), Alti()):
        for layer in edges(case.model, case.batch, case.target):
            assert torch.allclose(layer[:, 0, 0, 0], torch.ones(3, dtype=torch.float64))


@pytest.fixture(scope="module", params=[name for name in tiny_models.FAMILIES if name != "bart"])  # cross-attention
def any_model(request, tmp_path_factory):
    folder = tiny_models.save(request.param, tmp_path_factory.mktemp("families"))
    model = benchmark.load_model(folder, dtype="float64", device="cpu")
    return model, model.encode(tiny_models.inputs(request.param))


def gathered(model, batch, layer, trace, through):
    pairs = list(decompose_block(model, batch, layer, trace.hidden[layer], trace.attentions[layer], through))
    return pairs[0][0], torch.cat([parts for _, parts in pairs])


def test_parts_and_one_bias_sum_to_the_whole_in_every_family(any_model):
    """What no token has of a sublayer is the bias of its projection: the same vector at every token of every example."""
    model, batch = any_model
    trace = model.run(batch, record=("attentions", "hidden"))
    n = batch.units.shape[1]
    for layer, hidden in enumerate(trace.hidden):
        vectors = head_vectors(model, batch, layer, hidden)
        parts = torch.cat(list(mixed(model, trace.attentions[layer], vectors)))
        whole, with_residual = gathered(model, batch, layer, trace, "residual")
        rest = (whole - with_residual.sum(0))[batch.attention_mask]
        assert torch.allclose(rest, rest[:1].expand_as(rest), atol=1e-12, rtol=0)
        own = with_residual - parts
        for i, j in np.ndindex(n, n):
            assert torch.allclose(
                own[j, :, i], hidden[:, i] if i == j else torch.zeros(()).double(), atol=1e-12, rtol=0
            )
        if layer + 1 < model.n_layers:
            block = gathered(model, batch, layer, trace, "block")[0]
            assert torch.allclose(block, trace.hidden[layer + 1], atol=1e-12, rtol=0)


def test_without_norms_on_the_stream_the_depths_agree(any_model):
    model, batch = any_model
    trace = model.run(batch, record=("attentions", "hidden"))
    pre_norm = model.config.model_type in ("gpt2", "llama", "qwen3", "vit", "deit", "dinov2", "beit", "modernbert")
    for layer in range(model.n_layers):
        depths = [gathered(model, batch, layer, trace, through)[1] for through in ("residual", "layer_norm", "block")]
        assert torch.allclose(depths[0], depths[1]) == pre_norm
        assert torch.allclose(depths[1], depths[2]) == pre_norm


@pytest.mark.parametrize(
    "edges",
    [
        ValueZeroing(),
        AttentionNorm(),
        AttentionNorm(heads="each"),
        Alti(),
        AttentionNormResidual("block"),
        AttentionTimesInputNorm(),
    ],
)
def test_cross_attention_is_refused(case, edges, monkeypatch):
    monkeypatch.setattr(case.model.config, "is_encoder_decoder", True)
    with pytest.raises(NotApplicable, match="cross-attention mixes two sequences"):
        edges(case.model, case.batch, case.target)


@pytest.mark.parametrize("edges", [AttentionNorm(), AttentionNorm(heads="each"), Alti()])
def test_a_norm_before_the_residual_sum_is_refused(case, edges, monkeypatch):
    """The vectors of the heads are projected without the example's attention, whose deviation such a norm needs."""
    for layer in range(case.model.n_layers):
        block = case.block_type(case.model.model, layer).block
        dropout = block.attention.output.dropout if case.block_type.post_norms else block.attn.resid_dropout
        monkeypatch.setattr(dropout, "forward", lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]))
    with pytest.raises(NotApplicable, match="normalises what attention gives before the residual sum"):
        edges(case.model, case.batch, case.target)
