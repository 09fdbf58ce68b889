"""What an image shows in the place of removed pixels, be they patches or any others (docs/protocols.md, section 8)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import ClassVar, Literal, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from benchmark.errors import UserError
from benchmark.models.classifier import Classifier
from benchmark.models.encoding import height_and_width
from benchmark.models.images import black
from benchmark.models.variants import run_variants
from benchmark.randomness import generator
from benchmark.types import Batch

Pixels = Float[Tensor, "N C Y X"]
"""As the model reads them, after the image processor's normalisation."""

Gone = Bool[Tensor, "N Y X"]
"""The removed pixels."""

FillName = Literal["auto", "black", "mean", "blur", "noise", "inpaint"]
"""A setting: `auto`, or a key of `FILLS`."""

_RESIDUAL = 1e-9  # of the largest magnitude of an image: how far an inpainted pixel may be from its neighbours' mean


@runtime_checkable
class Fill(Protocol):
    """A colour for every pixel of every image, of which those of removed pixels are shown.

    `needs_processor` tells whether it asks the checkpoint's image processor, which knows what black is.
    """

    needs_processor: ClassVar[bool] = False

    def __call__(self, model: Classifier, pixels: Pixels, gone: Gone) -> Pixels:
        """What is shown where pixels are gone; it can be expanded to the shape of `pixels`."""
        ...


@dataclass(frozen=True)
class Black(Fill):
    """Pixel value 0 before the image processor's normalisation (Chefer 2021a)."""

    needs_processor: ClassVar[bool] = True

    def __call__(self, model: Classifier, pixels: Pixels, gone: Gone) -> Pixels:
        """One colour."""
        return black(pixels, model.encoder.processor)


@dataclass(frozen=True)
class Mean(Fill):
    """The mean colour of the whole image."""

    def __call__(self, model: Classifier, pixels: Pixels, gone: Gone) -> Pixels:
        """One colour for each image."""
        return pixels.mean((2, 3), keepdim=True).expand_as(pixels)


@dataclass(frozen=True)
class Blur(Fill):
    """The image convolved with a Gaussian whose standard deviation is the height of a patch."""

    def __call__(self, model: Classifier, pixels: Pixels, gone: Gone) -> Pixels:
        """Blurred images."""
        height, _ = height_and_width(model.config.patch_size)
        return _blurred(pixels, float(height))


@dataclass(frozen=True)
class Noise(Fill):
    """Independent normal noise with the image's own mean and standard deviation in each channel; it is not clipped.

    An image seeds its noise by its own values: every method, fraction and batch meets the same.
    """

    def __call__(self, model: Classifier, pixels: Pixels, gone: Gone) -> Pixels:
        """Noise for each image."""
        drawn: dict[str, Tensor] = {}
        rows = []
        for image in pixels.double().cpu():
            values = image.numpy()
            key = blake2b(values.tobytes(), digest_size=16).hexdigest()
            if key not in drawn:
                drawn[key] = torch.from_numpy(generator(0, "noise", key).standard_normal(values.shape))
            rows.append(drawn[key])
        noise = torch.stack(rows).to(pixels)
        deviation, mean = torch.std_mean(pixels, dim=(2, 3), correction=0, keepdim=True)
        return mean + deviation * noise


@dataclass(frozen=True)
class Inpaint(Fill):
    """Every removed pixel is the weighted mean of its eight neighbours, removed ones included.

    x_p = Σ_q w_pq x_q / Σ_q w_pq over the neighbours q in the image, w 1/6 for those beside and 1/12 for those across:
    the linear imputation of ROAD (Rong et al. 2022) without its noise. The equations of all removed pixels are solved
    together. An image of which nothing is left takes its mean colour, as no neighbour is known.
    """

    def __call__(self, model: Classifier, pixels: Pixels, gone: Gone) -> Pixels:
        """Images without a hole."""
        return inpainted(pixels, gone)


FILLS: Mapping[str, Callable[[], Fill]] = {
    "black": Black,
    "mean": Mean,
    "blur": Blur,
    "noise": Noise,
    "inpaint": Inpaint,
}


