"""Analyses over a real comparison of a tiny model: agreement of rankings, universality, cost of quadrature."""

import logging
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

import benchmark
from benchmark.analyses import opening
from benchmark.analyses.base import Analysis
from benchmark.analyses.context import Context
from benchmark.analyses.differences import P_VALUE, columns, halves, of_extremes
from benchmark.analyses.ranking_agreement import RankingAgreement
from benchmark.analyses.universality import Universality
from benchmark.comparison import analyse, run_comparison
from benchmark.errors import NotApplicable, UserError
from benchmark.evaluations.head_pruning import Calibration
from benchmark.report.analysis_tables import read_tables
from benchmark.results import store
from benchmark.results.statistics import interval
from benchmark.results.tables import not_applicable
from benchmark.run.workbench import open_setting
from benchmark.settings.configuration import compose
from tests import text_models

CALIBRATION = Calibration("validation", 6)


def stored(comparison, name):
    """The tables that an analysis left."""
    return store.read_sealed(comparison.folder / "analyses" / f"{name}.json")["tables"]


METHODS = "methods=[raw_attention,taylor,random,probe]"


def config(place, *overrides):
    settings = ["task=tiny_task", "model=hf", f"model.path={place / 'bert'}", "tracking=none", "batch_size=4"]
    return compose("config", [*settings, f"out={place / 'runs'}", *overrides], str(place / "conf"))


@pytest.fixture(scope="module")
def context(place):
    setting = open_setting(config(place, METHODS))
    return Context(setting, {name: setting.cell(name) for name in setting.config.methods}, {})


def test_rankings_agree_as_a_slow_computation_says(context):
    (table,) = RankingAgreement(CALIBRATION)(context)
    assert set(table.rows["importance"]) | set(table.rows["and"]) == {"raw_attention", "taylor", "random"}
    importance = {
        name: cell.aggregate(cell.head_scores(CALIBRATION, "label"))
        for name, cell in context.cells.items()
        if name in ("raw_attention", "taylor")
    }
    expected = stats.kendalltau(*(value.flatten().numpy() for value in importance.values())).statistic
    row = table.rows.query("importance == 'raw_attention' and `and` == 'taylor'").iloc[0]
    assert row["value"] == pytest.approx(expected)
    assert row["low"] <= row["value"] <= row["high"]
    assert row["n"] == 6


def test_a_ranking_agrees_with_itself(context):
    cells = {"one": context.cells["raw_attention"], "two": context.cells["raw_attention"]}
    (table,) = RankingAgreement(CALIBRATION)(replace(context, cells=cells))
    values = table.rows[["value", "low", "high"]].iloc[0].tolist()
    assert values == pytest.approx([1, np.nan, np.nan], nan_ok=True), "the same in every resample, which is no interval"


def test_rankings_need_two_methods_that_score_heads(context):
    with pytest.raises(NotApplicable, match="fewer than two"):
        RankingAgreement(CALIBRATION)(replace(context, cells={"probe": context.cells["probe"]}))


def universality(place, monkeypatch, **settings):
    monkeypatch.setattr(opening, "compose", lambda name, given: compose(name, given, str(place / "conf")))
    opened = ["task=tiny_task", "model=hf", f"model.path={place / 'bert'}"]
    return Universality(
        {"a": opened, "b": [*opened, "task.size=10"]},
        **({"methods": ["raw_attention"], "calibration": CALIBRATION, "limit": 5} | settings),
    )


def test_universality_compares_tasks_and_prunes_by_each_ranking(place, context, monkeypatch):
    kinds = {"types": {"a": "x", "b": "y"}, "domains": {"a": "z", "b": "z"}}
    points, correlations, reliability, grouped, pruning = universality(place, monkeypatch, **kinds)(context)
    for table in (points, correlations, reliability, grouped, pruning):
        table.check()
    model = context.setting.model
    assert len(points.rows) == 2 * model.n_layers * model.n_heads
    wide = points.rows.pivot_table(index=["layer", "head"], columns="metric", values="value")
    found = correlations.rows.set_index("metric")
    assert found.loc["Pearson r", "value"] == pytest.approx(wide.corr().iloc[0, 1])
    assert found.loc["Spearman ρ", "value"] == pytest.approx(wide.corr("spearman").iloc[0, 1])
    assert (found["low"] <= found["value"]).all()
    assert len(pruning.rows) == 2 * 2 * 11
    assert (pruning.rows["n"] == 5).all()
    whole = pruning.rows[pruning.rows["share pruned"] == 0].groupby("task")["value"].nunique()
    assert (whole == 1).all(), "with nothing pruned the ranking cannot matter"


