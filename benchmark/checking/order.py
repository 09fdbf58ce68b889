"""Order: an explanation does not depend on the other examples of its batch."""

from benchmark.checking.padding import tolerance
from benchmark.checking.report import Finding
from benchmark.checking.subject import Subject, cut, difference


def order(subject: Subject) -> Finding:
    """Every example alone and in a batch with others, in another order, and beside itself: equal scores."""
    place, limit = subject.place, tolerance(subject.model)
    widths = place.batch.attention_mask.sum(1).tolist()
    count, worst = len(place.inputs), 0.0
    rows = [*range(count)][::-1]
    turned = subject.explain(place.batch.select(rows), place.target[rows])
    for row in range(count):
        alone = subject.explain(place.of(row), place.target[[row]])
        for said, whole, at in (
            ("in a batch", subject.own, row),
            ("in a batch in the reverse order", turned, count - 1 - row),
        ):
            gap, field = difference(cut(whole, at, widths[row]), alone)
            worst = max(worst, gap)
            if not gap <= limit:
                words = f"an example alone and {said} with others: {field} differ by {gap:.2g} of the largest"
                words += (
                    " (is anything divided by, or drawn for, the batch as a whole? Batch.draw_keys seeds each example)"
                )
                return Finding(words, gap, limit, f"example {row + 1}")
    twice = [0, 0]
    pair = subject.explain(place.batch.select(twice), place.target[twice])
    halves = [cut(pair, at, widths[0]) for at in (0, 1)]
    gap, field = difference(*halves)
    if not gap <= limit:
        return Finding(
            f"one example twice in a batch: {field} differ by {gap:.2g} of the largest", gap, limit, "example 1"
        )
    return Finding("each example scores alone what it scores in a batch, in any order", max(worst, gap), limit)
