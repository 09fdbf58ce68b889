"""The small image model of a default task: a ViT trained from scratch for a task on first use, then cached."""

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int, UInt8
from PIL import Image
from torch import Tensor

from benchmark.errors import UserError
from benchmark.models.images import Losses, in_colours, pixels_of
from benchmark.settings.declared import Above, AtLeast, Count, SettingError, configurable
from benchmark.training.small import AT_ONCE, Small
from benchmark.training.sources import Shape
from benchmark.types import Example

_MEAN = _DEVIATION = 127.5  # pixels lie in [−1, 1], and black is −1
_BLACK = -1.0

_BESIDE = ((0, 1), (1, 0), (0, -1), (-1, 0))
_ACROSS = ((1, 1), (1, -1), (-1, 1), (-1, -1))
_OFFSETS = (_BESIDE, _ACROSS)
"""By layer, rows and columns from a query to the patch that each of its heads looks at."""

_FREQUENCIES = (1.6, 0.2)  # radians a patch, the highest and the lowest
_POSITION_SCALE = 0.3
_PATCH_SCALE = 2.0  # of the projection of patches, relative to the start of transformers: as loud as positions
_SHARPNESS = 2.0


@configurable
class TinyVit(Small):
    """A `ViTForImageClassification` trained on the task's training split, with an image processor that resizes to its size.

    Trained in float32 on the CPU with AdamW, linear warm-up and decay; the same settings give the same weights on the
    same machine. It learns from labels alone, never from masks, so that no explainer is favoured. In half of the images of
    a batch a share of the patches that is drawn from [0, mask_share] is painted black: the model has then seen what the
    perturbation tests put in. The random state of the process is left as it was.

    The checkpoint is an ordinary directory in the cache, under a digest of task and settings; `training.json` beside the
    weights holds accuracies, seconds and settings.

    Attributes:
        image_size, patch_size: sides in pixels of the images that it reads, and of a patch.
    """

    kind: ClassVar[str] = "tiny_vit"
    learns_hidden: ClassVar[Literal[True]] = True
    what: ClassVar[str] = "the tiny image model"

    layers: Count = 3
    image_size: Count = 48
    patch_size: Count = 8
    steps: Count = 1500
    learning_rate: Annotated[float, Above(0)] = 3e-3
    weight_decay: Annotated[float, AtLeast(0)] = 0.05

    def __post_init__(self) -> None:
        if self.hidden % (4 * self.heads):
            raise SettingError("hidden", self.hidden, f"multiples of 4 × heads={self.heads}")
        if self.image_size % self.patch_size:
            raise SettingError("image_size", self.image_size, f"multiples of patch_size={self.patch_size}")

    @property
    def shape(self) -> Shape:
        """Of the model, before it is trained."""
        return Shape(self.layers, self.heads, None)

    def _new_encoder(self, train: Sequence[Example]) -> Any:
        from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

        return ViTImageProcessorPil(size={"height": self.image_size, "width": self.image_size})

    def _new_model(self, labels: Sequence[str], encoder: Any = None) -> Any:
        from transformers import ViTConfig, ViTForImageClassification

        config = ViTConfig(image_size=self.image_size, patch_size=self.patch_size, **self._config(labels))
        model = ViTForImageClassification(config)
        model.set_attn_implementation("sdpa")
        side = self.image_size // self.patch_size
        look_around(model.vit, side, side)
        return model

    def _encoded(self, encoder: Any, examples: Sequence[Example]) -> UInt8[Tensor, "N 3 H W"]:
        """Images at the model's size, not yet scaled."""
        chunks, images, losses = [], [], Losses()
        for place, example in enumerate(examples, start=1):
            if not isinstance(example.inputs, Image.Image):
                raise UserError(f"example '{example.uid}' holds no image to train on; use model=tiny for texts")
            images.append(in_colours(example.inputs, example.uid, losses))
            if len(images) == AT_ONCE or place == len(examples):
                plain = encoder(images=images, do_rescale=False, do_normalize=False, return_tensors="pt")
                chunks.append(plain["pixel_values"].to(torch.uint8))
                images = []
        found = torch.cat(chunks)
        patch, size = (self.patch_size, self.patch_size), found.shape[2:]
        for image, example in zip(found, examples, strict=True):
            if example.hidden is not None:
                image.masked_fill_(pixels_of(torch.from_numpy(example.hidden)[None], patch, size), 0)
        return found

    def _optimizer(self, model: Any) -> torch.optim.Optimizer:
        return torch.optim.AdamW(model.parameters(), self.learning_rate, (0.9, 0.98), weight_decay=self.weight_decay)

    def _losses(
        self, model: Any, inputs: UInt8[Tensor, "N 3 H W"], labels: Int[Tensor, "N"]
    ) -> Iterator[Float[Tensor, ""]]:
        for rows in _passes(len(inputs), self.batch_size):
            yield model(pixel_values=self._blackened(_scaled(inputs[rows])), labels=labels[rows]).loss

    def _blackened(self, images: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B 3 H W"]:
        """The images with some patches black, in half of them."""
        side = self.image_size // self.patch_size
        share = torch.rand(len(images), 1, 1) * self.mask_share * (torch.rand(len(images), 1, 1) < 0.5)
        hit = torch.rand(len(images), side, side) < share
        hit = hit.repeat_interleave(self.patch_size, 1).repeat_interleave(self.patch_size, 2)
        return torch.where(hit[:, None], _BLACK, images)

    def _predicted(self, model: Any, inputs: UInt8[Tensor, "N 3 H W"]) -> Int[Tensor, "N"]:
        return torch.cat([model(pixel_values=_scaled(part)).logits.argmax(1) for part in torch.split(inputs, AT_ONCE)])


def _scaled(pixels: UInt8[Tensor, "B 3 H W"]) -> Float[Tensor, "B 3 H W"]:
    """As the image processor scales them."""
    return (pixels.float() - _MEAN) / _DEVIATION


def _passes(count: int, batch_size: int) -> Iterator[Tensor]:
    """Endless passes over the examples in random order; the last batch of a pass may be smaller."""
    while True:
        yield from torch.split(torch.randperm(count), batch_size)


def look_around(vit: Any, rows: int, columns: int) -> None:
    """Let the heads of the first two layers start as windows on the patches around; every weight is trained afterwards.

    The patch in row r and column c has the position (sin ω_k r, cos ω_k r, sin ω_k c, cos ω_k c) over fours of dimensions.
    A head's keys start as the fours of the d/4 frequencies it has room for, its queries as the same turned by its offset,
    so that its score is largest there. From a random start, many times the steps are needed until patches are put together.

    Args:
        vit: a `ViTModel` whose width is a multiple of 4 × heads; changed in place.
        rows, columns: of patches.
    """
    width, heads = vit.config.hidden_size, vit.config.num_attention_heads
    highest, lowest = map(math.log10, _FREQUENCIES)
    frequency = torch.logspace(highest, lowest, width // 4)
    places = torch.cartesian_prod(torch.arange(rows), torch.arange(columns))
    angle = places[:, None, :] * frequency[None, :, None]
    waves = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)
    size = width // heads
    taken = torch.linspace(0, width // 4 - 1, size // 4).round().long()
    with torch.no_grad():
        vit.embeddings.patch_embeddings.projection.weight.mul_(_PATCH_SCALE)
        position = vit.embeddings.position_embeddings
        position.zero_()
        position[0, 1:] = _POSITION_SCALE * waves
        for layer, offsets in zip(vit.layers, _OFFSETS, strict=False):
            for head in range(heads):
                query, key = _turned(frequency, taken, offsets[head % len(offsets)], width)
                own = slice(head * size, head * size + len(query))
                layer.attention.q_proj.weight[own] = _SHARPNESS * query
                layer.attention.k_proj.weight[own] = _SHARPNESS * key


def _turned(
    frequency: Float[Tensor, "K"], taken: Tensor, offset: tuple[int, int], width: int
) -> tuple[Float[Tensor, "R D"], Float[Tensor, "R D"]]:
    """Query and key projections [4 × taken, width] whose product is largest at the offset."""
    query, key = torch.zeros(4 * len(taken), width), torch.zeros(4 * len(taken), width)
    for index, place in enumerate(taken.tolist()):
        for axis in range(2):
            turn = offset[axis] * frequency[place]
            row, column = 4 * index + 2 * axis, 4 * place + 2 * axis
            key[row, column] = key[row + 1, column + 1] = 1
            query[row, column], query[row, column + 1] = turn.cos(), turn.sin()
            query[row + 1, column], query[row + 1, column + 1] = -turn.sin(), turn.cos()
    return query, key
