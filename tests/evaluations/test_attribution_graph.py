from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from benchmark.errors import NotApplicable, UserError
from benchmark.evaluations.attribution_graph import AttributionGraphs
from benchmark.evaluations.curves import TENTHS
from benchmark.results.graph import agreement, attribution_graph
from benchmark.settings.making import build
from benchmark.types import Attribution
from tests.evaluations.conftest import figure_of, values_of
from tests.evaluations.edge_examples import no_edges, same_rows, selected


@pytest.mark.parametrize("construction", ["paper", "script"])
def test_rows_are_those_of_each_example_s_own_graphs(served, construction):
    model, batch, attribution = served
    rows = AttributionGraphs(construction=construction).rows(model, batch, attribution)
    ends = {"first": [0] * 3, "last": [int(n) - 1 for n in batch.attention_mask.sum(1)]}[model.family.read]
    drawn = 0
    for b, uid in enumerate(batch.uids):
        length = int(batch.attention_mask[b].sum())
        scores = attribution.edges[b, :, :length, :length].numpy()
        for threshold in TENTHS:
            units = batch.units[b, :length].tolist()
            graph = attribution_graph(scores, threshold, construction=construction, terminal=ends[b], units=units)
            expected = {"nodes": len(graph.nodes), "edges": len(graph.edges), "depth": graph.depth}
            if batch.rationale[b] is not None:
                found = agreement(graph, batch.rationale[b])
                expected |= {f"rationale_{name}": getattr(found, name) for name in ("recall", "precision", "f1")}
            for name, value in expected.items():
                assert values_of(rows, name, threshold)[uid] == pytest.approx(value)
            drawn += len(graph.edges)
    assert drawn > 0
    assert "1" not in values_of(rows, "rationale_f1", 0.4)  # it has no rationale
    means = rows[rows.metric == "nodes"].groupby("uid")["value"].mean()
    assert values_of(rows, "nodes_mean") == pytest.approx(means.to_dict())


def test_padding_and_composition_of_batches_change_nothing(served):
    model, batch, attribution = served
    evaluation = AttributionGraphs()
    whole = evaluation.rows(model, batch, attribution)
    parts = [evaluation.rows(model, *selected(batch, attribution, rows)) for rows in ([2], [1, 0])]
    same_rows(whole, pd.concat(parts))


def test_a_graph_of_the_rationale_s_words_is_perfect(bert):
    """Edges among the rationale's tokens alone, in the layer that is walked first."""
    model, batch, attribution = bert
    edges = torch.zeros_like(attribution.edges)
    for b in (0, 2):
        own = [t for t, unit in enumerate(batch.units[b].tolist()) if unit >= 0 and batch.rationale[b][unit]]
        edges[b, 1, own[0], own[1:]] = 1.0
    evaluation = AttributionGraphs()
    rows = evaluation.rows(model, batch, replace(attribution, edges=edges))
    for name in ("recall", "precision", "f1"):
        assert set(values_of(rows, f"rationale_{name}", 0.4).values()) == {1.0}
    figures = evaluation.reduce(rows)
    assert figure_of(figures, "rationale_f1_mean").value == 1.0
    assert values_of(rows, "nodes", 0.4)["1"] == 0  # no row with a positive sum: no graph
    assert {f.metric for f in figures} == set(evaluation.metrics)


def test_words_of_a_query_are_left_out(bert):
    model, batch, attribution = bert
    asked = replace(batch, query_units=(int(batch.n_units[0]), 0, 1))
    rows = AttributionGraphs().rows(model, asked, attribution)
    assert set(values_of(rows, "rationale_f1", 0.4)) == {"2"}


def test_pairs_are_served(tiny):
    batch = tiny.encode([("the film", "it was bad"), ("a", "a dull plot")])
    edges = torch.rand(2, 2, *batch.units.shape[1:] * 2, dtype=torch.float64)
    rows = AttributionGraphs().rows(tiny, batch, Attribution(target=torch.zeros(2, dtype=torch.long), edges=edges))
    assert (rows[rows.metric == "nodes"].value > 0).all()
    assert not rows.metric.str.startswith("rationale").any()


def test_options_and_refusals(bert):
    model, batch, _ = bert
    assert build("evaluations/attribution_graph") == AttributionGraphs(thresholds=TENTHS)
    with pytest.raises(NotApplicable, match="the method does not score edges"):
        AttributionGraphs().rows(model, batch, no_edges(batch))
    with pytest.raises(UserError, match=r"^thresholds=\[0.5, 1.2\]: allowed are increasing numbers from 0 to 1$"):
        AttributionGraphs(thresholds=[0.5, 1.2])
    assert np.isinf(AttributionGraphs().metrics["nodes"].bounds[1])
