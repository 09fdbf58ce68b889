"""Circuits of a comparison: against random orders, known wiring and brute force; drawn, and written as importance files."""

import json

import networkx as nx
import numpy as np
import pytest
import torch

import benchmark
from benchmark.analyses.circuits.importances import importances, read_importances, write_importances
from benchmark.errors import UserError
from benchmark.models.components import Graph
from benchmark.models.written.mechanisms import NAMES, mechanism
from benchmark.models.written.wiring import wiring
from benchmark.report.analysis_tables import read_tables
from tests.conftest import shared

SAME_IN_BOTH = {"cancellation", "gating"}
"""Mechanisms of which some head moves the same for an input and its counterpart: patching it changes nothing."""
TWICE = {"either"}
"""One word more than is needed says it: no edge alone makes a difference."""


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    return benchmark.compare(
        "task=mechanism", "task.mechanism=detour", "task.corrupted=true", "task.examples=30", "model=written",
        "methods=[eap,relp,component_flow,activation_patching,random_components]",
        "evaluations=[circuit,circuit_edges]", "analyses=[circuits]", "analyses.circuits.orders=40",
        "evaluations.circuit.calibration=same", "evaluations.circuit_edges.calibration=same",
        "limit=12", f"out={tmp_path_factory.mktemp('circuits')}",
    )  # fmt: skip


def tables(compared):
    return {table.name: table for table in read_tables(compared.folder)}


def test_brute_force_finds_the_wiring_and_random_scores_do_not(compared):
    rows = tables(compared)["circuits_known"].rows.set_index("explainer")
    assert rows.loc["activation_patching", "value"] == 1
    assert rows.loc["relp", "value"] == 1
    chance = rows.loc["random orders"]
    assert chance["low"] < 0.5 < chance["high"]
    assert chance["n"] == 40


def test_random_orders_are_a_line_of_their_own(compared):
    rows = tables(compared)["circuits"].rows
    for level in ("heads", "edges"):
        own = rows[(rows["components"] == level) & (rows["metric"] == "CPR")].set_index("explainer")["value"]
        assert own["activation_patching"] > own["random orders"]
    p = rows[rows["metric"] == "p, against random orders"].set_index(["components", "explainer"])
    assert p.loc[("edges", "activation_patching"), "value"] <= 5 / 41
    assert p.loc[("edges", "random_components"), "note"] == "a control"


def test_the_drawn_circuit_is_the_wiring(compared):
    rows = tables(compared)["circuit"].rows
    strong = rows[rows["value"].abs() > 1]
    program = mechanism("detour", 0.4).program
    graph = Graph(len(program.layers), program.heads)
    wired = {(graph.nodes[s], graph.slots[d]) for s, d in wiring(program, graph).nonzero().tolist()}
    assert set(zip(strong["node"], strong["slot"], strict=True)) == wired


def test_a_circuit_is_drawn_and_exported(compared):
    folder = compared.folder
    assert {"table-circuit.png", "table-circuit.pdf"} <= {path.name for path in folder.iterdir()}
    graph = nx.read_graphml(folder / "table-circuit.graphml")
    told = json.loads((folder / "table-circuit.json").read_text())
    assert len(graph.edges) == len(told["edges"]) == len(tables(compared)["circuit"].rows)
    assert {"input", "logits"} <= set(told["nodes"])
    assert "circuit" in (folder / "index.html").read_text()


def test_importance_files_are_read_again(compared, tmp_path):
    program = mechanism("detour", 0.4).program
    graph = Graph(len(program.layers), program.heads)
    edges, nodes = read_importances(compared.folder / "importances" / "eap.json", graph)
    assert nodes is None
    assert edges.shape == graph.edges.shape
    assert np.abs(edges).max() > 1
    for ending in ("json", "pt"):
        write_importances(tmp_path / f"one.{ending}", graph, edges, edges.sum(1), width=8)
        again, sums = read_importances(tmp_path / f"one.{ending}", graph)
        assert np.array_equal(again, edges)
        assert np.allclose(sums, edges.sum(1))


def test_a_published_importance_file_is_read(tmp_path):
    stored = np.load(shared("golden/circuits") / "gpt2.npz")
    graph = Graph(3, 3)
    edges, _ = read_importances(shared("golden/circuits") / "gpt2_importances.json", graph)
    assert np.allclose(edges, stored["edge/eap/scores"])
    told = importances(graph, edges, None, 24)
    published = json.loads((shared("golden/circuits") / "gpt2_importances.json").read_text())
    assert told["cfg"] == published["cfg"]
    assert list(told["nodes"]) == list(published["nodes"])
    assert set(told["edges"]) == set(published["edges"])


@pytest.mark.parametrize(
    ("content", "said"),
    [("{", "can be read"), ("[]", "no 'edges'"), ('{"edges": {}}', "no score of the edge input->a0.h0<q>")],
)
def test_other_files_are_refused_in_a_line(tmp_path, content, said):
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(UserError, match=said):
        read_importances(path, Graph(1, 1))
    torch.save({"edges_scores": torch.zeros(2, 2)}, tmp_path / "x.pt")
    with pytest.raises(UserError, match="of shape"):
        read_importances(tmp_path / "x.pt", Graph(1, 1))


@pytest.mark.parametrize("name", NAMES)
def test_brute_force_finds_the_wiring_of_every_mechanism(name):
    """Where each wired edge carries something else for the counterpart, and no other edge does the same."""
    from benchmark.training.sources import load_arguments
    from benchmark.training.written import Written
    from methods.circuits.activation_patching import ActivationPatching
    from tasks.mechanism import MechanismTask

    task, source = MechanismTask(mechanism=name, corrupted=True, examples=12), Written()
    model = benchmark.load_model(source.resolve(task), **load_arguments(source))
    batch = model.encode_examples(task.split("test"), model.label_map(task.labels))
    scores = ActivationPatching()(model, batch, model.target(batch, "margin")).components.mean(0).abs()
    graph = Graph(model.n_layers, model.n_heads)
    wired = wiring(task.program, graph)
    assert float(scores[graph.edges & ~wired].max()) < 1e-5, "what is not wired carries nothing"
    if name not in SAME_IN_BOTH | TWICE:
        assert float(scores[wired].min()) > 0.1
    else:
        assert float(scores[wired].min()) < 1e-5
