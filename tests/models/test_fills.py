"""What stands in the place of removed pixels: each fill by hand on 4 × 4 pixels, and one image at a time."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from transformers import ViTConfig, ViTForImageClassification

import benchmark
from benchmark.errors import UserError
from benchmark.models.fills import FILLS, fill_for, inpainted, logits_painted, painted
from benchmark.models.removal import OPERATORS, logits_without

SETTING = "evaluations.pixel_perturbation.fill"


def classifier(side, patch):
    """A random one without an image processor."""
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    config = ViTConfig(**sizes, image_size=side, patch_size=patch, num_labels=2, initializer_range=0.5)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = ViTForImageClassification(config).eval().double()
    return benchmark.load_model(module, device="cpu", dtype="float64")


def processed(side, patch, mean, deviation):
    """The same with one, of these moments."""
    model = classifier(side, patch)
    processor = SimpleNamespace(image_mean=mean, image_std=deviation)
    return replace(model, encoder=replace(model.encoder, processor=processor))


MODEL = processed(4, 2, [0.5, 0.4, 0.2], [0.5, 0.2, 0.1])


@pytest.fixture(scope="module")
def vit():
    """Sixteen patches of 4 × 4 pixels; without an image processor."""
    return classifier(16, 4)


def pictures(n=2, size=4, seed=0):
    return torch.randn(n, 3, size, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def holes(n=2, size=4, seed=1, share=0.5):
    return torch.rand(n, size, size, generator=torch.Generator().manual_seed(seed)) < share


def dense(image, gone):
    """The equations of all removed pixels, written out and solved at once."""
    height, width = gone.shape
    places = [(r, c) for r in range(height) for c in range(width) if gone[r, c]]
    matrix, right = torch.zeros(len(places), len(places)).double(), torch.zeros(len(places), 3).double()
    for i, (r, c) in enumerate(places):
        for down in (-1, 0, 1):
            for across in (-1, 0, 1):
                row, column = r + down, c + across
                if (down, across) == (0, 0) or not (0 <= row < height and 0 <= column < width):
                    continue
                weight = 1 / 6 if 0 in (down, across) else 1 / 12
                matrix[i, i] += weight
                if gone[row, column]:
                    matrix[i, places.index((row, column))] -= weight
                else:
                    right[i] += weight * image[:, row, column]
    filled = image.clone()
    for (r, c), colour in zip(places, torch.linalg.solve(matrix, right), strict=True):
        filled[:, r, c] = colour
    return filled


@pytest.mark.parametrize("name", FILLS)
def test_only_removed_pixels_change(name):
    images, gone = pictures(), holes()
    result = painted(MODEL, FILLS[name](), images, gone)
    changed = (result != images).any(1)
    assert changed.equal(gone)
    assert result.dtype == images.dtype
    assert painted(MODEL, FILLS[name](), images, torch.zeros_like(gone)).equal(images)


def test_black_and_mean_are_one_colour():
    images, gone = pictures(), holes()
    black, mean = (painted(MODEL, FILLS[name](), images, gone) for name in ("black", "mean"))
    for b in range(2):
        for channel, zero in enumerate((-1.0, -2.0, -2.0)):
            assert black[b, channel][gone[b]].tolist() == pytest.approx([zero] * int(gone[b].sum()))
            average = sum(images[b, channel].flatten().tolist()) / 16
            assert mean[b, channel][gone[b]].tolist() == pytest.approx([average] * int(gone[b].sum()))


def test_blur_is_a_gaussian_of_the_size_of_a_patch():
    image = pictures(1)
    blurred = FILLS["blur"]()(MODEL, image, holes(1))
    offsets = torch.arange(-6, 7)
    weight = torch.exp(-0.5 * (offsets.double() / 2) ** 2)
    weight /= weight.sum()
    for row in range(4):
        for column in range(4):
            rows, columns = ((place + offsets).clamp(0, 3) for place in (row, column))
            expected = (image[0][:, rows][:, :, columns] * weight[:, None] * weight).sum((1, 2))
            assert torch.allclose(blurred[0, :, row, column], expected)


def test_noise_has_the_moments_of_the_image_and_hangs_on_it_alone():
    images = 0.3 * pictures(3, 64) + torch.tensor([1.0, 0.0, -2.0])[:, None, None]
    everything = torch.ones(3, 64, 64, dtype=torch.bool)
    noise = FILLS["noise"]()(MODEL, images, everything)
    assert torch.allclose(noise.mean((2, 3)), images.mean((2, 3)), atol=0.02)
    assert torch.allclose(noise.std((2, 3)), images.std((2, 3)), rtol=0.06)
    alone = FILLS["noise"]()(MODEL, images[1:2], everything[1:2])
    assert alone[0].equal(noise[1])
    again = FILLS["noise"]()(MODEL, images[[1, 2, 1]], everything)
    assert again.equal(noise[[1, 2, 1]])
    assert not torch.allclose(noise[0] - images[0].mean(), noise[1] - images[1].mean())
    cut = noise[0][:, :32].flatten() - noise[0][:, 32:].flatten()
    assert cut.abs().min() < cut.abs().max()  # not one row again and again


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_inpainting_solves_the_equations_of_all_removed_pixels(share):
    images, gone = pictures(4), holes(4, share=share)
    gone[0, 0, 0] = gone[1, 3, 1] = False  # something is left
    assert torch.allclose(inpainted(images, gone)[0], dense(images[0], gone[0]), atol=1e-7)
    together = inpainted(images, gone)
    for b in range(4):
        if not gone[b].all():
            assert torch.allclose(together[b], dense(images[b], gone[b]), atol=1e-7)
        assert torch.allclose(together[b], inpainted(images[b : b + 1], gone[b : b + 1])[0], atol=1e-7)


def test_inpainting_by_hand():
    image, gone = pictures(1), torch.zeros(1, 4, 4, dtype=torch.bool)
    gone[0, 0, 0] = gone[0, 2, 2] = True
    filled, x = inpainted(image, gone)[0], image[0]
    assert torch.allclose(filled[:, 0, 0], (2 * x[:, 0, 1] + 2 * x[:, 1, 0] + x[:, 1, 1]) / 5)
    beside = x[:, 1, 2] + x[:, 3, 2] + x[:, 2, 1] + x[:, 2, 3]
    across = x[:, 1, 1] + x[:, 1, 3] + x[:, 3, 1] + x[:, 3, 3]
    assert torch.allclose(filled[:, 2, 2], beside / 6 + across / 12)


def test_inpainting_keeps_a_flat_image_and_a_slope_and_knows_an_empty_one():
    slope = torch.arange(12.0).double()[None, None, :, None].expand(1, 3, 12, 12)
    inside = torch.zeros(1, 12, 12, dtype=torch.bool)
    inside[0, 2:10, 1:11] = True
    assert torch.allclose(inpainted(slope, inside), slope, atol=1e-6)  # harmonic
    flat = torch.full((1, 3, 12, 12), 0.7, dtype=torch.float32)
    assert torch.allclose(inpainted(flat, inside), flat)
    image = pictures(1)
    nothing = inpainted(image, torch.ones(1, 4, 4, dtype=torch.bool))
    assert torch.allclose(nothing, image.mean((2, 3), keepdim=True).expand_as(image))


@pytest.mark.parametrize("name", ["mean", "blur", "noise", "inpaint"])
def test_removing_a_patch_is_removing_its_pixels(vit, name):
    batch = vit.encode([{"pixel_values": p} for p in pictures(2, 16)])
    patches = holes(2, 4).reshape(1, 2, 16)
    pixels = patches.reshape(1, 2, 4, 4).repeat_interleave(4, 2).repeat_interleave(4, 3)
    by_patch = logits_without(vit, batch, patches, OPERATORS[name]())
    by_pixel = logits_painted(vit, batch, pixels, FILLS[name]())
    assert torch.allclose(by_patch, by_pixel, atol=1e-10)
    assert not torch.allclose(by_patch[0], vit.run(batch).logits, atol=1e-6)


@pytest.mark.parametrize("name", ["mean", "noise", "inpaint"])
def test_logits_do_not_hang_on_how_rows_are_put_together(vit, name):
    images = pictures(2, 16)
    batch = vit.encode([{"pixel_values": p} for p in images])
    gone = torch.stack([holes(2, 16, seed=seed) for seed in range(4)])
    fast = logits_painted(replace(vit, max_tokens=40), batch, gone, FILLS[name]())
    for k in range(4):
        for b in range(2):
            one = painted(vit, FILLS[name](), images[b : b + 1], gone[k, b : b + 1])
            assert torch.allclose(fast[k, b], vit.run({"pixel_values": one}).logits[0], atol=1e-7)


def test_a_fill_that_cannot_serve_names_the_setting(vit):
    assert type(fill_for("auto", vit, SETTING)).__name__ == "Mean"
    for name, words in (("black", "needs an image processor"), ("grey", "is unknown; allowed: auto, black")):
        with pytest.raises(UserError, match=rf"{SETTING}={name} {words}"):
            fill_for(name, vit, SETTING)
