"""Explanations of models whose weights are drawn anew: what ignores the model stays, what follows it does not."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from benchmark.analyses.context import Context
from benchmark.analyses.trust.randomised import (
    CASCADE,
    FAILS,
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


@pytest.fixture(scope="module")
def context(place):
    settings = ["task=tiny_task", "task.size=24", "model=hf", f"model.path={place / 'bert'}", "tracking=none"]
    methods = "methods=[gradient_x_input,leave_one_out,random,position,constant]"
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
