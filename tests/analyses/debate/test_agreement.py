"""Agreement of methods, heads and references equals a slow transcription; verdicts follow from rows."""

from dataclasses import fields, replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import stats

from benchmark.analyses.context import Context
from benchmark.analyses.debate.agreement_and_quality import AgreementAndQuality, _is_agreement, rank_correlation
from benchmark.analyses.debate.agreement_matrix import clustered
from benchmark.analyses.debate.method_values import MethodValues, measures
from benchmark.analyses.debate.plausibility_and_faithfulness import (
    DANGEROUS,
    PlausibilityAndFaithfulness,
    _sentence,
    verdicts,
)
from benchmark.analyses.debate.read_attention import conicity, read_attention
from benchmark.analyses.debate.word_scores import WordScores
from benchmark.analyses.layouts import Measure
from benchmark.checking import small_models
from benchmark.errors import NotApplicable, UserError
from benchmark.evaluations import ranks
from benchmark.evaluations.base import higher
from benchmark.results.statistics import interval
from benchmark.run.workbench import open_setting
from benchmark.settings.configuration import compose
from benchmark.settings.making import build
from tests.records import evaluation_record

METHODS = "methods=[raw_attention,gradient_x_input,random]"


@pytest.fixture(scope="module")
def context(place):
    settings = ["task=tiny_task", "model=hf", f"model.path={place / 'bert'}", "tracking=none", "batch_size=4"]
    config = compose("config", [*settings, f"out={place / 'runs'}", METHODS], str(place / "conf"))
    setting = open_setting(config)
    return Context(setting, {name: setting.cell(name) for name in config.methods}, {})


def rows_of(table, metric, **labels):
    chosen = table.rows[table.rows["metric"] == metric]
    for name, value in labels.items():
        chosen = chosen[chosen[name.replace("_", " ") if name not in table.labels else name] == value]
    return chosen


def slow_scores(context, method):
    """For each example the largest score of the tokens of each word."""
    found = {}
    for index, batch in enumerate(context.setting.data.batches):
        tokens = method(context.setting.model, batch, context.setting.data.target(index, "predicted")).tokens
        for b, uid in enumerate(batch.uids):
            units = batch.units[b]
            visible = sorted(set(units[units >= 0].tolist()))
            found[uid] = [float(tokens[b][units == unit].max()) for unit in visible]
    return found


def test_two_methods_agree_as_scipy_says(context):
    analysis = build("analyses/agreement_matrix", "limit=null")
    summary, matrix, by_class = analysis(context)
    first = slow_scores(context, context.cells["raw_attention"].method)
    second = slow_scores(context, analysis.leave_one_out)
    taus = [stats.kendalltau(first[uid], second[uid]).statistic for uid in first]
    row = rows_of(matrix, "Kendall τ_b", method="raw_attention").query("`and` == 'leave-one-out'").iloc[0]
    assert row["value"] == pytest.approx(np.nanmean(taus), abs=1e-6)
    assert row["n"] == np.isfinite(taus).sum()
    assert rows_of(summary, "τ_b with leave-one-out", method="raw_attention").iloc[0]["value"] == row["value"]
    points = by_class.rows.query("method == 'raw_attention' and reference == 'leave-one-out'")
    assert sorted(points["value"].dropna()) == pytest.approx(sorted(t for t in taus if np.isfinite(t)), abs=1e-6)
    assert set(points["class"]) <= set(context.setting.model.labels)


def test_the_matrix_is_symmetric_and_its_diagonal_is_one(context):
    _, matrix, _ = build("analyses/agreement_matrix", "limit=3")(context)
    for metric in ("Kendall τ_b", "overlap of the top words"):
        wide = rows_of(matrix, metric).pivot(index="method", columns="and", values="value")
        np.testing.assert_array_equal(wide, wide.T)
        assert np.diag(wide) == pytest.approx(1.0)
    assert {*wide.index} == {"raw_attention", "gradient_x_input", "random", "gradient", "leave-one-out"}


