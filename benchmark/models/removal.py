"""Removing units from an input: small operators, and the logits of many removals at once.

Defined in docs/protocols.md, section 8.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from benchmark.errors import UserError
from benchmark.models.classifier import Classifier, Tensors
from benchmark.models.encoding import height_and_width
from benchmark.models.fills import FILLS, Black, Blur, Fill, Inpaint, Mean, Noise, fill_for, painted
from benchmark.models.images import pixels_of
from benchmark.models.next_token import said_behind
from benchmark.models.prefixes import Lengths, Prefixes, before_the_first, is_causal, rows_within
from benchmark.models.variants import Variants, distinct, run_variants
from benchmark.types import Batch
from benchmark.units import tokens_of

TokenUnits = Int[Tensor, "N T"]
"""The unit of each token; -1: none."""

UnitMask = Bool[Tensor, "N U"]

OperatorName = Literal[
    "auto", "mask", "pad", "delete", "attention", "zero_embedding", "black", "mean", "blur", "noise", "inpaint"
]
"""A setting: `auto`, or a key of `OPERATORS`."""


@dataclass(frozen=True)
class Removed:
    """Model inputs after a removal, and what is to be done to the token embeddings, if anything."""

    tensors: dict[str, Tensor]
    embedding_edit: Callable[[Tensor], Tensor] | None = None


@runtime_checkable
class Operator(Protocol):
    """A way to remove units.

    `images` tells whether it serves images or texts (`None`: both), `shortens` whether rows get shorter, `of_tokens` whether
    it changes nothing but tensors that have a column per token.
    """

    images: ClassVar[bool | None] = False
    shortens: ClassVar[bool] = False
    of_tokens: ClassVar[bool] = True

    def __call__(self, model: Classifier, tensors: Tensors, units: TokenUnits, removed: UnitMask) -> Removed:
        """Remove the units `removed` of N rows, whose tokens belong to `units` (-1: none)."""
        ...


@dataclass(frozen=True)
class Mask(Operator):
    """Replace each token of a removed unit by the tokenizer's mask token."""

    def __call__(self, model: Classifier, tensors: Tensors, units: TokenUnits, removed: UnitMask) -> Removed:
        """Inputs with mask tokens."""
        if model.mask_token_id is None:
            raise ValueError("the model has no mask token")
        ids = tensors["input_ids"].masked_fill(tokens_of(units, removed), model.mask_token_id)
        return Removed({**tensors, "input_ids": ids})


@dataclass(frozen=True)
class Pad(Operator):
    """Replace each token of a removed unit by the padding token, still attended to.

    Classifiers of decoders take the last token that is not padding as the one to read: removing the last units moves it.
    A prompt of a language model stays as long as it was (`Encoder.removed_token_id`).
    """

    def __call__(self, model: Classifier, tensors: Tensors, units: TokenUnits, removed: UnitMask) -> Removed:
        """Inputs with padding tokens."""
        ids = tensors["input_ids"].masked_fill(tokens_of(units, removed), model.removed_token_id)
        return Removed({**tensors, "input_ids": ids})


@dataclass(frozen=True)
class Delete(Operator):
    """Drop the tokens of removed units, move the others (special tokens included) together and pad again.

    A row of which nothing is left becomes a single padding token, so that every row can be run.
    """

    shortens: ClassVar[bool] = True

    def __call__(self, model: Classifier, tensors: Tensors, units: TokenUnits, removed: UnitMask) -> Removed:
        """Shorter inputs."""
        attended = tensors.get("attention_mask", torch.ones_like(units)).bool()
        keep = attended & ~tokens_of(units, removed)
        width = max(1, int(keep.sum(1).max()))
        order = (~keep).to(torch.uint8).argsort(dim=1, stable=True)[:, :width]
        mask = keep.gather(1, order)
        shorter = {}
        for name, tensor in tensors.items():
            if name == "position_ids" or tensor.shape != units.shape:
                shorter[name] = tensor[:, :width] if tensor.shape == units.shape else tensor
            else:
                fill = model.pad_token_id if name == "input_ids" else 0
                shorter[name] = tensor.gather(1, order).masked_fill(~mask, fill)
        mask[:, 0] |= ~mask.any(1)
        shorter["attention_mask"] = mask.to(tensors.get("attention_mask", units).dtype)
        return Removed(shorter)


@dataclass(frozen=True)
class HideFromAttention(Operator):
    """Set the attention mask of removed tokens to 0: no other token attends to them; positions stay."""

    def __call__(self, model: Classifier, tensors: Tensors, units: TokenUnits, removed: UnitMask) -> Removed:
        """Inputs with another attention mask."""
        mask = tensors.get("attention_mask", torch.ones_like(units))
        return Removed({**tensors, "attention_mask": mask.masked_fill(tokens_of(units, removed), 0)})


