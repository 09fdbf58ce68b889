"""Which weights are edited, by family; and that editing nothing changes nothing."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon

from benchmark.analyses.ablation import ablated_logits, ablation_plan
from benchmark.analyses.debate.scopes import scopes
from benchmark.analyses.debate.uniform_attention import uniform
from benchmark.models.divergences import LARGEST_JSD, jsd, largest_jsd, total_variation
from benchmark.models.parts import blocks_parts
from tests.analyses.debate.conftest import ALL, within


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama", "modernbert", "bart", "vit", "beit"])
def test_permitted_keys_are_those_of_the_mask(family, unedited):
    base = unedited(family)
    for attention, permitted in zip(base.attentions, base.permitted, strict=True):
        rows = attention.transpose(1, 2)[base.batch.attention_mask]  # of queries that are no padding
        allowed = permitted.transpose(1, 2)[base.batch.attention_mask]
        assert (rows.masked_fill(allowed, 0) == 0).all()
        assert torch.equal((rows > 0).any(1, keepdim=True), allowed), "in these models no probability underflows"


def test_a_causal_model_permits_a_token_and_those_before_it(unedited):
    base = unedited("gpt2", (6, 6))
    expected = torch.ones(6, 6, dtype=torch.bool).tril()
    assert all(torch.equal(permitted[0, 0], expected) for permitted in base.permitted)
    rows = within(base, -1).rows[0]
    assert rows.edited[0].tolist() == [False, True, True, True, True, True], "one key alone cannot be edited"


def test_scopes_name_layers_as_everything_else_does(unedited):
    names = [scope.name for scope in scopes(unedited("bert").model, ALL)]
    assert names == ["last layer, read row", "layer 0", "layer 1", "all layers"]
    model = unedited("bart").model
    assert [scope.name for scope in scopes(model, ("each_layer",))] == [
        f"layer {n}" for n in model.attention_names[:-1]
    ]
    (read,) = scopes(model, ("read_row",))
    assert model.attention_names[read.layers[0]] == "cross.1"
    assert {model.attention_names[i] for i in read.read_only} == {"decoder.1", "cross.1"}


@pytest.mark.parametrize("family", ["bert", "gpt2", "albert", "bart", "vit", "beit"])
def test_rows_that_are_left_out_cannot_change_the_output(family, unedited):
    """All layers with weights of their own change nothing; rows of the last block that are not read may be anything."""
    base = unedited(family)
    example = torch.arange(len(base.batch))
    for number in range(base.model.n_layers + 1):
        selected = within(base, number)
        same = selected.logits(example, selected.weights).double().softmax(-1)
        assert torch.allclose(same, base.probabilities, atol=1e-9), selected.scope.name
    everything = {}
    for i in within(base, -1).scope.read_only:
        rows = torch.zeros_like(base.attentions[i])
        rows[..., 0] = 1.0
        edited = within(base, -1)
        query = edited.rows[i].query[:, None, :, None].expand_as(edited.weights[i])
        everything[i] = rows.scatter(2, query, edited.weights[i])
    other = base.model.run(base.batch, replace=everything).logits.double().softmax(-1)
    assert torch.allclose(other, base.probabilities, atol=1e-9)


def test_only_words_are_edited_where_asked(place):
    from benchmark import load_model
    from benchmark.analyses.debate.edited_runs import Unedited

    model = load_model(place / "bert", dtype="float64", device="cpu")
    base = Unedited.of(model, model.encode(["the film was good", "dull"]))
    movable = within(base, 0, "words").rows[1].movable
    assert movable[0, 0].tolist() == [False, True, True, True, True, False]
    assert not movable[1].any(), "one word alone has nowhere to move its weight"
    assert within(base, 0, "words").count.tolist() == [2, 0]


def test_uniform_attention_equals_the_ablation(unedited):
    base = unedited("bert")
    plan = ablation_plan(3)
    ablated = ablated_logits(base.model, base.batch, blocks_parts(base.model, base.batch), plan).softmax(-1)
    for run, number in ((9, 1), (10, 2), (11, 0), (12, 3)):  # after the model as it is: two ablations of four runs each
        selected = within(base, number)
        found = selected.logits(torch.arange(3), uniform(selected)).softmax(-1)
        assert torch.allclose(found, ablated[run], atol=1e-9)
        assert not torch.allclose(found, base.probabilities, atol=1e-4)


# 0, or large enough that half of it is not 0: scipy's divergence of the smallest float is infinite
WEIGHT = st.just(0.0) | st.floats(1e-12, 1)
ROWS = st.lists(WEIGHT, min_size=2, max_size=6).filter(lambda row: sum(row) > 1e-3)


@settings(max_examples=60)
@given(ROWS, st.data())
def test_divergences_are_those_of_scipy_and_bounded(row, data):
    other = data.draw(st.lists(WEIGHT, min_size=len(row), max_size=len(row)).filter(lambda r: sum(r) > 1e-3))
    p, q = (torch.tensor(values, dtype=torch.float64) for values in (row, other))
    p, q = p / p.sum(), q / q.sum()
    assert 0 <= float(jsd(p, q)) <= LARGEST_JSD
    assert float(jsd(p, q)) == pytest.approx(jensenshannon(p, q) ** 2, abs=1e-7)
    most = float(largest_jsd(p, torch.ones_like(p, dtype=torch.bool)))
    assert float(jsd(p, q)) <= most + 1e-12
    corners = torch.eye(len(p), dtype=torch.float64)
    assert most == pytest.approx(float(jsd(p.expand_as(corners), corners).max()), abs=1e-12)


def test_divergences_of_two_tokens_by_hand():
    p, q = torch.tensor([0.8, 0.2], dtype=torch.float64), torch.tensor([0.3, 0.7], dtype=torch.float64)
    middle = [0.55, 0.45]
    kl = [sum(a * math.log(a / m) for a, m in zip(row, middle, strict=True)) for row in ([0.8, 0.2], [0.3, 0.7])]
    assert float(jsd(p, q)) == pytest.approx(sum(kl) / 2)
    assert float(total_variation(p, q)) == pytest.approx(0.5)
    apart = jsd(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0]))
    assert float(apart) == pytest.approx(math.log(2))
