"""What a model sees of an image is what transformers' loader gives it: upright, the first frame, in the model's colours."""

import logging

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import ViTConfig, ViTForImageClassification
from transformers.image_utils import load_image
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

import benchmark
from benchmark.errors import UserError
from benchmark.types import Example

ORIENTATION = 0x0112
SIZES = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8, "num_labels": 2}


def vit(channels=3, **processor):
    torch.manual_seed(0)
    model = ViTForImageClassification(ViTConfig(**SIZES, image_size=16, patch_size=4, num_channels=channels)).eval()
    settings = {"size": {"height": 16, "width": 16}} | processor
    return model, ViTImageProcessorPil(**settings)


def photograph(size=(30, 20), seed=0):
    """Coarse squares of random colours, which JPEG keeps, [width, height]."""
    small = np.random.default_rng(seed).integers(0, 255, (5, 6, 3), dtype=np.uint8)
    return Image.fromarray(small).resize(size, Image.Resampling.NEAREST)


def turned(path, orientation):
    """A file whose EXIF says how the camera was held."""
    image = photograph()
    exif = image.getexif()
    exif[ORIENTATION] = orientation
    image.save(path, exif=exif)
    return path


def seen(model, processor, image):
    loaded = benchmark.load_model(model, processor=processor, device="cpu")
    return loaded.encode([image]).tensors["pixel_values"]


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("ending", ["jpg", "png", "webp", "tif"])
def test_an_orientation_is_applied_as_transformers_applies_it(tmp_path, orientation, ending):
    path = turned(tmp_path / f"x.{ending}", orientation)
    model, processor = vit()
    expected = processor(images=load_image(str(path)), return_tensors="pt")["pixel_values"]
    with Image.open(path) as image:
        assert torch.equal(seen(model, processor, image), expected)
    assert torch.equal(seen(model, processor, str(path)), expected)
    assert torch.equal(seen(model, processor, path), expected)


def test_a_mask_lies_on_the_upright_image(tmp_path):
    model, processor = vit(do_resize=False)
    image = photograph((16, 16))
    exif = image.getexif()
    exif[ORIENTATION] = 6
    image.save(tmp_path / "square.png", exif=exif)
    loaded = benchmark.load_model(model, processor=processor, device="cpu")
    mask = np.zeros((16, 16), dtype=bool)
    mask[:4, 12:] = True
    batch = loaded.encode_examples([Example("x", tmp_path / "square.png", 0, mask=mask)], [0, 1])
    assert np.flatnonzero(batch.rationale[0]).tolist() == [3]
    upright = load_image(str(tmp_path / "square.png"))
    assert torch.equal(batch.tensors["pixel_values"], processor(images=upright, return_tensors="pt")["pixel_values"])
    model, processor = vit()
    loaded = benchmark.load_model(model, processor=processor, device="cpu")
    turned(tmp_path / "x.jpg", 6)  # 30 × 20 as stored, 20 wide and 30 high as people see it
    for value in (tmp_path / "x.jpg", Image.open(tmp_path / "x.jpg")):
        batch = loaded.encode_examples([Example("x", value, 0, mask=np.ones((30, 20), dtype=bool))], [0, 1])
        assert batch.rationale[0].all()
        with pytest.raises(UserError, match=r"mask of 20 × 30 pixels for an image of 30 × 20"):
            loaded.encode_examples([Example("x", value, 0, mask=np.ones((20, 30), dtype=bool))], [0, 1])


def animated(path):
    frames = [photograph(seed=seed) for seed in range(3)]
    frames[0].save(path, save_all=True, append_images=frames[1:])


def deep(path):
    Image.fromarray(np.linspace(0, 65535, 30 * 20).reshape(20, 30).astype(np.uint16)).save(path)


def transparent(path):
    image = photograph().convert("RGBA")
    image.putalpha(Image.new("L", image.size, 90))
    image.save(path)


def palette(path):
    photograph().quantize(8).save(path, transparency=bytes([0, 255, 90]))


KINDS = {
    "animated.gif": (animated, "has 3 frames, of which the first is read"),
    "animated.webp": (animated, "has 3 frames, of which the first is read"),
    "animated.png": (animated, "has 3 frames, of which the first is read"),
    "pages.tif": (animated, "has 3 frames, of which the first is read"),
    "deep.png": (deep, "has more than eight bits a channel (mode I;16): values above 255 become 255"),
    "transparent.png": (transparent, "is transparent in parts: transparency is dropped"),
    "palette.png": (palette, "is transparent in parts: transparency is dropped"),
    "cmyk.jpg": (lambda path: photograph().convert("CMYK").save(path), None),
    "grey.png": (lambda path: photograph().convert("L").save(path), None),
    "bits.bmp": (lambda path: photograph().convert("1").save(path), None),
    "plain.ppm": (lambda path: photograph().save(path), None),
    "opaque.png": (lambda path: photograph().convert("RGBA").save(path), None),
    "plain.jfif": (lambda path: photograph().save(path, format="JPEG"), None),
}


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_is_read_as_transformers_reads_it_and_what_is_lost_is_said_once(tmp_path, name, caplog):
    write, lost = KINDS[name]
    write(tmp_path / name)
    model, processor = vit()
    expected = processor(images=load_image(str(tmp_path / name)), return_tensors="pt")["pixel_values"]
    loaded = benchmark.load_model(model, processor=processor, device="cpu")
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            batch = loaded.encode([tmp_path / name, Image.open(tmp_path / name)])
            assert torch.equal(batch.tensors["pixel_values"], expected.expand(2, -1, -1, -1))
    said = [record.message for record in caplog.records]
    assert len(said) == (lost is not None)
    assert lost is None or lost in said[0]


def test_a_path_that_is_no_image_is_one_line(tmp_path):
    model, processor = vit()
    loaded = benchmark.load_model(model, processor=processor, device="cpu")
    (tmp_path / "x.jpg").write_text("no image", encoding="utf-8")
    for path, wrong in ((tmp_path / "none.jpg", "none.jpg cannot be read"), (tmp_path / "x.jpg", "x.jpg is no image")):
        with pytest.raises(UserError, match=wrong) as caught:
            benchmark.explain(loaded, [path, path], methods=["rollout"])
        assert "\n" not in str(caught.value)


def test_a_model_of_one_channel_reads_grey(tmp_path):
    model, processor = vit(channels=1, image_mean=[0.4], image_std=[0.3])
    image = photograph()
    loaded = benchmark.load_model(model, processor=processor, device="cpu")
    batch = loaded.encode([image])
    expected = processor(images=image.convert("L"), return_tensors="pt")["pixel_values"]
    assert torch.equal(batch.tensors["pixel_values"], expected)
    assert torch.allclose(loaded.run(batch).logits, model(pixel_values=expected).logits, atol=1e-6)
    explanation = benchmark.explain(loaded, image, methods=["rollout", "occlusion", "transformer_attribution"])
    assert explanation.reasons == {}
    assert len(explanation.pictures) == 1


def test_channels_that_do_not_fit_are_one_line():
    model, processor = vit(channels=1)  # whose processor has a mean for each of three channels
    loaded = benchmark.load_model(model, processor=processor, device="cpu")
    with pytest.raises(UserError, match=r"of 1 channels .*image_mean") as caught:
        loaded.encode([photograph()])
    assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match="images of 3 channels, and the model reads 1"):
        loaded.encode([{"pixel_values": torch.zeros(3, 16, 16)}])
