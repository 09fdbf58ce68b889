"""Divergences of outputs and attentions: by hand on two keys, their bounds on any rows, and at probabilities of 0."""

from math import log

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from benchmark.models.divergences import MEASURES, attention_divergence, even_rows, jsd, kl, total_variation

P, Q = (0.9, 0.1), (0.4, 0.6)


def by_hand(p, q):
    return sum(a * log(a / b) for a, b in zip(p, q, strict=True))


def test_divergences_of_two_keys():
    p, q = torch.tensor(P, dtype=torch.float64), torch.tensor(Q, dtype=torch.float64)
    middle = [(a + b) / 2 for a, b in zip(P, Q, strict=True)]
    assert float(total_variation(p, q)) == pytest.approx(0.5)
    assert float(kl(p, q)) == pytest.approx(by_hand(P, Q))
    assert float(jsd(p, q)) == pytest.approx((by_hand(P, middle) + by_hand(Q, middle)) / 2)
    assert float(MEASURES["kl_adversary_base"](p, q)) == pytest.approx(by_hand(P, Q)), "the adversary's comes first"
    assert float(MEASURES["kl_base_adversary"](p, q)) == pytest.approx(by_hand(Q, P))


rows = st.lists(st.tuples(st.floats(-60, 60), st.floats(-60, 60)), min_size=1, max_size=12)


@given(rows)
def test_jsd_is_symmetric_and_at_most_ln_2(scores):
    p, q = torch.tensor(scores, dtype=torch.float64).softmax(0).unbind(1)
    value = float(jsd(p, q))
    assert -1e-12 <= value <= log(2) + 1e-12
    assert value == pytest.approx(float(jsd(q, p)), abs=1e-12)
    assert float(kl(p, q)) >= -1e-12
    assert 0 <= float(total_variation(p, q)) <= 1 + 1e-12


def test_jsd_of_rows_without_a_common_key_is_ln_2():
    assert float(jsd(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0]))) == pytest.approx(log(2))


@pytest.mark.parametrize("measure", list(MEASURES.values()))
def test_a_key_of_probability_0_gives_no_nan(measure):
    scores = torch.tensor([1.0, 2.0, -torch.inf], requires_grad=True)
    value = measure(scores.softmax(0), torch.tensor([0.5, 0.5, 0.0]))
    value.backward()
    assert float(value.detach()) > 0
    assert bool(scores.grad[:2].isfinite().all())
    assert bool(scores.grad[:2].any())


def test_mean_over_queries_leaves_padding_out():
    generator = torch.Generator().manual_seed(0)
    first, second = torch.rand(2, 2, 3, 4, 4, generator=generator).softmax(-1).unbind(0)
    mask = torch.tensor([[True, True, True, False], [True, True, False, False]])
    found = attention_divergence([first], [second], even_rows(mask, torch.float32), jsd)
    assert found.shape == (2, 1, 3)
    for example, length in enumerate((3, 2)):
        for head in range(3):
            pairs = zip(first[example, head, :length], second[example, head, :length], strict=True)
            mean = sum(float(jsd(a, b)) for a, b in pairs) / length
            assert float(found[example, 0, head]) == pytest.approx(mean, abs=1e-6)
