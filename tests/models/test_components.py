"""Nodes and edges of the computation graph, and runs of a part of them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers

import benchmark
from benchmark.checking import small_models
from benchmark.errors import NotApplicable
from benchmark.models.components import Components, Graph, Outputs, corrupted_of
from benchmark.models.components.selection import best, best_edges, connected, ends, orders_nothing, size_of
from benchmark.targets import Contrast
from tests.conftest import shared

FAMILIES = ("bert", "distilbert", "modernbert", "albert", "gpt2", "llama", "qwen3", "vit", "dinov2", "beit")


def with_counterparts(model, family):
    """Three inputs, and others of their lengths."""
    batch = model.encode(small_models.inputs(family, (7, 5, 9)))
    tensors = dict(batch.tensors)
    if "input_ids" in tensors:
        tensors["input_ids"] = torch.where(batch.units >= 0, 5 + (tensors["input_ids"] - 3) % 20, tensors["input_ids"])
    else:
        tensors["pixel_values"] = -tensors["pixel_values"]
    return replace(batch, corrupted=tensors)


@pytest.fixture(scope="module", params=FAMILIES)
def case(request, tmp_path_factory):
    model = small_models.load(request.param, tmp_path_factory.mktemp("models"))
    batch = with_counterparts(model, request.param)
    return model, batch, Components.of(model, batch)


@pytest.mark.parametrize(("layers", "heads", "edges"), [(12, 12, 32_491), (3, 3, 172), (2, 4, 110)])
def test_a_graph_has_as_many_edges_as_its_formula(layers, heads, edges):
    graph = Graph(layers, heads)
    before = [1 + layer * (heads + 1) for layer in range(layers)]
    formula = sum(3 * heads * count + count + heads for count in before)
    assert int(graph.edges.sum()) == formula + 1 + layers * (heads + 1) == edges
    assert len(graph.nodes) == 1 + layers * (heads + 1)
    assert len(graph.slots) == layers * (3 * heads + 1) + 1
    last = graph.slots[graph.reading(1, "key").start]
    assert (graph.nodes[graph.feed_forward(1)], last) == ("m1", "a1.h0<k>")


def test_all_edges_are_the_model_and_none_its_counterpart(case):
    model, batch, components = case
    others = components.others(batch, "patching")
    logits = components.run(batch.tensors, ends(components.graph, "edges"), others)
    tolerance = 1e-6 if model.dtype == torch.float32 else 1e-9
    assert torch.allclose(logits[0], model.run(batch).logits, atol=tolerance)
    assert torch.allclose(logits[1], model.run(batch.corrupted).logits, atol=tolerance)
    again = components.run(batch.tensors, ends(components.graph, "edges")[[0, 0, 1]], others)
    assert torch.equal(again[0], again[1])
    by_node = components.run(batch.tensors, ends(components.graph, "nodes"), others)
    assert torch.allclose(by_node, logits, atol=tolerance)


def test_an_effect_is_the_limit_of_a_small_change_of_one_edge(case):
    model, batch, components = case
    if model.dtype != torch.float64:
        pytest.skip("differences need float64")
    target = Contrast(torch.tensor([0, 1, 2]), torch.tensor([1, 2, 0]))
    clean = components.outputs(batch.tensors)
    direction = components.others(batch, "patching").less(clean)

    def value(logits, rows):
        return target[rows].value(logits)

    effects = components.effects("edges", batch.tensors, value, direction)
    assert torch.allclose(
        components.effects("nodes", batch.tensors, value, direction)[..., 0], effects.sum(-1), atol=1e-9
    )
    graph, step = components.graph, 1e-4
    places = graph.edges.nonzero()[:: max(1, int(graph.edges.sum()) // 12)]
    keep = graph.edges.repeat(1 + len(places), 1, 1)
    keep[1 + torch.arange(len(places)), places[:, 0], places[:, 1]] = False
    found = []
    for sign in (1, -1):
        near = Outputs.of_groups([a + sign * step * b for a, b in zip(clean.groups(), direction.groups(), strict=True)])
        found.append(target.value(components.run(batch.tensors, keep, near))[1:])
    slopes = (found[0] - found[1]).T / (2 * step)
    # a model whose norms are float32 inside has no more digits than this
    assert torch.allclose(
        slopes, effects[:, places[:, 0], places[:, 1]], rtol=1e-3, atol=2e-3 * float(effects.abs().max())
    )


def test_zero_takes_tokens_away_and_leaves_positions(tmp_path):
    model = small_models.load("gpt2", tmp_path)
    batch = with_counterparts(model, "gpt2")
    nothing = Components.of(model, batch).others(batch, "zero")
    assert not any(part.any() for part in nothing.groups()[1:])
    positions = model.model.transformer.wpe.weight[: batch.units.shape[1]]
    assert torch.equal(nothing.input, positions.expand_as(nothing.input))


def test_what_has_no_such_graph_is_refused(tmp_path):
    model = small_models.load("bart", tmp_path)
    with pytest.raises(NotApplicable, match="an encoder and a decoder"):
        Components.of(model, model.encode(small_models.inputs("bart", (7,))))


def test_counterparts_have_the_lengths_of_their_inputs(tmp_path):
    model = small_models.load("gpt2", tmp_path)
    batch = model.encode(small_models.inputs("gpt2", (7, 5)))
    with pytest.raises(NotApplicable, match="no corrupted counterparts"):
        corrupted_of(batch)
    longer = model.encode(small_models.inputs("gpt2", (7, 6)))
    with pytest.raises(NotApplicable, match=f"example '{batch.uids[1]}' has 5 tokens, and its corrupted counterpart 6"):
        corrupted_of(replace(batch, corrupted=longer.tensors))
    other = replace(batch, corrupted=batch.tensors)
    assert torch.equal(other.select([1]).corrupted["input_ids"], batch.tensors["input_ids"][1:])


def golden(name):
    folder = shared("golden/circuits")
    stored = np.load(folder / f"{name}.npz")
    model = benchmark.load_model(
        folder / name, device="cpu", task="next_token", dtype="float64", labels=["answer", "foil"]
    )
    clean, corrupt = (
        model.encode([{"input_ids": row.tolist()} for row in stored[part]], candidates=stored["labels"].tolist())
        for part in ("clean", "corrupt")
    )
    return model, replace(clean, corrupted=corrupt.tensors), stored


@pytest.mark.parametrize(("name", "tolerance"), [("gpt2", 1e-10), ("llama", 1e-5)])
def test_circuits_keep_up_what_the_published_code_says(name, tolerance):
    """Of every stored circuit m of each example; of mean ablation ũ is the mean over the clean examples, by position."""
    model, batch, stored = golden(name)
    components = Components.of(model, batch)
    graph = components.graph
    assert list(graph.nodes) == stored["source_nodes"].tolist()
    assert list(graph.slots) == stored["target_slots"].tolist()
    assert np.array_equal(graph.edges.numpy(), stored["real_edges"])
    patching = components.others(batch, "patching")
    means = components.outputs(batch.tensors).map(lambda part: part.mean(0, keepdim=True).expand_as(part))
    ways = {"abs": patching, "signed": patching, "greedy": patching, "abs_zero": components.others(batch, "zero")}
    ways["abs_mean_positional"] = means
    asked = [key.rsplit("/", 1)[0] for key in stored.files if key.endswith("/circuits")]
    assert len(asked) > 25
    for one in asked:
        others = ways[one.rsplit("/", 1)[1]]
        logits = components.run(batch.tensors, torch.from_numpy(stored[f"{one}/circuits"]), others)
        found = (logits[..., 0] - logits[..., 1]).numpy()
        scale = np.abs(stored[f"{one}/metric"]).max()
        assert np.abs(found - stored[f"{one}/metric"]).max() < tolerance * scale, one


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_the_best_components_are_those_of_the_published_code(name):
    """Ties, as of queries, keys and values in information flow routes, fall in any order, which matters greedily."""
    stored = np.load(shared("golden/circuits") / f"{name}.npz")
    graph = Graph(3, 3) if name == "gpt2" else Graph(2, 4)
    orders = {"signed": "signed", "greedy": "greedy"}
    for key in stored.files:
        level, method, how, *rest = key.split("/")[:4] if key.count("/") == 3 else ("", "", "")
        if rest != ["circuits"] or (method, how) == ("information_flow_routes", "greedy"):
            continue
        counts = stored[f"{level}/{method}/{how}/items"].tolist()
        scores = torch.from_numpy(stored[f"{level}/{method}/scores"])
        found = best(graph, f"{level}s", scores, counts, orders.get(how, "magnitude"))
        assert np.array_equal(found.edges.numpy(), stored[key]), key


def test_a_circuit_hangs_together():
    graph = Graph(2, 2)
    scores = torch.zeros(graph.edges.shape)
    place = {name: graph.nodes.index(name) for name in graph.nodes}
    slot = {name: graph.slots.index(name) for name in graph.slots}
    way = [("input", "a0.h1<v>"), ("a0.h1", "m1"), ("m1", "logits")]
    loose = [("input", "a1.h0<q>"), ("a0.h0", "logits")]  # nothing reads the first's head, nothing is read by the other
    for rank, (source, goal) in enumerate([*loose, *way]):
        scores[place[source], slot[goal]] = 10.0 - rank
    found = best_edges(graph, scores, 5, "signed")
    assert {(graph.nodes[s], graph.slots[d]) for s, d in found.nonzero().tolist()} == set(way)
    greedy = best_edges(graph, scores, 3, "greedy")
    assert (graph.nodes.index("a0.h0"), slot["logits"]) not in greedy.nonzero().tolist()
    assert torch.equal(connected(graph, found), found)


@pytest.mark.parametrize("level", ["edges", "nodes", "heads"])
def test_shares_of_components_go_from_none_to_all(level):
    graph = Graph(2, 2)
    shape = {"edges": graph.edges.shape, "nodes": (len(graph.nodes),), "heads": (2, 2)}[level]
    scores = torch.from_numpy(np.random.default_rng(0).random(shape))
    found = best(graph, level, scores, [0, size_of(graph, level)], "signed")
    everything, nothing = ends(graph, level)
    assert torch.equal(found.keep[0], nothing if level != "nodes" else found.keep[0] & False)
    assert torch.equal(found.edges[1], graph.edges)
    assert torch.equal(
        found.keep[1] | ~graph.edges if level == "edges" else found.keep[1],
        everything | ~graph.edges if level == "edges" else everything,
    )
    assert orders_nothing(graph, level, torch.ones(3, *shape))
    assert not orders_nothing(graph, level, scores[None].expand(3, *shape))


def test_a_norm_behind_the_heads_is_seen_whichever_example_comes_first():
    torch.manual_seed(0)
    config = transformers.Gemma2Config(
        vocab_size=60, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=32, num_labels=2,
        max_position_embeddings=32, num_key_value_heads=1, head_dim=8, pad_token_id=0,
    )  # fmt: skip
    model = benchmark.load_model(transformers.Gemma2ForSequenceClassification(config).eval(), device="cpu")
    for lengths, told in (((1, 5), "such as a norm"), ((5, 1), "such as a norm"), ((1,), "of one token")):
        batch = model.encode([{"input_ids": list(range(5, 5 + length))} for length in lengths])
        with pytest.raises(NotApplicable, match=told):
            Components.of(model, batch)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("family", ["gpt2", "bert"])
def test_half_precision_is_served(dtype, family, tmp_path):
    folder = small_models.save(family, tmp_path)
    model = benchmark.load_model(folder, device="cpu", dtype=dtype)
    batch = with_counterparts(model, family)
    components = Components.of(model, batch)
    logits = components.run(batch.tensors, ends(components.graph, "edges"), components.others(batch, "patching"))
    assert torch.allclose(logits[0], model.run(batch).logits, atol=0.05)
