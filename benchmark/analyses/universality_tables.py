"""Tables of how reliable head importances are, and of how alike they are in tasks of one type or domain."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from benchmark.analyses.means import SHARE
from benchmark.analyses.measured import figure_line
from benchmark.analyses.reliability import Measured, grouped, spread
from benchmark.results.tables import Table, line

CORRECTED = "Pearson r, corrected for noise"
UNRELIABLE = "halves of the examples do not agree, or are fewer than two"
NOISE = (
    "Corrected for noise: r over the root of the product of both reliabilities, which estimates r of importances from as "
    "many examples as one likes, and may exceed 1."
)
_SAME_TYPE, _SAME_DOMAIN, _AGAINST = "type", "domain", "type against domain"


def reliabilities(measured: Mapping[str, Mapping[str, Measured]]) -> Table:
    """By importance and task the correlation that importances from two such samples of examples would have."""
    rows = [
        figure_line(
            {"importance": method, "task": task},
            "reliability",
            spread(one.reliability, one.n, SHARE),
            "" if np.isfinite(one.reliability[0]) else UNRELIABLE,
            SHARE,
        )
        for method, tasks in measured.items()
        for task, one in tasks.items()
    ]
    return Table(
        name="universality_reliability",
        title="Reliability of head importance",
        labels=("importance", "task"),
        rows=pd.DataFrame(rows),
        sentences=("Spearman-Brown's 2r / (1 + r), r the correlation between halves of the examples; n counts these.",),
    )


def groups(
    measured: Mapping[str, Mapping[str, Measured]],
    types: Mapping[str, str] | None,
    domains: Mapping[str, str] | None,
) -> Table:
    """By importance and grouping the mean correlation of like tasks, of the others, and their difference."""
    kinds = dict(_kinds(types, domains))
    labels = ("importance", "alike in", "correlation")
    rows: list[dict[str, Any]] = []
    for method, tasks in measured.items():
        for name, alike in kinds.items():
            for corrected, correlation in ((False, "Pearson r"), (True, CORRECTED)):
                place = dict(zip(labels, (method, name, correlation), strict=True))
                found = grouped(tasks, alike, corrected=corrected)
                if found is None:
                    rows.append(line(place, "difference", note="no two tasks are alike in this, or all are"))
                    continue
                note = "" if np.isfinite(found.difference.value) else UNRELIABLE
                rows.append(figure_line(place, "alike", found.same, note))
                rows.append(figure_line(place, "others", found.other, note))
                rows.append(figure_line(place, "difference", found.difference, note))
                for which, n_pairs in zip(("alike", "others"), found.pairs, strict=True):
                    rows.append(line(place, f"pairs {which}", float(n_pairs), note="a count"))
    return Table(
        name="universality_groups",
        title="Correlation of head importance between tasks that are alike in type or domain",
        labels=labels,
        rows=pd.DataFrame(rows),
        sentences=(
            f"{_AGAINST.capitalize()}: tasks of one type in different domains are alike, the others are of different types "
            "in one domain.",
            "Intervals resample the examples of each task, for all pairs at once; they are of these tasks, and say nothing "
            "of others. n counts the examples of the task with the fewest.",
            NOISE,
        ),
    )


def _kinds(
    types: Mapping[str, str] | None, domains: Mapping[str, str] | None
) -> Iterator[tuple[str, Callable[[str, str], bool | None]]]:
    """By name of a grouping, whether two tasks are alike."""
    for name, known in ((_SAME_TYPE, types), (_SAME_DOMAIN, domains)):
        if known is not None:
            yield name, _equal(known)
    if types is not None and domains is not None:
        of_type, of_domain = _equal(types), _equal(domains)
        yield _AGAINST, lambda a, b: of_type(a, b) if of_type(a, b) != of_domain(a, b) else None


def _equal(known: Mapping[str, str]) -> Callable[[str, str], bool]:
    return lambda one, two: known[one] == known[two]
