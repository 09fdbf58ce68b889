"""Fine-tuning image classifiers, from pixels or from what the frozen blocks make of them, which is kept."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn
from transformers import AutoModelForImageClassification, default_data_collator

from benchmark import progress
from benchmark.errors import UserError
from benchmark.models.checkpoints import image_processor
from benchmark.models.images import Losses, in_colours
from benchmark.training.frozen import freeze_before, last_frozen, output_of
from benchmark.training.prepared import Prepared, new_classifier
from benchmark.types import Example, Task

_AT_ONCE = 32  # images that the frozen blocks read at once


def prepare_images(task: Task, source: str, config: Any, seed: int, freeze: int) -> Prepared:
    """An image classifier and the task's images.

    With `freeze`, all that comes before the output of so many blocks is left as it is: it reads every image once, without
    dropout, and training goes on from there. The states are held in memory, 4 bytes × tokens × hidden size an image.

    Raises:
        UserError: the base has no image processor or fewer blocks, or an example is no image or has no label.
    """
    processor = image_processor(source)
    if processor is None:
        raise UserError(f"model.path={source} has no image processor; fine-tuning needs its preprocessor_config.json")
    model = new_classifier(AutoModelForImageClassification, source, config, seed)
    channels = getattr(model.config, "num_channels", 3)
    train, validation = (Images(task.split(split), processor, channels) for split in ("train", "validation"))
    if freeze == 0:
        return Prepared(model, processor, train, validation, default_data_collator)
    last = last_frozen(model, source, freeze)
    model.to("cuda" if torch.cuda.is_available() else "cpu").eval()
    states, held_out = (_states(model, last, images) for images in (train, validation))
    freeze_before(model, last, {"pixel_values": train[0]["pixel_values"][None]})
    _go_on_from(model, last, train[0]["pixel_values"].shape)
    return Prepared(model, processor, states, held_out, default_data_collator)


@dataclass(frozen=True)
class Images:
    """Examples as the model reads them, processed when they are asked for.

    Attributes:
        examples: images with labels.
        processor: of the checkpoint.
        channels: of the images that the model reads.
        losses: says what images lose on their way to the model.
    """

    examples: Sequence[Example]
    processor: Any
    channels: int = 3
    losses: Losses = field(default_factory=Losses, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Pixel values [3, H, W] and label; UserError for what has none."""
        example = self.examples[index]
        if not isinstance(example.inputs, Image.Image):
            raise UserError(f"example '{example.uid}' holds no image to train on; use a base that reads texts")
        if example.label < 0:
            raise UserError(f"example '{example.uid}' has no label to train on")
        image = in_colours(example.inputs, example.uid, self.losses, self.channels)
        return {
            "pixel_values": self.processor(images=[image], return_tensors="pt")["pixel_values"][0],
            "labels": example.label,
        }


def _states(model: nn.Module, last: nn.Module, images: Images) -> list[dict[str, Any]]:
    """What the frozen blocks make of each image, and its label."""
    kept: list[dict[str, Any]] = []
    with progress.step("reading the images once", len(images), unit="images") as advance, torch.no_grad():
        for start in range(0, len(images), _AT_ONCE):
            items = [images[index] for index in range(start, min(start + _AT_ONCE, len(images)))]
            states = output_of(model, last, {"pixel_values": torch.stack([item["pixel_values"] for item in items])})
            kept += [
                {"states": state.cpu(), "labels": item["labels"]} for state, item in zip(states, items, strict=True)
            ]
            advance(len(items))
    return kept


def _go_on_from(model: Any, last: nn.Module, shape: Sequence[int]) -> None:
    """Let the model's forward take the states behind `last`: the blocks up to it pass on what they are given.

    Everything before them still runs, on black pixels, and its outcome is replaced.
    """
    blocks = next(part for part in model.modules() if isinstance(part, nn.ModuleList) and last in part)
    frozen = blocks[: list(blocks).index(last) + 1]
    whole = model.forward

    def forward(states: Tensor, labels: Tensor | None = None) -> Any:
        given = states.to(next(model.parameters()).device)

        def passed_on(_: nn.Module, __: Any, output: Any) -> Any:
            return (given, *output[1:]) if isinstance(output, tuple) else given

        handle = last.register_forward_hook(passed_on)
        try:
            return whole(pixel_values=given.new_zeros((len(given), *shape)), labels=labels)
        finally:
            handle.remove()

    for block in frozen:
        block.forward = lambda hidden, *_, **__: hidden
    model.forward = forward
