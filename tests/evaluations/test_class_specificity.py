"""Class specificity: a slow transcription, its laws, and that class-agnostic methods are not asked for every class."""

from dataclasses import dataclass, replace
from itertools import combinations
from typing import ClassVar

import numpy as np
import pytest
import torch
from scipy.stats import kendalltau

from benchmark.errors import NotApplicable, UserError
from benchmark.evaluations.class_specificity import ClassSpecificity
from benchmark.evaluations.ranks import tie_keys
from benchmark.run.explaining import MOST_CLASSES, class_order, for_classes
from benchmark.settings.making import build
from benchmark.types import Attribution, Method


def scores_of(batch, n_classes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(-3, 4, (len(batch), n_classes, batch.units.shape[1]), generator=generator)  # with ties
    return drawn.double() * batch.attention_mask[:, None]


def explained(batch, classes):
    return Attribution(target=torch.zeros(len(batch), dtype=torch.long), classes=classes)


def means(rows):
    return rows.pivot_table(index="uid", columns="metric", values="value", dropna=False)


def unit_scores(batch, tokens, b):
    """Largest score among the tokens of each unit of example b."""
    own = [u for u in batch.units[b].tolist() if u >= 0]
    return np.array(
        [max(float(tokens[t]) for t, u in enumerate(batch.units[b].tolist()) if u == unit) for unit in sorted(set(own))]
    )


def test_it_equals_a_slow_transcription(tiny, batch):
    batch = replace(batch, query_units=(1, 0, 0, 2, 0))
    classes, share = scores_of(batch, 4), 0.3
    found = means(ClassSpecificity(share=share, seed=3).rows(tiny, batch, explained(batch, classes)))
    some = 0
    for b, uid in enumerate(batch.uids):
        first = batch.query_units[b]
        rows = [unit_scores(batch, classes[b, c], b)[first:] for c in range(4)]
        n = len(rows[0])
        keys = tie_keys([uid], n + first, 3)[0, first:].tolist()
        taus, overlaps, undefined = [], [], 0
        for one, two in combinations(rows, 2):
            if n < 2 or len(set(one)) == 1 or len(set(two)) == 1:
                undefined += 1
                continue
            taus.append(kendalltau(one, two).statistic)
            k = int(np.ceil(round(share * n, 9)))
            tops = [set(sorted(range(n), key=lambda u, row=row: (-row[u], keys[u]))[:k]) for row in (one, two)]
            overlaps.append(len(tops[0] & tops[1]) / k)
        assert found.loc[uid, "undefined"] == pytest.approx(undefined / 6)
        if taus:
            some += 1
            assert found.loc[uid, "tau"] == pytest.approx(np.mean(taus))
            assert found.loc[uid, "overlap"] == pytest.approx(np.mean(overlaps))
        else:
            assert np.isnan(found.loc[uid, "tau"])
    assert some >= 3


def test_identical_explanations_are_one_and_negated_ones_minus_one(sentiment, reviews):
    one = torch.rand(reviews.units.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    test = ClassSpecificity()
    same = means(test.rows(sentiment, reviews, explained(reviews, torch.stack([one, one, one], dim=1))))
    assert same["tau"].to_numpy() == pytest.approx(1)
    assert (same["overlap"] == 1).all()
    assert (same["undefined"] == 0).all()
    opposite = means(test.rows(sentiment, reviews, explained(reviews, torch.stack([one, -one], dim=1))))
    assert opposite["tau"].to_numpy() == pytest.approx(-1)
    assert (opposite["overlap"] == 0).all()


def test_unrelated_explanations_are_near_nothing_and_the_share(sentiment, reviews):
    classes = torch.rand(len(reviews), 10, reviews.units.shape[1], generator=torch.Generator().manual_seed(0))
    figures = ClassSpecificity().reduce(ClassSpecificity().rows(sentiment, reviews, explained(reviews, classes)))
    found = {figure.metric: figure.value for figure in figures}
    assert abs(found["tau"]) < 0.03
    n = np.array([len(words) for words in reviews.words])
    assert found["overlap"] == pytest.approx(np.mean(np.ceil(0.2 * n - 1e-9) / n), abs=0.03)


def test_constant_explanations_are_counted_and_not_averaged(sentiment, reviews):
    classes = scores_of(reviews, 3)
    classes[0, 1] = 5.0
    classes[1] = 0.0
    test = ClassSpecificity()
    rows = test.rows(sentiment, reviews, explained(reviews, classes))
    found = means(rows)
    assert found.loc[reviews.uids[0], "undefined"] == pytest.approx(2 / 3)
    assert found.loc[reviews.uids[1], "undefined"] == 1
    assert np.isnan(found.loc[reviews.uids[1], "tau"])
    figures = {figure.metric: figure.n for figure in test.reduce(rows)}
    assert figures == {"tau": len(reviews) - 1, "overlap": len(reviews) - 1, "undefined": len(reviews)}
    with pytest.raises(NotApplicable, match="no token scores"):
        test.rows(sentiment, reviews, Attribution(target=reviews.label))


def test_a_share_that_makes_no_sense_is_refused():
    with pytest.raises(UserError, match=r"^share=0: allowed are"):
        ClassSpecificity(share=0)
    assert build("evaluations/class_specificity") == ClassSpecificity()


@dataclass(frozen=True)
class Asked(Method):
    """Scores that name the class, and a note of what was asked."""

    asked: list
    class_specific: bool = True
    version: ClassVar[int] = 1

    def explain(self, model, batch, target):
        self.asked.append(len(batch))
        return Attribution(target=target, tokens=target.classes[:, None].double().expand(-1, batch.units.shape[1]))


@pytest.mark.parametrize("specific", [True, False])
def test_the_known_class_is_not_asked_again_and_an_agnostic_method_never(tiny, batch, specific):
    order = class_order(tiny.run(batch).logits)
    assert torch.equal(order[:, 0], tiny.run(batch).logits.argmax(1))
    method = Asked([], class_specific=specific)
    known = method(tiny, batch, order[:, 0])
    method.asked.clear()
    found = for_classes(method, tiny, batch, order, known).classes
    assert method.asked == ([len(batch)] * 2 if specific else [])
    expected = order if specific else order[:, :1].expand(-1, 3)
    assert torch.equal(found[:, :, 0], expected.double())


def test_at_most_ten_classes_most_probable_first():
    logits = torch.rand(3, 14, generator=torch.Generator().manual_seed(0))
    order = class_order(logits)
    assert order.shape == (3, MOST_CLASSES)
    assert torch.equal(logits.gather(1, order), logits.sort(dim=1, descending=True).values[:, :MOST_CLASSES])
    with pytest.raises(NotApplicable, match="single class"):
        class_order(logits[:, :1])