@dataclass(frozen=True)
class ZeroEmbedding(Operator):
    """Set the token (or patch) embedding of removed units to 0; the position embedding stays."""

    images: ClassVar[bool | None] = None
    of_tokens: ClassVar[bool] = False

    def __call__(self, model: Classifier, tensors: Tensors, units: TokenUnits, removed: UnitMask) -> Removed:
        """The same inputs with an edit of the embeddings."""
        # the embedding module of an image model knows patches only, no CLS token
        gone = removed if "pixel_values" in tensors else tokens_of(units, removed)

        def edit(embeddings: Tensor) -> Tensor:
            """A continuation behind a text stays."""
            return embeddings.masked_fill(F.pad(gone, (0, embeddings.shape[1] - gone.shape[1]))[:, :, None], 0)

        return Removed(dict(tensors), edit)


@dataclass(frozen=True)
class Paint(Operator):
    """Paint removed patches with a fill."""

    fill: Fill
    images: ClassVar[bool | None] = True
    of_tokens: ClassVar[bool] = False

    def __call__(self, model: Classifier, tensors: Tensors, units: TokenUnits, removed: UnitMask) -> Removed:
        """Images with painted patches."""
        pixels = tensors["pixel_values"]
        gone = pixels_of(removed, height_and_width(model.config.patch_size), pixels.shape[2:])
        return Removed({**tensors, "pixel_values": painted(model, self.fill, pixels, gone)})


OPERATORS: Mapping[str, Callable[[], Operator]] = {
    "mask": Mask,
    "pad": Pad,
    "delete": Delete,
    "attention": HideFromAttention,
    "zero_embedding": ZeroEmbedding,
    "black": lambda: Paint(Black()),
    "mean": lambda: Paint(Mean()),
    "blur": lambda: Paint(Blur()),
    "noise": lambda: Paint(Noise()),
    "inpaint": lambda: Paint(Inpaint()),
}


def operator_for(name: str, model: Classifier, batch: Batch, setting: str) -> Operator:
    """The operator called `name`.

    `auto` is `mask` for texts (`delete` where the model has no mask token), and for images what `fill_for` takes.

    Raises:
        UserError: naming `setting`, for an unknown operator, or one that cannot serve this model.
    """
    images = "pixel_values" in batch.tensors
    has_mask = model.mask_token_id is not None
    if name == "auto":
        if images:
            return Paint(fill_for(name, model, setting))
        name = "mask" if has_mask else "delete"
    if name not in OPERATORS:
        raise UserError(f"{setting}={name} is unknown; allowed: auto, {', '.join(OPERATORS)}")
    operator = OPERATORS[name]()
    if operator.images not in (None, images):
        kind = "images" if images else "texts"
        fitting = [key for key, make in OPERATORS.items() if make().images in (None, images)]
        raise UserError(f"{setting}={name} cannot remove units from {kind}; allowed: auto, {', '.join(fitting)}")
    if name == "mask" and not has_mask:
        raise UserError(f"{setting}=mask needs a mask token and '{model.name}' has none; use delete, pad or attention")
    return Paint(fill_for(name, model, setting)) if name in FILLS else operator


def logits_without(
    model: Classifier,
    batch: Batch,
    removed: Bool[Tensor, "K B U"],
    operator: Operator,
) -> Float[Tensor, "K B C"]:
    """Logits after each of K removals from each example; equal removals are run once.

    Args:
        model: the classifier.
        batch: the examples.
        removed: which units are removed; U as `benchmark.units.pool` counts them.
        operator: how.
    """

    def run(tensors: Tensors, units: Tensor, mask: Tensor, example: Tensor) -> Tensor:
        inputs = operator(model, tensors, units, mask)
        return model.run(inputs.tensors, embedding_edit=inputs.embedding_edit).logits

    if operator.of_tokens and is_causal(model):
        texts, most = batch.units.numel(), rows_within(model, batch.units.shape[1])
        if _lengths(batch, operator, distinct(removed)).pays(model, texts, most):
            starts = range(0, len(batch), most)
            parts = [list(range(start, min(start + most, len(batch)))) for start in starts]
            behind = [_behind_prefixes(model, batch.select(part), removed[:, part], operator, most) for part in parts]
            return torch.cat(behind, dim=1)
    return run_variants(model, batch, removed, run, lengths=lambda variants: _lengths(batch, operator, variants).kept)


def _lengths(batch: Batch, operator: Operator, variants: Variants) -> Lengths:
    attended = batch.attention_mask[variants.example].bool()
    gone = tokens_of(batch.units[variants.example], variants.mask)
    kept = attended.sum(1) - (gone.sum(1) if operator.shortens else 0)
    return Lengths(kept + said_behind(batch.tensors), before_the_first(gone, attended))


def _behind_prefixes(
    model: Classifier, batch: Batch, removed: Bool[Tensor, "K B U"], operator: Operator, most: int
) -> Float[Tensor, "K B C"]:
    """`logits_without` of a causal model: each pass begins at the first token that any of its variants has lost."""
    prefixes = Prefixes.of(model, batch)

    def run(tensors: Tensors, units: Tensor, mask: Tensor, example: Tensor) -> Tensor:
        return prefixes.logits(operator(model, tensors, units, mask).tensors, example)

    def lengths(variants: Variants) -> Tensor:
        return _lengths(batch, operator, variants).left

    return run_variants(model, batch, removed, run, lengths=lengths, most=most)
