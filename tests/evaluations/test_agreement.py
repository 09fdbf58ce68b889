from dataclasses import asdict, replace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import kendalltau

from benchmark.errors import NotApplicable, UserError
from benchmark.evaluations.agreement import REFERENCES
from benchmark.settings.configuration import compose
from benchmark.settings.making import build
from benchmark.types import Attribution
from benchmark.units import pool
from tests.evaluations.conftest import attribution_of, figure_of, values_of


def made(*overrides):
    return build("evaluations/agreement", *overrides)


def scores_of(batch, seed=0):
    generator = np.random.default_rng(seed)
    return [generator.normal(size=len(words)) for words in batch.words]


def slow_gradient(model, batch, b, target, held):
    """One example, by autograd at an embedding that replaces the model's own."""
    length = int(batch.attention_mask[b].sum())
    tensors = {name: t[b : b + 1, :length] for name, t in batch.tensors.items()}
    embedding = model.model.get_input_embeddings()(tensors["input_ids"]).detach().requires_grad_()
    edits = [lambda layer, a: a.detach()] if held else []
    with torch.enable_grad():
        trace = model.run(tensors, embedding_edit=lambda e: embedding, edits=edits, grad=True)
        probability = trace.logits.softmax(-1)[0, target]
    (gradient,) = torch.autograd.grad(probability, embedding)
    return [float((gradient[0, t] * embedding[0, t].detach()).sum().abs()) for t in range(length)]


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("memory_budget", [1, 1 << 30])
def test_gradient_importance_equals_the_slow_one(tiny, batch, held, memory_budget):
    target = torch.tensor([0, 1, 2, 0, 1])
    reference = made().gradient if held else made().gradient_attached
    fast = reference(replace(tiny, memory_budget=memory_budget), batch, target).tokens
    for b in range(len(batch)):
        slow = slow_gradient(tiny, batch, b, int(target[b]), held)
        assert fast[b, : len(slow)].tolist() == pytest.approx(slow, abs=1e-10)
        assert (fast[b, len(slow) :] == 0).all()


def test_gradients_of_all_outputs_are_added_up_by_magnitude(tiny, batch):
    """As Jain & Wallace's program: of three classes another ranking than the explained class alone gives."""
    for held, name in ((True, "gradient"), (False, "gradient_attached")):
        reference = getattr(made(f"{name}.outputs=all"), name)
        fast = reference(tiny, batch, torch.zeros(5, dtype=torch.long)).tokens
        orders = []
        for b in range(len(batch)):
            of_classes = np.array([slow_gradient(tiny, batch, b, c, held) for c in range(3)])
            assert fast[b, : of_classes.shape[1]].tolist() == pytest.approx(of_classes.sum(0), abs=1e-10)
            orders.append((of_classes.sum(0).argsort() != of_classes[0].argsort()).any())
        assert any(orders)


def test_the_experiment_has_the_references_of_the_published_program():
    """Deleted words, and all outputs, wherever gradient and leave-one-out are references."""
    for experiment in ("jain2019", "debate"):
        config = compose("config", [f"+experiment={experiment}"])
        holders = (config.evaluations.agreement, config.analyses.agreement_matrix, config.analyses.heads_agreement)
        for holder in holders:
            assert holder.leave_one_out.operator == "delete"
            assert holder.leave_one_out.output == "total_variation"
            assert (holder.gradient.outputs, holder.gradient.attention) == ("all", "constant")
        assert holders[0].gradient_attached.outputs == "all"
    assert not made("leave_one_out.operator=delete").leave_one_out.class_specific


def test_holding_the_attention_constant_matters(tiny, batch):
    target = torch.zeros(5, dtype=torch.long)
    held, attached = (
        reference(tiny, batch, target).tokens for reference in (made().gradient, made().gradient_attached)
    )
    assert (held - attached).abs().max() > 1e-4


def test_leave_one_out_equals_the_slow_one(tiny, batch):
    reference = made("leave_one_out.operator=delete").leave_one_out
    tokens = reference(replace(tiny, max_tokens=64), batch, torch.zeros(5, dtype=torch.long)).tokens
    variation, _ = pool(tokens, batch.units)
    for b, words in enumerate(batch.words):
        whole = tiny.run(tiny.encode([list(words)])).logits[0].softmax(0)
        for j in range(len(words)):
            kept = [word for u, word in enumerate(words) if u != j]
            ids = tiny.tokenizer(" ".join(kept), return_tensors="pt")["input_ids"]
            rest = tiny.run({"input_ids": ids}).logits[0].softmax(0)
            assert float(variation[b, j]) == pytest.approx(0.5 * float((whole - rest).abs().sum()), abs=1e-10)
        assert (variation[b, len(words) :] == 0).all()