def test_universality_refuses_what_it_cannot_compare(place, context, monkeypatch):
    with pytest.raises(UserError, match="fewer than two tasks"):
        Universality({"a": []})
    with pytest.raises(UserError, match=r"analyses.universality.types lacks b; give one for each task"):
        universality(place, monkeypatch, types={"a": "x"})
    with pytest.raises(UserError, match="which the comparison does not have"):
        universality(place, monkeypatch, methods=["attattr"])(context)
    text_models.save_bert(place / "larger", layers=3)
    unequal = universality(place, monkeypatch)
    unequal.settings["b"][2] = f"model.path={place / 'larger'}"
    with pytest.raises(UserError, match="layers and heads of the models differ"):
        unequal(context)


@pytest.mark.usefixtures("no_pictures")
def test_the_cost_of_quadrature_names_the_cheapest(place):
    smaller = "analyses.quadrature_cost.{}={}".format
    composed = config(
        place, "methods=[attattr]", "evaluations=[completeness]", "analyses=[quadrature_cost]", "limit=6",
        smaller("steps", "[2,16]"), smaller("rules", "[left,gauss_legendre]"), smaller("limit", 4),
        smaller("gaps", "[10,0]"), smaller("convergence.reference.edges.steps", 32),
    )  # fmt: skip
    comparison = run_comparison(composed)
    (facts,) = stored(comparison, "quadrature_cost")
    rows = pd.DataFrame(facts["rows"]).set_index(["rule", "m"])
    assert set(rows["n"]) == {4}

    def column(metric):
        return rows[rows["metric"] == metric]["value"]

    gap, passes, tau = (column(name) for name in ("completeness gap", "backward per example", "τ_b of units"))
    assert gap["left", 16] < gap["left", 2]
    assert gap["gauss_legendre", 2] < gap["left", 2]
    assert passes["left", 16] == pytest.approx(8 * passes["left", 2])
    assert tau["gauss_legendre", 16] >= tau["left", 2]
    assert "gauss_legendre with m = 2 and left with m = 2: " in facts["sentences"][0], "who costs as little is named"
    assert facts["sentences"][1].startswith("No rule")
    written = {path.name for path in comparison.folder.iterdir()}
    assert {"analyses.md", "analyses.tex", "table-quadrature_cost.csv", "table-quadrature_cost.png"} <= written


def test_the_cost_of_quadrature_needs_steps_and_a_rule(place, context):
    settings = benchmark.build("analyses/quadrature_cost", "method=raw_attention")
    with pytest.raises(NotApplicable, match="has no edges"):
        settings(context)
    with pytest.raises(UserError, match="is not among methods"):
        benchmark.build("analyses/quadrature_cost", "method=attattr")(context)


