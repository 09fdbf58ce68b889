from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from benchmark.errors import NotApplicable, UserError
from benchmark.evaluations.receptive_field import ReceptiveField
from benchmark.settings.making import build
from tests.evaluations.conftest import figure_of, values_of
from tests.evaluations.edge_examples import no_edges, same_rows, selected


def slow_distances(scores, terminal, threshold, *, self_edges):
    """Cell by cell, for one layer."""
    size = len(scores)
    others = [i for i in range(size) if i != terminal]
    largest = max(scores[i][j] for i in others for j in range(size))
    return [
        abs(i - j)
        for i in others
        for j in range(size)
        if largest > 0 and scores[i][j] / largest > threshold and (self_edges or i != j)
    ]


@pytest.mark.parametrize(("threshold", "self_edges"), [(0.4, True), (0.1, False)])
def test_distances_equal_the_slow_loop(served, threshold, self_edges):
    model, batch, attribution = served
    rows = ReceptiveField(threshold=threshold, self_edges=self_edges).rows(model, batch, attribution)
    lengths = batch.attention_mask.sum(1).tolist()
    found = 0
    for b, uid in enumerate(batch.uids):
        terminal = 0 if model.family.read == "first" else lengths[b] - 1
        for layer in range(model.n_layers):
            scores = attribution.edges[b, layer, : lengths[b], : lengths[b]].tolist()
            distances = slow_distances(scores, terminal, threshold, self_edges=self_edges)
            assert values_of(rows, "edges", layer)[uid] == len(distances)
            if not distances:
                assert uid not in values_of(rows, "distance_mean", layer)
                continue
            found += 1
            assert values_of(rows, "distance_mean", layer)[uid] == pytest.approx(np.mean(distances))
            for share in (25, 50, 75, 90):
                expected = np.percentile(distances, share)
                assert values_of(rows, f"distance_q{share}", layer)[uid] == pytest.approx(expected)
    assert found >= 2 * (model.n_layers - 1)  # not all have a positive score; in the last layer the terminal alone has


def test_a_band_by_hand(bert):
    """Every token reads the one two places before it, and less of the next."""
    model, batch, attribution = bert
    edges = torch.zeros_like(attribution.edges)
    for b, length in enumerate(batch.attention_mask.sum(1).tolist()):
        for i in range(3, length):
            edges[b, 0, i, i - 2] = 1.0
            edges[b, 0, i, i - 3] = 0.3
        edges[b, 0, 0, length - 1] = 9.0  # the terminal's own row
    evaluation = ReceptiveField()
    figures = evaluation.reduce(evaluation.rows(model, batch, replace(attribution, edges=edges)))
    for name in ("distance_mean", "distance_q25", "distance_q90"):
        assert figure_of(figures, name, 0).value == 2.0
    assert figure_of(figures, "distance").value == 2.0
    assert figure_of(figures, "edges", 1).value == 0
    assert not [f for f in figures if f.metric == "distance_mean" and f.x > 0]


def test_padding_and_composition_of_batches_change_nothing(served):
    model, batch, attribution = served
    evaluation = ReceptiveField()
    whole = evaluation.rows(model, batch, attribution)
    parts = [evaluation.rows(model, *selected(batch, attribution, rows)) for rows in ([2], [1, 0])]
    same_rows(whole, pd.concat(parts))


def test_options_and_refusals(bert):
    model, batch, attribution = bert
    assert build("evaluations/receptive_field") == ReceptiveField()
    assert ReceptiveField(quantiles=[0.05]).metrics.keys() == {"distance", "distance_mean", "distance_q05", "edges"}
    with pytest.raises(NotApplicable, match="the method does not score edges"):
        ReceptiveField().rows(model, batch, no_edges(batch))
    rows = ReceptiveField().rows(model, batch, replace(attribution, edges=0 * attribution.edges))
    assert set(rows.metric) == {"edges"}
    with pytest.raises(UserError, match=r"^threshold=1.5: allowed are numbers from 0 to 1$"):
        ReceptiveField(threshold=1.5)
    with pytest.raises(UserError, match=r"^quantiles=\[2\]: allowed are"):
        ReceptiveField(quantiles=[2])
