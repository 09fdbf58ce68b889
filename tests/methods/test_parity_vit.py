"""Every method equals the published implementations on a tiny ViT, in float64."""

import numpy as np
import pytest
import torch

from benchmark import build, load_model
from tests.conftest import shared
from tests.methods.test_parity_bert import assert_close


@pytest.fixture(scope="module")
def vit():
    return load_model(shared("golden/vit"), dtype="float64", device="cpu")


@pytest.fixture(scope="module")
def arrays():
    return np.load(shared("golden/vit_inputs.npz"))


@pytest.fixture(scope="module")
def chefer():
    return np.load(shared("golden/chefer_vit.npz"))


UNNORMALISED = "readout.normalize=none"


@pytest.mark.parametrize(
    ("method", "overrides", "key"),
    [
        ("transformer_attribution", [UNNORMALISED], "transformer_attribution"),
        ("transformer_attribution", [UNNORMALISED, "readout.start_layer=1"], "transformer_attribution_s1"),
        ("transformer_attribution", [UNNORMALISED, "readout.start_layer=-1"], "transformer_attribution_last"),
        ("rollout", [], "rollout"),
        ("rollout", ["readout.start_layer=1"], "rollout_s1"),
        ("raw_attention", [], "attn_last_layer"),
        ("partial_lrp", [], "lrp_last_layer"),
        ("partial_lrp", ["readout.layer=1"], "lrp_second_layer"),
        ("attention_gradcam", ["edges.mean_over=read_row"], "attn_gradcam"),
    ],
)
def test_token_scores(vit, arrays, chefer, method, overrides, key):
    batch = vit.encode([{"pixel_values": image} for image in arrays["images_3ch"]])
    tokens = (
        build(f"methods/{method}", *overrides)(vit, batch, torch.as_tensor(arrays["targets"])).tokens[:, 1:].numpy()
    )
    for row in range(len(batch)):
        published, ours = chefer[f"{row}/{key}"], tokens[row]
        if key == "attn_gradcam":  # published after min-max normalisation over the patches
            ours = (ours - ours.min()) / (ours.max() - ours.min())
        assert_close(ours, published)


@pytest.mark.parametrize(
    ("edges", "key"),
    [
        ("methods.edges.attention.Attention", "attn"),
        ("methods.edges.gradient.Gradient", "attn_grad"),
        ("methods.edges.relevance.Relevance", "attn_cam"),
        ("methods.edges.relevance.Relevance rules=lrp", "attn_cam_orig"),
    ],
)
def test_edge_scores(vit, arrays, chefer, edges, key):
    name, *options = edges.split()
    overrides = [f"edges._target_={name}", *(f"+edges.{option}" for option in options)]
    batch = vit.encode([{"pixel_values": image} for image in arrays["images_3ch"]])
    explainer = build("methods/raw_attention", *overrides)
    scores = explainer.edge_scores(vit, batch, torch.as_tensor(arrays["targets"]))
    for row in range(len(batch)):
        assert_close(scores[row], chefer[f"{row}/{key}"])
