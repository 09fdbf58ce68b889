"""Patterns of attention: by hand, against loops in the authors' terms, and on heads that are set by hand."""

import math

import numpy as np
import pytest
import torch

from benchmark import load_model
from benchmark.analyses.patterns.attention_patterns import AttentionPatterns, pattern_arrays
from benchmark.analyses.patterns.pattern_sums import PATTERNS, entropies, pattern_shares
from benchmark.analyses.patterns.token_roles import token_roles
from benchmark.checking import small_models
from benchmark.errors import NotApplicable
from tests import text_models
from tests.planted_heads import SEP_KIND, WORD_KIND, Nowhere, Offset, ToKind, save_planted_heads

TEXTS = ["a fine film , the untold story", "the plot was dull .", "good"]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return load_model(text_models.save_bert(tmp_path_factory.mktemp("bert")), "float64")


def test_shares_of_three_tokens_by_hand():
    """[CLS] word [SEP], and a fourth place of padding."""
    rows = [[0.1, 0.2, 0.7, 0.0], [0.5, 0.3, 0.2, 0.0], [0.25, 0.25, 0.5, 0.0], [0.0] * 4]
    attention = torch.tensor(rows, dtype=torch.float64)[None, None]
    mask = torch.tensor([[True, True, True, False]])
    roles = {"start token": torch.tensor([[1, 0, 0, 0]]).bool(), "separators": torch.tensor([[0, 0, 1, 0]]).bool()}
    roles["punctuation"] = torch.zeros(1, 4, dtype=torch.bool)
    left_out = pattern_shares(attention, mask, roles, "left out")[0, :, 0].tolist()
    expected = {
        "previous token": (0.5 + 0.25) / 2,
        "next token": (0.2 + 0.2) / 2,
        "same token": (0.1 + 0.3 + 0.5) / 3,
        "to the start token": (0.1 + 0.5 + 0.25) / 3,
        "to separators": (0.7 + 0.2 + 0.5) / 3,
        "to punctuation": 0.0,
        "separators to separators": 0.5,
        "others to separators": (0.7 + 0.2) / 2,
        "to the first token": (0.5 + 0.25) / 2,
    }
    assert dict(zip(PATTERNS, left_out, strict=True)) == pytest.approx(expected)
    counted = pattern_shares(attention, mask, roles, "counted")[0, :2, 0].tolist()
    assert counted == pytest.approx([0.75 / 3, 0.4 / 3])
    spread, first = entropies(attention, (mask[:, :, None] & mask[:, None]), mask)
    smoothed = [[0.9999 * p + 0.0001 / 3 for p in row[:3]] for row in rows[:3]]
    by_hand = [-sum(p * math.log(p) for p in row) for row in smoothed]
    assert spread.item() == pytest.approx(sum(by_hand) / 3)
    assert first.item() == pytest.approx(by_hand[0])


def test_shares_equal_the_authors_sums(bert):
    """Selectors of n × n ones, document by document, as the authors' notebook multiplies and sums them."""
    batch = bert.encode(TEXTS)
    found = pattern_arrays(bert, batch, "counted")
    for row, text in enumerate(TEXTS):
        alone = bert.encode([text])
        attention = torch.stack(bert.run(alone, record=("attentions",)).attentions)[:, 0].numpy()
        tokens = bert.tokenizer.convert_ids_to_tokens(alone.tensors["input_ids"][0].tolist())
        n = len(tokens)
        marks = {
            name: np.array([token in texts for token in tokens], dtype=float)
            for name, texts in (("sep", ["[SEP]"]), ("cls", ["[CLS]"]), ("punct", [".", ","]))
        }
        selectors = {
            "previous token": (np.eye(n, k=-1), n),
            "next token": (np.eye(n, k=1), n),
            "same token": (np.eye(n), n),
            "to the start token": (np.tile(marks["cls"], (n, 1)), n),
            "to separators": (np.tile(marks["sep"], (n, 1)), n),
            "to punctuation": (np.tile(marks["punct"], (n, 1)), n),
            "separators to separators": (np.outer(marks["sep"], marks["sep"]), marks["sep"].sum()),
            "others to separators": (np.outer(1 - marks["sep"], marks["sep"]), n - marks["sep"].sum()),
        }
        for name, (selector, count) in selectors.items():
            expected = (attention * selector).sum((-1, -2)) / count
            assert found["shares"][row, PATTERNS.index(name)] == pytest.approx(expected, abs=1e-12), name
        smoothed = 0.9999 * attention + 0.0001 / n
        spread = -(smoothed * np.log(smoothed)).sum(-1)
        assert found["entropies"][row, 0] == pytest.approx(spread.mean(-1), abs=1e-12)
        assert found["entropies"][row, 1] == pytest.approx(spread[..., 0], abs=1e-12)
        assert found["uniform"][row] == pytest.approx(np.full((2, 2), math.log(n)))


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    rules = [[Offset(-1), Offset(0)], [ToKind(SEP_KIND), Offset(1)], [Nowhere(), Nowhere()]]
    words = dict.fromkeys(("a", "fine", "film", "dull", ".", "##ly"), WORD_KIND)
    return load_model(save_planted_heads(tmp_path_factory.mktemp("planted"), words, rules), "float64")


