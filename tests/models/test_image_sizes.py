"""Images of another size than a model's configuration: as plain transformers does, or one clear line."""

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from transformers.models.bit.image_processing_pil_bit import BitImageProcessorPil
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

import benchmark
from benchmark.checking import small_models
from benchmark.checking.subject import Place, Subject
from benchmark.errors import UserError
from benchmark.evaluations.maps import pixel_map
from benchmark.types import Example
from tests.checking.cheap import METHODS, built
from tests.covering import one_in

ANY_SIZE = ("dinov2", "beit")
"""Families whose position encodings are interpolated without being asked for it."""


def photograph(size=(60, 40), seed=1):
    return Image.fromarray(np.random.default_rng(seed).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8))


def saved(family, folder, *, image_size=20, **processor):
    """A checkpoint as DINOv2 is published: trained at one size, with a processor that makes another."""
    name, settings = small_models.FAMILIES[family]
    torch.manual_seed(3)
    config = getattr(transformers, name)(**settings | {"image_size": image_size})
    model = transformers.AutoModelForImageClassification.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.5)
    model.save_pretrained(folder)
    ViTImageProcessorPil(**processor).save_pretrained(folder)
    return model


@pytest.mark.parametrize("made", [(12, 12), (8, 16), (28, 28), (13, 18)])
@pytest.mark.parametrize("family", ANY_SIZE)
def test_logits_are_those_of_transformers_at_the_processors_size(family, made, tmp_path):
    model = saved(family, tmp_path, size=dict(zip(("height", "width"), made, strict=True)))
    processor = ViTImageProcessorPil.from_pretrained(tmp_path)
    images = [photograph(), photograph((33, 50), 2)]
    with torch.no_grad():
        expected = model(**processor(images=images, return_tensors="pt")).logits
    loaded = benchmark.load_model(tmp_path, device="cpu")
    mask = np.zeros((40, 60), dtype=bool)
    mask[:10, :15] = True
    batch = loaded.encode_examples([Example("a", images[0], 0, mask=mask), Example("b", images[1], 1)], [0, 1, 2])
    assert torch.allclose(loaded.run(batch).logits, expected, atol=1e-6)
    rows, columns = made[0] // 4, made[1] // 4
    assert (batch.size, batch.grid) == (made, (rows, columns))
    assert batch.n_units.tolist() == [rows * columns] * 2
    assert loaded.window == rows * columns + 1
    assert batch.rationale[0].reshape(rows, columns)[0, 0]
    assert batch.rationale[0].shape == (rows * columns,)
    trace = loaded.run(batch, record=("attentions",))
    assert trace.attentions[0].shape[-1] == rows * columns + 1
    explanation = benchmark.explain(loaded, images, methods=["rollout", "occlusion"])
    assert torch.allclose(explanation.probabilities.float(), expected.softmax(-1), atol=1e-6)


def test_a_crop_as_dinov2_is_published_with(tmp_path):
    model = saved("dinov2", tmp_path)
    settings = {"size": {"shortest_edge": 16}, "crop_size": {"height": 12, "width": 12}}
    processor = BitImageProcessorPil(**settings)
    processor.save_pretrained(tmp_path)
    with torch.no_grad():
        expected = model(**processor(images=photograph(), return_tensors="pt")).logits
    loaded = benchmark.load_model(tmp_path, device="cpu")
    assert torch.allclose(loaded.run(loaded.encode([photograph()])).logits, expected, atol=1e-6)
    assert loaded.window == 10


@pytest.mark.parametrize("family", ["vit", "deit", "deit-teacher"])
def test_a_family_of_one_size_says_which(family, tmp_path):
    model = saved(family, tmp_path, size={"height": 12, "width": 12})
    processor = ViTImageProcessorPil.from_pretrained(tmp_path)
    with pytest.raises(ValueError, match="size"):
        model(**processor(images=photograph(), return_tensors="pt"))
    loaded = benchmark.load_model(tmp_path, device="cpu")
    with pytest.raises(UserError, match=r"images of 12 × 12 pixels .* 20 × 20 pixels; set the size in its preproc"):
        loaded.encode([photograph()])
    with pytest.raises(UserError, match=r"images of 23 × 20 pixels"):  # as many patches, and refused by transformers
        loaded.encode([{"pixel_values": torch.zeros(3, 23, 20)}])


def test_ready_pixels_of_several_sizes(tmp_path):
    model = saved("dinov2", tmp_path, size={"height": 12, "width": 12})
    loaded = benchmark.load_model(tmp_path, device="cpu")
    for height, width in ((20, 20), (8, 24), (4, 4)):
        pixels = torch.rand(2, 3, height, width)
        batch = loaded.encode([{"pixel_values": image} for image in pixels])
        with torch.no_grad():
            assert torch.allclose(loaded.run(batch).logits, model(pixel_values=pixels).logits, atol=1e-6)
        assert batch.grid == (height // 4, width // 4)


def test_images_that_do_not_fit_one_batch_are_one_line(tmp_path):
    saved("dinov2", tmp_path)
    BitImageProcessorPil(size={"shortest_edge": 12}, do_center_crop=False).save_pretrained(tmp_path)
    loaded = benchmark.load_model(tmp_path, device="cpu")
    assert loaded.encode([photograph((24, 12))]).grid == (3, 6)
    with pytest.raises(UserError, match="do_center_crop") as caught:
        loaded.encode([photograph((24, 12)), photograph((12, 12))])
    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def interpolated(tmp_path_factory):
    """DINOv2 of 25 patches whose processor makes images of two rows and three columns."""
    folder = tmp_path_factory.mktemp("interpolated")
    saved("dinov2", folder, size={"height": 8, "width": 12})
    return benchmark.load_model(folder, dtype="float64", device="cpu")


@pytest.mark.parametrize("name", one_in(6, [name for name in METHODS if name != "frequency"]))
def test_every_method_scores_interpolated_images(name, interpolated):
    generator = torch.Generator().manual_seed(3)
    inputs = tuple({"pixel_values": torch.rand(3, 8, 12, generator=generator)} for _ in range(3))
    place = Place("interpolated", interpolated, inputs, small_models.encoded)
    report = benchmark.check(built(name), place, only=["form", "order"])
    assert report.ok, report.first
    batch = place.batch
    result = Subject(built(name), name, place).own
    if result.tokens is not None:
        assert result.tokens.shape == (3, 7)
        assert pixel_map(batch, result).shape == (3, 8, 12)
