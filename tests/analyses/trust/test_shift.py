"""How strange a text is: by hand, against halves of one sample, against nonsense, and for a model that met masks."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from benchmark.analyses.context import Context
from benchmark.analyses.trust.shift import INVERTED, ORACLE, RANDOM, Shift, removals
from benchmark.analyses.trust.strange import (
    BETWEEN,
    IN,
    NATURAL,
    OUT,
    TRAINING,
    Strange,
    states_of,
    told_apart,
    verdict,
)
from benchmark.errors import NotApplicable
from benchmark.models.typicality import Reference, paired_auroc
from benchmark.results.statistics import Interval
from benchmark.run.workbench import open_setting
from benchmark.settings.configuration import compose


def states(seed, n, shift=0.0, layers=3, size=20):
    return (np.random.default_rng(seed).normal(size=(n, layers, size)) + shift).astype(np.float32)


def test_strangeness_equals_a_loop():
    """The smaller tail with what is equal, Simes over dimensions, Fisher over layers: one number after another."""
    reference, given = np.round(states(0, 12), 1), np.round(states(1, 3), 1)
    first, second = reference[::2], reference[1::2]

    def tail(known, value):
        return (min((known <= value).sum(), (known >= value).sum()) + 1) / (len(known) + 1)

    def simes(x, layer):
        q = sorted(tail(first[:, layer, d], x[layer, d]) for d in range(20))
        return min(value * 20 / (k + 1) for k, value in enumerate(q))

    expected = []
    for x in given:
        total = 0.0
        for layer in range(3):
            total -= 2 * np.log(tail(np.array([simes(other, layer) for other in second]), simes(x, layer)))
        expected.append(total)
    assert Reference.of(reference).strangeness(given) == pytest.approx(expected)


def auroc(natural, changed):
    return roc_auc_score([0] * len(natural) + [1] * len(changed), np.concatenate([natural, changed]))


def test_auroc_is_sklearns_and_resamples_count_texts():
    natural, changed = np.round(states(2, 30)[:, 0, 0], 1), np.round(states(3, 30, 0.5)[:, 0, 0], 1)
    expected = auroc(natural, changed)
    weights = np.random.default_rng(0).integers(0, 3, (4, 30)).astype(float)
    found = paired_auroc(natural, changed, np.vstack([np.ones(30), weights]))
    assert found[0] == pytest.approx(expected)
    for counts, value in zip(weights.astype(int), found[1:], strict=True):
        again = np.repeat(natural, counts), np.repeat(changed, counts)
        assert value == pytest.approx(auroc(*again))


def test_texts_of_one_kind_cannot_be_told_apart_and_others_can():
    """Held-out texts against themselves in another sample: .5; moved by one standard deviation: nearly always stranger."""
    reference = Reference.of(states(4, 400, layers=4, size=40))
    same = reference.strangeness(states(5, 300, layers=4, size=40))
    again = reference.strangeness(states(6, 300, layers=4, size=40))
    moved = reference.strangeness(states(7, 300, 2.0, layers=4, size=40))
    chance = told_apart(same, [again], 0, "")
    assert chance.value == pytest.approx(0.5, abs=0.08)
    assert verdict(chance) == IN
    assert auroc(same, moved) > 0.9
    assert verdict(told_apart(same, [moved], 0, "")) == OUT


def test_verdicts():
    def of(low, high):
        return verdict(Interval((low + high) / 2, low, high, 50))

    assert (of(0.4, 0.6), of(0.5, 0.7), of(0.75, 0.9), of(0.7, 0.9)) == (IN, BETWEEN, OUT, BETWEEN)


@pytest.fixture(scope="module")
def setting(place):
    settings = ["task=tiny_task", "task.size=80", "model=hf", f"model.path={place / 'bert'}", "tracking=none"]
    config = compose("config", [*settings, f"out={place / 'runs_shift'}", "methods=[random]"], str(place / "conf"))
    return open_setting(config)


def test_states_are_the_largest_of_the_tokens_and_padding_has_no_part(setting):
    model, batch = setting.model, setting.data.batches[0]
    found, logits = states_of(model, batch.tensors)
    trace = model.run(batch, record=("hidden",))
    for b in range(len(batch)):
        length = int(batch.attention_mask[b].sum())
        for layer, hidden in enumerate(trace.hidden):
            assert found[b, layer] == pytest.approx(hidden[b, :length].amax(0).numpy(), abs=1e-5)
    assert torch.allclose(logits, model.run(batch).logits, atol=1e-5)


def test_orders_of_removal(setting):
    batch = setting.data.batches[0]
    masks = removals(batch, (0.5, 1.0), seed=0, marked=True)
    assert set(masks) == {RANDOM, ORACLE, INVERTED}
    for b in range(len(batch)):
        n, marked = int(batch.rated_units(b).sum()), np.flatnonzero(batch.rationale[b])
        for own in masks.values():
            assert own[0, b].sum() == n // 2
            assert own[1, b].sum() == n
        assert masks[ORACLE][0, b, marked].all()
        assert not masks[INVERTED][0, b, marked].any()
    assert torch.equal(masks[RANDOM], removals(batch, (0.5, 1.0), seed=0, marked=False)[RANDOM])


def test_without_masks_in_training_both_references_are_one(setting):
    strange = Strange.of(setting, 16, 0.0, 0)
    assert strange.references[NATURAL] is strange.references[TRAINING]
    assert Strange.of(setting, 16, None, 0).share is None
    masked = Strange.of(setting, 16, 1.0, 0)
    assert not np.array_equal(masked.references[TRAINING].values, masked.references[NATURAL].values)


def test_the_table(setting):
    context = Context(setting, {}, {})
    (table,) = Shift(operators=("mask", "delete"), fractions=(0.4, 0.9), reference=60, mask_share=0.4)(context)
    assert len(table.rows.groupby(["operator", "removed first", "share"])) == 2 * 3 * 2
    assert not table.keyed("mask.random.0.9.shift").empty
    assert "accuracy lost" not in set(table.rows["metric"])  # what people would mark is no truth
    table.check()


def test_no_training_split_is_not_applicable(setting):
    def nothing(split, n):
        raise NotApplicable("there is none")

    without = replace(setting, data=replace(setting.data, calibration=nothing))
    with pytest.raises(NotApplicable):
        Shift(limit=None)(Context(without, {}, {}))
