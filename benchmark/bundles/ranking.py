"""Ranks over tasks: what may be said of a method where it was tested on several of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from benchmark.results.statistics import Interval, clustered_interval

LEAST_TASKS = 6
"""Fewer tasks give no mean rank: resampling them would say of other tasks what they cannot know."""


@dataclass(frozen=True)
class Ranked:
    """A method's mean rank on one metric, over tasks and models.

    Attributes:
        method: its name.
        rank: the mean and its 95 % interval; n counts tasks × models.
        tasks: how many tasks these are of.
    """

    method: str
    rank: Interval
    tasks: int


def mean_ranks(figures: Mapping[tuple[str, str], Mapping[str, float]], *, higher_is_better: bool) -> list[Ranked]:
    """Mean ranks of the methods that have a figure everywhere, best first; none where there are fewer than six tasks.

    `r̄_m = Σ_(t, k) r_m(t, k) / N`, with r the rank of m among these methods on task t and model k (equal figures share the
    mean of their ranks, 1 is best). The interval draws tasks, each with all of its models (`clustered_interval`), since
    models of one task share its examples.

    Args:
        figures: by task and model, the figure of each method.
        higher_is_better: the metric's direction.

    Source: this project, after Demšar 2006 (ranks over data sets).
    """
    everywhere = sorted(set.intersection(*(set(one) for one in figures.values()))) if figures else []
    tasks = [task for task, _ in figures]
    if len(set(tasks)) < LEAST_TASKS or len(everywhere) < 2:
        return []
    values = np.array([[one[method] for method in everywhere] for one in figures.values()])
    ranks = scipy.stats.rankdata(-values if higher_is_better else values, axis=1)
    bounds = (1.0, float(len(everywhere)))
    found = [
        Ranked(method, clustered_interval(ranks[:, place], np.array(tasks), bounds=bounds), len(set(tasks)))
        for place, method in enumerate(everywhere)
    ]
    return sorted(found, key=lambda one: (one.rank.value, one.method))


def told(figures: Sequence[Ranked]) -> str:
    """What the ranks are of, in one sentence."""
    if not figures:
        return f"No mean ranks: they need {LEAST_TASKS} tasks on which every method was tested."
    count, tasks = figures[0].rank.n, figures[0].tasks
    return f"Mean ranks over {count} pairs of a task and a model ({tasks} tasks); intervals draw tasks."