@pytest.mark.usefixtures("no_pictures")
def test_finished_analyses_are_reused_and_a_dash_has_its_reason(place):
    settings = ("methods=[probe]", "evaluations=[rationale]", "analyses=[ranking_agreement]")
    first = run_comparison(config(place, *settings))
    path = first.folder / "analyses" / "ranking_agreement.json"
    assert "fewer than two methods" in (first.folder / "analyses.md").read_text()
    before = path.stat().st_mtime_ns
    assert run_comparison(config(place, *settings)).folder == first.folder
    assert path.stat().st_mtime_ns == before
    without = run_comparison(config(place, *settings[:2]))
    assert without.folder != first.folder


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (["evaluations=[rationale,aopc]"], None),
        (["evaluations=[rationale,perturbation_target]", "evaluations.perturbation_target.area=published"], None),
        (["evaluations=[rationale]"], "it needs rationale.average_precision and one of"),
        (["evaluations=[rationale,aopc]", "task.rationales=false"], "it needs values of the control random"),
    ],
)
def test_a_comparison_shows_which_methods_are_plausible_and_faithful_where_it_can(place, caplog, settings, why):
    """By default; without rationales or tests of faithfulness no table stands in its place, and the log says why.

    A command that does not name the analysis hears nothing of it, neither at first nor when it is shown again.
    """
    caplog.set_level(logging.INFO, "benchmark")
    started = config(place, "methods=[random]", "limit=4", *settings)

    def said_by(command):
        caplog.clear()
        run_comparison(started, command)
        return [message for message in caplog.messages if message.startswith("plausibility_and_faithfulness: ")]

    comparison = run_comparison(started)
    said = [message for message in caplog.messages if message.startswith("plausibility_and_faithfulness: ")]
    again = "nothing to show, as" if why else "reused"
    assert said_by("")[0].startswith(f"plausibility_and_faithfulness: {again}")
    assert len(said_by("python -m benchmark")) == (why is None)
    shown = why is None
    names = [table.name for table in read_tables(comparison.folder)]
    assert names == ["plausibility_and_faithfulness"] * shown
    assert (comparison.folder / "analyses.md").exists() == shown
    assert ('id="analyses"' in (comparison.folder / "index.html").read_text()) == shown
    assert said[0].startswith(f"plausibility_and_faithfulness: {f'nothing to show, as {why}' if why else 'computed'}")


def test_analyses_that_are_named_replace_those_of_every_comparison():
    assert list(compose("config", []).analyses) == ["plausibility_and_faithfulness", "which_test"]
    assert list(compose("config", ["analyses=[]"]).analyses) == []
    assert list(compose("config", ["+experiment=deceive"]).analyses) == ["deception", "verdict"]


@pytest.mark.usefixtures("no_pictures")
def test_a_broken_table_is_one_clear_error_to_a_reader_and_computed_again_by_its_command(place, caplog):
    settings = ("methods=[probe]", "evaluations=[rationale]", "analyses=[ranking_agreement]", "limit=4")
    comparison = run_comparison(config(place, *settings))
    path = comparison.folder / "analyses" / "ranking_agreement.json"
    before = path.read_bytes()
    store.write_json(path, [{"name": "half"}])
    with pytest.raises(UserError, match="is corrupt"):
        read_tables(comparison.folder)
    run_comparison(config(place, *settings))
    assert any(f"{path} is computed again" in message for message in caplog.messages)
    assert path.read_bytes() == before


@pytest.mark.usefixtures("no_pictures")
def test_a_changed_figure_of_a_table_is_found(place):
    settings = ("methods=[raw_attention,random]", "evaluations=[rationale]", "analyses=[ranking_agreement]", "limit=5")
    comparison = run_comparison(config(place, *settings))
    path = comparison.folder / "analyses" / "ranking_agreement.json"
    assert len(read_tables(comparison.folder)) == 1
    value = stored(comparison, "ranking_agreement")[0]["rows"][0]["value"]
    before = path.read_text()
    path.write_text(before.replace(repr(value), repr(value + 1e-3)))
    with pytest.raises(UserError, match=r"ranking_agreement.json is corrupt .*not what was written"):
        read_tables(comparison.folder)
    run_comparison(config(place, *settings))
    assert path.read_text() == before


def test_tables_are_computed_again_where_another_model_lies_at_the_same_place(place, context, monkeypatch):
    text_models.save_bert(place / "swapped")
    analysis = universality(place, monkeypatch)
    analysis.settings["b"][2] = f"model.path={place / 'swapped'}"
    first, again = analysis.reads(context), analysis.reads(context)
    assert first == again
    assert list(first) == ["a", "b"]
    text_models.save_bert(place / "swapped", seed=1)
    assert {name for name in first if analysis.reads(context)[name] != first[name]} == {"b"}


