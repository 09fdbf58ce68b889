"""Removals from texts of causal models: what stands before the first removed token is computed once.

A token attends to none behind it. Keys and values of the tokens before a removal are therefore those of the whole text, and
a pass over a variant begins at its first change.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformers import DynamicCache

from benchmark.models.classifier import Classifier, Tensors
from benchmark.models.families import last_token
from benchmark.models.next_token import ASKED
from benchmark.models.variants import chunks
from benchmark.types import Batch

_OF_ANY_LENGTH = ("default", "linear", "llama3", "yarn")
"""Kinds of rotary positions that do not depend on how long the text is."""

_SHARE = 0.75  # of the tokens; above it, copying keys and values takes what is saved


def is_causal(model: Classifier) -> bool:
    """Whether keys and values of a token hang on those before it alone: decoders of the table with full attention."""
    if model.family.guessed or model.family.read != "last":
        return False
    config = model.config.get_text_config()
    full = all(kind == "full_attention" for kind in getattr(config, "layer_types", None) or ())
    rotary = getattr(config, "rope_parameters", None) or {}
    fixed = rotary.get("rope_type", "default") in _OF_ANY_LENGTH
    return full and fixed and not getattr(config, "sliding_window", None)


def before_the_first(gone: Bool[Tensor, "N T"], attended: Bool[Tensor, "N T"]) -> Int[Tensor, "N"]:
    """Tokens before the first that is gone; all but the last one where none is."""
    most = attended.sum(1) - 1
    return torch.where(gone.any(1), gone.int().argmax(1), most).minimum(most)


@dataclass(frozen=True)
class Lengths:
    """How long N variants are.

    Attributes:
        kept: tokens of each.
        known: those of them that stand before the first that is gone.
    """

    kept: Int[Tensor, "N"]
    known: Int[Tensor, "N"]

    @property
    def left(self) -> Int[Tensor, "N"]:
        """What is to be computed of each, the token that is read at least."""
        return (self.kept - self.known).clamp(min=1)

    def pays(self, model: Classifier, texts: int, most: int) -> bool:
        """Whether passes behind prefixes compute at most `_SHARE` of the tokens of whole passes.

        Args:
            model: the classifier.
            texts: tokens of the passes that keys and values come from.
            most: variants of one pass behind prefixes.
        """
        whole = sum(len(rows) * int(self.kept[rows].max()) for rows in chunks(self.kept, model))
        passes = chunks(self.left, model, most=most)
        behind = sum(len(rows) * int(self.kept[rows].max() - self.known[rows].min()) for rows in passes)
        return texts + behind <= _SHARE * whole


def rows_within(model: Classifier, n_tokens: int) -> int:
    """How many texts of so many tokens have keys and values that stay within the memory budget."""
    config = model.config.get_text_config()
    size: int = 2 * model.n_layers * config.hidden_size * torch.finfo(model.dtype).bits // 8
    return max(1, model.memory_budget // (size * n_tokens))


@dataclass(frozen=True)
class Prefixes:
    """Keys and values of whole texts.

    Attributes:
        model: a causal one.
        tensors: the texts.
        states: keys and values [B H T D] of each layer.
    """

    model: Classifier
    tensors: Tensors
    states: tuple[tuple[Tensor, Tensor], ...]

    @staticmethod
    def of(model: Classifier, batch: Batch) -> "Prefixes":
        """Those of a batch; one forward pass."""
        cache, width = DynamicCache(), batch.units.shape[1]
        model.run(batch, past=cache)
        states = ((layer.keys[:, :, :width], layer.values[:, :, :width]) for layer in cache.layers)
        return Prefixes(model, batch.tensors, tuple(states))

    def logits(self, changed: Tensors, example: Int[Tensor, "R"]) -> Float[Tensor, "R C"]:
        """Logits of changed texts, from the first token on in which any of them is another.

        Args:
            changed: inputs, no longer than the whole texts.
            example: the text that each was made from.
        """
        shared = int(self._shared(changed, example).min())
        if shared < 1:
            return self.model.run(changed).logits
        cache = DynamicCache()
        for layer, (keys, values) in enumerate(self.states):
            cache.update(keys[example, :, :shared], values[example, :, :shared], layer)
        behind = {
            name: tensor if name in ("attention_mask", *ASKED) else tensor[:, shared:]
            for name, tensor in changed.items()
        }
        return self.model.run(behind, past=cache).logits

    def _shared(self, changed: Tensors, example: Int[Tensor, "R"]) -> Int[Tensor, "R"]:
        """Tokens before the first that differs and before the one that the classifier reads."""
        ids = changed["input_ids"]
        other = torch.zeros_like(ids, dtype=torch.bool)
        for name, tensor in ((name, tensor) for name, tensor in changed.items() if name not in ASKED):
            other |= tensor != self.tensors[name][example, : ids.shape[1]]
        read = last_token(ids, self.model.config)
        return torch.where(other.any(1), other.int().argmax(1), read).minimum(read)
