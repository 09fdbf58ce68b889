"""Which tokens play which role: the start token, separators, punctuation; by role, since families spell them differently."""

from collections.abc import Mapping
from typing import Any, Literal, get_args

import torch
from jaxtyping import Bool
from torch import Tensor

from benchmark.models.classifier import Classifier
from benchmark.types import Batch

Role = Literal["start token", "separators", "punctuation"]
ROLES: tuple[Role, ...] = get_args(Role)
PUNCTUATION = (".", ",")
"""What Clark et al. 2019 count as punctuation."""


def token_roles(model: Classifier, batch: Batch) -> dict[Role, Bool[Tensor, "B T"]]:
    """Where the tokens of each role stand; roles that the model's input has no token of are left out.

    - `start token`: the tokenizer's classification token, else its beginning-of-sequence token, where it stands first
      ([CLS], <s>); of images the first special token.
    - `separators`: special tokens that the tokenizer calls its separator ([SEP], </s>).
    - `punctuation`: tokens of words that are "." or ",", of the tokenizer's own making.
    """
    special = (batch.units < 0) & batch.attention_mask
    first = torch.zeros_like(special)
    first[:, 0] = special[:, 0]
    found: dict[Role, Tensor] = {"start token": first}
    if (ids := batch.tensors.get("input_ids")) is not None and model.tokenizer is not None:
        separator = getattr(model.tokenizer, "sep_token_id", None)
        if separator is not None:
            found["separators"] = special & (ids == separator) & ~first
        marks = _ids_of(model.tokenizer, PUNCTUATION, ids)
        found["punctuation"] = marks & ~special & batch.attention_mask
    return {role: where for role, where in found.items() if role == "punctuation" or bool(where.any())}


def role_names(model: Classifier) -> Mapping[Role, str]:
    """How the model's tokenizer spells a role; empty where it does not."""
    tokenizer = model.tokenizer
    start = getattr(tokenizer, "cls_token", None) or getattr(tokenizer, "bos_token", None) or ""
    return {"start token": start, "separators": getattr(tokenizer, "sep_token", None) or "", "punctuation": ". and ,"}


def _ids_of(tokenizer: Any, marks: tuple[str, ...], ids: Tensor) -> Bool[Tensor, "B T"]:
    """Tokens whose text is one of the marks, white space around it aside."""
    chosen = [number for number in torch.unique(ids).tolist() if tokenizer.decode([number]).strip() in marks]
    return torch.isin(ids, ids.new_tensor(chosen))
