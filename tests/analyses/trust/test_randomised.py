"""Explanations of models whose weights are drawn anew: what ignores the model stays, what follows it does not."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from benchmark.analyses.context import Context
from benchmark.analyses.trust.randomised import (
    CASCADE,
    FAILS,
    INDEPENDENT,
    PASSES,
    Randomised,
    correlation,
    entropy,
    models_of,
)
from benchmark.errors import NotApplicable
from benchmark.evaluations.base import rated_scores
from benchmark.models.fresh_weights import freshly, stages_of
from benchmark.run.workbench import open_setting
from benchmark.settings.configuration import compose
from benchmark.targets import ClassTarget


@pytest.fixture(scope="module")
def context(place):
    settings = ["task=tiny_task", "task.size=24", "model=hf", f"model.path={place / 'bert'}", "tracking=none"]
    methods = "methods=[gradient_x_input,leave_one_out,random,position,frequency,constant]"
    config = compose("config", [*settings, f"out={place / 'runs_fresh'}", methods, "batch_size=8"], str(place / "conf"))
    setting = open_setting(config)
    return Context(setting, {name: setting.cell(name) for name in config.methods}, {})


def test_entropy_and_correlation_by_hand():
    assert entropy(np.array([1.0, -1.0, 2.0, 0.0])) == pytest.approx(1.5 * np.log(2))
    assert entropy(np.ones(8)) == pytest.approx(np.log(8))
    assert np.isnan(entropy(np.zeros(3)))
    assert np.isnan(correlation(np.ones(4), np.arange(4.0)))
    assert np.isnan(correlation(np.arange(2.0), np.arange(2.0)))
    assert correlation(np.array([1.0, 3, 2]), np.array([2.0, 6, 4])) == pytest.approx(1)


@pytest.fixture(scope="module")
def tables(context):
    return Randomised(limit=None, draws=3)(context)


def figures(table, explainer, metric, **where):
    chosen = table.rows[(table.rows["explainer"] == explainer) & (table.rows["metric"] == metric)]
    for name, value in where.items():
        chosen = chosen[chosen[name] == value]
    return chosen


def test_scores_that_show_the_input_fail_and_random_ones_do_not(tables):
    verdict = {name: figures(tables[0], name, "verdict").iloc[0]["note"] for name in ("position", "random", "constant")}
    assert verdict["position"] == FAILS
    assert verdict["random"] != FAILS
    assert verdict["constant"].startswith("no verdict")
    assert (figures(tables[1], "position", "ρ")["value"] == 1).all()
    assert abs(figures(tables[0], "random", "ρ").iloc[0]["value"]) < 0.25
    assert figures(tables[0], "constant", "undefined").iloc[0]["value"] == 1


@pytest.mark.parametrize("name", ["position", "frequency"])
def test_scores_of_the_input_alone_are_the_same_at_every_stage_and_are_named(tables, name):
    """Five modules are drawn one after the other and each alone; the sentence names who shows the input."""
    found = figures(tables[1], name, "ρ")
    assert found["value"].tolist() == pytest.approx([1] * 10)
    assert found["n"].tolist() == [24] * 10
    assert figures(tables[0], name, "verdict").iloc[0]["note"] == FAILS
    (named,) = [said for said in tables[0].sentences if said.startswith("Show the input rather than the model: ")]
    assert set(named.partition(": ")[2].rstrip(".").split(", ")) == {"position", "frequency"}


def test_random_scores_have_an_interval_that_holds_none(tables):
    for metric in ("ρ", "ρ of magnitudes"):
        row = figures(tables[0], "random", metric).iloc[0]
        assert row["low"] < 0 < row["high"] < 0.3


def test_leave_one_out_follows_the_model_to_the_last_stage(context):
    """Nothing is left when all weights are new, while magnitudes still agree where the head alone is."""
    only = {"leave_one_out": context.cells["leave_one_out"]}
    found = Randomised(limit=None, draws=6, independent=False)(replace(context, cells=only))
    for metric in ("ρ", "ρ of magnitudes"):
        last = figures(found[0], "leave_one_out", metric).iloc[0]
        assert last["n"] == 24
        assert last["low"] < 0 < last["high"] < 0.25
    head = figures(found[1], "leave_one_out", "ρ of magnitudes", stage="head").iloc[0]
    assert head["low"] > last["high"]


def on_fresh_weights(context, stages, draws=3):
    """For each draw the trained model, that of fresh weights, and a batch with the classes that the former predicts."""
    setting = context.setting
    for draw in range(draws):
        fresh = freshly(setting.model, stages, int(np.random.SeedSequence([0, draw]).generate_state(1)[0]))
        for batch in setting.data.batches:
            yield draw, setting.model, fresh, batch, setting.model.run(batch).logits.argmax(1)


def scores_before_and_after(context, method, stages):
    """The scores of each example of each draw, on the trained model and on that of fresh weights."""
    for _, trained, fresh, batch, predicted in on_fresh_weights(context, stages):
        target = ClassTarget(predicted)
        both = (rated_scores(batch, method(model, batch, target).tokens, "max") for model in (trained, fresh))
        yield from zip(*both, strict=True)


def test_complexity_equals_a_transcription(context, tables):
    """(H' − H) / H by scipy's entropy, mean over draws and examples, when all weights are drawn."""
    stages = stages_of(context.setting.model)
    gains = [
        stats.entropy(np.abs(after)) / stats.entropy(np.abs(before)) - 1
        for before, after in scores_before_and_after(context, context.cells["gradient_x_input"].method, stages)
    ]
    row = figures(tables[0], "gradient_x_input", "complexity").iloc[0]
    assert len(gains) == 3 * 24
    assert row["value"] == pytest.approx(np.mean(gains), abs=1e-5)
    assert abs(row["value"]) > 0.01


@pytest.mark.parametrize(("mode", "number", "drawn"), [(CASCADE, 4, (0, 5)), (INDEPENDENT, 7, (2, 3))])
def test_change_of_the_output_equals_a_transcription(context, tables, mode, number, drawn):
    """Spearman over examples of the logit of the class that the trained model predicts, mean over draws."""
    logits = {}
    for draw, trained, fresh, batch, predicted in on_fresh_weights(
        context, stages_of(context.setting.model)[slice(*drawn)]
    ):
        own, other = (model.run(batch).logits[range(len(batch)), predicted] for model in (trained, fresh))
        logits.setdefault(draw, []).extend(zip(own.tolist(), other.tolist(), strict=True))
    expected = np.mean([stats.spearmanr(*zip(*pairs, strict=True)).statistic for pairs in logits.values()])
    row = figures(tables[1], "the output", "ρ", drawn=mode, place=number).iloc[0]
    assert row["value"] == pytest.approx(expected, abs=1e-6)
    if mode == CASCADE:
        said = f"the output with that of the trained model is {expected:.2f} there."
        assert any(sentence.endswith(said) for sentence in tables[0].sentences)


def test_a_module_that_is_drawn_alone_equals_a_transcription(context, tables):
    """Of the third module from the output: the head and the pooler before it keep what was learned."""
    stages, method = stages_of(context.setting.model), context.cells["gradient_x_input"].method
    place = len(stages) + 2
    for metric, changed in (("ρ", lambda scores: scores), ("ρ of magnitudes", np.abs)):
        found = [
            stats.spearmanr(changed(before), changed(after)).statistic
            for before, after in scores_before_and_after(context, method, [stages[2]])
        ]
        row = figures(tables[1], "gradient_x_input", metric, drawn=INDEPENDENT, place=place).iloc[0]
        assert row["stage"] == "block 2"
        assert row["value"] == pytest.approx(np.mean(found), abs=1e-6)
        cascade = figures(tables[1], "gradient_x_input", metric, drawn=CASCADE, stage="block 2").iloc[0]
        assert abs(cascade["value"] - row["value"]) > 1e-3


def test_figures_equal_a_transcription(context, tables):
    """One model of the cascade, one method: Spearman by scipy, mean over draws and examples."""
    setting = context.setting
    stages = stages_of(setting.model)
    place = [model.stage for model in models_of(stages, independent=False)].index(stages[2].name)
    method = context.cells["gradient_x_input"].method
    found = []
    for draw in range(3):
        seed = int(np.random.SeedSequence([0, draw]).generate_state(1)[0])
        fresh = freshly(setting.model, stages[: place + 1], seed)
        for index, batch in enumerate(setting.data.batches):
            target = setting.data.target(index, "predicted")
            one, two = (
                rated_scores(batch, method(model, batch, target).tokens, "max") for model in (setting.model, fresh)
            )
            found += [
                (draw, uid, stats.spearmanr(a, b).statistic)
                for uid, a, b in zip(batch.uids, one, two, strict=True)
                if len(a) > 2
            ]
    row = figures(tables[1], "gradient_x_input", "ρ", drawn=CASCADE, place=place).iloc[0]
    assert row["value"] == pytest.approx(np.mean([rho for *_, rho in found]), abs=1e-6)
    assert row["n"] == len({uid for _, uid, _ in found})
    assert row["low"] < row["value"] < row["high"]


def test_cascade_ends_where_every_weight_is_drawn(context):
    stages = stages_of(context.setting.model)
    models = models_of(stages, independent=True)
    assert [model.stage for model in models[: len(stages)]] == [stage.name for stage in stages]
    assert models[len(stages) - 1].stages == tuple(stages)
    assert all(len(model.stages) == 1 for model in models[len(stages) :])


def test_verdicts_have_three_answers():
    from benchmark.results.statistics import Interval

    def told(*ends):
        return Randomised()._verdict([Interval(sum(pair) / 2, *pair, 50) for pair in ends])

    assert told((-0.05, 0.05), (-0.1, 0.09)) == PASSES
    assert told((-0.05, 0.05), (0.11, 0.3)) == FAILS
    assert told((-0.05, 0.2), (0.0, 0.05)) == "undecided"


def test_nothing_without_scores_of_words(context):
    with pytest.raises(NotApplicable, match="scores words or patches"):
        Randomised(limit=4, draws=2)(replace(context, cells={}))


@pytest.mark.thorough
def test_the_same_again_and_nothing_is_left(context, tables, tmp_path):
    again = Randomised(limit=None, draws=3)(replace(context, folder=tmp_path))
    assert again[0].rows.equals(tables[0].rows)
    assert not list(tmp_path.rglob("*.safetensors"))
