"""Soft comprehensiveness and sufficiency: by hand, the published defect, equal retention, and the exchange of the two."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import expit

from benchmark.analyses.trust.columns import Column
from benchmark.analyses.trust.ladder import degraded
from benchmark.analyses.trust.which_test import CONTROLS, NOT_HERE, WhichTest
from benchmark.errors import NotApplicable
from benchmark.evaluations.base import rated_scores, table
from benchmark.evaluations.soft_aopc import SoftAopc, at_mean, published
from benchmark.randomness import generator
from tests.evaluations.conftest import attribution_of, figure_of, planted, values_of


def test_retention_by_hand():
    assert published(np.array([1.0, 3.0, 2.0])) == pytest.approx([0, 1, 0.5])
    assert published(np.ones(4)) == pytest.approx([0.5] * 4)
    scores = np.array([0.3, -2.0, 5.0, 0.0])
    for share in (0.1, 0.5, 0.9):
        q = at_mean(scores, share, 1.0)
        assert q.mean() == pytest.approx(share, abs=1e-6)
        z = (scores - scores.mean()) / scores.std()
        b = np.log(q / (1 - q)) - z
        assert np.ptp(b) < 1e-6  # one b for all units: q = σ(z + b)
        assert expit(z + b.mean()) == pytest.approx(q)
    assert at_mean(np.ones(3), 0.3, 1.0) == pytest.approx([0.3] * 3, abs=1e-6)


def test_equal_retention_knows_no_scale_and_published_retention_breaks_on_an_outlier(tiny, batch):
    """The defect: one unit at +100 more, in the order in which it was; min–max then tells the others apart no longer."""
    draw = np.random.default_rng(0)
    scores = [np.sort(draw.normal(size=len(words)))[::-1] for words in batch.words]
    scaled = [3 * own + 7 for own in scores]
    outlier = [own + np.where(np.arange(len(own)) == 0, 100.0, 0.0) for own in scores]

    def figures(evaluation, given):
        return values_of(evaluation.rows(tiny, batch, attribution_of(batch, given)), "soft_sufficiency")

    equal, minmax = SoftAopc(retention="equal", draws=4), SoftAopc(retention="published", draws=4)
    assert figures(equal, scaled) == pytest.approx(figures(equal, scores), abs=1e-6)
    assert figures(minmax, scaled) == pytest.approx(figures(minmax, scores), abs=1e-6)
    changed = [
        abs(a - b) for a, b in zip(figures(minmax, scores).values(), figures(minmax, outlier).values(), strict=True)
    ]
    assert max(changed) > 0.05


def test_both_measures_equal_a_loop(tiny, batch):
    """Draws by the documented generator, multiplied into the input of the first block, one example after another."""
    scores = [np.random.default_rng(b).normal(size=len(words)) for b, words in enumerate(batch.words)]
    evaluation = SoftAopc(shares=(0.3, 0.7), draws=2)
    attribution = attribution_of(batch, scores, [1] * 5)
    rows = evaluation.rows(tiny, batch, attribution)
    for b, uid in enumerate(batch.uids):
        one = batch.select([b])
        hidden = tiny.run(one, record=("hidden",)).hidden[0]

        def p(states, one=one):
            return float(tiny.run(one.tensors, start=(0, states)).logits.double().softmax(-1)[0, 1])

        units = one.units[0].tolist()
        inside = torch.tensor([unit >= 0 for unit in units])
        empty = hidden.clone()
        empty[0, inside] = 0
        whole, none = p(hidden), p(empty)
        drop = max(0.0, whole - none)
        if drop <= 1e-6:
            assert uid not in values_of(rows, "soft_sufficiency")
            continue
        found = {"soft_sufficiency": [], "soft_comprehensiveness": []}
        for share in (0.3, 0.7):
            q = at_mean(scores[b], share, 1.0)
            of_tokens = np.array([q[unit] if unit >= 0 else 1.0 for unit in units])
            others = np.array([1 - q[unit] if unit >= 0 else 1.0 for unit in units])
            for draw in range(2):
                u = generator(0, "dimensions", uid, f"{draw} {share}").random((len(units), hidden.shape[2]))
                kept = hidden * torch.from_numpy(u < of_tokens[:, None]).float()
                lost = hidden * torch.from_numpy(u < others[:, None]).float()
                found["soft_sufficiency"].append(np.clip((drop - max(0, whole - p(kept))) / drop, 0, 1))
                found["soft_comprehensiveness"].append(np.clip(max(0, whole - p(lost)) / drop, 0, 1))
        for name, values in found.items():
            assert values_of(rows, name)[uid] == pytest.approx(np.mean(values), abs=1e-5)


@pytest.mark.parametrize("retention", ["equal", "published"])
def test_planted_truth_is_ranked_and_the_exchange_turns_it_round(sentiment, reviews, retention):
    """The seeded fault, keeping with 1 − a where it says sufficiency, as the authors' program does: controls turn round."""
    figures = {}
    for kind in ("oracle", "random", "inverted"):
        evaluation = SoftAopc(retention=retention, draws=4)
        figures[kind] = evaluation.reduce(evaluation.rows(sentiment, reviews, planted(reviews, kind)))
    for name in ("soft_comprehensiveness", "soft_sufficiency"):
        found = [figure_of(figures[kind], name) for kind in ("oracle", "random", "inverted")]
        for better, worse in itertools.pairwise(found):
            assert better.value > worse.value, name
        assert found[0].low > found[2].high

    turned = {}
    for kind in ("oracle", "inverted"):
        evaluation = Exchanged(retention=retention, draws=4)
        turned[kind] = evaluation.reduce(evaluation.rows(sentiment, reviews, planted(reviews, kind)))
    for name in ("soft_comprehensiveness", "soft_sufficiency"):
        assert figure_of(turned["oracle"], name).value < figure_of(turned["inverted"], name).value


