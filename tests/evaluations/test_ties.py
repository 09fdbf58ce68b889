"""How much of a ranking its scores leave open."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from benchmark.evaluations.ties import ties, ties_of
from benchmark.types import Attribution
from tests.evaluations.conftest import attribution_of
from tests.records import evaluation_record


@given(st.lists(st.tuples(st.integers(-2, 2), st.booleans()), min_size=1, max_size=9))
def test_ties_are_counted_one_by_one(units):
    scores = torch.tensor([[float(score) for score, _ in units]])
    rated = torch.tensor([[is_rated for _, is_rated in units]])
    counted = [score for score, is_rated in units if is_rated]
    found = ties(scores, rated)
    assert found.constant.tolist() == [float(len(counted) > 1 and len(set(counted)) == 1)]
    most = max((counted.count(score) for score in counted), default=0)
    assert found.half.tolist() == [float(most > 1 and most >= len(counted) / 2)]
    shared = [counted.count(score) > 1 for score in counted]
    assert found.tied.tolist() == [pytest.approx(np.mean(shared) if shared else 0.0)]


def test_scores_are_taken_as_the_test_takes_them(tiny):
    batch = tiny.encode(["a dull plot", "the untold story", "bad"])
    attribution = attribution_of(batch, [[-1.0, -2, -3], [1, 2, 2], [5]])
    plain = ties_of(batch, attribution, SimpleNamespace(reads="tokens"))
    assert plain.constant.tolist() == [0, 0, 0]
    assert plain.tied.tolist() == pytest.approx([0, 2 / 3, 0])
    assert plain.half.tolist() == [0, 1, 0], "of three units two; a single one shares its score with nothing"
    clamped = ties_of(batch, attribution, SimpleNamespace(reads="tokens", clamp=True, pool="sum"))
    assert clamped.constant.tolist() == [1, 0, 0], "all negative scores are one; a single word has no other"
    assert clamped.tied.tolist() == pytest.approx([1, 0, 0]), (
        "of 'untold' both tokens have a score, and it is their sum"
    )
    of_classes = Attribution(
        target=attribution.target, classes=torch.stack([attribution.tokens, 0 * attribution.tokens], 1)
    )
    assert ties_of(batch, of_classes, SimpleNamespace(reads="classes")).constant.tolist() == [0, 0, 0, 1, 1, 0]


def test_a_record_holds_shares():
    evaluation_record(constant=0.25, tied=0.5).check("t", 1)
    evaluation_record(constant=0.0, tied=1.0).check("t", 1)
    evaluation_record(constant=0.25, half_constant=0.25, tied=0.5).check("t", 1)
    with pytest.raises(ValueError, match=r"t: constant .* no shares"):
        evaluation_record(half_constant=0.5).check("t", 1)
    for half in (0.2, 1.5, float("nan")):
        with pytest.raises(ValueError, match=r"t: constant .* no shares"):
            evaluation_record(constant=0.25, half_constant=half, tied=0.5).check("t", 1)
    evaluation_record().check("t", 1)
    for constant, tied in ((0.5, 0.25), (-0.1, 0.2), (0.5, 1.5), (None, 0.5), (0.5, None), (float("nan"), 1.0)):
        with pytest.raises(ValueError, match=r"t: constant .* no shares"):
            evaluation_record(constant=constant, tied=tied).check("t", 1)