def fill_for(name: str, model: Classifier, setting: str) -> Fill:
    """The fill called `name`; `auto` is `black`, or `mean` where the model has no image processor.

    Raises:
        UserError: naming `setting`, for an unknown fill, or one that cannot serve this model.
    """
    has_processor = model.encoder.processor is not None
    if name == "auto":
        name = "black" if has_processor else "mean"
    if name not in FILLS:
        raise UserError(f"{setting}={name} is unknown; allowed: auto, {', '.join(FILLS)}")
    fill = FILLS[name]()
    if fill.needs_processor and not has_processor:
        raise UserError(f"{setting}={name} needs an image processor and '{model.name}' has none; use mean or blur")
    return fill


def painted(model: Classifier, fill: Fill, pixels: Pixels, gone: Gone) -> Pixels:
    """Images whose removed pixels show the fill."""
    return torch.where(gone[:, None], fill(model, pixels, gone), pixels)


def logits_painted(
    model: Classifier, batch: Batch, gone: Bool[Tensor, "K B Y X"], fill: Fill
) -> Float[Tensor, "K B C"]:
    """Logits after each of K removals of pixels from each image; equal removals are run once."""
    size = gone.shape[2:]

    def run(tensors: Mapping[str, Tensor], units: Tensor, mask: Tensor, example: Tensor) -> Tensor:
        pixels = painted(model, fill, tensors["pixel_values"], mask.reshape(len(mask), *size))
        return model.run({**tensors, "pixel_values": pixels}).logits

    return run_variants(model, batch, gone.flatten(2), run)


def inpainted(pixels: Pixels, gone: Gone) -> Pixels:
    """See `Inpaint`; conjugate gradients in float64, each image and channel to its own end."""
    values, hole = pixels.double(), gone[:, None].expand_as(pixels)
    weight = _of_neighbours(torch.ones_like(values[:1, :1]))
    known = values.masked_fill(hole, 0)
    solution = torch.where(hole, values.mean((2, 3), keepdim=True).expand_as(values), 0)

    def apart(x: Tensor) -> Tensor:
        return (weight * x - _of_neighbours(x)).masked_fill(~hole, 0)

    residual = _of_neighbours(known).masked_fill(~hole, 0) - apart(solution)
    direction, squared = residual.clone(), _dot(residual, residual)
    enough = _RESIDUAL * values.abs().amax((2, 3), keepdim=True)
    for _ in range(int(gone.sum((1, 2)).max()) if len(gone) else 0):
        unsolved = residual.abs().amax((2, 3), keepdim=True) > enough
        if not bool(unsolved.any()):
            break
        moved = apart(direction)
        step = torch.where(unsolved, squared / _dot(direction, moved).where(unsolved, 1), 0)
        solution, residual = solution + step * direction, residual - step * moved
        following = _dot(residual, residual)
        direction = residual + torch.where(unsolved, following / squared.where(unsolved, 1), 0) * direction
        squared = following
    return (known + solution).to(pixels.dtype)


def _dot(one: Pixels, other: Pixels) -> Float[Tensor, "N C 1 1"]:
    return (one * other).sum((2, 3), keepdim=True)


def _of_neighbours(x: Pixels) -> Pixels:
    """Weighted sum over the eight neighbours; there are none beyond the border."""
    height, width = x.shape[2:]
    framed = F.pad(x, (1, 1, 1, 1))
    across = framed[..., :width] + 2 * framed[..., 1:-1] + framed[..., 2:]
    both = across[..., :height, :] + 2 * across[..., 1:-1, :] + across[..., 2:, :]
    return (both - 4 * x) / 12


def _blurred(pixels: Tensor, deviation: float) -> Tensor:
    """Separable Gaussian blur; the image is continued by its border."""
    radius = int(3 * deviation)
    offset = torch.arange(-radius, radius + 1, dtype=pixels.dtype, device=pixels.device)
    kernel = torch.exp(-0.5 * (offset / deviation) ** 2)
    kernel = (kernel / kernel.sum()).expand(pixels.shape[1], 1, -1)
    wide = F.pad(pixels, (radius, radius, radius, radius), mode="replicate")
    wide = F.conv2d(wide, kernel[:, :, None, :], groups=pixels.shape[1])
    return F.conv2d(wide, kernel[:, :, :, None], groups=pixels.shape[1])
