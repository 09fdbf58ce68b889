"""Insert word pieces as the published script does (Hao 2021, `run_adver_evaluate.py`).

Defined in docs/protocols.md, section 12.
"""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from benchmark.errors import NotApplicable
from benchmark.evaluations.triggers.insertion import (
    GONE,
    Encoded,
    Inserted,
    arranged,
    encoded,
    layout,
    segments,
    shortened,
)
from benchmark.evaluations.triggers.patterns import Trigger
from benchmark.models import Classifier


def encode_pieces(model: Classifier, triggers: Sequence[Trigger]) -> Encoded:
    """Look up triggers whose words are entries of the model's vocabulary.

    Raises:
        NotApplicable: the vocabulary has no such entry.
    """
    tokenizer = model.tokenizer
    names = [word.word for trigger in triggers for word in trigger.words]
    ids = tokenizer.convert_tokens_to_ids(names)
    for name, index in zip(names, ids, strict=True):
        if index is None or (index == tokenizer.unk_token_id and name != tokenizer.unk_token):
            raise NotApplicable(f"the model's vocabulary has no word piece '{name}', which a trigger holds")
    return encoded(model, triggers, [[index] for index in ids])


def insert_pieces(
    model: Classifier, tensors: Mapping[str, Tensor], units: Int[Tensor, "N T"], trigger: Encoded
) -> Inserted:
    """Insert one trigger into each of N encoded texts, piece by piece in the order of the trigger.

    The piece at relative position r goes before token round((n + a) · r) of its segment, which already holds the pieces
    before it; n counts the segment's tokens of the text, a those of the trigger. Halves go to the even number; beyond the
    end is the end. Where that is the place of the piece before it, it goes one place further on. It may split a word. Pieces
    of a second segment that a text does not have are left out. What overflows the window is cut off at the end of the longer
    segment (the second of equal ones), pieces of the trigger like any other token.

    A text that the window has cut is measured as cut; the script measures the whole text.

    Args:
        model: whose window and separators count.
        tensors: model inputs, padded on the right.
        units: unit of each token, -1 for none (`Batch.units`).
        trigger: one per row; `position` is r.
    """
    segment_of = segments(model, tensors, units)
    where = layout(segment_of)
    attended = tensors.get("attention_mask", torch.ones_like(units)).bool()
    existing = (where.length > 0).sum(1, keepdim=True).clamp(min=1)
    present = trigger.present & (trigger.segment < existing)
    segment = torch.minimum(trigger.segment, existing - 1)
    old, new = _ranks(where.rank, segment_of, where.length, present, segment, trigger.position)
    length = where.length + _pieces_per_segment(present, segment, where.length.shape[1])
    excess = attended.sum(1) + present.sum(1) - model.window
    lengths = shortened(length, excess.clamp(min=0))
    column = segment_of.clamp(min=0)
    scale = units.shape[1] + segment.shape[1] + 2
    index = torch.arange(units.shape[1], device=units.device)
    text = torch.where(old < lengths.gather(1, column), where.start.gather(1, column) * scale + old + 1, GONE)
    text = torch.where(segment_of >= 0, text, torch.where(attended, index * scale, GONE))
    start_of_segment = where.start.gather(1, segment)
    pieces = torch.where(present & (new < lengths.gather(1, segment)), start_of_segment * scale + new + 1, GONE)
    return arranged(model, tensors, trigger.ids, start_of_segment, pieces, text)


def _pieces_per_segment(present: Bool[Tensor, "N K"], segment: Int[Tensor, "N K"], count: int) -> Int[Tensor, "N S"]:
    """How many pieces each segment gets."""
    added = torch.zeros(len(segment), count, dtype=torch.long, device=segment.device)
    return added.scatter_add_(1, segment, present.long())


def _ranks(
    rank: Int[Tensor, "N T"],
    segment_of: Int[Tensor, "N T"],
    length: Int[Tensor, "N S"],
    present: Bool[Tensor, "N K"],
    segment: Int[Tensor, "N K"],
    position: Float[Tensor, "N K"],
) -> tuple[Int[Tensor, "N T"], Int[Tensor, "N K"]]:
    """How many tokens of its segment come before each token of the text, and before each piece, once all are in."""
    total = length + _pieces_per_segment(present, segment, length.shape[1])
    wanted_places = (total.gather(1, segment).double() * position).round().long()
    old, new, length = rank.clone(), torch.full_like(segment, -1), length.clone()
    before = torch.full_like(length, -1)  # in each segment, the wanted place of the piece before
    for k in range(segment.shape[1]):
        segment_of_piece, is_present = segment[:, k : k + 1], present[:, k : k + 1]
        place = wanted_places[:, k : k + 1]
        place = place + (place == before.gather(1, segment_of_piece)).long()
        before = before.scatter(1, segment_of_piece, torch.where(is_present, place, before.gather(1, segment_of_piece)))
        place = torch.minimum(place, length.gather(1, segment_of_piece))
        old += ((segment_of == segment_of_piece) & (old >= place) & is_present).long()
        new += ((segment == segment_of_piece) & (new >= place) & is_present).long()
        new[:, k : k + 1] = place
        length.scatter_add_(1, segment_of_piece, is_present.long())
    return old, new