class Exchanged(SoftAopc):
    """It keeps with 1 − a what sufficiency keeps with a, and the other way round."""

    def _retained(self, scores, share):
        return 1 - super()._retained(scores, share)


class OfRandomWords(SoftAopc):
    """Soft sufficiency as a published program has it: of the words whose ids are the largest dimensions of last states.

    EvalxNLP (MIT; a372815, `evaluators/softsufficiency.py`) keeps or zeroes the last state of each token, and gives the
    model the index of its largest dimension in place of the token's id: a word that is kept is another one, else it is id 0.
    """

    def rows(self, model, batch, attribution):
        found = []
        for b, uid in enumerate(batch.uids):
            one = batch.select([b])
            inputs = dict(one.tensors)
            hidden = model.run(one, record=("hidden",)).hidden[-1]
            scores = attribution.tokens[b]
            kept = torch.from_numpy(generator(0, "kept", uid).random(len(scores))) < (scores - scores.min()) / np.ptp(
                scores
            )
            perturbed = {**inputs, "input_ids": (hidden * kept[None, :, None]).argmax(-1)}
            nothing = {**inputs, "input_ids": torch.zeros_like(inputs["input_ids"])}
            whole, left, none = (
                model.run(given).logits.double().softmax(-1)[0] for given in (inputs, perturbed, nothing)
            )
            own = int(whole.argmax())
            suff, base = (1 - max(0.0, float(whole[own] - given[own])) for given in (left, none))
            base -= 1e-4
            found.append(np.clip((suff - base) / (1 - base), 0, 1))
        return table(batch.uids, "soft_sufficiency", np.array(found))


def column_of(evaluation, metric, sentiment, reviews):
    """A column in which the controls have this test's figures, and methods those of the oracle with ever more lost."""

    def values(attribution):
        found = values_of(evaluation.rows(sentiment, reviews, attribution), metric)
        return np.array([found.get(uid, np.nan) for uid in reviews.uids])

    controls = {kind: values(planted(reviews, kind)) for kind in ("oracle", "random", "inverted")}
    oracle = planted(reviews, "oracle").tokens
    worse = []
    for share in np.linspace(0, 1, 6):
        rows = rated_scores(reviews, oracle, "max")
        lost = [degraded(own, share, 0, uid) for uid, own in zip(reviews.uids, rows, strict=True)]
        worse.append(values(attribution_of(reviews, lost)))
    methods = np.stack(worse, axis=1)
    assert np.isfinite(methods).all()
    return Column("soft", metric, metric, "faithfulness", reviews.uids, tuple("abcdef"), methods, controls)


def asked(column):
    """Its verdict, where it is known that every method is truer than the next."""
    values = np.tile(np.arange(6.0)[::-1], (len(column.uids), 1))
    return WhichTest().ask(column, replace(column, kind="plausibility", values=values, controls={}))


@pytest.mark.parametrize("metric", ["soft_sufficiency", "soft_comprehensiveness"])
def test_the_exchanged_test_is_not_to_be_used_here_and_the_right_one_may_be(sentiment, reviews, metric):
    told = {}
    for name, evaluation in (("right", SoftAopc(draws=4)), ("exchanged", Exchanged(draws=4))):
        told[name] = asked(column_of(evaluation, metric, sentiment, reviews))
    assert told["right"].passed[CONTROLS] is True
    assert told["right"].order.value == 1
    assert told["exchanged"].oracle.high < 0.5
    assert told["exchanged"].verdict == NOT_HERE


def test_a_published_sufficiency_of_random_words_is_not_to_be_used_here(sentiment, reviews):
    found = asked(column_of(OfRandomWords(), "soft_sufficiency", sentiment, reviews))
    assert found.oracle.low < 0.5 < found.oracle.high
    assert found.inverted.low < 0.5 < found.inverted.high
    assert found.verdict == NOT_HERE


def test_scores_that_are_no_numbers_order_nothing(tiny, batch):
    with pytest.raises(NotApplicable, match="NaN"):
        SoftAopc().rows(tiny, batch, attribution_of(batch, [np.full(len(w), np.nan) for w in batch.words]))


def test_two_streams_are_refused(tmp_path):
    from benchmark import load_model
    from benchmark.checking import small_models

    model = load_model(small_models.save("bart", tmp_path), dtype="float32", device="cpu")
    batch = model.encode(small_models.inputs("bart", (5, 4)))
    with pytest.raises(NotApplicable, match="twice"):
        SoftAopc().rows(model, batch, attribution_of(batch, [range(len(w)) for w in batch.words]))


@pytest.mark.parametrize("family", ["gpt2", "llama", "vit", "modernbert"])
def test_other_families_start_at_the_input_of_the_first_block(family, tmp_path):
    """With everything kept the probability is the model's own, in families that embed places elsewhere, or as rotations."""
    from benchmark import load_model
    from benchmark.checking import small_models

    model = load_model(small_models.save(family, tmp_path), dtype="float32", device="cpu")
    batch = model.encode(small_models.inputs(family, (6, 4)))
    hidden = model.run(batch, record=("hidden",)).hidden[0]
    assert torch.allclose(model.run(batch.tensors, start=(0, hidden)).logits, model.run(batch).logits, atol=1e-5)
    n_units = batch.n_units.tolist()
    rows = SoftAopc(shares=(0.5,), draws=1).rows(model, batch, attribution_of(batch, [range(n) for n in n_units]))
    assert set(rows["metric"]) <= set(SoftAopc().metrics)
