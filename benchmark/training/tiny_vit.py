"""The small image model of the embedded default: a ViT trained from scratch for a task on first use, then cached."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import torch
from jaxtyping import Float, Int, UInt8
from PIL import Image
from torch import Tensor

from benchmark.errors import UserError
from benchmark.models.images import Losses, in_colours
from benchmark.settings.declared import Above, AtLeast, Count, Natural, SettingError, Share, configurable
from benchmark.training.local_patches import look_around
from benchmark.training.small import LOADING, descend, named_classes, save_trained, trained_for
from benchmark.training.sources import Device, Dtype, Shape, Window
from benchmark.types import Example, Task

_VERSION = 1  # enters the cache's key: raise it when the training changes
_WHAT = "the tiny image model"
_CHUNK = 64  # images that are encoded or classified at once
_MEAN = _DEVIATION = 127.5  # pixels lie in [−1, 1], and black is −1
_BLACK = -1.0


@configurable
class TinyVit:
    """A `ViTForImageClassification` trained on the task's training split, with an image processor that resizes to its size.

    Trained in float32 on the CPU with AdamW, linear warm-up and decay; the same settings give the same weights on the
    same machine. It learns from labels alone, never from masks, so that no explainer is favoured. In half of the images of
    a batch a share of the patches that is drawn from [0, mask_share] is painted black: the model has then seen what the
    perturbation tests put in. The random state of the process is left as it was.

    The checkpoint is an ordinary directory in the cache, under a digest of task and settings; `training.json` beside the
    weights holds accuracies, seconds and settings.

    Attributes:
        seed: of the weights, the order of examples and the black patches.
        layers, heads, hidden, intermediate: shape of the encoder.
        image_size, patch_size: sides in pixels of the images that it reads, and of a patch.
        steps, batch_size, learning_rate, weight_decay: the training.
        mask_share: largest share of patches painted black in training.
        dtype, device, threads, window, max_tokens, memory_budget: how the comparison loads and runs it.
    """

    seed: Natural = 0
    layers: Count = 3
    heads: Count = 4
    hidden: Count = 64
    intermediate: Count = 128
    image_size: Count = 48
    patch_size: Count = 8
    steps: Count = 1500
    batch_size: Count = 32
    learning_rate: Annotated[float, Above(0)] = 3e-3
    weight_decay: Annotated[float, AtLeast(0)] = 0.05
    mask_share: Share = 0.15
    dtype: Dtype = "float32"
    device: Device = "auto"
    threads: Count | None = 1
    window: Window | None = None
    max_tokens: Count | None = None
    memory_budget: Count | None = None

    def __post_init__(self) -> None:
        if self.hidden % (4 * self.heads):
            raise SettingError("hidden", self.hidden, f"multiples of 4 × heads={self.heads}")
        if self.image_size % self.patch_size:
            raise SettingError("image_size", self.image_size, f"multiples of patch_size={self.patch_size}")

    @property
    def shape(self) -> Shape:
        """Of the model, before it is trained."""
        return Shape(self.layers, self.heads, None)

    def resolve(self, task: Task) -> str:
        """Directory of the checkpoint for a task; trains it where the cache has none.

        Raises:
            UserError: the task has no images, or fewer than two labels.
        """
        settings = {name: value for name, value in asdict(self).items() if name not in LOADING}
        return trained_for(
            task, "tiny_vit", _VERSION, settings, lambda folder: self._train(task, settings, folder), _WHAT
        )

    def _train(self, task: Task, settings: dict[str, Any], directory: Path) -> None:
        """Train on the task's training split and write checkpoint, image processor and `training.json`."""
        processor, model = self._new_processor(), self._new_model(task.labels)
        train = task.split("train")
        pixels, labels = _encode(processor, train)
        started = time.monotonic()
        self._fit(model, pixels, labels)

        def accuracy(split: str) -> float:
            return _accuracy(model, *_encode(processor, task.split(split)))

        record = {"examples": len(train), "settings": settings}
        save_trained(model, directory, _WHAT, started=started, accuracy=accuracy, record=record)
        processor.save_pretrained(directory)

    def _new_processor(self) -> Any:
        from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

        return ViTImageProcessorPil(size={"height": self.image_size, "width": self.image_size})

    def _new_model(self, labels: Sequence[str]) -> Any:
        from transformers import ViTConfig, ViTForImageClassification

        config = ViTConfig(
            hidden_size=self.hidden,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            intermediate_size=self.intermediate,
            image_size=self.image_size,
            patch_size=self.patch_size,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            **named_classes(labels),
        )
        model = ViTForImageClassification(config)
        model.set_attn_implementation("sdpa")
        side = self.image_size // self.patch_size
        look_around(model.vit, side, side)
        return model

    def _fit(self, model: Any, pixels: UInt8[Tensor, "N 3 H W"], labels: Int[Tensor, "N"]) -> None:
        optimizer = torch.optim.AdamW(
            model.parameters(), self.learning_rate, (0.9, 0.98), weight_decay=self.weight_decay
        )
        batches = _batches(len(pixels), self.batch_size)

        def loss() -> Tensor:
            rows = next(batches)
            images = self._blackened(_scaled(pixels[rows]))
            found: Tensor = model(pixel_values=images, labels=labels[rows]).loss
            return found

        descend(model, optimizer, self.steps, loss, _WHAT)

    def _blackened(self, images: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B 3 H W"]:
        """The images with some patches black, in half of them."""
        side = self.image_size // self.patch_size
        share = torch.rand(len(images), 1, 1) * self.mask_share * (torch.rand(len(images), 1, 1) < 0.5)
        hit = torch.rand(len(images), side, side) < share
        hit = hit.repeat_interleave(self.patch_size, 1).repeat_interleave(self.patch_size, 2)
        return torch.where(hit[:, None], _BLACK, images)


def _encode(processor: Any, examples: Sequence[Example]) -> tuple[UInt8[Tensor, "N 3 H W"], Int[Tensor, "N"]]:
    """Images at the model's size, not yet scaled, and labels."""
    chunks, labels, images, losses = [], [], [], Losses()
    for place, example in enumerate(examples, start=1):
        if not isinstance(example.inputs, Image.Image):
            raise UserError(f"example '{example.uid}' holds no image to train on; use model=tiny for texts")
        labels.append(example.label)
        images.append(in_colours(example.inputs, example.uid, losses))
        if len(images) == _CHUNK or place == len(examples):
            plain = processor(images=images, do_rescale=False, do_normalize=False, return_tensors="pt")
            chunks.append(plain["pixel_values"].to(torch.uint8))
            images = []
    return torch.cat(chunks), torch.tensor(labels)


def _scaled(pixels: UInt8[Tensor, "B 3 H W"]) -> Float[Tensor, "B 3 H W"]:
    """As the image processor scales them."""
    return (pixels.float() - _MEAN) / _DEVIATION


def _batches(count: int, batch_size: int) -> Iterator[Tensor]:
    """Endless passes over the examples in random order; the last batch of a pass may be smaller."""
    while True:
        yield from torch.split(torch.randperm(count), batch_size)


def _accuracy(model: Any, pixels: UInt8[Tensor, "N 3 H W"], labels: Int[Tensor, "N"]) -> float:
    with torch.no_grad():
        predicted = [model(pixel_values=_scaled(part)).logits.argmax(1) for part in torch.split(pixels, _CHUNK)]
    return float((torch.cat(predicted) == labels).double().mean())