def test_the_overlap_is_that_of_the_best_fifth_rounded_up():
    """Of eleven words three are the best: the two methods share two of them."""
    descending = [float(11 - word) for word in range(11)]
    example = WordScores("a", 0, {"one": np.array(descending), "two": np.array([0.0, *descending[1:4], *[0.5] * 7])})
    found = build("analyses/agreement_matrix")._overlaps(example)
    assert found == pytest.approx(np.array([[1, 2 / 3], [2 / 3, 1]]))
    assert build("analyses/agreement_matrix", "top=.05")._overlaps(example) == pytest.approx(np.eye(2))
    for refused in ("top=0", "seed=-1"):
        with pytest.raises(UserError, match=refused.split("=")[0]):
            build("analyses/agreement_matrix", refused)


def test_the_yardstick_is_said(context):
    summary, _, _ = build("analyses/agreement_matrix", "limit=3")(context)
    row = rows_of(summary, "τ_b with leave-one-out", method="gradient").iloc[0]
    (sentence,) = summary.sentences
    assert f"τ_b = {row['value']:.3f}" in sentence
    assert "(n = 3)" in sentence


def test_tau_of_every_two_rows():
    rows = np.random.default_rng(0).integers(0, 4, (4, 9)).astype(float)
    rows[3] = 1.0
    taus = ranks.tau_b_matrix(rows)
    for i, j in np.ndindex(3, 3):
        assert taus[i, j] == pytest.approx(stats.kendalltau(rows[i], rows[j]).statistic)
    assert np.isnan(taus[3]).all()


def test_methods_that_agree_stand_together():
    agreement = np.array([[1, 0.1, 0.9, 0], [0.1, 1, 0.2, 0.8], [0.9, 0.2, 1, 0.1], [0, 0.8, 0.1, 1]])
    order = clustered(agreement)
    assert {frozenset(order[:2]), frozenset(order[2:])} == {frozenset({0, 2}), frozenset({1, 3})}


@pytest.mark.parametrize(
    ("states", "expected"),
    [([[1, 0], [0, 1]], 0.5**0.5), ([[2, 0], [1, 0]], 1.0), ([[1, 0], [0, 3]], 0.632), ([[1, 0], [-3, 0]], 1.0)],
)
def test_conicity_of_two_states_by_hand(states, expected):
    """The third: the mean is (.5, 1.5), with cosines .316 and .949. The fourth: of a cosine the magnitude counts."""
    padded = torch.tensor([[*states, [9.0, -9.0]]], dtype=torch.float64)
    found = conicity(padded, torch.tensor([[True, True, False]]))
    assert float(found) == pytest.approx(expected, abs=1e-3)


def test_heads_agree_as_a_loop_says(context):
    analysis = build("analyses/heads_agreement")
    heads, layers = analysis(context)
    model, data = context.setting.model, context.setting.data
    reference = slow_scores(context, analysis.gradient)
    taus = []
    for batch in data.batches:
        attention = model.run(batch, record=("attentions",)).attentions[1]
        for b, uid in enumerate(batch.uids):
            units = batch.units[b]
            row = attention[b, 1, 0]  # BERT reads the first token
            words = [float(row[units == unit].max()) for unit in sorted(set(units[units >= 0].tolist()))]
            taus.append(stats.kendalltau(words, reference[uid]).statistic)
    found = heads.rows.query("reference == 'gradient' and layer == '1' and head == 1 and metric == 'Kendall τ_b'").iloc[
        0
    ]
    assert found["value"] == pytest.approx(np.nanmean(taus), abs=1e-6)
    assert len(heads.rows) == 2 * 2 * model.n_layers * model.n_heads
    cones = layers.rows.query("metric == 'conicity'")
    assert list(cones["layer"]) == list(model.attention_names)
    assert cones["value"].between(0, 1).all()
    by_hand = []
    for batch in data.batches:
        states = model.run(batch, record=("hidden",)).hidden[1].double().numpy()
        for b in range(len(batch)):
            of_words = states[b, 1 : int(batch.attention_mask[b].sum()) - 1]  # without [CLS] and [SEP]
            mean = of_words.mean(0)
            cosines = [h @ mean / np.linalg.norm(h) / np.linalg.norm(mean) for h in of_words]
            by_hand.append(np.abs(cosines).mean())
    assert cones.iloc[1]["value"] == pytest.approx(np.mean(by_hand), abs=1e-6)


