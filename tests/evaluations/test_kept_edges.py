from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from benchmark.errors import NotApplicable, UserError
from benchmark.evaluations import kept_edges
from benchmark.evaluations.kept_edges import (
    KEPT_SHARES,
    KeptEdges,
    Ordered,
    attended,
    kept_logits,
    random_keys,
    same_kind,
)
from benchmark.models.edits import KeepEdges
from benchmark.randomness import generator
from benchmark.results.graph import attribution_graph
from benchmark.results.optimal_graph import RandomTrees
from benchmark.settings.making import build
from tests.evaluations.conftest import figure_of, values_of
from tests.evaluations.edge_examples import no_edges, same_rows, selected

THRESHOLDS = (0.2, 0.4, 0.8)


def slow_run(model, batch, b, kept, *, renormalise=False):
    """Logits of example b alone, cell by cell: `kept` holds (layer, query, key)."""
    n = int(batch.attention_mask[b].sum())
    one = {name: t[b : b + 1, :n] if t.ndim == 2 else t[b : b + 1] for name, t in batch.tensors.items()}

    def edit(layer, probabilities):
        result = torch.zeros_like(probabilities)
        for head in range(probabilities.shape[1]):
            for i in range(n):
                total = sum(float(probabilities[0, head, i, j]) for j in range(n) if (layer, i, j) in kept)
                for j in range(n):
                    if (layer, i, j) in kept:
                        scale = 1 / total if renormalise and total > 0 else 1.0
                        result[0, head, i, j] = probabilities[0, head, i, j] * scale
        return result

    return model.run(one, edits=[edit]).logits[0]


def existing(model, batch, b):
    """(layer, query, key) of every edge that carries attention."""
    n = int(batch.attention_mask[b].sum())
    one = {name: t[b : b + 1, :n] if t.ndim == 2 else t[b : b + 1] for name, t in batch.tensors.items()}
    layers = model.run(one, record=("attentions",)).attentions
    return [
        (layer, i, j)
        for layer, attention in enumerate(layers)
        for i in range(n)
        for j in range(n)
        if any(float(attention[0, head, i, j]) > 0 for head in range(attention.shape[1]))
    ]


def best_edges(attribution, b, edges, count):
    return set(sorted(edges, key=lambda edge: -float(attribution.edges[(b, *edge)]))[:count])


