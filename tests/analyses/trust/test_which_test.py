"""Seeded tests of explanations get the verdict that they deserve, and a finished comparison's rows are all that is read."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from benchmark.analyses.trust.columns import Column, columns_of
from benchmark.analyses.trust.found import Found
from benchmark.analyses.trust.which_test import (
    CONTROLS,
    FRESH,
    HALVES,
    NOT_HERE,
    SETTINGS,
    SHIFT,
    TRUTH,
    USE,
    WINNER,
    WITH_CARE,
    WhichTest,
)
from benchmark.errors import NotApplicable
from benchmark.report.analysis_tables import printed
from benchmark.results.record import About
from benchmark.results.statistics import Interval
from benchmark.results.tables import FORECAST
from benchmark.results.trust import REMOVALS, told_of
from tests.report.folders import METRICS, Plan, write_cell

N, METHODS = 120, tuple("abcdefgh")
SKILLS = np.linspace(0.1, 0.9, len(METHODS))


def truths(seed=0):
    """How true the explanation of each example by each method is."""
    return np.clip(SKILLS + 0.15 * np.random.default_rng(seed).normal(size=(N, len(METHODS))), 0, 1)


def column(values, controls, name="seeded", kind="faithfulness"):
    own = {key: np.broadcast_to(value, N).astype(float) for key, value in controls.items()}
    return Column(name, "figure", name, kind, tuple(map(str, range(N))), METHODS, values, own)


def of_truth():
    return column(truths(), {"oracle": 1.0, "random": 0.2, "inverted": 0.0}, "truth", "plausibility")


def asked(values, controls, **settings):
    return WhichTest(**settings).ask(column(values, controls), of_truth())


def noise(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def test_noise_is_not_to_be_used_here():
    controls = {name: noise(seed, N) for seed, name in enumerate(("oracle", "random", "inverted"), 20)}
    found = asked(noise(1, N, len(METHODS)), controls)
    assert found.verdict == NOT_HERE
    assert found.oracle.low <= 0.5 <= found.oracle.high
    assert found.passed[CONTROLS] is False
    assert found.passed[HALVES] is False
    assert found.layout.reliability < 0.5
    assert min(found.needed) > 1000


def test_noise_has_no_reliability_and_no_sample_would_be_large_enough():
    """Over samples: the order of methods is chance, and a forecast is of many times the examples at hand."""
    found = [asked(noise([7, seed], N, len(METHODS)), {}) for seed in range(30)]
    assert np.mean([one.layout.reliability for one in found]) < 0.2
    assert np.mean([one.halves.value for one in found]) < 0.3, (
        "what is not positive is told as 0, so the mean is above it"
    )
    assert np.median([min(one.needed) for one in found]) > 30 * N
    assert not any(one.passed[HALVES] for one in found)


@pytest.mark.parametrize(
    ("needed", "said"), [(1e5 + 1, "not by more examples"), (np.inf, "not by more examples"), (12.3, None)]
)
def test_a_forecast_beyond_all_samples_is_said_in_words(needed, said):
    from benchmark.analyses.trust.which_test import _forecast

    told = _forecast({"test": "t"}, "examples, best from second", needed)
    assert told["note"] == (said or FORECAST)
    assert np.isnan(told["value"]) if said else told["value"] == 13


def test_the_truth_itself_passes_everything():
    found = asked(truths(), {"oracle": 1.0, "random": 0.2, "inverted": 0.0})
    assert (found.verdict, found.why) == (USE, f"not asked: {FRESH}, {SETTINGS}, {SHIFT}, {WINNER}")
    assert found.order.value == pytest.approx(1)
    assert found.concordance.value == 1


def test_a_reliable_test_of_something_else_is_named():
    """It orders methods the same every time, by something that has no part in the truth."""
    order = np.array([7, 1, 5, 3, 4, 2, 6, 0])
    found = asked(truths(4)[:, order], {"oracle": 0.9, "random": 0.5, "inverted": 0.1})
    assert found.verdict == WITH_CARE
    assert found.passed == {
        CONTROLS: True,
        HALVES: True,
        TRUTH: False,
        FRESH: None,
        SETTINGS: None,
        SHIFT: None,
        WINNER: None,
    }
    assert found.why.startswith(f"fails {TRUTH}; not asked:")


def test_controls_that_are_turned_round_decide():
    """As where two metrics are exchanged: every example prefers random scores to the oracle."""
    found = asked(-truths(), {"oracle": 0.1, "random": 0.5, "inverted": 0.9})
    assert found.verdict == NOT_HERE
    assert found.oracle.value == 0


def test_without_controls_nothing_is_recommended():
    found = WhichTest().ask(column(truths(), {}))
    assert (found.verdict, found.why) == (
        WITH_CARE,
        f"not asked: {CONTROLS}, {TRUTH}, {FRESH}, {SETTINGS}, {SHIFT}, {WINNER}",
    )


def test_marks_are_controls_of_tests_that_compare_with_marks_alone():
    values = truths() + 0.2 * noise(5, N, len(METHODS))
    controls = {"oracle": 1.0, "random": 0.2, "inverted": 0.0}
    no_better = Found(ends=Interval(0.5, 0.4, 0.6, 50))
    for kind, passed in (("plausibility", True), ("faithfulness", False)):
        found = WhichTest().ask(replace(column(values, controls), kind=kind), None, no_better)
        assert found.passed[CONTROLS] is passed, kind


def test_limits_are_settings():
    values = truths() + 0.5 * noise(8, N, len(METHODS))
    strict = asked(values, {"oracle": 1.0, "random": 0.2, "inverted": 0.0}, reliable=1.0)
    assert strict.passed[HALVES] is False
    assert asked(values, {"oracle": 1.0, "random": 0.2, "inverted": 0.0}, reliable=0.5, reliable_low=0.1).verdict == USE


@pytest.mark.thorough
def test_too_many_verdicts_are_rare_where_all_tests_are_noise():
    """Controls of noise separate both steps by chance alone: of 400 such tests hardly one is recommended."""
    verdicts = []
    for seed in range(400):
        draw = np.random.default_rng(seed)
        controls = {name: draw.normal(size=N) for name in ("oracle", "random", "inverted")}
        found = WhichTest().ask(column(draw.normal(size=(N, len(METHODS))), controls), of_truth())
        verdicts.append(found.verdict)
    assert verdicts.count(NOT_HERE) >= 0.97 * len(verdicts)
    assert verdicts.count(USE) <= 0.01 * len(verdicts)


METHOD_NAMES = ("transformer_attribution", "attattr", "gradient_x_input", "rollout", "raw_attention", "partial_lrp")


def comparison(tmp_path, methods=(*METHOD_NAMES, "oracle", "random", "inverted"), **settings):
    """A finished comparison with invented figures, as an analysis sees it."""
    kinds = {"perturbation": "faithfulness", "rationale": "plausibility"}
    plans = [Plan(name, n=60, kinds=kinds, **settings.get(name, {})) for name in methods]
    cells = {plan.method: SimpleNamespace(folder=write_cell(tmp_path, plan)) for plan in plans}
    tests = {
        name: SimpleNamespace(metrics=metrics, about=About(kinds.get(name, ""))) for name, metrics in METRICS.items()
    }
    setting = SimpleNamespace(task=SimpleNamespace())
    return SimpleNamespace(setting=setting, cells=cells, evaluations=tests, tests={}, folder=None)


@pytest.fixture(autouse=True)
def all_tests(monkeypatch):
    """Rows of all tests of a folder: those of invented ones have no identity."""
    from benchmark.analyses.trust import columns
    from benchmark.results import store

    monkeypatch.setattr(columns, "tested", lambda cell, tests: store.read_cell(cell.folder))


def test_columns_are_headlines_of_single_examples_turned_upwards(tmp_path):
    found = {one.key: one for one in columns_of(comparison(tmp_path))}
    assert set(found) == {"perturbation.positive_auc", "perturbation.negative_auc", "rationale.auprc"}
    down, up = found["perturbation.positive_auc"], found["perturbation.negative_auc"]
    assert down.methods == METHOD_NAMES
    assert up.values == pytest.approx(0.6 + (down.values + 0.6))  # 0.6 − 0.2 s is lower where 0.6 + 0.2 s is higher
    assert up.controls["oracle"].mean() > up.controls["random"].mean() > up.controls["inverted"].mean()
    assert list(up.uids) == [f"test-{i}" for i in sorted(range(60), key=lambda i: f"test-{i}")] or len(up.uids) == 60


def test_methods_whose_maps_are_constant_are_left_out(tmp_path):
    made = comparison(tmp_path, attattr={"constant": {"perturbation": 0.9}})
    found = {one.key: one for one in columns_of(made)}
    assert "attattr" not in found["perturbation.positive_auc"].methods
    assert "attattr" in found["rationale.auprc"].methods


def test_the_tables(tmp_path):
    tables = WhichTest()(comparison(tmp_path))
    assert [table.name for table in tables] == ["which_test", "which_test_agreement", "which_test_groups"]
    first = tables[0]
    assert set(first.keyed("perturbation.positive_auc.verdict")["note"]) <= {USE, WITH_CARE, NOT_HERE}
    assert len(first.rows.groupby("test")) == 3
    counts = first.rows[first.rows["metric"] == "examples, best from second"]
    assert ((counts["note"] == FORECAST) == counts["value"].notna()).all()
    assert all("." not in row.entries[-1].words for group in printed(first).groups.values() for row in group)
    for table in tables:
        table.check()


@pytest.mark.parametrize(
    ("chance", "said"),
    [
        (None, "was not asked"),
        (0.52, "they leave what the model knows"),
        (0.7, "a little strange"),
        (0.9, "lead out of"),
    ],
)
def test_beside_a_removal_test_stands_whether_the_model_knows_what_it_leaves(tmp_path, chance, said):
    made = comparison(tmp_path)
    made.evaluations["perturbation"].operator, made.evaluations["perturbation"].fractions = "mask", (0.1, 0.9)
    made.setting.model = SimpleNamespace(config=SimpleNamespace(_name_or_path=str(tmp_path)), name="m")
    analysis = WhichTest(shift=chance is not None)
    shift = None if chance is None else Interval(chance, chance - 0.02, chance + 0.02, 50)
    answers = [analysis.ask(one, None, Found(shift=shift)) for one in columns_of(made) if one.metric != "negative_auc"]
    (table,) = analysis._removals(made, answers)
    table.check()
    assert set(table.rows["test"]) == {answers[0].column.shown}, "rationales remove nothing"
    assert table.rows["note"].iloc[0] == "0.1 to 0.9 of the units (mask)"
    note = table.keyed(f"perturbation.positive_auc.{REMOVALS}")["note"].item()
    assert said in note
    assert note.endswith("nobody knows whether the model met masks in training")
    assert told_of([table])["perturbation.positive_auc"].removals == note


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"settings": {"mask_share": 0.15}}, "the model was trained with masks on up to 15 % of an example"),
        ({"recipe": {"mask_share": 1}}, "the model was trained with masks on up to 100 % of an example"),
        ({"recipe": {"epochs": 1}}, "the model met no masks in training"),
        ({"recipe": {"mask_share": "many"}}, "nobody knows whether the model met masks in training"),
    ],
)
def test_beside_a_removal_test_stands_with_how_many_masks_the_model_was_trained(tmp_path, settings, said):
    made = comparison(tmp_path)
    made.evaluations["perturbation"].operator, made.evaluations["perturbation"].fractions = "mask", (0.5,)
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    (checkpoint / "training.json").write_text(json.dumps(settings))
    made.setting.model = SimpleNamespace(config=SimpleNamespace(_name_or_path=str(checkpoint)), name="m")
    (column,) = (one for one in columns_of(made) if one.metric == "positive_auc")
    (table,) = WhichTest()._removals(made, [WhichTest().ask(column)])
    assert table.keyed(f"perturbation.positive_auc.{REMOVALS}")["note"].item().endswith(f"; {said}")


@pytest.mark.parametrize(("chance", "passed"), [(0.9, False), (0.6, True), (0.77, True)])
def test_removals_that_lead_out_of_what_a_model_knows_are_named(chance, passed):
    """Out is where the lower end is at least .75."""
    shift = Interval(chance, chance - 0.05, chance + 0.05, 50)
    found = WhichTest(shift=True).ask(of_truth(), of_truth(), Found(shift=shift))
    assert found.passed[SHIFT] is passed
    assert found.verdict == (USE if passed else WITH_CARE)
    assert found.why.startswith(f"fails {SHIFT};") is not passed


def test_few_methods_have_no_order(tmp_path):
    few = comparison(tmp_path, methods=("attattr", "rollout", "random", "oracle"))
    with pytest.raises(NotApplicable, match="at least 6 methods"):
        WhichTest()(few)
    assert len(WhichTest(methods=3)(comparison(tmp_path / "more", methods=METHOD_NAMES[:3]))) == 3


def test_the_order_of_examples_and_methods_changes_nothing():
    values = truths() + 0.3 * noise(2, N, len(METHODS))
    one = column(values, {})
    shuffled = np.random.default_rng(0).permutation(N)
    other = replace(one, values=values[shuffled], uids=tuple(np.array(one.uids)[shuffled]))
    first, second = (WhichTest().ask(each) for each in (one, other))
    assert first.layout.reliability == pytest.approx(second.layout.reliability)
    assert first.needed == pytest.approx(second.needed)
    assert first.halves.value == pytest.approx(second.halves.value, abs=0.1)


def test_the_setting_under_which_the_order_is_least_alike_is_named():
    values = truths()
    other = {"the logit": values + 0.01 * noise(3, N, len(METHODS)), "the first half of the shares": values[:, ::-1]}
    controls = {"oracle": 1.0, "random": 0.2, "inverted": 0.0}
    found = WhichTest().ask(replace(column(values, controls), alternatives=other), of_truth())
    assert found.settings[0] == "the first half of the shares"
    assert found.settings[1].value == pytest.approx(-1)
    assert found.passed[SETTINGS] is False
    alike = replace(column(values, controls), alternatives={"the logit": other["the logit"]})
    assert WhichTest().ask(alike, of_truth()).verdict == USE


def test_a_test_of_removals_tells_what_else_it_could_follow():
    """Of the first half of a curve: its mean over the smaller shares, turned as the figure is."""
    from benchmark.analyses.trust.columns import _again
    from benchmark.evaluations.perturbation import Perturbation
    from benchmark.results.rows import StoredRows

    told = Perturbation().alternatives("positive_auc_mean")
    assert told["probability"] == ("positive_probability_auc_mean", False)
    assert told["the first half of the shares"] == ("positive_accuracy", True)
    assert {name for name, _ in told.values()} <= set(Perturbation().metrics)
    rows = pd.DataFrame(
        [
            {"uid": uid, "evaluation": "t", "metric": "curve", "x": x, "value": x * (i + 1), "draw": 0}
            for i, uid in enumerate(("b", "a"))
            for x in (0.0, 0.1, 0.2, 0.3, 0.4)
        ]
    )
    stored = {"m": StoredRows.of(rows)}
    found = _again(stored, "t", "curve", sign=-1.0, of=(("a", "b"), ("m",)), half=True)
    assert found[:, 0] == pytest.approx([-0.3, -0.15])
