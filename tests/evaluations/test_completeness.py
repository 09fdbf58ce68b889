"""Completeness and convergence: what they measure equals slow transcriptions and known limits."""

import numpy as np
import pandas as pd
import pytest
import torch

from benchmark import build
from benchmark.checking import small_models
from benchmark.errors import NotApplicable
from benchmark.evaluations.completeness import layer_contributions
from benchmark.models import PruneHeads
from benchmark.targets import ClassTarget
from benchmark.types import Attribution


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return small_models.load("bert", tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def batch(model):
    return model.encode(small_models.inputs("bert"))


TARGET = torch.tensor([0, 1, 2])


def value(rows, metric):
    return rows[rows.metric == metric].sort_values("uid")["value"].to_numpy()


def test_contributions_equal_one_pass_per_layer(model, batch):
    found = layer_contributions(model, batch, ClassTarget(TARGET))
    whole = model.run(batch).probabilities[torch.arange(3), TARGET]
    for layer in range(model.n_layers):
        keep = torch.ones(1, model.n_layers, model.n_heads, dtype=torch.bool)
        keep[:, layer] = False
        without = model.run(batch, edits=[PruneHeads(keep)]).probabilities[torch.arange(3), TARGET]
        assert torch.allclose(found[:, layer], whole - without, atol=1e-12)


def test_the_gap_closes_with_the_steps_of_attattr_and_not_for_raw_attention(model, batch):
    evaluation = build("evaluations/completeness")

    def gap(method, *overrides):
        attribution = build(f"methods/{method}", *overrides)(model, batch, TARGET)
        return value(evaluation.rows(model, batch, attribution), "gap").max()

    left = [gap("attattr", f"edges.steps={m}") for m in (2, 8, 32)]
    assert left[0] > 3 * left[1] > 9 * left[2] > 0  # of first order
    assert gap("attattr", "edges.steps=32", "edges.quadrature=gauss_legendre") < 1e-9
    assert gap("raw_attention") > 1


def test_the_relative_gap_is_the_ratio_of_the_means(model, batch):
    evaluation = build("evaluations/completeness")
    rows = evaluation.rows(model, batch, build("methods/attattr", "edges.steps=3")(model, batch, TARGET))
    figures = {figure.metric: figure for figure in evaluation.reduce(rows) if np.isnan(figure.x)}
    expected = value(rows, "gap").mean() / value(rows, "contribution").mean()
    assert figures["relative_gap"].value == pytest.approx(expected)
    assert figures["gap"].n == 3


def test_a_method_without_edges_cannot_be_complete(model, batch):
    with pytest.raises(NotApplicable, match="does not score edges"):
        build("evaluations/completeness").rows(model, batch, Attribution(target=TARGET, tokens=torch.zeros(3, 12)))


def test_convergence_is_one_at_the_reference_and_the_reference_is_computed_once(model, batch, monkeypatch):
    evaluation = build("evaluations/convergence", "reference.edges.steps=16")
    calls = []
    reference = type(evaluation.reference)
    original = reference.__call__
    monkeypatch.setattr(reference, "__call__", lambda self, *args: calls.append(self) or original(self, *args))
    same = evaluation.reference(model, batch, TARGET)
    negated = Attribution(target=TARGET, tokens=-same.tokens, heads=-same.heads)
    rows = pd.concat([evaluation.rows(model, batch, attribution) for attribution in (same, negated)])
    assert len(calls) == 2  # the one above, and one for both calls of `rows`
    taus = value(rows, "token_tau")
    assert sorted(np.round(taus, 12)) == [-1, -1, -1, 1, 1, 1]
    assert set(np.round(value(rows, "head_tau"), 12)) == {-1, 1}