def test_taus_equal_scipy_on_slow_references(tiny, batch):
    scores = scores_of(batch)
    attribution = attribution_of(batch, scores, [1] * 5)
    rows = made().rows(tiny, batch, attribution)
    for b, uid in enumerate(batch.uids):
        n = len(batch.words[b])
        for name, held in (("gradient", True), ("gradient_attached", False)):
            tokens = slow_gradient(tiny, batch, b, 1, held)
            units = [max(v for v, u in zip(tokens, batch.units[b].tolist(), strict=False) if u == j) for j in range(n)]
            if n < 2:
                assert uid not in values_of(rows, f"{name}_tau")
                assert values_of(rows, f"{name}_undefined")[uid] == 1
                continue
            expected = kendalltau(scores[b], units)
            assert values_of(rows, f"{name}_tau")[uid] == pytest.approx(expected.statistic)
            assert values_of(rows, f"{name}_significant")[uid] == float(expected.pvalue <= 0.05)
            assert values_of(rows, f"{name}_undefined")[uid] == 0


def test_scores_that_are_the_reference_agree_with_it(sentiment, reviews):
    evaluation = made("leave_one_out.operator=mask")
    variation, _ = pool(evaluation.leave_one_out(sentiment, reviews, reviews.label).tokens, reviews.units)
    figures = {}
    for name, sign in (("oracle", 1.0), ("inverted", -1.0)):
        rows = evaluation.rows(sentiment, reviews, attribution_of(reviews, (sign * variation).tolist()))
        figures[name] = evaluation.reduce(rows)
    chance = evaluation.reduce(evaluation.rows(sentiment, reviews, attribution_of(reviews, scores_of(reviews))))
    assert figure_of(figures["oracle"], "leave_one_out_tau").value == pytest.approx(1)
    assert figure_of(figures["inverted"], "leave_one_out_tau").value == pytest.approx(-1)
    assert figure_of(figures["oracle"], "leave_one_out_significant").value == 1
    random = figure_of(chance, "leave_one_out_tau")
    assert -0.2 < random.low < random.high < 0.2
    null = figure_of(figures["oracle"], "leave_one_out_tau_null")
    assert abs(null.value) < 0.05


def test_layers_have_their_own_curve(tiny, batch):
    first, second = (attribution_of(batch, scores_of(batch, seed)) for seed in (1, 2))
    tokens = first.tokens
    layers = torch.stack([first.tokens, second.tokens, torch.ones_like(tokens)], dim=1)
    attribution = replace(first, layers=layers)
    evaluation = made()
    rows = evaluation.rows(tiny, batch, attribution)
    for name in REFERENCES:
        own = values_of(rows, f"{name}_tau")
        assert values_of(rows, f"{name}_tau_layer", 0) == pytest.approx(own)
        other = values_of(made().rows(tiny, batch, second), f"{name}_tau")
        assert values_of(rows, f"{name}_tau_layer", 1) == pytest.approx(other)
        mean = values_of(rows, f"{name}_tau_layer_mean")
        assert mean == pytest.approx({uid: (own[uid] + other[uid]) / 2 for uid in own})
        assert values_of(rows, f"{name}_tau_layer", 2) == {}  # constant: undefined, in no mean
        undefined = [sum(values_of(rows, f"{name}_undefined_layer", layer).values()) for layer in range(3)]
        assert undefined == [1, 1, 5]  # the single word everywhere


def test_constant_scores_are_counted_not_averaged(tiny, batch):
    scores = scores_of(batch)
    scores[0] = np.full(len(scores[0]), 0.5)
    evaluation = made()
    figures = evaluation.reduce(evaluation.rows(tiny, batch, attribution_of(batch, scores)))
    undefined, tau = figure_of(figures, "gradient_undefined"), figure_of(figures, "gradient_tau")
    assert (undefined.value, undefined.n) == (0.4, 5)
    assert tau.n == 3


def test_spread_and_classes(tiny, batch):
    evaluation = made()
    rows = evaluation.rows(tiny, batch, attribution_of(batch, scores_of(batch)))
    figures = evaluation.reduce(rows)
    taus = values_of(rows, "gradient_tau")
    assert figure_of(figures, "gradient_tau_std").value == pytest.approx(np.std(list(taus.values())))
    predicted = {uid: int(c) for uid, c in zip(batch.uids, tiny.predict(batch), strict=True)}
    for c in {predicted[uid] for uid in taus}:
        members = [tau for uid, tau in taus.items() if predicted[uid] == c]
        assert figure_of(figures, "gradient_tau_by_class", c).value == pytest.approx(np.mean(members))
    assert {f.metric for f in figures} <= set(evaluation.metrics)


