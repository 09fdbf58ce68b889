"""A base model and a task made ready for transformers' trainer: a new classifier, encoded examples, and frozen blocks.

Texts are truncated as the comparison truncates them. Images are read as pixels, or as what the frozen blocks make of them.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Bool, Int
from PIL import Image
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModelForImageClassification,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    default_data_collator,
)

from benchmark.errors import UserError
from benchmark.models.checkpoints import image_processor
from benchmark.models.encoding import height_and_width
from benchmark.models.images import Losses, Patch, in_colours, without_patches
from benchmark.models.loading import NO_LIMIT
from benchmark.models.special_tokens import read_as_words
from benchmark.models.weights import from_source, load_weights
from benchmark.training.frozen import (
    CannotGoOn,
    check_going_on,
    freeze_before,
    go_on_from,
    last_frozen,
    read_once,
    with_states,
)
from benchmark.training.trainer import all_masked, masked, texts_of, with_hidden
from benchmark.types import Example, Task


@dataclass(frozen=True)
class Prepared:
    """A base model and a task, ready for transformers' trainer.

    Attributes:
        model: of transformers, with a classifier for the task's labels.
        encoder: its tokenizer or image processor, which is saved beside it.
        train, validation: mappings of model inputs and `labels`.
        collate: makes a batch of some of them.
        masks: hides words of a batch of texts, where the recipe asks for it.
    """

    model: Any
    encoder: Any
    train: Any
    validation: Any
    collate: Callable[[Any], Any]
    masks: "Masks | None" = None


@dataclass(frozen=True)
class Masks:
    """Hides tokens of texts behind the mask token; special tokens stay.

    Attributes:
        mask_id: the mask token.
        special: ids that are never hidden.
        share: the largest share that is hidden.
    """

    mask_id: int
    special: tuple[int, ...]
    share: float

    @staticmethod
    def of(tokenizer: Any, share: float, source: str) -> "Masks | None":
        """Those of a tokenizer; None where nothing is hidden, UserError where it has no mask token."""
        if not share:
            return None
        if tokenizer.mask_token_id is None:
            raise UserError(f"recipe.mask_share={share}: the base {source} has no mask token; set recipe.mask_share=0")
        unknown = getattr(tokenizer, "unk_token_id", None)
        special = tuple(int(number) for number in tokenizer.all_special_ids if number != unknown)
        return Masks(int(tokenizer.mask_token_id), special, share)

    def in_training(self, ids: Int[Tensor, "B T"]) -> Int[Tensor, "B T"]:
        """Half of the rows, drawn, with a share drawn for each (`trainer.masked`)."""
        return masked(ids, self._maskable(ids), self.mask_id, self.share)

    def held_out(self, items: Sequence[Mapping[str, Any]], seed: int) -> list[dict[str, Any]]:
        """A copy of encoded examples of which every one is masked, once and for all."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return [{**item, "input_ids": self._of(torch.tensor([item["input_ids"]]))} for item in items]

    def _of(self, ids: Int[Tensor, "1 T"]) -> list[int]:
        found: list[int] = all_masked(ids, self._maskable(ids), self.mask_id, self.share)[0].tolist()
        return found

    def _maskable(self, ids: Int[Tensor, "B T"]) -> Bool[Tensor, "B T"]:
        return ~torch.isin(ids, torch.tensor(self.special, device=ids.device))


def config_for(task: Task, source: str) -> Any:
    """The configuration of a base with the task's classes, one for each example, whatever the base was trained for."""
    config = from_source(
        AutoConfig,
        source,
        num_labels=len(task.labels),
        id2label=dict(enumerate(task.labels)),
        label2id={label: index for index, label in enumerate(task.labels)},
    )
    if getattr(config, "problem_type", None) is not None:
        config.problem_type = "single_label_classification"
    return config


def _new_classifier(auto: Any, source: str, config: Any, seed: int) -> Any:
    """The base in float32, with a classifier that is drawn by the seed where the base has none of this size."""
    torch.manual_seed(seed)
    return load_weights(auto, source, fresh_head=True, config=config, dtype=torch.float32)


