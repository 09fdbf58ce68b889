"""What holds for every cell of the product of edge scores and readouts, named by a YAML or not."""

import dataclasses

import pytest
import torch

import benchmark
from benchmark.checking import small_models
from benchmark.errors import UserError
from benchmark.run.explaining import edge_sums
from benchmark.targets import ClassTarget
from methods.attention_explainer import AttentionExplainer
from methods.edges.attattr import AttAttr
from methods.edges.product import FactorProduct
from methods.edges.value_zeroing import ValueZeroing
from methods.readouts.column_sum import ColumnSum
from methods.readouts.flow import Flow
from methods.readouts.generic import Generic
from methods.readouts.read_row import ReadRow
from methods.readouts.rollout import Rollout


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return small_models.load("bert", tmp_path_factory.mktemp("models"))


@pytest.mark.parametrize(
    "readout", [ReadRow(), ReadRow("mean"), ReadRow("max"), ColumnSum(), Rollout(), Generic(), Flow()]
)
def test_gradients_at_padding_keys_reach_no_readout(model, readout):
    method = AttentionExplainer(FactorProduct(("gradient",)), readout)
    inputs = small_models.inputs("bert")
    together = method(model, model.encode(inputs), torch.tensor([0, 1, 2]))
    for row, given in enumerate(inputs):
        batch = model.encode([given])
        alone = method(model, batch, torch.tensor([row]))
        width = batch.units.shape[1]
        assert torch.allclose(alone.tokens[0], together.tokens[row, :width], atol=1e-9)
        assert torch.allclose(alone.totals[0], together.totals[row], atol=1e-9)


@pytest.mark.parametrize("how", ["max", "sum", "mean_abs"])
def test_heads_are_read_out_as_a_loop_says(model, how):
    method = AttentionExplainer(AttAttr(steps=2), ColumnSum(), heads=how)
    batch = model.encode(small_models.inputs("bert"))
    target = torch.tensor([0, 1, 2])
    edges, found = method.edge_scores(model, batch, target), method(model, batch, target).heads
    rule = {"max": torch.max, "sum": torch.sum, "mean_abs": lambda cells: cells.abs().mean()}[how]
    for b, length in enumerate(batch.attention_mask.sum(1).tolist()):
        for layer in range(model.n_layers):
            for head in range(model.n_heads):
                cells = edges[b, layer, head, :length, :length]
                assert float(found[b, layer, head]) == pytest.approx(float(rule(cells)), abs=1e-12)


def test_edge_scores_of_another_shape_are_refused(model):
    class MeanOverHeads(FactorProduct):
        def __call__(self, model, batch, target):
            return tuple(layer.mean(1) for layer in super().__call__(model, batch, target))

    batch = model.encode(small_models.inputs("bert"))
    with pytest.raises(ValueError, match=r"edge scores are \[B H T T\].*, but a layer's are \(3, 12, 12\)"):
        AttentionExplainer(MeanOverHeads(("attention",)), Rollout())(model, batch, torch.tensor([0, 1, 2]))


def test_an_unknown_head_readout_is_named():
    with pytest.raises(UserError, match="heads"):
        benchmark.build("methods/raw_attention", "+heads=median")
    assert {f.name for f in dataclasses.fields(AttentionExplainer)} == {"edges", "readout", "heads"}


@pytest.mark.parametrize("edges", [FactorProduct(("gradient",)), AttAttr(steps=2), ValueZeroing()])
@pytest.mark.parametrize("budget", [1, 1 << 27])
def test_attributions_and_edges_from_one_pass_are_those_of_two(model, edges, budget):
    model = dataclasses.replace(model, memory_budget=budget)
    method, batch, target = (
        AttentionExplainer(edges, Rollout()),
        model.encode(small_models.inputs("bert")),
        torch.arange(3),
    )
    alone, sums = method(model, batch, target), edge_sums(method, model, batch, ClassTarget(target))
    before = dataclasses.replace(model.cost)
    both = method.with_edges(model, batch, target)
    passes = model.cost.forward_passes - before.forward_passes
    method(model, batch, target)
    assert passes == (model.cost.forward_passes - before.forward_passes) / 2, "edges are scored once"
    for name in ("tokens", "heads", "layers", "totals"):
        expected, found = getattr(alone, name), getattr(both, name)
        assert (found is None and expected is None) or torch.equal(found, expected), name
    assert torch.equal(both.edges, sums.edges)