def test_references_are_computed_once_for_all_methods(tiny, batch):
    evaluation = made()
    before = asdict(evaluation)
    first = evaluation.rows(tiny, batch, attribution_of(batch, scores_of(batch, 1), [0] * 5))
    cost = (tiny.cost.forward_passes, tiny.cost.backward_passes)
    again = evaluation.rows(tiny, batch, attribution_of(batch, scores_of(batch, 1), [0] * 5))
    assert (tiny.cost.forward_passes, tiny.cost.backward_passes) == cost
    pd.testing.assert_frame_equal(first, again)
    assert asdict(evaluation) == before  # what is remembered is no setting
    evaluation.rows(tiny, batch, attribution_of(batch, scores_of(batch, 1), [1] * 5))
    assert tiny.cost.backward_passes > cost[1]


def test_the_memory_is_bounded_and_forgetting_changes_nothing(tiny, batch, monkeypatch):
    forgetful, remembering = made(), made()
    for target in ([0] * 5, [1] * 5, [0] * 5):
        attribution = attribution_of(batch, scores_of(batch), target)
        whole = remembering.rows(tiny, batch, attribution)
        with monkeypatch.context() as patch:
            patch.setattr("benchmark.evaluations.agreement._MOST_REFERENCES", 2)
            pd.testing.assert_frame_equal(forgetful.rows(tiny, batch, attribution), whole)
        assert len(forgetful._memory) <= 2


def test_order_and_composition_of_batches_change_nothing(tiny, batch):
    attribution = attribution_of(batch, scores_of(batch), [0, 1, 2, 0, 1])
    whole = made().rows(tiny, batch, attribution)
    parts = []
    for rows in ([4, 2], [0], [3, 1]):
        part = Attribution(target=attribution.target[rows], tokens=attribution.tokens[rows])
        parts.append(made().rows(replace(tiny, max_tokens=1), batch.select(rows), part))
    columns = ["uid", "metric", "x"]
    a, b = (frame.sort_values(columns).reset_index(drop=True) for frame in (whole, pd.concat(parts)))
    pd.testing.assert_frame_equal(a, b, atol=1e-9)


def test_words_of_a_query_are_left_out(tiny):
    pair = replace(tiny.encode([("was it good", "the film was dull a story")]), query_units=(3,))
    scores = np.random.default_rng(0).normal(size=9)
    rows = made().rows(tiny, pair, attribution_of(pair, [scores], [0]))
    changed = np.concatenate([[9.0, -9.0, 5.0], scores[3:]])
    again = made().rows(tiny, pair, attribution_of(pair, [changed], [0]))
    assert values_of(rows, "leave_one_out_tau") == values_of(again, "leave_one_out_tau")


def test_images(vision):
    generator = torch.Generator().manual_seed(0)
    image = vision.encode([{"pixel_values": torch.rand(3, 16, 16, generator=generator)} for _ in range(3)])
    scores = [np.random.default_rng(b).normal(size=16) for b in range(3)]
    evaluation = made()
    figures = evaluation.reduce(evaluation.rows(vision, image, attribution_of(image, scores)))
    for name in REFERENCES:
        assert figure_of(figures, f"{name}_tau").n == 3
        assert abs(figure_of(figures, f"{name}_tau").value) <= 1
    target = torch.zeros(3, dtype=torch.long)
    importance = evaluation.gradient_attached(vision, image, target).tokens
    assert (importance[:, 0] == 0).all()  # CLS is no patch
    patches = vision.run(image, record=("embeddings",)).embeddings
    step = 1e-6
    for j in (0, 7):

        def scaled(e, j=j):
            return torch.cat([e[:, :j], e[:, j : j + 1] * (1 + step), e[:, j + 1 :]], dim=1)

        moved = vision.run(image, embedding_edit=scaled).probabilities[:, 0]
        slope = ((moved - vision.run(image).probabilities[:, 0]) / step).abs()
        assert torch.allclose(slope, importance[:, j + 1], rtol=1e-3, atol=1e-7)
    assert patches.shape[1] == 16


def test_refusals(tiny, batch):
    with pytest.raises(NotApplicable, match="no token scores"):
        made().rows(tiny, batch, Attribution(target=batch.label))
    with pytest.raises(UserError, match="operator=black"):
        made("leave_one_out.operator=black").rows(tiny, batch, attribution_of(batch, scores_of(batch)))
    with pytest.raises(UserError, match="permutations=0: allowed are whole numbers from 1"):
        made("permutations=0")
