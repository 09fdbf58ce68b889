"""Attention of two models by hand, matching of heads, shares of variance, and what of an explanation is the seed."""

import copy
from dataclasses import replace
from itertools import permutations
from math import log

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from scipy import stats

from benchmark.analyses import opening
from benchmark.analyses.context import Context
from benchmark.analyses.debate.adversarial_training import AdversarialTraining, measured
from benchmark.analyses.debate.attention_pairs import head_divergences, in_order, matched, recorded_pairs, same_tokens
from benchmark.analyses.debate.seed_variance import THIS, Seeds, mean_correlations
from benchmark.analyses.debate.trained import models_of
from benchmark.errors import NotApplicable, UserError
from benchmark.models.divergences import jsd, total_variation
from benchmark.models.edits import make_uniform
from benchmark.models.precision import around
from benchmark.run.workbench import open_setting
from benchmark.settings.configuration import compose
from tests import text_models
from tests.analyses.test_analyses import config


@pytest.fixture(scope="module")
def context(place):
    setting = open_setting(config(place, "methods=[raw_attention,random,probe]", "limit=6"))
    return Context(setting, {name: setting.cell(name) for name in setting.config.methods}, {})


@pytest.fixture
def other(place, monkeypatch):
    """Overrides of a model of another seed, composed with the test's folder of YAMLs."""
    monkeypatch.setattr(opening, "compose", lambda name, given: compose(name, given, str(place / "conf")))
    return ["model=hf", f"model.path={text_models.save_bert(place / 'other', seed=1)}"]


def test_heads_of_two_models_equal_a_loop(context, other):
    first, second = context.setting, opening.with_model(context.setting, opening.composed(other, "settings").model)
    batch = first.data.batches[0]
    (recorded,) = recorded_pairs(first.model, second.model, [batch])
    for which, length_of in (("all queries", lambda n: range(n)), ("read token", lambda _: [0])):
        found = head_divergences(recorded, recorded.rows[which])
        for b, length in enumerate(batch.attention_mask.sum(1).tolist()):
            for layer, h, g in np.ndindex(2, 2, 2):
                a, c = recorded.attentions[0][layer][b, h], recorded.attentions[1][layer][b, g]
                expected = np.mean([float(jsd(a[i, :length], c[i, :length])) for i in length_of(length)])
                assert float(found[b, layer, h, g]) == pytest.approx(expected, abs=1e-6)


def test_heads_are_matched_so_that_their_mean_is_least():
    divergences = np.random.default_rng(0).random((5, 2, 4, 4))
    for layer in range(2):
        mean = divergences[:, layer].mean(0)
        best = min(permutations(range(4)), key=lambda order: sum(mean[h, g] for h, g in enumerate(order)))
        expected = np.mean([divergences[:, layer, h, g] for h, g in enumerate(best)], axis=0)
        assert matched(divergences)[:, layer] == pytest.approx(expected)
        assert in_order(divergences)[:, layer] == pytest.approx(
            np.mean([divergences[:, layer, h, h] for h in range(4)], axis=0)
        )


def test_a_model_with_its_heads_exchanged_is_no_other_model(context):
    """Both heads of a layer change places: outputs and matched heads are the same, heads in order are not."""
    model = context.setting.model
    changed = around(model, copy.deepcopy(model.model))
    size = 8
    with torch.no_grad():
        for layer in changed.model.bert.encoder.layer:
            own = layer.attention.self
            for part in (own.query, own.key, own.value):
                part.weight.copy_(part.weight.roll(size, 0))
                part.bias.copy_(part.bias.roll(size, 0))
            layer.attention.output.dense.weight.copy_(layer.attention.output.dense.weight.roll(size, 1))
    columns = measured(changed, model, context.setting.data.batches)
    assert columns["TVD"].max() < 1e-6
    assert columns["JSD, heads matched"].max() < 1e-6
    assert columns["JSD"].min() > 1e-3


def test_correlations_of_word_scores():
    seeds = [[np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0])], [np.array([1.0, 3.0, 2.0]), np.array([1.0, 2.0])],
             [np.array([3.0, 2.0, 1.0]), np.array([1.0, 2.0])]]  # fmt: skip
    found = mean_correlations(seeds)
    pairs = [(0, 1), (0, 2), (1, 2)]
    assert found[0] == pytest.approx(np.mean([stats.spearmanr(seeds[a][0], seeds[b][0]).statistic for a, b in pairs]))
    assert np.isnan(found[1]), "constant under one seed"
    ranks = np.stack([stats.zscore(stats.rankdata(scores[0])) for scores in seeds])
    within = ranks.var(axis=0, ddof=1).mean()  # of a word between seeds; in units of the variance of a seed's ranks
    assert 1 - found[0] == pytest.approx(within), "1 - ρ is the share of variance that is not the word's"
    same = np.random.default_rng(0).standard_normal(7)
    assert mean_correlations([[same], [same], [same]])[0] == 1, "exactly, whatever the rounding"


def test_tables_of_seeds(context, other):
    attention, explainers = Seeds({"other": other, "left out": None})(context)
    found = attention.rows.set_index(["queries", "layer", "metric"])
    assert {*attention.rows["n"]} == {6}
    values = found["value"]
    assert values["all queries", "all", "JSD, heads matched"] <= values["all queries", "all", "JSD, heads in order"]
    assert 0 < values["read token", "1", "JSD, heads matched"] <= log(2)
    assert found.loc[("all queries", "0", "share of examples"), "note"] == "needs three seeds"
    rows = explainers.rows.set_index(["explainer", "metric"])
    second = opening.with_model(context.setting, opening.composed(other, "settings").model)
    alike = [a == b for a, b in zip(*(targets(setting) for setting in (context.setting, second)), strict=True)]
    assert rows.loc[("probe", "rank correlation between seeds"), "value"] == pytest.approx(1), "it reads no model"
    assert rows.loc[("probe", "share of the seed"), "value"] == pytest.approx(0, abs=1e-9)
    assert rows.loc[("raw_attention", "rank correlation between seeds"), "n"] <= sum(alike)
    assert rows.loc[("raw_attention", "rank correlation between seeds"), "value"] < 1
    attention.check()
    explainers.check()