def test_tables_are_reused_while_what_they_read_is_the_same(tmp_path, context):
    called = []

    class Elsewhere(Analysis):
        weights = "one"

        def reads(self, context):
            return {"model": self.weights}

        def __call__(self, context):
            called.append(self.weights)
            return [not_applicable("elsewhere", self.weights)]

    for weights in ("one", "one", "two"):
        Elsewhere.weights = weights
        analyse({"elsewhere": Elsewhere()}, context, tmp_path)
    assert called == ["one", "two"]


def test_importance_by_example_follows_each_examples_own_order(context):
    from benchmark.evaluations.head_pruning import HeadPruning
    from benchmark.run.testing import rows_of_test

    cell = context.cells["raw_attention"]
    evaluation = HeadPruning(calibration="each")
    own = rows_of_test(cell, evaluation).whole
    uids = np.unique(own["uid"])
    assert len(uids) == sum(len(batch) for batch in context.setting.data.batches)
    heads = cell.head_scores("same", "label")
    batch = context.setting.data.batches[0]
    from benchmark.types import Attribution

    direct = HeadPruning().rows(
        context.setting.model, batch, Attribution(target=batch.label, heads=torch.as_tensor(heads[: len(batch)]))
    )
    keys = ["uid", "metric", "x"]
    merged = direct.merge(own, on=keys, how="left", suffixes=("", "_own"))
    assert np.allclose(merged["value"], merged["value_own"], equal_nan=True)


@pytest.mark.usefixtures("no_pictures")
def test_open_questions_are_paired_differences(place):
    smaller = [f"evaluations.head_pruning{each}.fractions=[0,0.5,1]" for each in ("", "_each")]
    comparison = run_comparison(
        config(
            place,
            "methods=[raw_attention,probe]",
            "evaluations=[head_pruning,head_pruning_each]",
            "analyses=[open_questions]",
            "evaluations.head_pruning.calibration.limit=4",
            *smaller,
        )
    )
    (facts,) = stored(comparison, "open_questions")
    rows = pd.DataFrame(facts["rows"])
    assert set(rows["method"]) == {"raw_attention"}, "probe scores no heads"
    values = store.read_rows(comparison.cells[0])
    scalar = values[values["metric"] == "auc_difference"].pivot_table(index="uid", columns="evaluation", values="value")
    difference = (scalar["head_pruning_each"] - scalar["head_pruning"]).mean()
    answers = rows[rows["metric"] == "difference"]
    own = answers[answers["question"].str.contains("own order")].iloc[0]
    assert own["value"] == pytest.approx(difference)
    assert own["low"] <= own["value"] <= own["high"]
    alone = interval((scalar["head_pruning_each"] - scalar["head_pruning"]).to_numpy(), bounds=(-2.0, 2.0))
    assert own["high"] - own["low"] >= alone.high - alone.low, "the calibration examples may add to the error"
    gains = values[
        (values["evaluation"] == "head_pruning") & (values["metric"] == "low_first_gain") & (values["x"] > 0)
    ].pivot_table(index="uid", columns="x", values="value")
    chosen, measured = halves(len(gains))
    best = gains.iloc[chosen].mean().idxmax()
    assert answers.iloc[0]["value"] == pytest.approx(gains.iloc[measured][best].mean())
    assert answers.iloc[0]["note"].endswith(f"share {best:g}")
    assert len(facts["sentences"]) == len(answers)


@pytest.mark.usefixtures("no_pictures")
def test_thresholds_are_compared_on_the_same_examples(place):
    settings = ("methods=[raw_attention]", "evaluations=[attribution_graph]", "analyses=[threshold]", "limit=10")
    comparison = run_comparison(config(place, *settings))
    curves, ranges = stored(comparison, "threshold")
    assert {row["metric"] for row in ranges["rows"]} == {"difference", P_VALUE}
    assert not any("overlap" in sentence for table in (curves, ranges) for sentence in table["sentences"])
    values = columns(store.stored_rows(comparison.cells[0]), "attribution_graph", "edges")
    found, best, worst = of_extremes(values.to_numpy())
    own = next(row for row in ranges["rows"] if row["what"] == "edges" and row["metric"] == "difference")
    assert own["value"] == pytest.approx(found.mean())
    assert own["note"] == f"largest at τ = {values.columns[best]:g}, smallest at {values.columns[worst]:g}"
