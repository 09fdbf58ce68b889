"""Scores of nodes and edges against the numbers of the authors' programs."""

import numpy as np
import pytest
import torch

from benchmark.analyses.circuits.importances import write_importances
from benchmark.models.components import Components, Graph
from benchmark.targets import Contrast
from methods.circuits.activation_patching import ActivationPatching
from methods.circuits.base import Case
from methods.circuits.component_flow import ComponentFlow
from methods.circuits.eap import Eap
from methods.circuits.eap_clean_corrupted import EapCleanCorrupted
from methods.circuits.eap_ig import EapIg
from methods.circuits.eap_ig_activations import EapIgActivations
from methods.circuits.importances import Importances
from methods.circuits.relp import RelP
from tests.models.test_components import golden

METHODS = {
    "eap": Eap(),
    "eap_zero": Eap(ablation="zero"),
    "eap_ig_inputs": EapIg(),
    "eap_ig_inputs_20": EapIg(steps=20),
    "eap_ig_activations": EapIgActivations(),
    "clean_corrupted": EapCleanCorrupted(),
    "exact": ActivationPatching(),
    "exact_zero": ActivationPatching(ablation="zero"),
    "information_flow_routes": ComponentFlow(),
}
RELP = (
    10.7958697, 5.29993306, 0.54815398, 3.81261352, 0.32299825, 0.9866565, 0.41735334, 2.96365193, 0.80391568, 1.23433969,
    1.20739577, 2.51701456, 0.83904031,
)  # fmt: skip
"""Scores of the stored GPT-2's nodes by the authors' program (FarnoushRJ/RelP, its rules set before the model is made)."""


@pytest.fixture(scope="module", params=["gpt2", "llama"])
def case(request):
    model, batch, stored = golden(request.param)
    first = torch.zeros(len(batch), dtype=torch.long)
    return request.param, model, batch, Contrast(first, first + 1), stored


def held(name, found, expected):
    tolerance = 1e-10 if name == "gpt2" else 1e-5
    assert np.abs(found - expected).max() < tolerance * np.abs(expected).max()


@pytest.mark.parametrize("method", [name for name in METHODS if name != "eap_ig_activations"])
def test_scores_are_those_of_the_published_code(case, method):
    name, model, batch, target, stored = case
    found = METHODS[method](model, batch, target)
    held(name, found.components.mean(0).numpy(), stored[f"edge/{method}/scores"])
    if f"node/{method}/scores" in stored:
        held(name, found.nodes.mean(0).numpy(), stored[f"node/{method}/scores"])


def test_interpolated_activations_are_those_of_the_published_code_but_for_its_constant_inputs(case):
    """With rotary positions its first layer gets no gradient while the input is interpolated; here it does."""
    name, model, batch, target, stored = case
    found = EapIgActivations()(model, batch, target).components.mean(0)
    expected = stored["edge/eap_ig_activations/scores"]
    if name == "llama":
        own = Case(Components.of(model, batch), batch, target, "patching")
        lost = torch.zeros_like(found)
        for step in range(1, 6):
            start = {0: own.between(step / 5).input[:, None]}
            lost -= own.components.effects("edges", batch.tensors, own.value, own.direction, start).mean(0)
        first = 3 * model.n_heads
        lost[:, first:] = 0
        assert lost.abs().max() > 0.1
        found = found - lost / (5 * (1 + 2 * model.n_layers))
    held(name, found.numpy(), expected)


def test_means_stand_in_for_nodes_as_in_the_published_code(case):
    name, model, batch, target, stored = case
    own = Case(Components.of(model, batch), batch, target, "patching")
    means = own.clean.map(lambda part: part.mean(0, keepdim=True).expand_as(part))
    found = -own.components.effects("edges", batch.tensors, own.value, means.less(own.clean))
    held(name, found.mean(0).numpy(), stored["edge/eap_mean_positional/scores"])


def test_relevance_patching_is_that_of_the_authors(case):
    """Their program adds 1e-6 to what it divides by."""
    name, model, batch, target, _ = case
    if name != "gpt2":
        pytest.skip("their program was run on GPT-2")
    found = RelP(level="nodes")(model, batch, target).nodes.mean(0).numpy()
    assert np.abs(found - RELP).max() < 2e-5


def test_with_constant_attention_queries_and_keys_have_no_score(case):
    _, model, batch, target, _ = case
    graph = Components.of(model, batch).graph
    edges = RelP(attention="constant")(model, batch, target).components
    for layer in range(graph.n_layers):
        assert not edges[..., graph.reading(layer, "query")].any()
        assert edges[..., graph.reading(layer, "value")].any()


def test_scores_add_up_to_the_answer_where_everything_is_linear(case):
    """`u · ∂F/∂s` over the edges into the logits: what they add to F is all but the biases, norm and head being held."""
    _, model, batch, target, _ = case
    graph = Components.of(model, batch).graph
    edges = RelP(ablation="zero")(model, batch, target).components[..., -1]
    assert edges.shape == (len(batch), len(graph.nodes))
    whole = target.value(model.run(batch).logits)
    if not any("bias" in name for name, _ in model.model.named_parameters()):
        assert torch.allclose(edges.sum(-1), whole, rtol=1e-4)


def test_one_example_is_scored_alone_as_beside_others(case):
    _, model, batch, target, _ = case
    together = Eap()(model, batch, target)
    alone = Eap()(model, batch.select([3]), target[[3]])
    assert torch.allclose(alone.components[0], together.components[3], atol=1e-9)


@pytest.mark.parametrize("ending", ["json", "pt"])
def test_a_file_gives_its_scores_of_edges_nodes_and_heads(case, ending, tmp_path):
    """A node of which the file says nothing has the sum over its edges."""
    name, model, batch, target, stored = case
    edges, graph = stored["edge/eap/scores"], Graph(model.n_layers, model.n_heads)
    nodes = np.arange(float(len(graph.nodes)))
    for given, expected in ((nodes, nodes), (None, edges.sum(1))):
        write_importances(tmp_path / f"{name}.{ending}", graph, edges, given)
        method = Importances(path=str(tmp_path / f"{name}.{ending}"))
        method.check_model(model)
        found = method(model, batch, target)
        assert np.array_equal(found.components.numpy(), np.repeat(edges[None], len(batch), 0))
        assert np.allclose(found.nodes.numpy(), expected, rtol=1e-15)
        assert torch.equal(found.heads, graph.scores_of_heads(found.nodes))
