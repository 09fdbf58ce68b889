import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import torch

from benchmark.errors import NotApplicable, UserError
from benchmark.evaluations.curves import TENTHS
from benchmark.evaluations.perturbation import Perturbation, rank_units
from benchmark.results import statistics
from benchmark.settings.configuration import compose
from benchmark.settings.making import make
from benchmark.targets import ClassTarget
from benchmark.types import Attribution
from tests.evaluations.conftest import attribution_of, figure_of, planted, spelled_probability, values_of


def scores_of(batch, seed=0):
    generator = np.random.default_rng(seed)
    return [generator.normal(size=len(words)) for words in batch.words]


def slow_curves(model, batch, scores, target):
    """Per example, direction and fraction: mask by hand, one forward pass each."""
    found = {}
    for b, uid in enumerate(batch.uids):
        n = len(batch.words[b])
        order = sorted(range(n), key=lambda u: -scores[b][u])
        for direction, units in (("positive", order), ("negative", order[::-1])):
            for k in range(10):
                gone = set(units[: k * n // 10])
                tensors = {name: t[b : b + 1].clone() for name, t in batch.tensors.items()}
                for t, unit in enumerate(batch.units[b].tolist()):
                    if unit in gone:
                        tensors["input_ids"][0, t] = model.mask_token_id
                logits = model.run(tensors).logits[0]
                found[uid, direction, k] = (
                    float(logits.argmax() == batch.label[b]),
                    float(logits.softmax(0)[target[b]]),
                    float(logits[target[b]]),
                )
    return found


def test_curves_and_areas_equal_the_slow_loop(tiny, batch):
    scores, target = scores_of(batch), [2, 0, 1, 1, 0]
    rows = Perturbation().rows(tiny, batch, attribution_of(batch, scores, target))
    slow = slow_curves(tiny, batch, scores, target)
    for direction in ("positive", "negative"):
        for index, name in enumerate(("accuracy", "probability", "logit")):
            curve = {k: values_of(rows, f"{direction}_{name}", k / 10) for k in range(10)}
            auc = values_of(rows, f"{direction}_{name}_auc_mean" if index else f"{direction}_auc_mean")
            for uid in auc:
                expected = [slow[uid, direction, k][index] for k in range(10)]
                assert [curve[k][uid] for k in range(10)] == pytest.approx(expected, abs=1e-9)
                assert auc[uid] == pytest.approx(np.trapezoid(expected[1:], TENTHS) / 0.8, abs=1e-9)


def test_the_published_area_starts_at_the_whole_input_and_is_not_divided(tiny, batch):
    scores, target = scores_of(batch), [2, 0, 1, 1, 0]
    evaluation = Perturbation(area="published")
    rows = evaluation.rows(tiny, batch, attribution_of(batch, scores, target))
    slow = slow_curves(tiny, batch, scores, target)
    for direction in ("positive", "negative"):
        for index, name in enumerate(("auc_published", "probability_auc_published", "logit_auc_published")):
            for uid, found in values_of(rows, f"{direction}_{name}").items():
                expected = [slow[uid, direction, k][index] for k in range(10)]
                assert found == pytest.approx(np.trapezoid(expected, [k / 10 for k in range(10)]) * 100, abs=1e-7)
    assert evaluation.metrics["positive_auc_published"].bounds == pytest.approx((0, 90))
    assert evaluation.metrics["negative_probability_auc_published"].bounds == pytest.approx((0, 90))
    assert evaluation.metrics["positive_logit_auc_published"].bounds == (-math.inf, math.inf)
    assert not any(name.endswith(("_auc", "_auc_mean")) for name in evaluation.metrics)
    for f in evaluation.reduce(rows):
        low, high = evaluation.metrics[f.metric].bounds
        assert low <= f.value <= high


def test_both_areas_draw_the_same_curves_from_0_percent_on(tiny, batch):
    attribution = attribution_of(batch, scores_of(batch), [1] * 5)
    mean, published = (Perturbation(area=area).rows(tiny, batch, attribution) for area in ("mean", "published"))
    curves = [rows[rows["x"].notna()].reset_index(drop=True) for rows in (mean, published)]
    pd.testing.assert_frame_equal(*curves)
    assert set(curves[0]["x"]) == {k / 10 for k in range(10)}
    plain = tiny.run(batch).logits.softmax(-1)[:, 1].tolist()
    assert [values_of(mean, "negative_probability", 0.0)[uid] for uid in batch.uids] == pytest.approx(plain)


def test_the_experiment_after_the_paper_follows_its_script_and_its_tables():
    config = compose("config", ["+experiment=chefer2021_movies", "model.path=given"])
    made = {name: make(config.evaluations[name]) for name in config.evaluations}
    perturbation, rationale = made["perturbation_target"], made["rationale"]
    assert (perturbation.area, perturbation.target) == ("published", "label")
    assert (rationale.target, rationale.clamp) == ("label", True)


def test_examples_without_a_label_have_probabilities_only(tiny, batch):
    rows = Perturbation().rows(tiny, batch, attribution_of(batch, scores_of(batch)))
    assert "4" not in values_of(rows, "positive_auc_mean")
    assert "4" in values_of(rows, "positive_probability_auc_mean")
    by_label = replace(attribution_of(batch, scores_of(batch)), target=batch.label)
    rows = Perturbation(target="label").rows(tiny, batch, by_label)
    assert "4" not in values_of(rows, "positive_probability_auc_mean")
    assert set(values_of(rows, "negative_logit", 0.5)) == {"0", "1", "2", "3"}


def test_a_single_unit_is_never_removed(tiny, batch):
    rows = Perturbation().rows(tiny, batch, attribution_of(batch, scores_of(batch), [1] * 5))
    plain = float(tiny.run(batch).logits[2].softmax(0)[1])
    assert values_of(rows, "positive_probability", 0.9)["2"] == pytest.approx(plain, abs=1e-10)


def test_planted_truth_is_ranked(sentiment, reviews):
    evaluation = Perturbation(target="label")
    kinds = ("oracle", "random", "inverted")
    rows = {kind: evaluation.rows(sentiment, reviews, planted(reviews, kind)) for kind in kinds}
    for metric, sign in (("positive_auc_mean", 1), ("negative_auc_mean", -1), ("positive_probability_auc_mean", 1)):
        values = {kind: sign * np.array(list(values_of(rows[kind], metric).values())) for kind in kinds}
        for better, worse in pairwise(kinds):
            assert statistics.interval(values[worse] - values[better]).low > 0


def test_order_and_composition_of_batches_change_nothing(tiny, batch):
    attribution = attribution_of(batch, [np.zeros(len(words)) for words in batch.words], [1] * 5)
    evaluation, tiny = Perturbation(), replace(tiny, max_tokens=50)
    whole = evaluation.rows(tiny, batch, attribution)
    parts = []
    for rows in ([4, 2], [0], [3, 1]):
        part = Attribution(target=attribution.target[rows], tokens=attribution.tokens[rows])
        parts.append(evaluation.rows(tiny, batch.select(rows), part))
    columns = ["uid", "metric", "x"]
    a, b = (frame.sort_values(columns).reset_index(drop=True) for frame in (whole, pd.concat(parts)))
    pd.testing.assert_frame_equal(a, b, atol=1e-9)
    first, second = evaluation.reduce(whole), evaluation.reduce(pd.concat(parts))
    assert [(f.metric, f.n) for f in first] == [(f.metric, f.n) for f in second]
    assert [f.low for f in first] == pytest.approx([f.low for f in second])


def test_tied_scores_are_ordered_by_the_seed_not_by_position(tiny, batch):
    tied = attribution_of(batch, [np.zeros(len(words)) for words in batch.words])
    orders = {tuple(rank_units(batch, tied, how="max", seed=seed).ranks[0, :9].tolist()) for seed in range(6)}
    assert len(orders) == 6
    assert tuple(range(9)) not in orders


def test_query_units_are_never_ranked_nor_removed(tiny):
    pair = replace(tiny.encode([("was it good", "the film was dull")]), query_units=(3,))
    ranking = rank_units(pair, attribution_of(pair, [[9, 9, 9, 1, 2, 3, 4]]), how="max", seed=0)
    assert ranking.n.tolist() == [4]
    assert ranking.ranks[0].tolist() == [7, 7, 7, 3, 2, 1, 0]
    rows = Perturbation().rows(tiny, pair, attribution_of(pair, [[9, 9, 9, 1, 2, 3, 4]], [0]))
    expected = spelled_probability(tiny, ("was it good", "the [MASK] [MASK] [MASK]"), 0)
    assert values_of(rows, "positive_probability", 0.9)["0"] == pytest.approx(expected)


def test_all_visible_units_may_be_query(tiny):
    pair = replace(tiny.encode([("was it", "good")], labels=[0]), query_units=(3,))
    rows = Perturbation().rows(tiny, pair, attribution_of(pair, [[1, 2, 3]]))
    assert rows.empty
    with pytest.raises(NotApplicable, match="no example has a value"):
        Perturbation().reduce(rows)


def test_every_fraction_of_every_example_costs_one_pass_at_most(tiny, batch):
    before = tiny.cost.forward_passes
    Perturbation().rows(tiny, batch, attribution_of(batch, scores_of(batch)))
    needed = 0
    for words in batch.words:
        counts = {k * len(words) // 10 for k in range(10)}
        needed += 2 * len(counts) - 1
    assert tiny.cost.forward_passes - before == needed


def test_nan_shows(tiny, reviews):
    nothing = torch.full((20, 1, 2), float("nan"))
    broken = Perturbation().curve_rows(
        tiny, reviews.select([0]), nothing, ClassTarget(torch.tensor([0])), torch.tensor([True])
    )
    assert math.isnan(values_of(broken, "positive_auc_mean")["0"])
    assert math.isnan(figure_of(Perturbation().reduce(broken), "positive_accuracy", 0.1).value)


def test_methods_without_token_scores_are_not_applicable(tiny, batch):
    with pytest.raises(NotApplicable, match="no token scores"):
        Perturbation().rows(tiny, batch, Attribution(target=batch.label))


@pytest.mark.parametrize("settings", [{"fractions": [0.5, 0.1]}, {"fractions": []}])
def test_bad_settings(settings):
    with pytest.raises(UserError, match=f"^{next(iter(settings))}=.*: allowed are"):
        Perturbation(**settings)


def test_figures_are_the_metrics(tiny, batch):
    evaluation = Perturbation()
    figures = evaluation.reduce(evaluation.rows(tiny, batch, attribution_of(batch, scores_of(batch))))
    assert {f.metric for f in figures} == set(evaluation.metrics)
    for f in figures:
        low, high = evaluation.metrics[f.metric].bounds
        assert low <= f.low <= f.value <= f.high <= high
        assert math.isnan(f.x) == (evaluation.metrics[f.metric].x is None)
