"""Circuits of a comparison: against random orders, known wiring and brute force; drawn, and written as importance files."""

import json

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch

import benchmark
from benchmark.analyses.circuits.importances import importances, write_importances
from benchmark.errors import UserError
from benchmark.models.components import Graph
from benchmark.models.components.importances import read_importances
from benchmark.models.written.mechanisms import NAMES, mechanism
from benchmark.models.written.wiring import wiring
from benchmark.report.analysis_tables import read_tables
from tests.conftest import shared
from tests.covering import one_in

SAME_IN_BOTH = {"cancellation", "gating"}
"""Mechanisms of which some head moves the same for an input and its counterpart: patching it changes nothing."""
TWICE = {"either"}
"""One word more than is needed says it: no edge alone makes a difference."""


WRITTEN = (
    "task=mechanism", "task.mechanism=detour", "task.corrupted=true", "task.examples=30", "model=written", "limit=12",
    "evaluations.circuit.calibration=same", "evaluations.circuit_edges.calibration=same", "tracking=none",
)  # fmt: skip


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    return benchmark.compare(
        *WRITTEN, "methods=[eap,relp,component_flow,activation_patching,random_components]",
        "evaluations=[circuit,circuit_edges]", "analyses=[circuits]", "analyses.circuits.orders=40",
        f"out={tmp_path_factory.mktemp('circuits')}",
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


def test_a_file_is_a_method_with_the_figures_of_the_method_that_it_is_of(compared, tmp_path):
    found = benchmark.compare(
        *WRITTEN, "methods=[importances,random_components]", f"out={tmp_path}",
        f"methods.importances.path={compared.folder / 'importances' / 'relp.json'}",
        "evaluations=[circuit,circuit_edges]", "analyses=[]",
    )  # fmt: skip
    own, others = (
        board[board["method"] == name].set_index(["evaluation", "metric"])["value"]
        for board, name in (
            (pd.read_csv(one.folder / "leaderboard.csv"), name)
            for one, name in ((found, "importances"), (compared, "relp"))
        )
    )
    assert {("circuit", "cpr"), ("circuit_edges", "cmd")} <= set(own.index)
    pd.testing.assert_series_equal(own, others, rtol=0, atol=1e-12)
    with pytest.raises(UserError, match=r"methods.importances.path: .*relp.json has (a|no) score of the edge"):
        benchmark.compare(
            *WRITTEN, "task.mechanism=two_hops", "methods=[importances]", "evaluations=[circuit,circuit_edges]",
            f"out={tmp_path}", f"methods.importances.path={compared.folder / 'importances' / 'relp.json'}", "analyses=[]",
        )  # fmt: skip


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
    [
        ("{", "can be read"),
        ("[]", "holds a list"),
        ('{"edges": []}', "each by name"),
        ('{"edges": {}}', "no score of the edge a0.h0->logits: it is of another model"),
    ],
)
def test_other_files_are_refused_in_a_line(tmp_path, content, said):
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(UserError, match=said):
        read_importances(path, Graph(1, 1))
    for written, told in (({"edges_scores": torch.zeros(2, 2)}, "of shape"), ({"x": Graph(1, 1)}, "can be read")):
        torch.save(written, tmp_path / "x.pt")
        with pytest.raises(UserError, match=told):
            read_importances(tmp_path / "x.pt", Graph(1, 1))


def test_files_of_larger_models_and_scores_that_are_no_numbers_are_refused(tmp_path):
    large, small, path = Graph(2, 2), Graph(1, 1), tmp_path / "x.json"
    write_importances(path, large, np.ones(large.edges.shape))
    with pytest.raises(UserError, match="another model"):
        read_importances(path, small)
    write_importances(tmp_path / "x.pt", small, np.full(small.edges.shape, np.nan))
    with pytest.raises(UserError, match="not finite"):
        read_importances(tmp_path / "x.pt", small)


@pytest.mark.parametrize("name", one_in(3, NAMES))
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


@pytest.fixture(scope="module")
def bert_of_reviews(tmp_path_factory):
    """A model that was not written by the task's program, and a comparison whose only scores of edges are a control's."""
    folder = tmp_path_factory.mktemp("other")
    return benchmark.compare(
        "task=mechanism", "task.mechanism=copy", "task.corrupted=true", "task.examples=30", "model=tiny", "model.steps=5",
        "methods=[attattr,random_components]", "evaluations=[circuit,circuit_edges]",
        "+evaluations.zero={_target_: benchmark.evaluations.circuit.Circuit, ablation: zero, calibration: same}",
        "analyses=[circuits]", "analyses.circuits.orders=10", "evaluations.circuit.calibration=same",
        "evaluations.circuit_edges.calibration=same", "limit=8", f"out={folder}",
    )  # fmt: skip


@pytest.mark.thorough
def test_controls_alone_score_no_edges_and_another_model_has_no_wiring(bert_of_reviews):
    found = tables(bert_of_reviews)
    assert set(found) >= {"circuits"}
    assert not {"circuits_known", "circuit", "circuits_exact"} & set(found)


def test_two_tests_of_heads_are_told_apart(bert_of_reviews):
    rows = tables(bert_of_reviews)["circuits"].rows
    assert {"heads (circuit)", "heads (zero)"} == set(rows["components"])
    assert not rows.duplicated(["components", "explainer", "metric"]).any()


def test_a_method_that_is_not_there_is_no_picture(tmp_path):
    with pytest.raises(UserError, match=r"analyses.circuits.method=eapp is no method here"):
        benchmark.compare(
            "task=mechanism", "task.corrupted=true", "task.examples=12", "model=written", "methods=[eap]",
            "evaluations=[circuit]", "evaluations.circuit.calibration=same", "analyses=[circuits]",
            "analyses.circuits.method=eapp", "limit=4", f"out={tmp_path}",
        )  # fmt: skip
