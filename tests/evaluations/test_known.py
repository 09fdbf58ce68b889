"""Known causes: average precision and outcomes by hand, of words, heads and edges."""

import numpy as np
import pytest
import torch

import benchmark
from benchmark.errors import NotApplicable
from benchmark.evaluations.known import KnownEdges, KnownHeads, KnownWords, outcome
from benchmark.targets import ClassTarget
from benchmark.types import Attribution
from tasks.mechanism import MechanismTask
from tests.models.test_written import opened


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([3, 2, 1, 0], (1, 1, 0, 0)),  # both that count first
        ([1, 2, 3, 0], ((1 / 2 + 2 / 3) / 2, 0, 0, 1)),  # another is above both
        ([3, 0, 1, 2], ((1 + 2 / 4) / 2, 0, 1, 0)),  # one is found, the other is not
        ([0, 0, 0, 0], (0.6806, 0, 1, 0)),  # nothing is told apart: the expectation over all orders
        ([1, 1, 1, 0], (0.8056, 0, 1, 0)),
        ([1e-5, 2e-5, 3e-5, 0], (0.6806, 0, 1, 0)),  # rounding is no score
        ([1e4, 1e4, 1e4 - 10, 0], (1, 1, 0, 0)),  # but a part in 10³ is one
        ([-1, -2, -3, -4], (1, 1, 0, 0)),
    ],
)
def test_outcome(scores, expected):
    """Of four parts, of which the first two count."""
    assert outcome(np.array([True, True, False, False]), np.array(scores, dtype=float)) == pytest.approx(
        expected, abs=1e-4
    )


def test_each_reads_its_own_scores():
    """Words by their sign and without what is not rated, heads and edges by their size."""
    model, batch = opened("gpt2", MechanismTask(mechanism="negative"), count=3)
    target = ClassTarget(batch.label)
    tokens = torch.zeros(batch.units.shape, dtype=torch.float64)
    for b in range(3):
        for unit, marked in enumerate(batch.rationale[b]):
            tokens[b, batch.units[b] == unit] = 1.0 if marked else -5.0
    tokens[batch.units == 6] = 9.0  # "?", which is not rated
    heads = torch.zeros(3, model.n_layers, model.n_heads)
    heads[:, 0, 0] = -2.0
    heads[:, 0, 1] = 1.0
    edges = torch.zeros(3, model.n_layers, *[batch.units.shape[1]] * 2)
    given = Attribution(target=target, tokens=tokens, heads=heads, edges=edges)
    for test, value in ((KnownWords(), 1.0), (KnownHeads(), 1.0)):
        rows = test.rows(model, batch, given)
        assert set(rows[rows["metric"] == "average_precision"]["value"]) == {value}
    chance = KnownEdges().rows(model, batch, given)
    precision = chance[chance["metric"] == "average_precision"]["value"]
    assert ((precision > 0) & (precision < 0.2)).all()
    assert set(chance[chance["metric"] == "missed"]["value"]) == {1.0}
    for test, lacking in ((KnownWords(), "tokens"), (KnownHeads(), "heads"), (KnownEdges(), "edges")):
        left = {
            name: value for name, value in (("tokens", tokens), ("heads", heads), ("edges", edges)) if name != lacking
        }
        with pytest.raises(NotApplicable):
            test.rows(model, batch, Attribution(target=target, **left))


def test_random_orders_of_heads_are_a_mean():
    """Over all orders of one head that counts among three the average precision is (1 + 1/2 + 1/3) / 3."""
    model, batch = opened("bert", MechanismTask(mechanism="copy"), count=2)
    orders = torch.tensor([[[1.0, 3, 2]], [[1, 2, 3]], [[3, 2, 1]], [[2, 1, 3]], [[2, 3, 1]], [[3, 1, 2]]])
    given = Attribution(target=ClassTarget(batch.label), heads=orders[:1].expand(2, -1, -1), orders=orders[1:])
    rows = KnownHeads().rows(model, batch, given)
    assert rows[rows["metric"] == "average_precision"]["value"].tolist() == pytest.approx([11 / 18] * 2)
    figures = {figure.metric: figure for figure in KnownHeads().reduce(rows)}
    assert figures["average_precision"].n == 2


def test_where_nothing_is_known_it_is_a_dash():
    model, _ = opened("bert", MechanismTask(mechanism="copy"))
    plain = model.encode(["cup good ?"])
    scores = benchmark.build("methods/random")(model, plain, [0])
    rows = KnownWords().rows(model, plain, scores)
    assert rows.empty
    with pytest.raises(NotApplicable, match="it is known"):
        KnownWords().reduce(rows)
    with pytest.raises(NotApplicable, match="task=mechanism"):
        KnownHeads().rows(model, plain, scores)
