"""Mean ranks over tasks: what they are, when there are none, and how often their intervals hold."""

import numpy as np
import pytest
from scipy.stats import rankdata

from benchmark.bundles.ranking import LEAST_TASKS, mean_ranks, told


def figures(generator, tasks, models=1, methods=4, spread=1.0):
    """Figures of methods whose true order is that of their letters, with noise of the task and of each model."""
    found = {}
    for task in range(tasks):
        of_task = spread * generator.normal(size=methods)
        for model in range(models):
            values = np.arange(methods) * 0.5 + of_task + 0.3 * generator.normal(size=methods)
            found[f"task{task}", f"model{model}"] = dict(zip("abcdef"[:methods], values.tolist(), strict=True))
    return found


def test_they_are_the_means_of_ranks():
    own = figures(np.random.default_rng(0), LEAST_TASKS, models=2)
    ranked = mean_ranks(own, higher_is_better=True)
    expected = np.mean([rankdata([-one[name] for name in "abcd"]) for one in own.values()], axis=0)
    assert {one.method: one.rank.value for one in ranked} == pytest.approx(dict(zip("abcd", expected, strict=True)))
    assert [one.rank.value for one in ranked] == sorted(one.rank.value for one in ranked)
    assert {(one.tasks, one.rank.n) for one in ranked} == {(6, 12)}
    assert told(ranked) == "Mean ranks over 12 pairs of a task and a model (6 tasks); intervals draw tasks."


def test_the_direction_turns_them_round():
    own = figures(np.random.default_rng(1), LEAST_TASKS)
    up, down = (mean_ranks(own, higher_is_better=better) for better in (True, False))
    assert {one.method: 5 - one.rank.value for one in up} == pytest.approx({one.method: one.rank.value for one in down})


def test_equal_figures_share_their_ranks():
    own = {(f"task{task}", "model"): {"a": 1.0, "b": 1.0, "c": 0.0} for task in range(LEAST_TASKS)}
    assert {one.method: one.rank.value for one in mean_ranks(own, higher_is_better=True)} == {
        "a": 1.5,
        "b": 1.5,
        "c": 3.0,
    }


def test_a_method_that_lacks_a_figure_is_not_ranked():
    own = figures(np.random.default_rng(2), LEAST_TASKS)
    own["task0", "model0"].pop("c")
    assert {one.method for one in mean_ranks(own, higher_is_better=True)} == {"a", "b", "d"}


def test_fewer_tasks_give_none_however_many_models_they_have():
    assert mean_ranks(figures(np.random.default_rng(3), LEAST_TASKS - 1, models=4), higher_is_better=True) == []
    assert mean_ranks({}, higher_is_better=True) == []
    assert told([]).startswith("No mean ranks: they need 6 tasks")


@pytest.mark.thorough
@pytest.mark.parametrize("models", [1, 3])
def test_intervals_hold_as_often_as_they_say(models):
    """Of repositories of twelve tasks, the mean rank over very many tasks lies in the interval of the best method."""
    truth = mean_ranks(figures(np.random.default_rng(4), 4000, models), higher_is_better=True)
    known = {one.method: one.rank.value for one in truth}
    held = []
    for seed in range(200):
        ranked = mean_ranks(figures(np.random.default_rng([5, seed]), 12, models), higher_is_better=True)
        held += [one.rank.low <= known[one.method] <= one.rank.high for one in ranked]
    assert 0.91 <= np.mean(held) <= 0.985
