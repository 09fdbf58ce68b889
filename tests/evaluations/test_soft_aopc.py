"""Soft comprehensiveness and sufficiency: by hand, the published defect, equal retention, and the exchange of the two."""

import itertools

import numpy as np
import pytest
import torch
from scipy.special import expit

from benchmark.errors import NotApplicable
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

    class Exchanged(SoftAopc):
        def _retained(self, scores, share):
            return 1 - super()._retained(scores, share)

    turned = {}
    for kind in ("oracle", "inverted"):
        evaluation = Exchanged(retention=retention, draws=4)
        turned[kind] = evaluation.reduce(evaluation.rows(sentiment, reviews, planted(reviews, kind)))
    for name in ("soft_comprehensiveness", "soft_sufficiency"):
        assert figure_of(turned["oracle"], name).value < figure_of(turned["inverted"], name).value


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