def distinct_scores(batch, attribution):
    """The same scores with nothing tied, so that no permutation decides."""
    noise = torch.rand(attribution.edges.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    mask = batch.attention_mask
    return replace(
        attribution, edges=(attribution.edges + 1e-6 * noise) * (mask[:, None, :, None] & mask[:, None, None])
    )


def check(rows, name, x, uid, logits, target, label):
    assert values_of(rows, f"{name}_probability", x)[uid] == pytest.approx(float(logits.softmax(0)[target]), abs=1e-9)
    if label >= 0:
        assert values_of(rows, f"{name}_accuracy", x)[uid] == float(logits.argmax() == label)
    else:
        assert uid not in values_of(rows, f"{name}_accuracy", x)


@pytest.mark.parametrize(
    ("construction", "keep_self", "renormalise"), [("paper", False, False), ("script", True, True)]
)
def test_curves_equal_the_slow_loop(served, construction, keep_self, renormalise):
    model, batch, attribution = served
    attribution = distinct_scores(batch, attribution)
    evaluation = KeptEdges(
        construction=construction, thresholds=THRESHOLDS, keep_self=keep_self, renormalise=renormalise, draws=1
    )
    rows = evaluation.rows(model, batch, attribution)
    for b, uid in enumerate(batch.uids):
        n, target, label = int(batch.attention_mask[b].sum()), int(attribution.target.classes[b]), int(batch.label[b])
        terminal = 0 if model.family.read == "first" else n - 1
        edges = existing(model, batch, b)
        own = {edge for edge in edges if edge[1] == edge[2]} if keep_self else set()
        counted = [edge for edge in edges if edge not in own]
        for threshold in THRESHOLDS:
            scores = attribution.edges[b, :, :n, :n].numpy()
            graph = attribution_graph(scores, threshold, construction=construction, terminal=terminal)
            kept = {(edge.layer, edge.query, edge.key) for edge in graph.edges} & set(edges)
            kept |= {(model.n_layers - 1, terminal, graph.top)} if graph.top is not None else set()
            assert values_of(rows, "edges_kept", threshold)[uid] == len(kept)
            assert values_of(rows, "edges_kept_share", threshold)[uid] == pytest.approx(len(kept) / len(counted))
            sets = {"graph": kept, "top": best_edges(attribution, b, counted, len(kept)), "trees": set()}
            if graph.top is not None:
                last = {(model.n_layers - 1, terminal, graph.top)}
                exists = np.zeros((model.n_layers, n, n), dtype=bool)
                exists[tuple(np.array(edges).T)] = True
                random = generator(0, f"random trees {threshold:g}, 0", uid)
                tree = RandomTrees(exists, construction, graph.top, terminal).draw(len(kept - last), random)
                assert len(tree) == len(kept - last)
                assert set(tree) <= set(edges)
                sets["trees"] = {*tree} | last
            for name, chosen in sets.items():
                logits = slow_run(model, batch, b, chosen | own, renormalise=renormalise)
                check(rows, name, threshold, uid, logits, target, label)
        curve = []
        for share in KEPT_SHARES:
            chosen = best_edges(attribution, b, counted, int(share * len(counted) + 1e-9))
            logits = slow_run(model, batch, b, chosen | own, renormalise=renormalise)
            check(rows, "kept", share, uid, logits, target, label)
            curve.append(float(logits.softmax(0)[target]))
        assert values_of(rows, "kept_auc")[uid] == pytest.approx(np.trapezoid(curve, KEPT_SHARES), abs=1e-9)
        drawn = [values_of(rows, "kept_random_probability", share)[uid] for share in KEPT_SHARES]
        difference = np.trapezoid(curve, KEPT_SHARES) - np.trapezoid(drawn, KEPT_SHARES)
        assert values_of(rows, "kept_auc_over_random")[uid] == pytest.approx(difference, abs=1e-9)


@pytest.mark.parametrize("renormalise", [False, True])
def test_all_edges_are_the_unedited_model_and_none_is_no_attention(served, renormalise):
    """To the last bit, whatever the scores are."""
    model, batch, _ = served
    cells = attended(model, batch)
    whole = model.run(batch, edits=[KeepEdges(cells, renormalise)]).logits
    assert whole.equal(model.run(batch, record=("attentions",)).logits)
    nothing = model.run(batch, edits=[KeepEdges(torch.zeros_like(cells), renormalise)]).logits
    assert nothing.equal(model.run(batch, edits=[lambda _layer, probabilities: 0 * probabilities]).logits)
    assert not nothing.equal(whole)


def test_the_ends_of_the_curve_do_not_depend_on_the_scores(served):
    model, batch, attribution = served
    unedited = model.run(batch).probabilities
    for edges in (attribution.edges, -attribution.edges):
        rows = KeptEdges(fractions=[0.0, 1.0]).rows(model, batch, replace(attribution, edges=edges))
        for b, uid in enumerate(batch.uids):
            expected = float(unedited[b, attribution.target.classes[b]])
            assert values_of(rows, "kept_probability", 1)[uid] == pytest.approx(expected, abs=1e-12)
            assert values_of(rows, "kept_random_probability", 1)[uid] == pytest.approx(expected, abs=1e-12)
            none = values_of(rows, "kept_probability", 0)[uid]
            assert values_of(rows, "kept_random_probability", 0)[uid] == pytest.approx(none, abs=1e-12)


def test_rows_are_rescaled_unless_nothing_is_left():
    probabilities = torch.tensor([[[[0.5, 0.3, 0.2], [0.1, 0.1, 0.8], [1.0, 0.0, 0.0]]]], dtype=torch.float64)
    keep = torch.tensor([[[[True, True, False], [False, False, False], [False, True, True]]]])
    found = KeepEdges(keep, renormalise=True)(0, probabilities)[0, 0]
    assert found[0].tolist() == pytest.approx([0.625, 0.375, 0.0])
    assert found[1:].abs().sum() == 0
    assert KeepEdges(keep)(0, probabilities)[0, 0, 0].tolist() == [0.5, 0.3, 0.0]


def test_random_graphs_have_as_many_edges_of_the_same_kind_in_each_layer(served):
    model, batch, _ = served
    cells = attended(model, batch)
    lengths = batch.attention_mask.sum(1).tolist()
    terminals = [0 if model.family.read == "first" else n - 1 for n in lengths]
    for construction in ("paper", "script"):
        allowed = same_kind(cells, terminals, construction)
        order = Ordered.within_layers(random_keys(allowed, batch.uids, 0, "a"), allowed)
        counts = torch.tensor([[2, 3, 1], [0, 1, 1], [1, 0, 0]])[:, -model.n_layers :]
        drawn = order.first(counts)
        assert drawn.sum((2, 3)).equal(counts)
        assert not (drawn & ~cells).any()
        for b, terminal in enumerate(terminals):
            assert not drawn[b].diagonal(dim1=1, dim2=2).any()
            assert set(drawn[b, -1].nonzero()[:, 0].tolist()) <= {terminal}
            assert construction == "paper" or not drawn[b, :-1, terminal].any()
        other = Ordered.within_layers(random_keys(allowed, batch.uids, 1, "a"), allowed).first(counts)
        assert not other.equal(drawn)


def test_cells_that_exist(served):
    model, batch, _ = served
    cells = attended(model, batch)
    for b in range(len(batch)):
        assert {tuple(cell) for cell in cells[b].nonzero().tolist()} == set(existing(model, batch, b))
    if model.family.read == "last":
        assert not cells.triu(1).any()


def test_padding_and_composition_of_batches_change_nothing(served):
    model, batch, attribution = served
    evaluation = KeptEdges(thresholds=THRESHOLDS)
    whole = evaluation.rows(model, batch, attribution)
    again = [evaluation.rows(model, *selected(batch, attribution, rows)) for rows in ([2], [1, 0])]
    same_rows(whole, pd.concat(again))
    one, edges = batch.select([1]), attribution.edges
    if "input_ids" in batch.tensors:
        n = int(one.attention_mask.sum())
        tensors = {name: tensor[:, :n] for name, tensor in one.tensors.items()}
        alone = replace(one, tensors=tensors, units=one.units[:, :n])
        own = replace(attribution, target=attribution.target[[1]], edges=edges[[1], :, :n, :n])
        same_rows(whole[whole.uid == one.uids[0]], evaluation.rows(model, alone, own))


def test_a_small_budget_of_memory_changes_nothing(bert, monkeypatch):
    model, batch, attribution = bert
    evaluation, model = KeptEdges(thresholds=THRESHOLDS), replace(model, max_tokens=30)
    whole = evaluation.rows(model, batch, attribution)
    sizes = []
    run_variants = kept_edges.run_variants

    def watched(model, batch, masks, *args, **kwargs):
        sizes.append(masks.numel())
        return run_variants(model, batch, masks, *args, **kwargs)

    monkeypatch.setattr(kept_edges, "run_variants", watched)
    monkeypatch.setattr(kept_edges, "MASK_CELLS", 8 * 3 * 12 * 12)
    same_rows(whole, evaluation.rows(model, batch, attribution))
    assert max(sizes) <= 8 * 3 * 12 * 12


def test_equal_masks_run_once(bert):
    model, batch, _ = bert
    cells = attended(model, batch)
    before = model.cost.forward_passes
    kept_logits(model, batch, [cells, cells, torch.zeros_like(cells), cells])
    assert model.cost.forward_passes - before == 2 * len(batch)


def test_nothing_to_keep(bert):
    """Without a positive score there is no graph: all of its curves are those of no attention."""
    model, batch, attribution = bert
    rows = KeptEdges().rows(model, batch, replace(attribution, edges=-attribution.edges.abs()))
    assert set(rows[rows.metric == "edges_kept"].value) == {0}
    for b, uid in enumerate(batch.uids):
        expected = float(slow_run(model, batch, b, set()).softmax(0)[attribution.target.classes[b]])
        for kind in ("graph", "top", "random"):
            assert values_of(rows, f"{kind}_probability", 0.4)[uid] == pytest.approx(expected, abs=1e-9)


def test_all_metrics_are_reported_within_their_bounds(bert):
    model, batch, attribution = bert
    evaluation = KeptEdges()
    figures = evaluation.reduce(evaluation.rows(model, batch, attribution))
    assert {f.metric for f in figures} == set(evaluation.metrics)
    for figure in figures:
        low, high = evaluation.metrics[figure.metric].bounds
        assert low <= figure.value <= high
    assert figure_of(figures, "kept_auc").n == 3
    assert figure_of(figures, "kept_accuracy", 0.5).n == 2


def test_options_and_refusals(bert):
    model, batch, _ = bert
    assert build("evaluations/kept_edges") == KeptEdges()
    with pytest.raises(NotApplicable, match="the method does not score edges"):
        KeptEdges().rows(model, batch, no_edges(batch))
    for wrong in (
        {"thresholds": [-0.1]}, {"fractions": [0.5, 0.5]}, {"draws": 0},
    ):  # fmt: skip
        with pytest.raises(UserError, match=f"^{next(iter(wrong))}=.*: allowed are"):
            KeptEdges(**wrong)
