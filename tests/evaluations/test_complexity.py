"""Concentration by hand and by slow transcriptions, its laws, and the test that reads stored scores."""

import numpy as np
import pytest
import torch
from scipy.stats import entropy as scipy_entropy

from benchmark.errors import NotApplicable
from benchmark.evaluations.base import rated_scores
from benchmark.evaluations.complexity import Complexity, entropy, gini, top_shares
from benchmark.settings.making import build
from benchmark.types import Attribution


def slow_gini(mass):
    """Half the mean difference of two masses over their mean."""
    n = len(mass)
    return sum(abs(a - b) for a in mass for b in mass) / (2 * n * n * np.mean(mass))


def test_by_hand():
    assert gini(np.array([1.0, 1, 1, 1])) == pytest.approx(0)
    assert gini(np.array([0.0, 0, 5, 0])) == pytest.approx(3 / 4)
    assert entropy(np.array([0.0, 2, 2, 0])) == pytest.approx(np.log(2))
    assert entropy(np.array([0.0, 7])) == 0
    assert top_shares(np.array([4.0, 1, 2, 3]), (0.01, 0.25, 0.26, 1)).tolist() == pytest.approx([0.4, 0.4, 0.7, 1])


def test_a_tenth_of_thirty_is_three():
    assert top_shares(np.ones(30), (0.1,))[0] == pytest.approx(3 / 30)


@pytest.mark.parametrize("shape", [(1,), (7,), (3, 20)])
def test_slow_transcriptions(shape):
    mass = np.random.default_rng(0).exponential(size=(*shape, 11))
    for row, g, h in zip(mass.reshape(-1, 11), gini(mass).ravel(), entropy(mass).ravel(), strict=True):
        assert g == pytest.approx(slow_gini(row))
        assert h == pytest.approx(scipy_entropy(row))


def test_scale_and_order_change_nothing():
    mass = np.random.default_rng(1).exponential(size=(4, 9))
    for measure in (gini, entropy, lambda m: top_shares(m, (0.2, 0.5))):
        assert measure(1e-30 * mass[:, ::-1]) == pytest.approx(measure(mass))


def test_zeros_have_no_figure():
    zeros = np.zeros((2, 5))
    assert np.isnan(gini(zeros)).all()
    assert np.isnan(entropy(zeros)).all()
    assert np.isnan(top_shares(zeros, (0.1,))).all()


def explained(batch, tokens):
    return Attribution(target=torch.zeros(len(batch), dtype=torch.long), tokens=tokens)


def test_figures_of_the_words(tiny, batch):
    tokens = torch.randn(batch.units.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    tokens[1] = 0
    test = Complexity(shares=(0.3,))
    rows = test.rows(tiny, batch, explained(batch, tokens)).set_index(["uid", "metric"])["value"]
    for b, (uid, scores) in enumerate(zip(batch.uids, rated_scores(batch, tokens, "max"), strict=True)):
        assert rows[uid, "undefined"] == (b == 1)
        if b == 1:
            assert (uid, "gini") not in rows
            continue
        mass = np.abs(scores)
        assert rows[uid, "gini"] == pytest.approx(slow_gini(mass))
        assert rows[uid, "entropy"] == pytest.approx(scipy_entropy(mass))
        best = sorted(mass, reverse=True)[: int(np.ceil(0.3 * len(mass)))]
        assert rows[uid, "top"] == pytest.approx(sum(best) / mass.sum())
    assert {figure.metric for figure in test.reduce(rows.reset_index().assign(x=np.nan))} == {*test.metrics}


def test_what_scores_no_words_is_not_tested(tiny, batch):
    with pytest.raises(NotApplicable, match="no token scores"):
        Complexity().rows(tiny, batch, explained(batch, None))


def test_its_configuration():
    assert build("evaluations/complexity") == Complexity()
