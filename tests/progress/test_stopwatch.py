"""What each part and step took, from events."""

import threading

from benchmark import progress
from benchmark.progress.stopwatch import Lap, timed


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_laps_and_what_lies_around_them():
    clock, passes = Clock(), [0.0, 0.0]
    with timed(clock) as watch:
        watch.count = lambda: (passes[0], passes[1])
        with progress.step("opening"):
            clock.now += 2
        with progress.scope("cell", "rollout"):
            clock.now += 1  # around
            with progress.step("explaining", 8) as advance:
                for seconds in (3, 5):
                    clock.now += seconds
                    passes[0] += 4
                    advance(4)
            with progress.step("searching"):
                clock.now += 7
    taken = watch.parts["cell", "rollout"]
    assert watch.steps == {"opening": 2}
    assert taken.laps == {"explaining": [Lap(3, (4, 0)), Lap(5, (4, 0))]}
    assert (taken.seconds, taken.around, taken.passes) == (16, 8, (8, 0))
    assert taken.steps == {"searching": 7}


def test_a_part_that_is_gone_over_twice_adds_up_and_threads_stay_apart():
    clock = Clock()

    def work(name):
        with progress.scope("cell", name), progress.step("explaining", 1) as advance:
            clock.now += 1
            advance(1)

    with timed(clock) as watch:
        work("a")
        thread = threading.Thread(target=work, args=["b"])
        thread.start()
        thread.join()
        work("a")
    assert {name: part.seconds for (_, name), part in watch.parts.items()} == {"a": 2, "b": 1}


def test_nobody_listens_afterwards():
    before = progress.logger.level, progress.logger.propagate, list(progress.logger.handlers)
    with timed():
        assert progress.watched()
    assert (progress.logger.level, progress.logger.propagate, list(progress.logger.handlers)) == before
