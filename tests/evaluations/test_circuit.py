"""How much of an answer circuits keep up: areas of the published code, their intervals, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import rel_entr, softmax

from benchmark.checking import small_models
from benchmark.errors import NotApplicable
from benchmark.evaluations.circuit import SIZES, Circuit, trapezoid_weights
from benchmark.models.components import Components
from benchmark.results.record import Figure
from benchmark.targets import Contrast
from benchmark.types import Attribution
from tests.models.test_components import golden, with_counterparts


@pytest.fixture(scope="module", params=["gpt2", "llama"])
def case(request):
    model, batch, stored = golden(request.param)
    first = torch.zeros(len(batch), dtype=torch.long)
    return model, batch, Contrast(first, first + 1), stored


def figures(case, test, level, method):
    model, batch, target, stored = case
    scores = torch.from_numpy(stored[f"{level}/{method}/scores"])
    field = {"edge": "components", "node": "nodes"}[level]
    given = Attribution(target, **{field: scores[None].expand(len(batch), *scores.shape)})
    return test.reduce(test.rows(model, batch, given))


@pytest.mark.parametrize(
    ("level", "method"), [("edge", "eap"), ("edge", "exact"), ("edge", "random"), ("node", "eap"), ("node", "exact")]
)
def test_areas_are_those_of_the_published_code(case, level, method):
    """m, f, CPR and CMD by the signed order and by magnitude, whose interval the published code does not have."""
    stored = case[3]
    found = figures(case, Circuit(level=f"{level}s"), level, method)
    by_name = {one.metric: one for one in found if np.isnan(one.x)}
    assert by_name["cpr"].value == pytest.approx(float(stored[f"{level}/{method}/signed/cpr"]), abs=1e-6)
    assert by_name["cmd"].value == pytest.approx(float(stored[f"{level}/{method}/abs/cmd"]), abs=1e-6)
    curve = [one.value for one in found if one.metric == "faithfulness"]
    assert np.allclose(curve, stored[f"{level}/{method}/signed/f"], atol=1e-5)
    counted = [one.value for one in found if one.metric == "edges"]
    if level == "edge":
        assert np.array_equal(counted, stored[f"{level}/{method}/signed/weighted_edge_count"])
    for name in ("cpr", "cmd"):
        assert by_name[name].low <= by_name[name].value <= by_name[name].high
        assert by_name[name].n == 8


def test_greedy_circuits_too(case):
    stored = case[3]
    found = {one.metric: one.value for one in figures(case, Circuit(level="edges", order="greedy"), "edge", "eap")}
    assert found["cpr"] == pytest.approx(float(stored["edge/eap/greedy/cpr"]), abs=1e-6)
    assert found["cmd"] == pytest.approx(float(stored["edge/eap/greedy/cmd"]), abs=1e-6)


def test_the_whole_is_one_and_nothing_is_zero(case):
    found = figures(case, Circuit(level="edges"), "edge", "eap")
    curve = {one.x: one.value for one in found if one.metric == "faithfulness"}
    assert curve[1.0] == 1.0
    assert curve[min(SIZES)] == 0.0, "a thousandth of so few edges is none"


def test_a_divergence_is_that_of_the_classes_of_the_whole_model(case):
    """f = 1 − KL(all ‖ C) / KL(all ‖ ∅), means first, by scipy; the whole is 1, nothing 0, and none is more than 1."""
    model, batch, _, stored = case
    found = figures(case, Circuit(level="edges", measure="divergence"), "edge", "eap")
    curve = {one.x: one.value for one in found if one.metric == "faithfulness"}
    assert curve[1.0] == 1.0
    assert curve[min(SIZES)] == 0.0
    assert max(curve.values()) <= 1.0
    components = Components.of(model, batch)
    kept = [torch.from_numpy(stored["edge/eap/signed/circuits"][place]) for place in (-1, SIZES.index(0.2), 0)]
    logits = components.run(batch.tensors, torch.stack(kept), components.others(batch, "patching"))
    whole, part, nothing = (softmax(one.numpy(), axis=-1) for one in logits)
    lost = [rel_entr(whole, one).sum(-1).mean() for one in (part, nothing)]
    assert curve[0.2] == pytest.approx(1 - lost[0] / lost[1], rel=1e-9)
    assert Circuit(measure="divergence").metrics["cpr"].title == "CPR, circuits of heads, divergence"


def test_no_divergence_between_labels_that_do_not_exclude_each_other(bert, monkeypatch):
    model, batch = bert
    monkeypatch.setattr(model.config, "problem_type", "multi_label_classification")
    heads = (
        torch.arange(float(model.n_layers * model.n_heads)).reshape(1, model.n_layers, -1).expand(len(batch), -1, -1)
    )
    attribution = Attribution(Contrast(batch.label * 0, batch.label * 0 + 1), heads=heads)
    with pytest.raises(NotApplicable, match="a probability of its own"):
        Circuit(measure="divergence").rows(model, batch, attribution)


def test_weights_are_those_of_trapezoids():
    y = np.random.default_rng(0).random(len(SIZES))
    assert trapezoid_weights(SIZES) @ y == pytest.approx(np.trapezoid(y, SIZES))
    assert trapezoid_weights(SIZES)[-2:].sum() > 0.6, "the last two shares decide"


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    model = small_models.load("bert", tmp_path_factory.mktemp("circuit"))
    return model, with_counterparts(model, "bert")


def given(model, batch, heads):
    return Attribution(model.target(batch, "margin"), heads=heads)


def test_heads_that_are_not_of_a_circuit_are_patched_and_all_else_is_as_it_is(bert):
    model, batch = bert
    numbers = torch.arange(float(model.n_layers * model.n_heads))
    signed = torch.where(
        numbers % 2 == 0, numbers, -numbers
    )  # so that as many circuits are run of it and of its negative
    heads = signed.reshape(1, model.n_layers, -1).expand(len(batch), -1, -1)
    rows = Circuit(fractions=(0.5, 1.0)).rows(model, batch, given(model, batch, heads))
    values = rows.set_index(["metric", "uid"])["value"]
    room = values["room"].to_numpy()
    gained = rows[(rows["metric"] == "gained") & (rows["x"] == 1.0)]["value"].to_numpy()
    assert np.array_equal(gained, room)
    magnitude = Circuit(fractions=(0.5, 1.0)).rows(model, batch, given(model, batch, -heads))
    halves = [
        frame[(frame["metric"] == "loss") & (frame["x"] == 0.5)]["value"].to_numpy() for frame in (rows, magnitude)
    ]
    assert np.array_equal(*halves), "by magnitude a sign does not matter"


def test_each_example_may_have_a_circuit_of_its_own(bert):
    model, batch = bert
    heads = torch.from_numpy(np.random.default_rng(0).random((len(batch), model.n_layers, model.n_heads)))
    test = Circuit(calibration="each")
    together = test.rows(model, batch, given(model, batch, heads))
    alone = batch.select([1])
    single = test.rows(model, alone, given(model, alone, heads[1:2]))
    own = together[together["uid"] == batch.uids[1]].reset_index(drop=True)
    assert np.allclose(own["value"], single["value"], atol=1e-9)


def test_what_orders_nothing_is_no_circuit(bert):
    model, batch = bert
    with pytest.raises(NotApplicable, match="all equal"):
        Circuit().rows(model, batch, given(model, batch, torch.ones(len(batch), model.n_layers, model.n_heads)))
    with pytest.raises(NotApplicable, match="does not score edges of the computation graph"):
        Circuit(level="edges").rows(
            model, batch, given(model, batch, torch.ones(len(batch), model.n_layers, model.n_heads))
        )
    none = replace(batch, corrupted={})
    heads = (
        torch.arange(float(model.n_layers * model.n_heads)).reshape(1, model.n_layers, -1).expand(len(batch), -1, -1)
    )
    with pytest.raises(NotApplicable, match="no corrupted counterparts"):
        Circuit().rows(model, none, given(model, none, heads))
    assert len(Circuit(ablation="zero").rows(model, none, given(model, none, heads)))


def test_more_than_the_whole_is_told():
    test = Circuit()

    def told(value):
        return test.caution([Figure("faithfulness", 0.5, value, value, value, 9), Figure("cpr", np.nan, 3.0, 3, 3, 9)])

    assert told(0.99) is None
    assert "up to 1.25 of the whole model's value" in told(1.25)


def test_where_counterparts_are_answered_as_well_nothing_is_kept_up(bert):
    model, batch = bert
    heads = (
        torch.arange(float(model.n_layers * model.n_heads)).reshape(1, model.n_layers, -1).expand(len(batch), -1, -1)
    )
    test = Circuit()
    rows = test.rows(model, batch, given(model, batch, heads))
    turned = rows.assign(value=np.where(rows["metric"] == "room", -rows["value"].abs(), rows["value"]))
    with pytest.raises(NotApplicable, match="nothing to keep up"):
        test.reduce(turned)
    assert all(one.value >= 0 for one in test.reduce(rows.assign(value=rows["value"].abs())) if one.metric == "cmd")
