import io
import json
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from PIL import Image

from benchmark.errors import UserError
from benchmark.report import load_cells, write_report
from benchmark.report.graphs import DrawnGraph, columns, draw, network, pictures
from benchmark.results.graph import attribution_graph
from tests.report.folders import Plan, resealed, write_cell

pytestmark = pytest.mark.rendered

WORDS = ("[CLS]", "a", "$x_", "<b>fine</b>", "日本", "averyveryverylongword", "[SEP]")


def example(n_layers=4, tokens=WORDS, seed=0, **settings):
    scores = np.random.default_rng(seed).random((n_layers, len(tokens), len(tokens))) ** 3
    return attribution_graph(scores, tokens=tokens, units=[-1, *range(len(tokens) - 2), -1], **settings)


def entry(graph, uid="test-0", target="negative"):
    return {"uid": uid, "label": "positive", "predicted": "negative", "target": target, "graph": graph.to_json()}


@pytest.fixture
def cell(tmp_path):
    folder = write_cell(tmp_path / "runs", Plan("attattr"))
    entries = [entry(example(seed=seed), uid=f"test-{seed}") for seed in range(3)]
    (folder / "graphs.json").write_text(json.dumps(entries))
    return resealed(folder)


def test_the_first_two_examples_are_drawn(cell, tmp_path):
    other = write_cell(tmp_path / "runs", Plan("random"))
    report = tmp_path / "report"
    written = {path.name for path in write_report(load_cells([cell, other]), report)}
    names = {f"graph-attattr-test-{i}.{kind}" for i in range(2) for kind in ("png", "pdf")}
    assert {name for name in written if name.startswith("graph")} == names
    image = Image.open(io.BytesIO((report / "graph-attattr-test-0.png").read_bytes()))
    assert image.size[0] > 600
    assert len(image.convert("RGB").getcolors(1 << 20)) > 20
    pdf = (report / "graph-attattr-test-0.pdf").read_bytes()
    assert pdf.startswith(b"%PDF")
    assert b"CreationDate" not in pdf


def test_names_of_files_are_short_and_distinct(cell, tmp_path):
    uids = ["a/b " * 200, "a/b " * 200 + "c", "third"]
    (cell / "graphs.json").write_text(json.dumps([entry(example(), uid=uid) for uid in uids]))
    names = [
        path.name
        for path in write_report(load_cells([resealed(cell)]), tmp_path / "report")
        if path.name.startswith("graph")
    ]
    assert len(set(names)) == 4
    assert max(map(len, names)) < 200


def test_equal_graphs_give_equal_bytes(cell, tmp_path):
    first = write_report(load_cells([resealed(cell)]), tmp_path / "a")
    pictures.cache_clear()
    for before, after in zip(first, write_report(load_cells([resealed(cell)]), tmp_path / "b"), strict=True):
        assert before.read_bytes() == after.read_bytes(), before.name


def test_nodes_stand_at_their_token_and_layer():
    graph = example()
    drawn, position = network(graph)
    assert graph.edges
    assert set(position) == set(drawn) == {*graph.nodes, "terminal"}
    assert position["terminal"] == (0, 4)
    assert position[graph.top] == (graph.top, 3)
    for edge in graph.edges:
        assert position[edge.key] == (edge.key, edge.layer)
        assert drawn.has_edge(edge.key, edge.query)
    assert drawn.number_of_edges() == len(graph.edges) + 1
    assert all(nx.has_path(drawn, node, "terminal") for node in graph.nodes)  # information flows upwards
    assert all(position[source][1] <= position[goal][1] for source, goal in drawn.edges)


def test_a_figure_says_what_it_shows():
    shown = DrawnGraph("attattr (steps=5)", "test_$1$", "bad", example())
    figure = draw(shown)
    texts = [text.get_text() for text in figure.texts]
    assert texts[0] == "ATTATTR (steps=5) · test_$1$ · class bad"
    assert texts[1].startswith("paper, τ = 0.4: ")
    labels = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert labels == [*WORDS[:5], "averyveryverylo…", "[SEP]"]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["0", "1", "2", "3", "[CLS]"]


@pytest.mark.parametrize(
    "graph",
    [
        attribution_graph(np.zeros((2, 3, 3)), tokens=["[CLS]", "a", "[SEP]"]),
        attribution_graph(np.zeros((2, 1, 1))),
        example(threshold=1.0),
        example(n_layers=1),
        replace(example(), terminal=None),
        example(n_layers=24, tokens=[f"token{i}" for i in range(120)]),
    ],
    ids=["no top node", "one token", "top alone", "one layer", "no terminal", "long"],
)
def test_edge_cases_are_drawn(graph):
    for content in pictures(DrawnGraph("attattr", "a", "b", graph)).values():
        assert len(content) > 1000


def test_long_inputs_show_the_graph_s_tokens_alone():
    scores = np.zeros((3, 200, 200))
    scores[1, 150, [20, 80]] = 1.0
    graph = attribution_graph(scores)
    assert columns(graph) == [0, 20, 80, 150]
    assert network(graph)[1] == {150: (3, 2), 20: (1, 1), 80: (2, 1), "terminal": (0, 3)}


@pytest.mark.parametrize(
    "content", ["{", '{"a": 1}', '[{"uid": "a", "target": "b", "graph": {"tokens": []}}]', '[{"graph": 3}]']
)
def test_corrupt_graphs_are_named_and_nothing_is_written(cell, tmp_path, content):
    (cell / "graphs.json").write_text(content)
    with pytest.raises(UserError) as raised:
        write_report(load_cells([resealed(cell)]), tmp_path / "report")
    assert "graphs.json" in str(raised.value)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "report").exists()
