"""Every method equals the published implementations on a tiny BERT, in float64, on one padded batch."""

import json

import numpy as np
import pytest
import torch

from benchmark import build, load_model
from benchmark.models import PruneHeads
from tests.conftest import shared

TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def bert():
    return load_model(shared("golden/bert"), dtype="float64", device="cpu")


@pytest.fixture(scope="module")
def inputs():
    return json.loads(shared("golden/bert_inputs.json").read_text())


@pytest.fixture(scope="module")
def batch(bert, inputs):
    return bert.encode([{name: value for name, value in item.items() if name != "target"} for item in inputs])


@pytest.fixture(scope="module")
def target(inputs):
    return torch.tensor([item["target"] for item in inputs])


@pytest.fixture(scope="module")
def chefer():
    return np.load(shared("golden/chefer_bert.npz"))


@pytest.fixture(scope="module")
def attattr():
    return np.load(shared("golden/attattr_bert.npz"))


def assert_close(ours, published):
    ours = ours.detach().numpy() if isinstance(ours, torch.Tensor) else ours
    assert ours.shape == published.shape
    assert np.abs(ours - published).max() <= TOLERANCE * np.abs(published).max()


def content(batch, row):
    """Positions of the content tokens: the published code treats CLS in ways of its own."""
    return (batch.units[row] >= 0).numpy()


@pytest.mark.parametrize(
    ("edges", "key"),
    [
        ("methods.edges.attention.Attention", "attn"),
        ("methods.edges.gradient.Gradient", "attn_grad"),
        ("methods.edges.relevance.Relevance", "attn_cam"),
        ("methods.edges.relevance.Relevance rules=lrp", "attn_cam_orig"),
    ],
)
def test_edge_scores(bert, batch, target, chefer, edges, key):
    name, *options = edges.split()
    overrides = [f"edges._target_={name}", *(f"+edges.{option}" for option in options)]
    scores = build("methods/raw_attention", *overrides).edge_scores(bert, batch, target)
    for row in range(len(batch)):
        published = chefer[f"{row}/{key}"]
        n = int(batch.attention_mask[row].sum())
        # rows of padding carry no meaning for attention itself
        assert_close(scores[row, :, :, :n, :n], published[:, :, :n, :n])


@pytest.mark.parametrize(
    ("method", "overrides", "key"),
    [
        ("transformer_attribution", [], "transformer_attribution"),
        ("transformer_attribution", ["readout.start_layer=-1"], "transformer_attribution_last"),
        ("partial_lrp", [], "partial_lrp"),
        ("lrp", [], "lrp"),
        ("raw_attention", [], "last_attn"),
        ("rollout", [], "rollout"),
    ],
)
def test_token_scores(bert, batch, target, chefer, method, overrides, key):
    tokens = build(f"methods/{method}", *overrides)(bert, batch, target).tokens
    for row in range(len(batch)):
        published = chefer[f"{row}/{key}"]
        keep = content(batch, row)[: len(published)]
        assert_close(tokens[row, : len(published)][keep], published[keep])


def test_gradcam_up_to_the_published_rescaling(bert, batch, target, chefer):
    """The published script rescales the clamped map of the last layer to [0, 1] over all its cells.

    Its mean gradient also takes in the cells of padding keys, whose gradients are not zero, so that its result depends on
    how far an input was padded. Ours leaves them out; the one padded input is left out here.
    """
    method = build("methods/attention_gradcam")
    tokens = method(bert, batch, target).tokens
    maps = method.edge_scores(bert, batch, target)[:, -1].mean(1).clamp(min=0)
    for row in range(len(batch)):
        published = chefer[f"{row}/attn_gradcam"]
        n = len(published)
        if not bool(batch.attention_mask[row, :n].all()):
            assert n > int(batch.attention_mask[row].sum()) == 16
            continue
        low, high = maps[row, :n, :n].min(), maps[row, :n, :n].max()
        keep = content(batch, row)[:n]
        assert_close(((tokens[row, :n] - low) / (high - low))[keep], published[keep])


def test_attattr_edges_and_heads(bert, batch, target, attattr):
    method = build("methods/attattr")
    scores = method.edge_scores(bert, batch, target)
    heads = method(bert, batch, target).heads
    for row in range(len(batch)):
        published = attattr[f"attr_{row}"]
        n = published.shape[-1]
        assert_close(scores[row, :, :, :n, :n], published)
        assert_close(heads[row], attattr[f"head_max_{row}"])
    assert_close(heads.sum(0), attattr["head_importance_sum"])
    assert_close(heads.mean(0), attattr["head_importance_mean"])


@pytest.mark.parametrize("ranking", ["attr", "taylor"])
def test_pruned_logits(bert, batch, attattr, ranking):
    for step, keep in enumerate(attattr[f"prune_masks_{ranking}"]):
        logits = bert.run(batch, edits=[PruneHeads(torch.as_tensor(keep)[None].bool())]).logits
        published = np.stack([attattr[f"pruned_logits_{ranking}_{row}"][step] for row in range(len(batch))])
        assert_close(logits, published)
