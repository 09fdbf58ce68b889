"""Graphs in run folders: written where edges were stored, with the tokens that people read."""

import json

import pytest

from benchmark.checking import small_models
from benchmark.comparison import run_comparison
from benchmark.models import load_model
from benchmark.results.graph import AttributionGraph
from benchmark.results.store import Ragged, read_record, read_rows
from benchmark.run.views import GRAPH_EXAMPLES, token_strings
from benchmark.settings.configuration import compose
from tests import text_models
from tests.report.carried import carried

EVALUATIONS = "[attribution_graph,kept_edges,receptive_field]"


def test_an_explainer_of_tokens_and_edges_scores_edges_once(comparison, place):
    raw = comparison.cells[0]
    edges, tokens = (Ragged.read(raw / f"{name}-predicted.safetensors") for name in ("edges", "attributions"))
    assert edges.uids == tokens.uids
    assert tokens.cost == edges.cost
    assert tokens.cost["forward_passes"] == len(tokens.uids)
    assert set(edges.arrays) == {"target", "lengths", "edges"}
    assert "edges" not in tokens.arrays
    chosen = ["task.size=9", "methods=[raw_attention]", "evaluations=[rationale]", f"out={place / 'tokens alone'}"]
    alone = run_comparison(compose("config", [*overrides(place), *chosen], str(place / "conf"))).cells[0]
    separate = Ragged.read(alone / "attributions-predicted.safetensors")
    assert all((separate.arrays[name] == tokens.arrays[name]).all() for name in separate.arrays)


def overrides(place):
    return ["task=tiny_task", "model=hf", f"model.path={place / 'bert'}", "tracking=none", "batch_size=5"]


@pytest.fixture(scope="module")
def comparison(place):
    """Two explainers with edges and one without, tested on edges."""
    chosen = ["methods=[raw_attention,attattr,probe]", f"evaluations={EVALUATIONS}", f"out={place / 'runs'}"]
    chosen += ["task.size=9", "evaluations.kept_edges.thresholds=[0.4]", "evaluations.kept_edges.draws=1"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("benchmark.report.write.curve_files", lambda *_: iter(()))  # they are tested with the report
        return run_comparison(compose("config", [*overrides(place), *chosen], str(place / "conf")))


def test_cells_with_edges_keep_graphs(comparison):
    raw, attattr, probe = comparison.cells
    for cell in (raw, attattr):
        entries = json.loads((cell / "graphs.json").read_text())
        assert len(entries) == GRAPH_EXAMPLES
        assert len({item["uid"] for item in entries}) == GRAPH_EXAMPLES
        heatmaps = json.loads((cell / "heatmap.json").read_text())
        for item, heatmap in zip(entries, heatmaps[:GRAPH_EXAMPLES], strict=True):
            assert [item[name] for name in ("uid", "label", "predicted", "target")] == [
                heatmap[name] for name in ("uid", "label", "predicted", "target")
            ]
            graph = AttributionGraph.from_json(item["graph"])
            assert list(graph.tokens) == ["[CLS]", *heatmap["words"], "[SEP]"]
            assert (graph.threshold, graph.construction, graph.layers) == (0.4, "paper", 2)
    assert not (probe / "graphs.json").exists()
    dashes = {test.dash for test in read_record(probe).evaluations.values()}
    assert dashes == {"the method does not score edges"}


def test_the_tests_of_edges_give_rows_and_the_report_pictures(comparison):
    for cell in comparison.cells[:2]:
        assert set(read_rows(cell).evaluation) == set(EVALUATIONS[1:-1].split(","))
    names = {path.name for path in comparison.folder.iterdir()}
    for method in ("raw_attention", "attattr"):
        assert len([name for name in names if name.startswith(f"graph-{method}-")]) == 4
    (examples,) = carried((comparison.folder / "index.html").read_text())["example-data"]
    assert len(examples["graphs"]) == 2 * GRAPH_EXAMPLES
    assert "| probe | – [1]" in (comparison.folder / "leaderboard.md").read_text()


def test_words_of_several_tokens_show_their_pieces(place):
    model = load_model(place / "bert", dtype="float64", device="cpu")
    batch = model.encode([("the untoldly film", "a plot"), ("good", "film")])
    assert token_strings(model, batch, 0) == [
        "[CLS]",
        "the",
        "un",
        "##told",
        "##ly",
        "film",
        "[SEP]",
        "a",
        "plot",
        "[SEP]",
    ]
    assert token_strings(model, batch, 1) == ["[CLS]", "good", "[SEP]", "film", "[SEP]"]


def test_marks_of_byte_level_vocabularies_are_left_out(tmp_path):
    model = load_model(text_models.save_gpt2(tmp_path / "gpt2"), dtype="float64", device="cpu")
    tokens = token_strings(model, model.encode(["the storytelling film"]), 0)
    assert tokens[0] == "the"
    assert "".join(tokens) == "thestorytellingfilm"


@pytest.mark.parametrize("family", ["bert", "vit"])
def test_inputs_without_words_show_numbers(family, tmp_path):
    model = small_models.load(family, tmp_path)
    tokens = token_strings(model, model.encode(small_models.inputs(family, (5, 9))), 0)
    special_ends = 2 if family == "bert" else 1
    assert tokens[:3] == ["special", "0", "1"]
    assert tokens.count("special") == special_ends
    assert len(tokens) == (5 if family == "bert" else 10)
