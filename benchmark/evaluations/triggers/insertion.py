"""Insert words into encoded texts at relative positions, many at once and without decoding (Hao 2021)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from benchmark.errors import NotApplicable
from benchmark.evaluations.triggers.patterns import Trigger
from benchmark.evaluations.triggers.words import pieces
from benchmark.models import Classifier

GONE = torch.iinfo(torch.long).max
"""Sorts last: the key of a token that is not kept."""


@dataclass(frozen=True)
class Encoded:
    """N triggers in a model's tokens, K at most; `present` tells the tokens from the filling.

    Attributes:
        ids: token ids.
        present: False for filling.
        segment: see `Placed`.
        position: see `Placed`.
    """

    ids: Int[Tensor, "N K"]
    present: Bool[Tensor, "N K"]
    segment: Int[Tensor, "N K"]
    position: Float[Tensor, "N K"]

    def __getitem__(self, rows: Int[Tensor, "R"]) -> "Encoded":
        return Encoded(self.ids[rows], self.present[rows], self.segment[rows], self.position[rows])


@dataclass(frozen=True)
class Inserted:
    """Model inputs with the triggers in them, padded on the right, and the column at which each trigger token stands."""

    tensors: dict[str, Tensor]
    places: Int[Tensor, "N K"]


@dataclass(frozen=True)
class Segments:
    """Where the segments of each row begin and how many tokens they have; how many of its segment are before each token."""

    start: Int[Tensor, "N S"]
    length: Int[Tensor, "N S"]
    rank: Int[Tensor, "N T"]


def encode(model: Classifier, triggers: Sequence[Trigger]) -> Encoded:
    """Spell triggers in the model's tokens; all pieces of a word share its place."""
    return encoded(model, triggers, pieces(model, [word.word for trigger in triggers for word in trigger.words]))


def encoded(model: Classifier, triggers: Sequence[Trigger], spelled: Sequence[Sequence[int]]) -> Encoded:
    """Triggers whose words, one after the other, are spelled with these token ids.

    Raises:
        NotApplicable: a word is spelled with no token at all.
    """
    following = iter(spelled)
    columns: dict[str, list[Tensor]] = {"ids": [], "segment": [], "position": []}
    for trigger in triggers:
        words = [(word, next(following)) for word in trigger.words]
        if silent := [word.word for word, ids in words if not ids]:
            raise NotApplicable(f"the tokenizer has no token for the word '{silent[0]}'")
        columns["ids"].append(torch.tensor([index for _, ids in words for index in ids], dtype=torch.long))
        columns["segment"].append(torch.tensor([word.segment for word, ids in words for _ in ids], dtype=torch.long))
        columns["position"].append(
            torch.tensor([word.position for word, ids in words for _ in ids], dtype=torch.double)
        )
    pad = partial(torch.nn.utils.rnn.pad_sequence, batch_first=True)
    present = pad([torch.ones_like(ids) for ids in columns["ids"]]).bool()
    padded = {name: pad(rows).to(model.device) for name, rows in columns.items()}
    return Encoded(present=present.to(model.device), **padded)


def segments(model: Classifier, tensors: Mapping[str, Tensor], units: Int[Tensor, "N T"]) -> Int[Tensor, "N T"]:
    """The segment of each token, from 0; -1 for padding and for the special tokens around and between segments.

    Segments are what special tokens separate. Where a tokenizer puts none between the texts of a pair (GPT-2), the pair
    is one segment.
    """
    ids = tensors["input_ids"]
    attended = tensors.get("attention_mask", torch.ones_like(ids)).bool()
    tokenizer = model.tokenizer
    separators = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id, tokenizer.mask_token_id}
    listed = torch.tensor(sorted(separators), dtype=ids.dtype, device=ids.device)
    # a unit is no separator, even where somebody wrote "[SEP]" into the text
    content = attended & ~((units < 0) & torch.isin(ids, listed))
    before = torch.cat([torch.zeros_like(content[:, :1]), content[:, :-1]], dim=1)
    return torch.where(content, (content & ~before).long().cumsum(1) - 1, -1)


def relative_positions(segment_of: Int[Tensor, "N T"]) -> Float[Tensor, "N T"]:
    """Tokens of the segment before each token, divided by the tokens of the segment; 0 outside segments."""
    where = layout(segment_of)
    length = where.length.gather(1, segment_of.clamp(min=0)).clamp(min=1)
    return torch.where(segment_of >= 0, where.rank.double() / length, 0.0)