def prepare_texts(
    task: Task,
    source: str,
    config: Any,
    seed: int,
    max_length: int | None,
    freeze: int,
    mask_share: float = 0.0,
    *,
    once: bool = False,
) -> Prepared:
    """A text classifier and the task's texts, truncated to its window or to `max_length`.

    With `freeze`, so many blocks and all that comes before them are left as they are; they still run, with dropout. With
    `once` they read every text once, without it, as `prepare_images` has it.

    Raises:
        UserError: the base has no tokenizer or fewer blocks, or cannot go on from states; or an example holds no text.
    """
    model = _new_classifier(AutoModelForSequenceClassification, source, config, seed)
    tokenizer = from_source(AutoTokenizer, source)
    if len(tokenizer) <= len(tokenizer.all_special_tokens):  # transformers makes an empty one where no file is found
        raise UserError(f"model.path={source} has no tokenizer; fine-tuning needs a base with its tokenizer files")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    model.config.pad_token_id = tokenizer.pad_token_id
    window = max_length or min(tokenizer.model_max_length, getattr(config, "max_position_embeddings", 512))
    train, validation = (
        _encode(tokenizer, task.split(split), min(window, NO_LIMIT)) for split in ("train", "validation")
    )
    collate: Callable[[Any], Any] = DataCollatorWithPadding(tokenizer)
    masks = Masks.of(tokenizer, mask_share, source)
    if freeze:
        last = last_frozen(model, source, freeze)
        inputs = {name: tensor for name, tensor in collate(train[:2]).items() if name != "labels"}
        freeze_before(model, last, inputs)
        if once:
            ordered = sorted(train, key=lambda item: len(item["input_ids"]))
            try:
                check_going_on(model, last, [ordered[0], ordered[-1]], collate, inputs)
                train, validation = (read_once(model, last, items, collate, "texts") for items in (train, validation))
            except CannotGoOn as error:
                raise UserError(
                    f"recipe.read_once=true: the base {source} cannot go on from what its first blocks make of a text; "
                    "leave it at false"
                ) from error
            go_on_from(model, last, inputs)
            collate = with_states(collate)
    return Prepared(model, tokenizer, train, validation, collate, masks)


def _encode(tokenizer: Any, examples: Sequence[Example], max_length: int) -> list[dict[str, Any]]:
    """Token ids and label of each example, truncated as the comparison truncates."""
    texts = [texts_of(example) for example in examples]
    if len({len(parts) for parts in texts}) != 1:
        raise UserError("the task mixes single texts and pairs, which one model cannot be trained on")
    reading = read_as_words(copy.deepcopy(tokenizer))
    encoded = reading(
        *map(list, zip(*texts, strict=True)),
        truncation="longest_first",
        max_length=max_length,
        return_offsets_mapping=True,
    )
    spans = encoded.pop("offset_mapping")
    encoded["input_ids"] = [
        with_hidden(ids, encoded.sequence_ids(row), spans[row], example, reading)
        for row, (ids, example) in enumerate(zip(encoded["input_ids"], examples, strict=True))
    ]
    return [
        {**{name: encoded[name][row] for name in encoded}, "labels": example.label}
        for row, example in enumerate(examples)
    ]


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
    model = _new_classifier(AutoModelForImageClassification, source, config, seed)
    channels = getattr(model.config, "num_channels", 3)
    patch = height_and_width(getattr(model.config, "patch_size", 1))
    train, validation = (Images(task.split(split), processor, channels, patch) for split in ("train", "validation"))
    if freeze == 0:
        return Prepared(model, processor, train, validation, default_data_collator)
    last, first = last_frozen(model, source, freeze), train[0]["pixel_values"]
    states, held_out = (
        read_once(model, last, images, default_data_collator, "images") for images in (train, validation)
    )
    freeze_before(model, last, {"pixel_values": first[None]})
    go_on_from(model, last, {"pixel_values": first[None]}, first.shape)
    return Prepared(model, processor, states, held_out, default_data_collator)


@dataclass(frozen=True)
class Images:
    """Examples as the model reads them, processed when they are asked for.

    Attributes:
        examples: images with labels.
        processor: of the checkpoint.
        channels: of the images that the model reads.
        patch: height and width of a patch, some of which an example may hide.
        losses: says what images lose on their way to the model.
    """

    examples: Sequence[Example]
    processor: Any
    channels: int = 3
    patch: Patch = (1, 1)
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
        pixels = self.processor(images=[image], return_tensors="pt")["pixel_values"]
        if example.hidden is not None:
            pixels = without_patches(pixels, torch.from_numpy(example.hidden)[None], self.patch, self.processor)
        return {"pixel_values": pixels[0], "labels": example.label}
