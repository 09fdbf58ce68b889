"""Patch scores as maps of pixels: bilinear by hand, a method's own pixels, margins, and what has no map."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import ViTConfig, ViTForImageClassification
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

import benchmark
from benchmark.errors import NotApplicable
from benchmark.evaluations.maps import pixel_map
from benchmark.run.arrays import flat, padded
from benchmark.types import Attribution
from tests import text_models

SIDE, PATCH = 16, 4


@pytest.fixture(scope="module")
def batch():
    """Two images of sixteen patches."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    vit = ViTForImageClassification(ViTConfig(**sizes, image_size=SIDE, patch_size=PATCH, num_labels=2)).eval()
    model = benchmark.load_model(vit, processor=ViTImageProcessorPil(do_resize=False), device="cpu")
    return model.encode([Image.new("RGB", (SIDE, SIDE))] * 2)


@pytest.fixture
def patches():
    return torch.tensor(np.random.default_rng(0).normal(size=(2, 4, 4)))


def attribution(patches):
    return Attribution(torch.zeros(2, dtype=torch.long), tokens=torch.nn.functional.pad(patches.flatten(1), (1, 0)))


def by_hand(patches, row, column):
    """The value at the centre of a pixel, between the centres of the four patches around it; flat beyond the outermost."""

    def neighbours(pixel):
        place = min(max((pixel + 0.5) / PATCH - 0.5, 0), 3)
        first = min(int(place), 2)
        return (first, 1 - (place - first)), (first + 1, place - first)

    return sum(a * b * float(patches[r, c]) for r, a in neighbours(row) for c, b in neighbours(column))


def test_patches_are_enlarged_bilinearly(batch, patches):
    found = pixel_map(batch, attribution(patches))
    assert found.shape == (2, SIDE, SIDE)
    for b, row, column in np.ndindex(*found.shape):
        assert float(found[b, row, column]) == pytest.approx(by_hand(patches[b], row, column), abs=1e-12)


def test_a_methods_own_pixels_are_its_map(batch, patches):
    own = torch.arange(2.0 * SIDE * SIDE).reshape(2, SIDE, SIDE)
    assert torch.equal(pixel_map(batch, replace(attribution(patches), pixels=own)), own)


def test_a_margin_goes_on_as_the_pixels_beside_it(batch, patches):
    wider = replace(batch, tensors={"pixel_values": torch.zeros(2, 3, SIDE + 1, SIDE + 3)})
    assert wider.grid == (4, 4)
    inner, found = pixel_map(batch, attribution(patches)), pixel_map(wider, attribution(patches))
    assert torch.equal(found[:, :SIDE, :SIDE], inner)
    assert torch.equal(found[:, SIDE, :SIDE], inner[:, -1])
    assert torch.equal(found[:, :SIDE, SIDE:], inner[:, :, -1:].expand(-1, -1, 3))


def test_texts_and_heads_have_no_map(batch, tmp_path):
    texts = benchmark.load_model(text_models.save_bert(tmp_path), device="cpu").encode(["good"])
    assert (texts.patch, texts.grid, texts.size, texts.masks) == (None, None, None, ())
    with pytest.raises(NotApplicable, match="no images"):
        pixel_map(texts, Attribution(torch.zeros(1, dtype=torch.long), tokens=torch.zeros(1, texts.units.shape[1])))
    with pytest.raises(NotApplicable, match="no token scores"):
        pixel_map(batch, Attribution(torch.zeros(2, dtype=torch.long)))


def test_pixels_are_kept_with_the_attributions(batch, patches):
    own = torch.rand(2, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    stored = flat(batch, replace(attribution(patches), pixels=own), {})
    assert torch.equal(padded(stored, 0, batch).pixels, own)
    assert torch.equal(padded(stored, 1, batch.select([1])).pixels, own[1:])
    with pytest.raises(NotApplicable, match=r"^the pixels scores are not finite .* first in example '1'$"):
        flat(batch, replace(attribution(patches), pixels=own.index_fill(0, torch.tensor([1]), torch.nan)), {})
