"""Between tokens and units: scores of words that come back as they were given, and what an attribution says of words."""

import numpy as np
import pytest
import torch

from benchmark import load_model
from benchmark.errors import NotApplicable
from benchmark.types import Attribution
from benchmark.units import pool, spread
from tests import text_models


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return load_model(text_models.save_bert(tmp_path_factory.mktemp("bert")), device="cpu")


def test_scores_of_words_come_back_exactly(model):
    batch = model.encode(["the untoldly film", "untoldly " * 20])  # words of three tokens, and words beyond the window
    rows = [[0.1, -1 / 3, 1e-17], list(np.linspace(-1, 1, 20) / 3)]
    tokens = spread(rows, batch.units)
    scores, visible = pool(tokens, batch.units, "max")
    for given, found, seen in zip(rows, scores, visible, strict=True):
        kept = [score for score, is_seen in zip(given, seen.tolist(), strict=False) if is_seen]
        assert found[seen].tolist() == kept
    assert torch.allclose(pool(tokens, batch.units, "mean")[0], scores, rtol=1e-15, atol=0)
    assert not tokens[batch.units < 0].any()


def test_nothing_to_spread():
    assert spread([[]], torch.tensor([[-1, -1]])).tolist() == [[0.0, 0.0]]


def test_an_attribution_knows_its_words(model):
    batch = model.encode(["untoldly film", "the " * 30])
    given = [[2.0, -1.0], [1.0] * 30]
    attribution = Attribution(target=torch.tensor([0, 1]), tokens=spread(given, batch.units))
    first, second = attribution.words(batch)
    assert first.to_dict() == {"untoldly": 2.0, "film": -1.0}
    assert len(second) == 30
    assert second.notna().sum() == model.window - 2  # the others lie beyond it
    alone = batch.select([1])
    assert len(Attribution(target=torch.tensor([1]), tokens=spread(given[1:], alone.units)).words(alone)[0]) == 30
    with pytest.raises(NotApplicable, match="no token scores"):
        Attribution(target=torch.tensor([0])).words(batch)


def test_what_is_printed_is_short(model):
    batch = model.encode(["the film", "untoldly good film"])
    attribution = Attribution(target=torch.tensor([0, 1]), tokens=torch.zeros(batch.units.shape))
    assert repr(attribution) == f"Attribution(target [2], tokens {list(batch.units.shape)})"
    assert repr(batch).startswith("Batch(2 examples of 2–3 words: input_ids [2, 7]")
    assert repr(model).endswith("classes bad, good; 2 layers, 2 heads, window 24; float32 on cpu)")
    assert all(len(repr(value)) < 200 for value in (attribution, batch, model))
