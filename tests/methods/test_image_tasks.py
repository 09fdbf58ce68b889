"""Every method on every vision family, through an image task and the checkpoint's own image processor."""

from dataclasses import replace

import pytest
import torch
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

import benchmark
from benchmark.checking import small_models
from benchmark.evaluations.maps import pixel_map
from tasks.digit_scenes import DigitScenes
from tests.checking.cheap import HEADS_ONLY, METHODS, built
from tests.covering import one_in
from tests.methods.test_contract import CANNOT

SIDE = 12  # of the tiny models' images


@pytest.fixture(scope="module", params=small_models.IMAGE_FAMILIES)
def scenes(request, tmp_path_factory):
    """A family's name, its model, and three encoded scenes."""
    folder = small_models.save(request.param, tmp_path_factory.mktemp("models"))
    ViTImageProcessorPil(size={"height": SIDE, "width": SIDE}).save_pretrained(folder)
    model = benchmark.load_model(folder, dtype="float64", device="cpu")
    examples = DigitScenes(digits=2, train=1, validation=1, test=3).split("test")
    batch = model.encode_examples(examples, [label % 3 for label in range(10)])
    return (
        request.param,
        model,
        replace(batch, corrupted={**batch.tensors, "pixel_values": -batch.tensors["pixel_values"]}),
    )


def test_masks_arrive_on_patches_and_pixels(scenes):
    _, _, batch = scenes
    assert (batch.size, batch.patch, batch.grid) == ((SIDE, SIDE), (4, 4), (3, 3))
    for mask, marks in zip(batch.masks, batch.rationale, strict=True):
        assert 0 < mask.sum() < SIDE * SIDE
        assert marks.tolist() == mask.reshape(3, 4, 3, 4).any((1, 3)).ravel().tolist()


@pytest.mark.parametrize("name", one_in(6, METHODS))
def test_every_method_scores_an_image_task(scenes, name):
    family, model, batch = scenes
    if (name, family) in CANNOT:
        pytest.skip(CANNOT[name, family])
    result = built(name)(model, batch, torch.tensor([0, 1, 2]))
    if name in HEADS_ONLY:
        assert bool(result.heads.isfinite().all())
        return
    found = pixel_map(batch, result)
    assert found.shape == (3, SIDE, SIDE)
    assert bool(found.isfinite().all())
    if result.pixels is None:  # a mean of neighbours, never beyond them
        patches = result.tokens[:, -9:]
        assert bool((found.amax((1, 2)) <= patches.amax(1) + 1e-9).all())
        assert bool((found.amin((1, 2)) >= patches.amin(1) - 1e-9).all())
