import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmark.errors import NotApplicable, UserError
from benchmark.evaluations.head_pruning import PRUNED_SHARES, Calibration, HeadPruning, pruned_logits, pruning_masks
from benchmark.models import load_model
from benchmark.types import Attribution
from tests.evaluations.conftest import figure_of, values_of

SHARED = Path(__file__).parents[2].parent / "shared"


@pytest.fixture(scope="module")
def golden():
    path = SHARED / "golden" / "attattr_bert.npz"
    if not path.exists():
        pytest.skip("the reference data 'golden' is not beside the repository")
    return np.load(path)


@pytest.mark.parametrize(("kind", "importance"), [("attr", "head_importance_sum"), ("taylor", "taylor_importance")])
def test_masks_equal_the_published_ones(golden, kind, importance):
    keep = pruning_masks(torch.as_tensor(golden[importance])[None], PRUNED_SHARES)
    assert np.array_equal(keep[:, 0].numpy(), golden[f"prune_masks_{kind}"].astype(bool))


@pytest.mark.parametrize("kind", ["attr", "taylor"])
def test_pruned_logits_equal_the_published_ones(golden, kind):
    model = load_model(SHARED / "golden" / "bert", dtype="float64", device="cpu")
    inputs = json.loads((SHARED / "golden" / "bert_inputs.json").read_text())
    names = ("input_ids", "attention_mask", "token_type_ids")
    batch = model.encode([{name: example[name] for name in names} for example in inputs])
    keep = torch.as_tensor(golden[f"prune_masks_{kind}"]).bool()[:, None].expand(-1, len(batch), -1, -1)
    logits = pruned_logits(replace(model, max_tokens=200), batch, keep)
    for i in range(len(batch)):
        expected = golden[f"pruned_logits_{kind}_{i}"]
        assert np.abs(logits[:, i].numpy() - expected).max() <= 1e-5 * np.abs(expected).max()


