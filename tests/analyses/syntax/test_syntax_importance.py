"""Accuracy of heads against importance: by hand, on heads that are set by hand."""

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

import benchmark
from benchmark import load_model
from benchmark.analyses.syntax.head_votes import votes_of
from benchmark.analyses.syntax.syntax_importance import SyntaxImportance, by_head
from benchmark.errors import NotApplicable
from benchmark.run.cell import Cell
from tests import text_models

A = ("the film was dull .", [2, 4, 4, 0, 4], "det nsubj cop root punct")
B = ("a good story was bad", [3, 3, 5, 5, 0], "det amod nsubj cop root")
C = ("dull film , bad plot", [2, 0, 5, 5, 2], "amod root punct amod conj")


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return load_model(text_models.save_bert(tmp_path_factory.mktemp("bert")), "float64")


def test_right_votes_of_every_head_by_hand(bert, parsed):
    chosen, measured = votes_of(bert, [parsed(bert, C)]), votes_of(bert, [parsed(bert, A, B)])
    found = by_head(chosen, measured, "all")
    assert found.shape == (2, 4, 2)
    assert found[:, :, 1].tolist() == [[5] * 4] * 2
    for number, (layer, head) in enumerate(np.ndindex(2, 2)):
        right = [(chosen.voted[:, way, layer, head] == chosen.head).sum() for way in (0, 1)]
        way = int(np.argmax(right))
        for sentence in (0, 1):
            rows = measured.sentence == sentence
            expected = (measured.voted[rows, way, layer, head] == measured.head[rows]).sum()
            assert found[sentence, number, 0] == expected
    assert by_head(chosen, measured, "nsubj") is None  # the sentence that directions are chosen on has none


def test_correlation_is_that_of_the_points(bert, parsed, given, monkeypatch):
    test, validation = parsed(bert, A, B, C), parsed(bert, B, A)
    context = given(bert, [test], [validation])
    heads = torch.tensor([[[0.1, 0.5], [0.3, 0.2]], [[0.2, 0.6], [0.1, 0.9]], [[0.0, 0.1], [0.2, 0.3]]])
    monkeypatch.setattr(Cell, "head_scores", lambda self, calibration, which: heads)
    method = benchmark.build("methods/raw_attention")
    context.cells["raw_attention"] = Cell(
        Path("nowhere"), "raw_attention", method, bert, context.setting.data, {}, {}, 0.0
    )
    analysis = SyntaxImportance(methods=["raw_attention"], relations=["all", "list"], limit=None)
    table, points = analysis(context)
    shown = points.rows.pivot(index=["layer", "head"], columns="metric", values="value")
    assert shown["importance"].to_numpy() == pytest.approx(heads.mean(0).flatten().numpy())
    right = by_head(votes_of(bert, [validation]), votes_of(bert, [test]), "all").sum(0)
    assert shown["accuracy"].to_numpy() == pytest.approx(right[:, 0] / right[:, 1])
    rows = table.rows.set_index("relation")
    assert rows.loc["all", "value"] == pytest.approx(stats.spearmanr(shown["accuracy"], shown["importance"]).statistic)
    assert rows.loc["list", "note"] == "too few sentences have the relation"
    table.check()
    points.check()


def test_an_encoder_without_a_classifier_is_refused(tmp_path, parsed, given):
    model = load_model(text_models.save_bert(tmp_path), "float64", head="zero")
    batch = parsed(model, A, B)
    with pytest.raises(NotApplicable, match="without a classifier"):
        SyntaxImportance(limit=None)(given(model, [batch], [batch]))
