"""Read triggers off edge scores and insert their word pieces as the published script does (Hao 2021).

`run_adver_connection.py` reads them, `run_adver_evaluate.py` inserts them; defined in docs/protocols.md, section 12.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from benchmark.errors import NotApplicable
from benchmark.evaluations.triggers.extraction import Pattern
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
from benchmark.evaluations.triggers.patterns import Placed, Trigger
from benchmark.evaluations.triggers.words import Exclusion, eligible_tokens, require_words
from benchmark.models import Classifier
from benchmark.targets import TargetName
from benchmark.types import Batch, Compared, Method


@dataclass(frozen=True)
class ScriptRule:
    """How the published script reads a pattern off one example: off the head with the largest cell of all.

    Attributes:
        triggers: patterns kept for each explained class; the script keeps all.
        cells: of that head that are summed and inserted.
        cell_share: a further cell below this share of the best one is summed, but its tokens are not inserted.
        score: `sum` of the cells, or `mean`, the sum divided by how many tokens the cells have.
        least_score: patterns whose cells sum to less are left out.
        least_tokens: examples with fewer tokens, special ones included, are left out.
        skip_special: cells of [CLS] and [SEP] do not count.
        exclusion: cells of these words do not count.
        target: the class that is explained.
    """

    triggers: int = 3
    cells: int = 2
    cell_share: float | int = 0.2
    score: str = "sum"
    least_score: float | int = 0.02
    least_tokens: int = 0
    skip_special: bool = False
    exclusion: Exclusion = field(default_factory=lambda: Exclusion(punctuation=False))
    target: TargetName = "predicted"


def extract_as_script(
    model: Classifier, method: Compared, batches: Sequence[Batch], *rules: ScriptRule
) -> list[list[Trigger]]:
    """For each rule the best triggers of each explained class, in one ranking; every class is attacked.

    The examples are explained once for all rules. These may differ in `cells`, `score` and the like, but not in `target` and
    `least_tokens`. Whether the model classifies them correctly does not matter. Patterns with the same words are all kept.

    Raises:
        NotApplicable: the examples hold no words, the method scores no edges, or no pattern is good enough for the
            first rule. (Where none is good enough for another rule, that rule has no trigger.)
    """
    for batch in batches:
        require_words(model, batch)
    if not (isinstance(method, Method) and method.scores_edges):
        raise NotApplicable(
            "the method scores no edges, which construction=script reads; construction=paper takes tokens as well"
        )
    patterns_of_rules: list[list[Pattern]] = [[] for _ in rules]
    usable_batches = [_usable(batch, rules[0]) for batch in batches]
    for batch in [batch for batch in usable_batches if len(batch)]:
        for part, _ in model.parts(batch):
            target = model.target(part, rules[0].target)
            edges = method.edge_scores(model, part, target)
            for patterns, rule in zip(patterns_of_rules, rules, strict=True):
                patterns += patterns_of_cells(model, part, edges, target.classes, rule)
    if not patterns_of_rules[0]:
        raise NotApplicable(
            f"no trigger: no source example with {rules[0].least_tokens} tokens or more has cells that sum to "
            f"{rules[0].least_score}; raise calibration.limit or lower least_score"
        )
    return [_best(model, patterns, rule) for patterns, rule in zip(patterns_of_rules, rules, strict=True)]


def _usable(batch: Batch, rule: ScriptRule) -> Batch:
    """Examples with `least_tokens` tokens, and with a label where it is explained."""
    usable = batch.attention_mask.sum(1) >= rule.least_tokens
    if rule.target == "label":
        usable &= batch.label >= 0
    return batch.select(usable.nonzero().flatten().tolist())


def _best(model: Classifier, patterns: Sequence[Pattern], rule: ScriptRule) -> list[Trigger]:
    """The best patterns of each class in one ranking; equal ones in the order of the examples."""
    counts: Counter[int] = Counter()
    triggers = []
    for pattern in sorted(patterns, key=lambda pattern: -pattern.score):
        if counts[pattern.label] < rule.triggers:
            counts[pattern.label] += 1
            triggers.append(pattern.trigger(model.labels, range(len(model.labels))))
    return triggers


def patterns_of_cells(
    model: Classifier, batch: Batch, edges: Float[Tensor, "B L H T T"], classes: Int[Tensor, "B"], rule: ScriptRule
) -> list[Pattern]:
    """The word pieces of the best cells of each example's best head, the head with `max_{l,h} max_{i,j} E[l,h,i,j]`.

    Of equal heads the first counts, of equal cells the last (the script leaves these to an unstable sort). [CLS] and [SEP]
    are dropped from the chosen cells. A pattern of these alone has no piece left: it inserts nothing and costs nothing, as
    in the script. A piece is the k-th of the n tokens of its segment, counted from 1, and stands at r = k / n.
    """
    segment_of = segments(model, batch.tensors, batch.units)
    where = layout(segment_of)
    relative = (where.rank + 1).double() / where.length.gather(1, segment_of.clamp(min=0)).clamp(min=1)
    allowed = _allowed(model, batch, segment_of, rule)
    patterns = []
    for b, uid in enumerate(batch.uids):
        n = int(batch.attention_mask[b].sum())
        pair = allowed[b, :n, None] & allowed[b, None, :n]
        cells = edges[b, :, :, :n, :n].detach().flatten(0, 1).masked_fill(~pair, -torch.inf)
        chosen = _chosen(cells.double().cpu().numpy(), rule)
        if chosen is None:
            continue
        inserted = [t for t in chosen[0] if segment_of[b, t] >= 0]
        names = model.tokenizer.convert_ids_to_tokens(batch.tensors["input_ids"][b, inserted].tolist())
        words = tuple(
            Placed(name, int(segment_of[b, t]), float(relative[b, t])) for name, t in zip(names, inserted, strict=True)
        )
        patterns.append(Pattern(words, chosen[1], uid, int(classes[b])))
    return patterns


def _allowed(model: Classifier, batch: Batch, segment_of: Int[Tensor, "B T"], rule: ScriptRule) -> Bool[Tensor, "B T"]:
    """Tokens whose cells count."""
    eligible = eligible_tokens(model, batch, rule.exclusion) | (batch.units < 0)
    return batch.attention_mask & eligible & ~((segment_of < 0) & rule.skip_special)


def _chosen(cells: NDArray[np.float64], rule: ScriptRule) -> tuple[list[int], float] | None:
    """Tokens of the best head's best cells that are inserted, in the order of the text, and the score of these cells."""
    ranked = np.where(np.isnan(cells), -np.inf, cells)
    flat = ranked[np.argmax(ranked.max((1, 2)))].ravel()
    order = np.argsort(flat, kind="stable")[::-1][: rule.cells]
    order = order[np.isfinite(flat[order])]
    best = flat[order]
    if not len(order) or best[0] <= 0 or best.sum() < rule.least_score:
        return None
    tokens = np.stack(np.divmod(order, cells.shape[1]), axis=1)
    score = best.sum() / (len(np.unique(tokens)) if rule.score == "mean" else 1)
    return np.unique(tokens[best / best[0] >= rule.cell_share]).tolist(), float(score)


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