def test_heads_set_by_hand_have_all_of_their_pattern(planted):
    batch = planted.encode(["a fine film .", "dully dull", "a"])
    shares = pattern_arrays(planted, batch)["shares"]
    of = {name: shares[:, PATTERNS.index(name)] for name in PATTERNS}
    assert of["previous token"][:, 0, 0] == pytest.approx(np.ones(3), abs=1e-6)
    assert of["same token"][:, 0, 1] == pytest.approx(np.ones(3), abs=1e-6)
    assert of["to separators"][:, 1, 0] == pytest.approx(np.ones(3), abs=1e-6)
    assert of["separators to separators"][:, 1, 0] == pytest.approx(np.ones(3), abs=1e-6)
    assert of["next token"][:, 1, 1] == pytest.approx(np.ones(3), abs=1e-6)
    found = pattern_arrays(planted, batch)
    assert found["entropies"][:, 0, 2] == pytest.approx(found["uniform"][:, 0, 2:].repeat(2, 1), abs=1e-6)


def test_a_decoder_has_no_separators_and_sees_what_came_before(tmp_path):
    model = load_model(text_models.save_gpt2(tmp_path), "float64")
    batch = model.encode(["the story was good", "a fine film ! the story"])
    found = pattern_arrays(model, batch)
    lacking = [PATTERNS.index(name) for name in ("to separators", "separators to separators", "to the start token")]
    assert np.isnan(found["shares"][:, lacking]).all()
    assert not found["shares"][:, PATTERNS.index("next token")].any()
    n = int(batch.attention_mask[0].sum())
    attention = model.run(model.encode(["the story was good"]), record=("attentions",)).attentions[0][0, 1]
    sink = found["shares"][0, PATTERNS.index("to the first token"), 0, 1]
    assert sink == pytest.approx(attention[1:, 0].mean().item())
    assert found["uniform"][0, 0] == pytest.approx(np.full(2, np.log(np.arange(1, n + 1)).mean()))
    assert found["uniform"][0, 1] == pytest.approx(np.zeros(2))
    assert (found["entropies"][:, 0] <= found["uniform"][:, 0, :, None] + 1e-9).all()


def test_an_image_has_a_start_token_and_nothing_else(tmp_path):
    model = small_models.load("vit", tmp_path)
    batch = model.encode(small_models.inputs("vit"))
    assert set(token_roles(model, batch)) == {"start token"}
    shares = pattern_arrays(model, batch)["shares"]
    assert np.isnan(shares[:, PATTERNS.index("to punctuation")]).all()
    assert np.isfinite(shares[:, PATTERNS.index("to the start token")]).all()


def test_an_encoder_and_decoder_in_one_is_refused(tmp_path):
    model = load_model(text_models.save_bart(tmp_path), "float64")
    with pytest.raises(NotApplicable, match="no single sequence"):
        pattern_arrays(model, model.encode(["a fine film"]))


def test_tables_choose_a_head_on_other_documents_than_they_measure(planted, given):
    batch = planted.encode(["a fine film .", "dully dull", "a fine . film", "film", "dull film . a"])
    strongest, by_layer, points, entropy = AttentionPatterns(limit=None)(given(planted, [batch]))
    rows = strongest.rows.set_index(["pattern", "layer", "head", "metric"])
    line = rows.loc[("to separators", "1", "0", "attention")]
    assert line["value"] == pytest.approx(1, abs=1e-6)
    assert line["n"] == 2
    of_layer = by_layer.rows.set_index(["layer", "metric"])
    assert of_layer.loc[(1, "to separators"), "value"] < 1
    assert of_layer.loc[(1, "to separators"), "n"] == 5
    one = points.rows.query("pattern == 'previous token' and layer == 0 and head == 0").iloc[0]
    assert one["value"] == pytest.approx(1, abs=1e-6)
    assert {"heads", "uniform attention"} == set(entropy.rows["of"])
    for table in (strongest, by_layer, points, entropy):
        table.check()


def test_what_a_model_lacks_is_a_dash(tmp_path, given):
    model = load_model(text_models.save_gpt2(tmp_path), "float64")
    batch = model.encode(["the story was good", "a fine film ! the story", "dull plot"])
    strongest = AttentionPatterns(limit=None)(given(model, [batch]))[0].rows.set_index("pattern")
    assert strongest.loc["to separators", "note"] == "no document has such a token"
    assert math.isnan(strongest.loc["to separators", "value"])
