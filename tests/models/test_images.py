"""Masks of pixels on their way to patches, by hand on 4 × 4 patches, and the colours that images arrive with."""

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import ViTConfig, ViTForImageClassification
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

import benchmark
from benchmark.errors import UserError
from benchmark.evaluations.rationale.rationale import Rationale
from benchmark.types import Attribution, Example
from tests import text_models

PLAIN = {"do_resize": False}
RESIZED = {"size": {"height": 16, "width": 16}}
CROPPED = {"do_resize": False, "do_center_crop": True, "crop_size": {"height": 16, "width": 16}}
BOTH = {
    "size": {"shortest_edge": 20},
    "do_center_crop": True,
    "crop_size": {"height": 16, "width": 16},
}


@pytest.fixture(scope="module")
def vit():
    """Sixteen patches of 4 × 4 pixels."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    return ViTForImageClassification(ViTConfig(**sizes, image_size=16, patch_size=4, num_labels=2)).eval()


def encoded(vit, processor, *examples):
    model = benchmark.load_model(vit, processor=ViTImageProcessorPil(**processor), device="cpu")
    return model, model.encode_examples(examples, [0, 1])


def example(size, *boxes, mode="RGB"):
    """A black image [height, width]; boxes (top, left, bottom, right) are its mask."""
    mask = np.zeros(size, dtype=bool)
    for top, left, bottom, right in boxes:
        mask[top:bottom, left:right] = True
    return Example("x", Image.new(mode, (size[1], size[0])), 0, mask=mask)


@pytest.mark.parametrize(
    ("processor", "size", "boxes", "marked"),
    [
        (PLAIN, (16, 16), [(0, 0, 4, 4)], [0]),  # exactly the first patch
        (PLAIN, (16, 16), [(3, 3, 5, 5)], [0, 1, 4, 5]),  # one pixel in each of four
        (PLAIN, (16, 16), [(4, 8, 5, 9), (15, 15, 16, 16)], [6, 15]),
        (PLAIN, (16, 16), [], []),
        (RESIZED, (32, 32), [(0, 8, 8, 16)], [1]),  # half the size
        (RESIZED, (8, 8), [(2, 0, 3, 1)], [4]),  # twice the size
        (RESIZED, (16, 32), [(0, 24, 4, 32)], [3]),  # squeezed
        (CROPPED, (20, 24), [(2, 4, 3, 5)], [0]),  # two rows and four columns are cut on each side
        (CROPPED, (20, 24), [(0, 0, 2, 24), (2, 0, 20, 4)], []),  # the mask is cut away
        (CROPPED, (8, 16), [(0, 0, 8, 16)], [4, 5, 6, 7, 8, 9, 10, 11]),  # a small image is framed
        (BOTH, (40, 60), [(4, 14, 6, 16)], [0]),  # 40 × 60 → 20 × 30 → cut by 2 and 7
        (BOTH, (40, 60), [(0, 0, 4, 60), (36, 0, 40, 60)], []),
        (BOTH, (40, 60), [(20, 22, 28, 30)], [9]),  # rows 10 to 13, columns 11 to 14 of 20 × 30
    ],
)
def test_a_mask_goes_the_way_of_its_image(vit, processor, size, boxes, marked):
    _, batch = encoded(vit, processor, example(size, *boxes))
    assert batch.rationale[0].dtype == bool
    assert np.flatnonzero(batch.rationale[0]).tolist() == marked


@pytest.mark.parametrize("processor", [RESIZED, BOTH])
def test_mask_and_image_arrive_at_the_same_place(vit, processor):
    """An image that is white where its mask is shows white in marked patches alone."""
    generator = np.random.default_rng(0)
    for _ in range(20):
        height, width = generator.integers(20, 60, 2).tolist()
        top, left = generator.integers(0, [height - 8, width - 8]).tolist()
        one = example((height, width), (top, left, top + 8, left + 8))
        white = Image.fromarray(np.where(one.mask, 255, 0).astype(np.uint8)).convert("RGB")
        _, batch = encoded(vit, {**processor, "resample": 0}, Example("x", white, 0, mask=one.mask))
        lit = batch.tensors["pixel_values"][0, 0].reshape(4, 4, 4, 4).amax((1, 3)).flatten() > 0
        assert batch.rationale[0].tolist() == lit.tolist()


def test_a_margin_narrower_than_a_patch_belongs_to_none():
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    margin = ViTForImageClassification(ViTConfig(**sizes, image_size=18, patch_size=4, num_labels=2))
    _, batch = encoded(margin, {"do_resize": False}, example((18, 18), (16, 0, 18, 18), (0, 0, 1, 1)))
    assert np.flatnonzero(batch.rationale[0]).tolist() == [0]


def test_ready_pixels_have_their_mask_as_it_is(vit):
    mask = np.zeros((16, 16), dtype=bool)
    mask[9, 15] = True
    _, batch = encoded(vit, PLAIN, Example("x", {"pixel_values": torch.zeros(3, 16, 16)}, 0, mask=mask))
    assert np.flatnonzero(batch.rationale[0]).tolist() == [11]


def test_patches_are_rated_as_words_are(vit):
    model, batch = encoded(vit, PLAIN, example((16, 16), (0, 0, 8, 8)), example((16, 16), (8, 8, 16, 16)))
    marks = torch.tensor(np.stack(batch.rationale), dtype=torch.float64)
    areas = {}
    for name, scores in (("oracle", marks), ("inverted", -marks)):
        tokens = torch.nn.functional.pad(scores, (1, 0))
        rows = Rationale().rows(model, batch, Attribution(target=batch.label, tokens=tokens))
        areas[name] = rows[rows.metric == "auprc"].value.tolist()
    assert areas["oracle"] == [1]
    assert max(areas["inverted"]) < 0.3


def test_what_is_refused(vit):
    wrong = example((16, 16))
    with pytest.raises(UserError, match=r"^example 'x' has a mask of 16 × 15 pixels for an image of 16 × 16$"):
        encoded(vit, PLAIN, Example("x", wrong.inputs, 0, mask=wrong.mask[:, :15]))
    with pytest.raises(UserError, match=r"^example 'x' has a mask of 16 × 16 × 3 pixels"):
        encoded(vit, PLAIN, Example("x", wrong.inputs, 0, mask=np.ones((16, 16, 3))))
    with pytest.raises(UserError, match="both a mask and a rationale"):
        encoded(vit, PLAIN, Example("x", wrong.inputs, 0, rationale=np.ones(16, dtype=bool), mask=wrong.mask))
    with pytest.raises(UserError, match="a rationale of 9 marks for 16 patches"):
        encoded(vit, PLAIN, Example("x", wrong.inputs, 0, rationale=np.ones(9, dtype=bool)))
    with pytest.raises(UserError, match="its input is no PIL image: ndarray"):
        encoded(vit, PLAIN, Example("x", np.zeros((16, 16, 3), np.uint8), 0, mask=wrong.mask))
    with pytest.raises(UserError, match=r"images of 20 × 20 pixels have 25 patches of 4 × 4, and the model reads 16"):
        encoded(vit, PLAIN, example((20, 20)))


def test_a_text_has_no_mask(tmp_path):
    model = benchmark.load_model(text_models.save_bert(tmp_path), device="cpu")
    with pytest.raises(UserError, match="a mask of pixels, but the model reads texts"):
        model.encode_examples([Example("x", "good", 0, mask=np.ones((2, 2)))], [0, 1])


@pytest.mark.parametrize("mode", ["L", "1", "P", "CMYK", "RGBA", "LA", "PA", "YCbCr", "La"])
def test_every_mode_becomes_rgb(vit, mode):
    via = {"PA": "P", "La": "LA"}.get(mode, mode)
    grey = Image.new("RGB", (16, 16), (255, 255, 255)).convert(via).convert(mode)
    assert grey.mode == mode
    _, batch = encoded(vit, PLAIN, Example("x", grey, 0))
    assert torch.equal(batch.tensors["pixel_values"], torch.ones(1, 3, 16, 16))


def test_a_palette_keeps_its_colours_and_transparency_is_dropped(vit):
    colours = np.zeros((16, 16, 3), np.uint8)
    colours[:, :8] = (255, 0, 0)
    paletted = Image.fromarray(colours).convert("P")
    paletted.info["transparency"] = bytes([0] * 256)
    _, batch = encoded(
        vit, PLAIN, Example("x", paletted, 0), Example("y", Image.new("RGBA", (16, 16), (9, 9, 9, 0)), 1)
    )
    assert batch.tensors["pixel_values"][0, :, 0, 0].tolist() == [1, -1, -1]
    assert batch.tensors["pixel_values"][1, 0, 0, 0].item() == pytest.approx(9 / 127.5 - 1)


@pytest.mark.parametrize("mode", ["I;16", "I", "F"])
def test_more_than_eight_bits_are_cut_as_pillow_cuts_them(vit, mode, caplog):
    kind = {"I;16": np.uint16, "I": np.int32, "F": np.float32}[mode]
    image = Image.fromarray(np.full((16, 16), 300, dtype=kind))
    assert image.mode == mode
    _, batch = encoded(vit, PLAIN, Example("x", image, 0))
    assert torch.equal(batch.tensors["pixel_values"], torch.ones(1, 3, 16, 16))
    assert f"image 'x' has more than eight bits a channel (mode {mode}): values above 255 become 255" in caplog.text


def test_a_truncated_file_is_named(vit, tmp_path):
    noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3)).astype(np.uint8)
    Image.fromarray(noise).save(tmp_path / "whole.jpg")
    content = (tmp_path / "whole.jpg").read_bytes()
    (tmp_path / "half.jpg").write_bytes(content[: len(content) // 2])
    with Image.open(tmp_path / "half.jpg") as half, pytest.raises(UserError, match=r"^example 'x' .*truncated"):
        encoded(vit, RESIZED, Example("x", half, 0))


def test_the_mask_is_given_to_processors_of_any_kind(vit):
    """One that is no class of transformers is called as transformers' are."""
    calls = []

    def processor(images, **settings):
        calls.append(settings)
        arrays = [np.moveaxis(np.asarray(image), -1, 0) for image in images]
        stacked = np.stack(arrays)
        return {"pixel_values": torch.from_numpy(stacked) if settings["return_tensors"] == "pt" else stacked}

    model = benchmark.load_model(vit, processor=processor, device="cpu")
    calls.clear()  # loading shows it one image, for the fingerprint
    batch = model.encode_examples([example((16, 16), (0, 12, 1, 13))], [0, 1])
    assert np.flatnonzero(batch.rationale[0]).tolist() == [3]
    assert calls[-1] == {"return_tensors": "np", "do_rescale": False, "do_normalize": False, "resample": 0}
    assert calls[-2] == {"return_tensors": "pt"}
