"""What ERASER says of documents, after an attack on their words."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, groupby, pairwise

from benchmark.annotations import Moved, annotation
from benchmark.types import Example


def moved_documents(clean: Example, attacked: Example) -> Example:
    """The attacked example with the lengths and spans of its documents (`tasks.eraser.Eraser`), where it has some.

    The documents of a segment are shuffled as one text, which is cut at the same lengths; of a removed segment the first
    is "." and the others are empty. Spans of documents that an attack changes are the runs of the words that the rationale
    marks. As these are no offsets of the official documents any more, such an example is without `annotation_id`, so that
    nothing of it is exported for ERASER's scorer.
    """
    if "evidence_spans" not in clean.meta or attacked.rationale is None:
        return attacked
    origin, cut = annotation(attacked.meta, Moved).origin, len(attacked.inputs[0])
    n_first, n_both = len(clean.inputs[0]), len(clean.inputs[0]) + len(clean.inputs[1])
    stays = origin[:cut] == tuple(range(n_first)), origin[cut:] == tuple(range(n_first, n_both))
    shortened = cut != n_first, len(origin) - cut != n_both - n_first
    starts = accumulate(clean.meta["document_lengths"][:-1], initial=clean.query_units)
    segments = [int(start >= n_first) for start in starts]
    lengths = tuple(
        int(segment not in segments[:d]) if shortened[segment] else length
        for d, (segment, length) in enumerate(zip(segments, clean.meta["document_lengths"], strict=True))
    )
    ends = list(accumulate(lengths, initial=attacked.query_units))
    marks = [attacked.rationale[start:end].tolist() for start, end in pairwise(ends)]
    spans = tuple(
        annotated if stays[segment] else _runs(marked)
        for segment, annotated, marked in zip(segments, clean.meta["evidence_spans"], marks, strict=True)
    )
    meta = {**attacked.meta, "document_lengths": lengths, "evidence_spans": spans}
    if not all(stays[segment] for segment in segments):
        del meta["annotation_id"]
    return replace(attacked, meta=meta)


def _runs(marked: Sequence[bool]) -> tuple[tuple[int, int], ...]:
    """Maximal runs [start, end) of marks."""
    found, place = [], 0
    for mark, run in groupby(marked):
        start, place = place, place + len(list(run))
        if mark:
            found.append((start, place))
    return tuple(found)