def insert(model: Classifier, tensors: Mapping[str, Tensor], units: Int[Tensor, "N T"], trigger: Encoded) -> Inserted:
    """Insert one trigger into each of N encoded texts.

    A token at relative position p of a segment with n tokens goes before token round(p · n) of it, so 0 is before the
    first and 1 after the last. Within a word it moves to the nearer end of the word. Words at the same place keep their
    order. Texts that would overflow the window first lose tokens at the end of their segments, of the longer segment first;
    positions are computed afterwards, and the trigger stays whole. A trigger's second segment is the first one of a single
    text.

    Args:
        model: whose window and separators count.
        tensors: model inputs, padded on the right.
        units: unit of each token, -1 for none (`Batch.units`).
        trigger: one per row.

    Raises:
        NotApplicable: a trigger fills the whole window.
    """
    segment_of = segments(model, tensors, units)
    where = layout(segment_of)
    attended = tensors.get("attention_mask", torch.ones_like(units)).bool()
    total = attended.sum(1) + trigger.present.sum(1)
    lengths = shortened(where.length, (total - model.window).clamp(min=0))
    segment = torch.minimum(trigger.segment, (where.length > 0).sum(1, keepdim=True) - 1).clamp(min=0)
    dropped = (segment_of >= 0) & (where.rank >= lengths.gather(1, segment_of.clamp(min=0)))
    target = _insertion_points(units, segment_of, where.start, lengths, segment, trigger.position)
    index = torch.arange(units.shape[1], device=units.device).expand_as(units)
    old = torch.where(attended & ~dropped, 2 * index + 1, GONE)
    new = torch.where(trigger.present, 2 * target, GONE)
    return arranged(model, tensors, trigger.ids, where.start.gather(1, segment), new, old)


def arranged(
    model: Classifier,
    tensors: Mapping[str, Tensor],
    ids: Int[Tensor, "N K"],
    column_of_segment: Int[Tensor, "N K"],
    new: Int[Tensor, "N K"],
    old: Int[Tensor, "N T"],
) -> Inserted:
    """The tokens of texts and triggers in the order of their keys, without those whose key is `GONE`.

    Args:
        model: whose padding token fills up.
        tensors: model inputs of the texts.
        ids: of the triggers.
        column_of_segment: a column of each trigger token's segment, whose further inputs (token type) it takes.
        new: keys of the trigger tokens.
        old: keys of the text's tokens.
    """
    order = torch.cat([new, old], dim=1).argsort(dim=1, stable=True)
    stays = torch.cat([new, old], dim=1) < GONE
    width = int(stays.sum(1).max())
    present = stays.gather(1, order)[:, :width]
    fills = {"input_ids": ids, "attention_mask": new < GONE}
    inputs = {}
    for name, tensor in tensors.items():
        if tensor.shape != old.shape:
            inputs[name] = tensor
        elif name == "position_ids":
            inputs[name] = tensor[:, :1] + torch.arange(width, device=old.device)
        else:
            extra = fills.get(name, tensor.gather(1, column_of_segment)).to(tensor.dtype)
            pad = model.pad_token_id if name == "input_ids" else 0
            inputs[name] = torch.cat([extra, tensor], dim=1).gather(1, order)[:, :width].masked_fill(~present, pad)
    inputs["attention_mask"] = present.to(tensors.get("attention_mask", old).dtype)
    return Inserted(inputs, order.argsort(dim=1)[:, : ids.shape[1]])


def layout(segment_of: Int[Tensor, "N T"]) -> Segments:
    """Where the segments of each row lie."""
    count = max(1, int(segment_of.max()) + 1)
    members = segment_of[:, None, :] == torch.arange(count, device=segment_of.device)[None, :, None]
    start = members.to(torch.uint8).argmax(2)
    rank = torch.arange(segment_of.shape[1], device=segment_of.device) - start.gather(1, segment_of.clamp(min=0))
    return Segments(start=start, length=members.sum(2), rank=rank)


def shortened(length: Int[Tensor, "N S"], excess: Int[Tensor, "N"]) -> Int[Tensor, "N S"]:
    """Lengths less `excess` tokens in all, taken one by one from the longest segment (the last of equal ones)."""
    if bool((excess > length.sum(1)).any()):
        raise NotApplicable("a trigger does not fit into the model's window")
    lengths, last_segment = length.clone(), length.shape[1] - 1
    for step in range(int(excess.max()) if len(excess) else 0):
        longest = last_segment - lengths.flip(1).argmax(1, keepdim=True)
        lengths.scatter_add_(1, longest, -(excess > step).to(lengths.dtype)[:, None])
    return lengths


def _insertion_points(
    units: Int[Tensor, "N T"],
    segment_of: Int[Tensor, "N T"],
    start: Int[Tensor, "N S"],
    lengths: Int[Tensor, "N S"],
    segment: Int[Tensor, "N K"],
    position: Float[Tensor, "N K"],
) -> Int[Tensor, "N K"]:
    """The column that each trigger token goes before: at the relative position, and never within a word."""
    width = units.shape[1]
    index = torch.arange(width, device=units.device).expand_as(units)
    before = (index - 1).clamp(min=0)
    same = (index > 0) & (segment_of >= 0) & (segment_of == segment_of.gather(1, before))
    earlier = units.gather(1, before)
    inside = same & ((units == earlier) | (earlier < 0))  # a space that is a token of its own begins the word after it
    begin = torch.where(inside, -1, index).cummax(1).values
    after = torch.where(inside, width, index).flip(1).cummin(1).values.flip(1)
    first_column, n = start.gather(1, segment), lengths.gather(1, segment)
    # 0.5 up, as one counts by hand; float noise of i/n · n must not tip it
    point = first_column + (position * n + 0.5 + 1e-9).floor().long().clamp(max=n)
    end, within = first_column + n, point.clamp(max=width - 1)
    low, high = begin.gather(1, within), torch.minimum(after.gather(1, within), end)
    nearer = torch.where(within - low <= high - within, low, high)
    return torch.where(point >= end, end, nearer)