def targets(setting):
    return [
        target
        for index in range(len(setting.data.batches))
        for target in setting.data.target(index, "predicted").classes.tolist()
    ]


def test_the_same_model_twice_is_a_mistake(place, context, monkeypatch):
    monkeypatch.setattr(opening, "compose", lambda name, given: compose(name, given, str(place / "conf")))
    with pytest.raises(UserError, match=f"'again' is the same model as '{THIS}'"):
        Seeds({"again": ["model=hf", f"model.path={place / 'bert'}"]})(context)
    with pytest.raises(UserError, match="names no model"):
        Seeds({"left out": None})


def test_other_tokens_cannot_be_compared(context):
    """The same words in as many tokens, whose ids differ: another vocabulary."""
    batches = context.setting.data.batches
    same_tokens(batches, batches)
    ids = {**batches[0].tensors, "input_ids": batches[0].tensors["input_ids"] + 1}
    with pytest.raises(NotApplicable, match="different tokens"):
        same_tokens(batches, [replace(batches[0], tensors=ids), *batches[1:]])


@pytest.mark.parametrize(
    ("tiny", "found"),
    [
        ([], "4 layers of 4 heads, and 'bert' 2 of"),
        (["model.layers=2", "model.heads=2", "model.vocab_size=8"], "a vocabulary of its own, and not that of 'bert'"),
    ],
)
@pytest.mark.parametrize("make", [lambda models: Seeds(models), lambda models: AdversarialTraining(seeds=models)])
def test_models_of_another_kind_are_refused_before_any_is_trained(place, context, monkeypatch, tiny, found, make):
    def trained(*_, **__):
        raise AssertionError("a model was trained, or opened")

    monkeypatch.setattr("benchmark.training.small.trained_once", trained)
    monkeypatch.setattr(opening, "open_setting", trained)
    analysis = make({"two": ["model=tiny", "model.seed=1", *tiny]})
    assert analysis.reads(context) == {}
    with pytest.raises(NotApplicable, match=f"the model of 'two' would have {found}"):
        analysis(context)


def test_models_of_other_shapes_cannot_be_compared(place, context, other):
    other[1] = f"model.path={text_models.save_bert(place / 'deep', seed=1, layers=3)}"
    with pytest.raises(NotApplicable, match="layers, heads and classes of the models differ"):
        Seeds({"deep": other})(context)


def test_the_curve_has_adversaries_seeds_and_uniform_attention(context, other, tmp_path, monkeypatch):
    monkeypatch.setenv("ATTENTION_BENCHMARK_CACHE", str(tmp_path))
    adversary = ["model=adversarial", "model.course.steps=2", "model.device=cpu"]
    analysis = AdversarialTraining(adversary, (0.5, 2), {"other": other})
    (table,) = analysis(context)
    table.check()
    lines = table.rows.set_index(["kind", "model", "metric"])
    assert [*dict.fromkeys(table.rows["model"])] == ["λ = 0.5", "λ = 2", "other", "test time"]
    base, uniform = context.setting, lines.loc["uniform attention", "test time"]["value"]
    expected = []
    for batch in base.data.batches:
        runs = base.model.run(batch, edits=(make_uniform,)), base.model.run(batch)
        expected += total_variation(runs[0].probabilities, runs[1].probabilities).tolist()
    assert uniform["TVD"] == pytest.approx(np.mean(expected), abs=1e-6)
    assert uniform["accuracy less that of the base"] == pytest.approx(
        uniform["accuracy"] - uniform["accuracy of the base"]
    )
    jsds = table.rows[table.rows["metric"].str.startswith("JSD")]
    assert (jsds["value"] <= log(2)).all()
    assert len({*analysis.reads(context).values()}) == 3
    records = [OmegaConf.load(path) for path in tmp_path.rglob("training.json")]
    assert {record.base for record in records} == {base.model.fingerprint}
    assert sorted(record.settings.divergence_weight for record in records) == [0.5, 2.0]


def test_uniform_attention_leaves_out_what_is_masked():
    row = torch.tensor([[[[0.9, 0.1, 0.0]]]])
    assert make_uniform(0, row).flatten().tolist() == [0.5, 0.5, 0.0]


@pytest.mark.parametrize(
    "chosen",
    [["model=tiny", "model.layers=2"], ["model=finetuned", "model.base=checkpoints/mine", "model.learning_rate=1e-3"]],
)
def test_a_number_is_the_seed_of_another_training_of_the_comparison_s_model(context, chosen):
    config = compose("config", chosen)
    own = replace(context.setting, config=config)
    found = models_of(own, {"one": 1, "other": ["model=tiny"], "none": None}, "analyses.seeds.settings")
    assert {**found["one"]} == {**config.model, "seed": 1}
    assert found["other"] == compose("config", ["model=tiny"]).model
    assert set(found) == {"one", "other"}
    assert config.model.get("seed") != 1, "the comparison's own is as it was"


@pytest.mark.parametrize("make", [lambda models: Seeds(models), lambda models: AdversarialTraining(seeds=models)])
def test_a_finished_checkpoint_has_no_other_seed(context, make):
    with pytest.raises(NotApplicable, match=r"'bert' is a finished checkpoint.*model=finetuned model\.base=DIRECTORY"):
        make({"seed 1": 1})(context)
