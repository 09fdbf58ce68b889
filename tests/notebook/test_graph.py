"""`benchmark.graph` and `benchmark.sweep`: the graphs and figures of a comparison, for a text at hand."""

import pandas as pd
import pytest

import benchmark
from benchmark.errors import UserError
from benchmark.evaluations.edges import terminals
from benchmark.results.graph import attribution_graph
from benchmark.targets import ClassTarget

pytestmark = pytest.mark.rendered

TEXT = "the film was fine and the plot was dull"


def test_the_graph_is_that_of_the_methods_edge_scores(model):
    batch = model.encode([TEXT])
    predicted = ClassTarget(model.run(batch).logits.argmax(-1))
    scores = benchmark.build("methods/attattr").edge_scores(model, batch, predicted).sum(2)[0].double().numpy()
    for tau, construction in ((0.4, "paper"), (0.1, "script")):
        expected = attribution_graph(scores, tau, construction=construction, terminal=terminals(model, batch)[0])
        found = benchmark.graph(model, TEXT, tau=tau, construction=construction)
        assert (found.graph.edges, found.graph.top) == (expected.edges, expected.top)
        assert found.table()["score"].tolist() == [edge.score for edge in expected.edges]
        assert found.target == model.labels[int(predicted.classes[0])]


def test_what_it_shows(model):
    found = benchmark.graph(model, TEXT, tau=0.1)
    lines = repr(found).splitlines()
    assert lines[0].startswith("attattr, class ")
    assert len(lines) == 1 + len(found.table()) > 1
    assert found._repr_png_().startswith(b"\x89PNG")
    other = next(label for label in model.labels if label != found.target)
    assert benchmark.graph(model, TEXT, target=other).target == other


@pytest.mark.parametrize(
    ("arguments", "settings", "line"),
    [
        ((TEXT, "gradient_x_input"), {}, "gradient_x_input has no attribution graph: the method does not score edges"),
        ((TEXT, ["attattr", "rollout"]), {}, "graph is of one method, and 2 were given: attattr, rollout"),
        (([TEXT, TEXT],), {}, "graph is of one text, and 2 were given"),
        ((TEXT,), {"tau": 2}, "tau"),
        ((TEXT,), {"construction": "papers"}, "papers"),
    ],
)
def test_mistakes_of_a_graph_are_one_line(model, arguments, settings, line):
    with pytest.raises(UserError, match=line):
        benchmark.graph(model, *arguments, **settings)


def test_a_sweep_has_the_figures_of_every_value(model):
    texts = [TEXT, "a fine film", "the plot was dull"]
    found = benchmark.sweep(
        model, texts, "methods.attattr.edges.steps", [2, 5], ["aopc", "convergence"], methods=["random"]
    )
    assert found.columns[0] == "steps"
    for steps, part in found.groupby("steps"):
        chosen = [benchmark.build("methods/attattr", f"edges.steps={steps}"), "random"]
        expected = benchmark.evaluate(model, texts, None, ["aopc", "convergence"], methods=chosen).table()
        pd.testing.assert_frame_equal(part.drop(columns="steps").reset_index(drop=True), expected)


def test_a_sweep_over_a_test(model):
    found = benchmark.sweep(model, [TEXT], "evaluations.kept_edges.thresholds", [[0.1], [0.5]], methods=["attattr"])
    assert (
        found["thresholds"].drop_duplicates().tolist() == [[0.1], [0.5]] or found["thresholds"].map(str).nunique() == 2
    )
    assert set(found["evaluation"]) == {"kept_edges"}


@pytest.mark.parametrize(
    ("setting", "values", "line"),
    [
        ("attattr.steps", [1], "write methods.NAME.SETTING"),
        ("methods.attattr", [1], "write methods.NAME.SETTING"),
        ("methods.attattr.edges.steps", [], "values is empty"),
        ("methods.attattr.edges.steps", [0], "methods.attattr.edges.steps=0"),
        ("methods.attatr.edges.steps", [1], "methods=attatr does not exist; did you mean attattr"),
    ],
)
def test_mistakes_of_a_sweep_are_one_line(model, setting, values, line):
    with pytest.raises(UserError, match=line):
        benchmark.sweep(model, [TEXT], setting, values, ["aopc"])
