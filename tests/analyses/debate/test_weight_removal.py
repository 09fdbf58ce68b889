"""Weights that are removed, and what it changes, equal loops over single examples."""

import pytest
import torch

import benchmark
from benchmark.analyses.debate import removed_weights, weight_removal
from tests.analyses.debate.conftest import told, within


def run_without(base, b, dropped, *, renormalise):
    """Probabilities of one example when the read row of the last layer loses cells [H T], row by row."""

    def edit(layer, attention):
        attention = attention.clone()
        if layer == base.model.n_layers - 1:
            for head in range(attention.shape[1]):
                row = attention[0, head, 0]
                kept = row * (~dropped[head]).double()
                left = float(kept.sum())
                attention[0, head, 0] = kept / left * float(row.sum()) if renormalise and left > 0 else kept
        return attention

    return base.model.run(base.batch.select([b]), edits=[edit]).logits.double().softmax(-1)[0]


@pytest.mark.parametrize("renormalise", [False, True])
def test_one_weight_of_two_tokens_by_hand(unedited, renormalise):
    """Of two weights the other one is the only random one."""
    base = unedited("bert", (2, 2))
    found = weight_removal.one_weight(within(base, 0), 2, seed=0, renormalise=renormalise)
    for b in range(2):
        row = base.attentions[2][b, :, 0]
        top = torch.nn.functional.one_hot(row.argmax(-1), 2).bool()
        one, other = (run_without(base, b, cells, renormalise=renormalise) for cells in (top, ~top))
        tvd = [float((p - base.probabilities[b]).abs().sum() / 2) for p in (one, other)]
        assert float(found["TVD without the largest"][b]) == pytest.approx(tvd[0])
        assert float(found["TVD without a random one"][b]) == pytest.approx(tvd[1])
        flips = [bool(p.argmax() != base.probabilities[b].argmax()) for p in (one, other)]
        cell = {(1, 1): "both flip", (1, 0): "only the largest flips", (0, 1): "only the random one flips"}
        assert float(found[cell.get(tuple(map(int, flips)), "neither flips")][b]) == 1


def test_a_random_weight_is_another_one_and_each_is_as_likely(unedited):
    selected = within(unedited("bert", (4,)), 0)
    top = removed_weights.largest(selected)[2]
    drawn = torch.stack([removed_weights.another(selected, draw, 0)[2] for draw in range(300)])
    assert (drawn.sum(-1) == 1).all()
    assert not (drawn & top).any()
    shares = drawn.double().mean(0)[0, 0, 0][~top[0, 0, 0]]
    assert shares.tolist() == pytest.approx([1 / 3] * 3, abs=0.09)


def test_renormalised_rows_keep_their_sum_and_untouched_ones_every_bit(unedited):
    selected = within(unedited("gpt2"), -1)
    dropped = removed_weights.largest(selected)
    for i, new in removed_weights.without(selected.weights, dropped, renormalise=True).items():
        own = selected.weights[i]
        assert torch.allclose(new.sum(-1), own.sum(-1))
        touched = dropped[i].any(-1)
        assert torch.equal(new[~touched], own[~touched])
        assert (new[dropped[i]] == 0).all()


@pytest.mark.parametrize("order", weight_removal.ORDERS)
def test_the_smallest_set_equals_removing_weight_after_weight(unedited, order):
    base = unedited("bert")
    selected = within(base, 0)
    found = weight_removal.smallest_share(selected, order, sizes=200, seed=0)
    trace = base.model.run(base.batch, record=("attentions",), grad=True)
    (gradient,) = torch.autograd.grad(trace.logits.max(-1).values.sum(), trace.attentions[-1])
    for b, length in enumerate((9, 5, 12)):
        own = base.attentions[2][b, :, 0, :length]
        of_order = {
            "attention": own,
            "gradient": gradient[b, :, 0, :length],
            "attention × gradient": own * gradient[b, :, 0, :length],
            "random": removed_weights.random_keys(selected, 2, "order of removal", 0)[b, :, 0, :length],
        }
        cells = of_order[order].flatten().argsort(descending=True)
        dropped, expected = torch.zeros(4, base.batch.units.shape[1], dtype=torch.bool), float("inf")
        for k, cell in enumerate(cells.tolist()[:-1], start=1):
            dropped[cell // length, cell % length] = True
            if run_without(base, b, dropped, renormalise=True).argmax() != base.probabilities[b].argmax():
                expected = k / (4 * length)
                break
        assert float(found[b]) == pytest.approx(expected)


def test_a_decision_that_does_not_hang_on_attention_never_flips(ignoring):
    from benchmark.analyses.debate.edited_runs import Unedited
    from benchmark.checking import small_models

    base = Unedited.of(ignoring, ignoring.encode(small_models.inputs("bert", (6, 4))))
    figures = weight_removal.one_weight(within(base, 0), 2, seed=0, renormalise=True)
    assert figures["difference of JSD"].abs().max() < 1e-9
    assert (figures["neither flips"] == 1).all()


def test_the_tables_count_those_that_never_flip(context):
    single, sets = benchmark.build("analyses/weight_removal", "limit=null", "draws=2", "sizes=8")(context())
    assert told(single)
    assert told(sets)
    sets.check()
    flips = single.rows[single.rows["metric"].str.endswith(("flip", "flips"))]
    assert flips.groupby(["scope", "rows"])["value"].sum().to_numpy() == pytest.approx(1)
    for _, part in sets.rows.groupby(["scope", "order"]):
        by_metric = part.set_index("metric")
        never = by_metric.loc["never flips"]
        assert by_metric.loc["share of weights removed", "n"] == round((1 - never["value"]) * never["n"])
        assert never["n"] == by_metric.loc["share, never counted as 1", "n"] == 5


def test_uniform_attention_beside_the_model_as_it_is(context):
    (table,) = benchmark.build("analyses/uniform_attention", "limit=null")(context())
    assert told(table)
    table.check()
    assert not table.rows["metric"].str.contains("τ").any()
    wide = table.rows.pivot_table(index="uniform in", columns="metric", values="value")
    for metric in ("accuracy", "macro-F1"):
        base = wide.loc["none: the model as it is", metric]
        for scope in wide.index.drop("none: the model as it is"):
            assert wide.loc[scope, f"difference of {metric}"] == pytest.approx(wide.loc[scope, metric] - base)
    assert set(table.rows.query("metric == 'accuracy'")["n"]) == {4}, "one of five examples has no label"
