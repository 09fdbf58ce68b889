import itertools

import numpy as np
import pytest
import torch

from benchmark.errors import NotApplicable, UserError
from benchmark.evaluations.aopc import THRESHOLDS, Aopc
from benchmark.types import Attribution
from tests.evaluations.conftest import attribution_of, figure_of, planted, values_of


def test_both_measures_equal_the_slow_loop(tiny, batch):
    generator = np.random.default_rng(0)
    scores = [generator.normal(size=len(words)) for words in batch.words]
    # the explained class does not matter: ERASER follows the predicted one
    rows = Aopc(operator="delete").rows(tiny, batch, attribution_of(batch, scores, [0] * 5))
    for b, uid in enumerate(batch.uids):
        words, n = list(batch.words[b]), len(batch.words[b])
        order = sorted(range(n), key=lambda u: -scores[b][u])
        whole = tiny.run(tiny.encode([words])).logits[0].softmax(0)
        predicted = int(whole.argmax())
        found = {"comprehensiveness": [], "sufficiency": []}
        for q in (1, 5, 10, 20, 50):
            count = -(-q * n // 100)
            assert count >= 1
            for name, kept in (
                ("comprehensiveness", [w for u, w in enumerate(words) if u not in order[:count]]),
                ("sufficiency", [w for u, w in enumerate(words) if u in order[:count]]),
            ):
                ids = tiny.tokenizer(" ".join(kept), return_tensors="pt")
                p = tiny.run({"input_ids": ids["input_ids"]}).logits[0].softmax(0)[predicted]
                found[name].append(float(whole[predicted] - p))
        for name, values in found.items():
            assert values_of(rows, name)[uid] == pytest.approx(np.mean(values), abs=1e-9)
            for q, value in zip(THRESHOLDS, values, strict=True):
                assert values_of(rows, f"{name}_at", q)[uid] == pytest.approx(value, abs=1e-9)


def test_planted_truth_is_ranked(sentiment, reviews):
    evaluation = Aopc()
    figures = {
        kind: evaluation.reduce(evaluation.rows(sentiment, reviews, planted(reviews, kind)))
        for kind in ("oracle", "random", "inverted")
    }
    comprehensive = [figure_of(figures[kind], "comprehensiveness") for kind in ("oracle", "random", "inverted")]
    sufficient = [figure_of(figures[kind], "sufficiency") for kind in ("oracle", "random", "inverted")]
    for better, worse in itertools.pairwise(comprehensive):
        assert better.low > worse.high
    for better, worse in itertools.pairwise(sufficient):
        assert better.high < worse.low
    for f in (f for found in figures.values() for f in found):
        assert -1 <= f.low <= f.value <= f.high <= 1


def test_removing_everything_but_everything(tiny, batch):
    """Kept whole, an input keeps its prediction: sufficiency at 100 % is 0."""
    rows = Aopc(fractions=(0.5, 1.0)).rows(tiny, batch, attribution_of(batch, [range(len(w)) for w in batch.words]))
    assert list(values_of(rows, "sufficiency_at", 1.0).values()) == pytest.approx([0.0] * 5, abs=1e-12)


def test_erasure_gives_distributions(tiny, batch):
    erasure = Aopc().erase(tiny, batch, attribution_of(batch, [range(len(w)) for w in batch.words]))
    assert erasure.without.shape == erasure.only.shape == (5, 5, 3)
    for probabilities in (erasure.whole, erasure.without, erasure.only):
        assert torch.allclose(probabilities.sum(-1), torch.ones(()).double())
    assert erasure.target.classes.equal(tiny.predict(batch))


def test_the_cost_is_one_pass_per_distinct_input(tiny, batch):
    before = tiny.cost.forward_passes
    Aopc().rows(tiny, batch, attribution_of(batch, [range(len(w)) for w in batch.words]))
    needed = 0
    for words in batch.words:
        n = len(words)
        counts = {-(-q * n // 100) for q in (1, 5, 10, 20, 50)}
        masks = {frozenset(range(n))} | {frozenset(range(n - c)) for c in counts}
        masks |= {frozenset(range(n - c, n)) for c in counts}
        needed += len(masks)
    assert tiny.cost.forward_passes - before == needed


def test_refusals(tiny, batch):
    with pytest.raises(NotApplicable, match="no token scores"):
        Aopc().rows(tiny, batch, Attribution(target=batch.label))
    with pytest.raises(UserError, match="operator=blur"):
        Aopc(operator="blur").rows(tiny, batch, attribution_of(batch, [range(len(w)) for w in batch.words]))
    with pytest.raises(UserError, match=r"^fractions=\[\]: allowed are increasing numbers"):
        Aopc(fractions=())