def test_an_encoder_and_a_decoder_have_no_single_sequence(tmp_path):
    model = small_models.load("bart", tmp_path)
    with pytest.raises(NotApplicable, match="no single sequence"):
        read_attention(model, model.encode(small_models.inputs("bart")), "max")


def test_the_rank_correlation_is_that_of_the_means():
    drawn = np.random.default_rng(0)
    first, second = drawn.normal(size=(40, 6)) + np.arange(6), drawn.normal(size=(40, 6)) + np.array([0, 1, 2, 5, 4, 3])
    found = rank_correlation(first, second, seed=0)
    assert found.value == pytest.approx(stats.spearmanr(first.mean(0), second.mean(0)).statistic)
    assert found.low < found.value < found.high
    assert found.n == 40


def test_a_quality_is_had_lacked_or_undecided():
    drawn = np.random.default_rng(0)
    good, none = drawn.normal(1, 0.5, size=(60, 1)), drawn.normal(0, 0.5, size=(60, 1))
    wide = drawn.normal(0.3, 3.0, size=(60, 1))
    assert verdicts(np.hstack([good, none, wide]), [0.001, 0.9, 0.4]) == [True, False, None]
    assert verdicts(np.hstack([none, wide]), [0.9, 0.4]) == [None, None], "nothing to measure a lack by"


def test_a_method_that_mostly_says_nothing_is_in_no_quadrant_and_in_no_correlation():
    """Under the trapezoids such maps beat random scores, and were the one alarm: plausible, not faithful."""
    drawn = np.random.default_rng(0)
    plausible, faithful = Measure("rationale", "average_precision", True), Measure("aopc", "comprehensiveness", True)
    names = ("good", "tied", "random")
    values = {
        plausible: drawn.normal([0.8, 0.9, 0.2], 0.05, size=(40, 3)),
        faithful: drawn.normal([0.5, 0.0, 0.0], 0.05, size=(40, 3)),
    }
    figures = {m: {n: interval(v[:, i]) for i, n in enumerate(names)} for m, v in values.items()}
    spoken, reason = MethodValues(names, figures, values), "all scores are equal in 92 % of its explanations"
    silent = replace(spoken, silent={"tied": reason})
    judge = PlausibilityAndFaithfulness()._quadrants
    assert judge(spoken, plausible, faithful)["tied"] == DANGEROUS
    found = judge(silent, plausible, faithful)
    assert found == {"good": "plausible, faithful", "tied": f"no verdict: {reason}"}
    said = _sentence("comprehensiveness", found, silent)
    assert said == f"Plausible, not faithful by comprehensiveness (n = 40): none. Not judged: tied ({reason})."
    row = AgreementAndQuality()._correlation({}, silent, plausible, faithful)
    assert row["note"] == f"1 methods have both; at least 4 are needed; without tied, {reason}"


def test_agreement_is_what_its_test_measures_whatever_it_is_called():
    agreement = build("evaluations/agreement")

    class Renamed(type(agreement)):
        @property
        def metrics(self):
            return {
                name: replace(one, title=f"{one.title}!", short="", meaning="") for name, one in super().metrics.items()
            }

    alike = SimpleNamespace(reads="tokens", metrics={"token_tau": higher("τ", "τ", headline=True)})
    tests = {
        "mine": Renamed(**{field.name: getattr(agreement, field.name) for field in fields(agreement)}),
        "other": alike,
    }
    found = measures(SimpleNamespace(evaluations=tests), _is_agreement)
    assert [str(one) for one in found] == ["mine: gradient_tau", "mine: leave_one_out_tau"]


def test_a_share_of_constant_explanations_silences_a_test_above_a_tenth():
    assert evaluation_record().silence is None
    assert evaluation_record(constant=0.1, tied=0.2).silence is None
    assert evaluation_record(constant=0.11, tied=0.2).silence == "all scores are equal in 11 % of its explanations"


@pytest.mark.parametrize("analysis", [AgreementAndQuality(), PlausibilityAndFaithfulness()])
def test_without_the_tests_that_they_read_there_is_no_answer(context, analysis):
    with pytest.raises(NotApplicable, match="it needs"):
        analysis(context)