def slow_mask(importance, share, scope, descending):
    """Head by head; scores without ties."""
    n_layers, n_heads = importance.shape
    keep = np.ones((n_layers, n_heads), dtype=bool)
    groups = [[(layer, h) for h in range(n_heads)] for layer in range(n_layers)]
    groups = groups if scope == "layer" else [[cell for group in groups for cell in group]]
    for group in groups:
        ordered = sorted(group, key=lambda cell: importance[cell], reverse=descending)
        for cell in ordered[: round(share * 10) * len(group) // 10]:
            keep[cell] = False
    return keep


@settings(max_examples=30)
@given(st.integers(1, 4), st.integers(1, 12), st.sampled_from(["global", "layer"]), st.booleans(), st.integers(0, 99))
def test_masks_equal_the_slow_ones(n_layers, n_heads, scope, descending, seed):
    importance = np.random.default_rng(seed).normal(size=(2, n_layers, n_heads))
    keep = pruning_masks(torch.as_tensor(importance), PRUNED_SHARES, scope=scope, descending=descending)
    for k, share in enumerate(PRUNED_SHARES):
        for b in range(2):
            assert np.array_equal(keep[k, b].numpy(), slow_mask(importance[b], share, scope, descending))
    assert keep[0].all()
    assert not keep[-1].any()
    assert (keep[1:] <= keep[:-1]).all()


def test_ties_are_the_same_for_all_examples_and_follow_the_seed():
    masks = [pruning_masks(torch.zeros(3, 4, 4), [0.3], seed=seed)[0] for seed in range(5)]
    assert all(mask[0].equal(mask[1]) and mask[0].equal(mask[2]) for mask in masks)
    assert len({tuple(mask[0].flatten().tolist()) for mask in masks}) > 1


@pytest.mark.parametrize("scope", ["global", "layer"])
def test_curves_equal_the_slow_loop(tiny, batch, scope):
    importance = torch.as_tensor(np.random.default_rng(0).normal(size=(5, 2, 4)))
    evaluation = HeadPruning(scope=scope)
    rows = evaluation.rows(replace(tiny, max_tokens=100), batch, Attribution(target=batch.label, heads=importance))
    for b in range(4):
        label = int(batch.label[b])
        areas = {}
        for direction, descending in (("low_first", False), ("high_first", True)):
            accuracy = []
            for share in PRUNED_SHARES:
                keep = torch.as_tensor(slow_mask(importance[b].numpy(), share, scope, descending))

                def edit(layer, probabilities, keep=keep):
                    return probabilities * keep[layer][None, :, None, None]

                logits = tiny.run(batch.select([b]), edits=[edit]).logits[0]
                accuracy.append(float(logits.argmax() == label))
                probability = values_of(rows, f"{direction}_probability", share)[str(b)]
                assert probability == pytest.approx(float(logits.softmax(0)[label]), abs=1e-10)
                assert values_of(rows, f"{direction}_accuracy", share)[str(b)] == accuracy[-1]
            areas[direction] = np.trapezoid(accuracy, PRUNED_SHARES)
            assert values_of(rows, f"{direction}_auc")[str(b)] == pytest.approx(areas[direction])
        assert values_of(rows, "auc_difference")[str(b)] == pytest.approx(areas["low_first"] - areas["high_first"])
    assert "4" not in set(rows["uid"])  # it has no label


def test_planted_truth_is_ranked(sentiment, reviews):
    """Head 0 alone carries the words' polarity to CLS."""
    known = torch.zeros(len(reviews), 1, 4, dtype=torch.float64)
    known[:, 0, 0] = 1.0
    evaluation = HeadPruning()
    figures = {
        name: evaluation.reduce(evaluation.rows(sentiment, reviews, Attribution(target=reviews.label, heads=heads)))
        for name, heads in (("oracle", known), ("inverted", -known))
    }
    oracle, inverted = (figure_of(figures[name], "auc_difference") for name in ("oracle", "inverted"))
    assert oracle.low > 0 > inverted.high
    assert oracle.value == pytest.approx(-inverted.value)
    for found in figures.values():
        assert {f.metric for f in found} == set(evaluation.metrics)


def test_equal_masks_run_once(tiny, batch):
    before = tiny.cost.forward_passes
    heads = torch.arange(8.0).reshape(1, 2, 4).expand(5, -1, -1)
    HeadPruning().rows(tiny, batch, Attribution(target=batch.label, heads=heads))
    counts = {k * 8 // 10 for k in range(11)}
    assert tiny.cost.forward_passes - before == 5 * (2 * len(counts) - 2)


def test_order_and_composition_of_batches_change_nothing(tiny, batch):
    heads = torch.randn(5, 2, 4, generator=torch.Generator().manual_seed(0))
    evaluation = HeadPruning()
    whole = evaluation.rows(tiny, batch, Attribution(target=batch.label, heads=heads))
    parts = [
        evaluation.rows(tiny, batch.select(rows), Attribution(target=batch.label[rows], heads=heads[rows]))
        for rows in ([3, 0], [4, 2, 1])
    ]
    columns = ["uid", "metric", "x"]
    a, b = (frame.sort_values(columns).reset_index(drop=True) for frame in (whole, pd.concat(parts)))
    pd.testing.assert_frame_equal(a, b, atol=1e-9)


FEW = HeadPruning(fractions=(0.0, 0.4, 1.0))


@pytest.fixture(scope="module")
def drawn(tiny, batch):
    """Pruned under five random orders, and each of them alone."""
    orders = torch.as_tensor(np.random.default_rng(1).random((5, 2, 4)))
    first = orders[0].expand(len(batch), -1, -1)
    together = FEW.rows(tiny, batch, Attribution(target=batch.label, heads=first, orders=orders[1:]))
    alone = [FEW.rows(tiny, batch, Attribution(target=batch.label, heads=o.expand(len(batch), -1, -1))) for o in orders]
    return together, alone


def test_every_order_has_the_rows_that_it_has_alone(drawn):
    together, alone = drawn
    columns = ["uid", "metric", "x"]
    for number, expected in enumerate(alone):
        own = together[together["draw"] == number].sort_values(columns).reset_index(drop=True)
        assert set(expected["draw"]) == {0}
        expected = expected.assign(draw=number).sort_values(columns).reset_index(drop=True)
        pd.testing.assert_frame_equal(own, expected[own.columns], atol=1e-9)
    assert set(together["draw"]) == set(range(5))


def test_figures_are_means_over_orders_with_the_orders_in_their_intervals(drawn):
    together, alone = drawn
    evaluation = FEW
    figures = evaluation.reduce(together)
    assert {f.metric for f in figures} == set(evaluation.metrics)
    for f in figures:
        values = [np.mean(list(values_of(rows, f.metric, None if np.isnan(f.x) else f.x).values())) for rows in alone]
        assert f.n == 4
        assert f.value == pytest.approx(np.mean(values), abs=1e-12)
        low, high = evaluation.metrics[f.metric].bounds
        margin = 2.776445 * np.std(values, ddof=1) / np.sqrt(5)
        assert low <= f.low <= max(low, f.value - margin) + 1e-6
        assert high >= f.high >= min(high, f.value + margin) - 1e-6


def test_resampled_calibration_examples_widen_the_interval_and_leave_the_figure(tiny, batch):
    scores = torch.as_tensor(np.random.default_rng(0).normal(size=(6, 2, 4)))
    evaluation = replace(FEW, resamples=4)
    resamples = evaluation.resampled(scores, lambda heads: heads.mean(0))
    assert resamples.shape == (4, 2, 4)
    assert torch.equal(resamples, evaluation.resampled(scores, lambda heads: heads.mean(0)))
    lowest, highest = scores.amin(0), scores.amax(0)
    assert ((resamples >= lowest) & (resamples <= highest)).all()
    heads = scores.mean(0).expand(len(batch), -1, -1)
    rows = evaluation.rows(tiny, batch, Attribution(target=batch.label, heads=heads, resamples=resamples))
    plain = evaluation.rows(tiny, batch, Attribution(target=batch.label, heads=heads))
    own = rows[~rows["metric"].str.startswith("resampled ")].reset_index(drop=True)
    pd.testing.assert_frame_equal(own, plain, atol=1e-9)
    wide, narrow = evaluation.reduce(rows), evaluation.reduce(plain)
    assert [(f.metric, f.x, f.n) for f in map(nameless, wide)] == [(f.metric, f.x, f.n) for f in map(nameless, narrow)]
    assert [f.value for f in wide] == pytest.approx([f.value for f in narrow])
    assert all(w.low <= n.low + 1e-12 and w.high >= n.high - 1e-12 for w, n in zip(wide, narrow, strict=True))
    means = rows[rows["metric"] == "resampled auc_difference"].groupby("draw")["value"].mean()
    assert len(means) == 4
    if means.std() > 0:
        assert figure_of(wide, "auc_difference").low < figure_of(narrow, "auc_difference").low


def nameless(figure):
    """NaN equals nothing."""
    return replace(figure, x=-1.0) if np.isnan(figure.x) else figure


def test_nothing_is_resampled_where_there_is_nothing_to_resample():
    assert HeadPruning().resampled(torch.zeros(1, 2, 4), lambda heads: heads.mean(0)) is None
    assert HeadPruning(resamples=0).resampled(torch.zeros(9, 2, 4), lambda heads: heads.mean(0)) is None
    with pytest.raises(UserError, match="resamples=1"):
        HeadPruning(resamples=1)


def test_equal_masks_of_several_orders_run_once(tiny, batch):
    heads = torch.arange(8.0).reshape(1, 2, 4).expand(5, -1, -1)
    before = tiny.cost.forward_passes
    again = heads[:1].expand(4, -1, -1)
    HeadPruning().rows(tiny, batch, Attribution(target=batch.label, heads=heads, orders=again))
    counts = {k * 8 // 10 for k in range(11)}
    assert tiny.cost.forward_passes - before == 5 * (2 * len(counts) - 2)


def test_calibration_settings():
    assert HeadPruning(calibration={"split": "train", "limit": 7}).calibration == Calibration("train", 7)
    assert HeadPruning(calibration="same").calibration == "same"
    assert HeadPruning().calibration == Calibration("validation", 100)
    for wrong in ("other", {"part": "train"}):
        with pytest.raises(UserError, match="calibration="):
            HeadPruning(calibration=wrong)
    with pytest.raises(UserError, match="limit=0"):
        HeadPruning(calibration={"limit": 0})


def test_refusals(tiny, batch):
    with pytest.raises(NotApplicable, match="no head scores"):
        HeadPruning().rows(tiny, batch, Attribution(target=batch.label))
    for wrong in ({"scope": "model"}, {"fractions": [1.0, 0.0]}):
        with pytest.raises((UserError, TypeError), match=next(iter(wrong))):
            HeadPruning(**wrong)
