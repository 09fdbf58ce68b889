"""Relevance of pixels: the zᴮ-rule as loops over a tiny image, and its sums over patches."""

import numpy as np
import pytest
import torch

from benchmark import load_model
from benchmark.checking import small_models
from benchmark.targets import ClassTarget
from methods.full_lrp import FullLrp, z_box
from methods.lrp import Lrp
from methods.propagation.relevance import relevance_pass
from methods.propagation.rule_sets import rule_set
from tests.replicas.registry import replicates


def z_box_by_hand(x, weight, relevance):
    """`R_x = Σ_d R_d (x w − l w⁺ − h w⁻) / Σ (x w − l w⁺ − h w⁻)`, one patch and one output at a time."""
    channels, height, width = x.shape
    outputs, _, high, wide = weight.shape
    low, top = x.min(), x.max()
    found = np.zeros((channels, height, width))
    for row in range(height // high):
        for column in range(width // wide):
            rows, columns = slice(row * high, (row + 1) * high), slice(column * wide, (column + 1) * wide)
            for d in range(outputs):
                w = weight[d]
                terms = x[:, rows, columns] * w - low * w.clip(min=0) - top * w.clip(max=0)
                found[:, rows, columns] += relevance[d, row, column] * terms / (terms.sum() + 1e-9)
    return found


def test_z_box_on_four_by_four_pixels():
    generator = np.random.default_rng(0)
    x, weight, relevance = (generator.normal(size=size) for size in ((2, 3, 5, 4), (6, 3, 2, 2), (2, 6, 2, 2)))
    found = z_box(*map(torch.as_tensor, (x, weight, relevance)))
    for b in range(2):
        expected = z_box_by_hand(x[b], weight, relevance[b])
        assert np.abs(found[b].numpy() - expected).max() < 1e-12
        assert not expected[:, 4].any()  # the margin below the second row of patches


@pytest.fixture(scope="module", params=["vit", "deit", "dinov2", "beit"])
def images(request, tmp_path_factory):
    folder = small_models.save(request.param, tmp_path_factory.mktemp("models"))
    model = load_model(folder, dtype="float64", device="cpu")
    return model, model.encode(small_models.inputs(request.param, (1, 2, 3))), torch.tensor([0, 1, 2])


@replicates(FullLrp)
def test_positions_keep_their_share_and_patches_sum_their_pixels(images):
    model, batch, target = images
    found = FullLrp()(model, batch, target)
    part = relevance_pass(model, batch, ClassTarget(target), rule_set("lrp"), "hidden")
    trace, layers = part.trace, part.layers
    module = next(part for part in model.model.modules() if isinstance(part, torch.nn.Conv2d))
    embedded = module(batch.tensors["pixel_values"]).flatten(2).transpose(1, 2).detach().numpy()
    weight, (rows, columns) = module.weight.detach().numpy(), batch.grid
    special = batch.units.shape[1] - rows * columns
    states, relevance = (values[0].detach().numpy()[:, special:] for values in (trace.hidden, layers))
    shares = embedded * relevance * states / (states + 1e-9) ** 2
    for b in range(len(batch)):
        image = batch.tensors["pixel_values"][b].numpy()
        expected = z_box_by_hand(image, weight, shares[b].T.reshape(-1, rows, columns)).sum(0)
        assert np.abs(found.pixels[b].numpy() - expected).max() < 1e-9 * np.abs(expected).max()
        high, wide = batch.patch
        for place in range(rows * columns):
            row, column = divmod(place, columns)
            patch = expected[row * high : (row + 1) * high, column * wide : (column + 1) * wide]
            assert float(found.tokens[b, special + place]) == pytest.approx(patch.sum(), rel=1e-9)
    assert not found.tokens[:, :special].any()


def test_without_positions_patches_have_the_relevance_of_the_first_blocks_input(tmp_path):
    """BEiT's patches enter the first block as they are."""
    model = load_model(small_models.save("beit", tmp_path), dtype="float64", device="cpu")
    batch, target = model.encode(small_models.inputs("beit", (1, 2))), torch.tensor([0, 1])
    found, above = (method(model, batch, target).tokens for method in (FullLrp(), Lrp()))
    assert torch.allclose(found[:, 1:], above[:, 1:], rtol=1e-5)
