"""What is left and how long it takes, with times that the tests give."""

import pytest

from benchmark.progress import Advanced, Began, Ended, Planned, duration
from benchmark.progress.estimate import Outlook

NEW = {"explain": 10, "test": 20}
PLAN = Planned({("cell", "a"): NEW, ("cell", "old"): {}, ("cell", "b"): NEW, ("analysis", "x"): {"analysis": 10}})


class Told:
    """An outlook that is told what happens, and when."""

    def __init__(self, *events):
        self.outlook, self.now = Outlook(100.0), 100.0
        self.tell(*events)

    def tell(self, *events):
        for event in events:
            if isinstance(event, float | int):
                self.now += event
            else:
                self.outlook.take(event, self.now)
        return self.outlook.view()

    def cell(self, name, explaining, testing):
        """A whole cell: ten examples explained and twenty tested, in two batches each."""
        steps = [Began("explain", "explaining", 10), explaining / 2, Advanced(5), explaining / 2, Advanced(5), Ended()]
        steps += [Began("test", "testing", 20), testing / 2, Advanced(10), testing / 2, Advanced(10), Ended()]
        return self.tell(Began(name, name, kind="cell"), *steps, Ended())


def test_what_is_left_is_counted_in_cells_and_examples():
    view = Told(PLAN).outlook.view()
    assert (view.cells_left, view.cells, view.done, view.left) == (2, 3, 0, 70)
    assert view.seconds_left(100.0) is None, "no pace was measured"


def test_a_step_goes_at_the_pace_of_its_name_and_reused_cells_take_no_time():
    told = Told(PLAN)
    told.cell("a", explaining=4, testing=10)
    told.tell(Began("old", "old", kind="cell"), 0.01, Ended())
    view = told.tell(Began("b", "b", kind="cell"))
    assert (view.cells_left, view.done, view.left) == (1, 30, 40)
    assert view.seconds_left(told.now) == pytest.approx(14)


def test_an_estimate_waits_until_most_of_what_is_left_was_measured():
    begun = [PLAN, Began("a", "a", kind="cell"), Began("explain", "explaining", 10), 4, Advanced(10), Ended()]
    told = Told(*begun)
    assert told.outlook.view().seconds_left(told.now) is None, (
        "40 of 50 examples are of a test that nothing is known of"
    )
    view = told.tell(Began("test", "testing", 20), 5, Advanced(10))
    assert view.seconds_left(told.now) == pytest.approx(10 * 0.5 + 4 + 20 * 0.5)


def test_the_estimate_goes_down_while_a_batch_takes_its_time_but_not_below_the_rest():
    told = Told(PLAN)
    told.cell("a", explaining=4, testing=10)
    view = told.tell(Began("b", "b", kind="cell"), Began("explain", "explaining", 10))
    assert [view.seconds_left(told.now + late) for late in (0, 3, 100)] == pytest.approx([14, 11, 10])


def test_what_a_cell_does_outside_of_its_steps_counts_for_those_that_are_left():
    told = Told(PLAN, Began("a", "a", kind="cell"))
    for name, count in NEW.items():
        told.tell(Began(name, name, count), 2, Advanced(count), 3, Ended())
    view = told.tell(1, Ended(), Began("b", "b", kind="cell"))
    assert view.seconds_left(told.now) == pytest.approx(4 + 7), "4 s of its steps, 7 s around them"


def test_what_an_earlier_start_did_is_done_and_has_no_pace():
    told = Told(PLAN, Began("a", "a", kind="cell"), Began("explain", "explaining", 10, done=8), 1, Advanced(2), Ended())
    view = told.tell(Began("test", "testing", 20, done=20), Ended())
    assert (view.done, view.left) == (30, 40)
    view = told.tell(Ended(), Began("b", "b", kind="cell"), Began("test", "testing", 20), 10, Advanced(20))
    assert view.seconds_left(told.now) == pytest.approx(5), "half a second for each of ten examples"


def test_a_method_that_cannot_serve_leaves_nothing_behind():
    view = Told(PLAN, Began("a", "a", kind="cell"), Began("explain", "explaining", 10), Ended(), Ended()).outlook.view()
    assert (view.cells_left, view.left) == (1, 40)


def test_an_analysis_counts_when_it_is_over_and_its_own_cells_do_not():
    told = Told(PLAN, Began("x", "x", kind="analysis"), Began("c", "c", kind="cell"), Began("explain", "explaining", 7))
    view = told.tell(1, Advanced(7))
    assert (view.labels, view.counted, view.done) == (("x", "c", "explaining"), (7, 7, "examples"), 0)
    view = told.tell(Ended(), Ended(), Ended())
    assert (view.done, view.left, view.cells) == (10, 60, 3)


def test_steps_without_a_plan_have_an_estimate_of_their_own():
    told = Told(Began("training", "training", 100, unit="steps"), 10, Advanced(25))
    view = told.outlook.view()
    assert view.seconds_left(told.now) == pytest.approx(30)
    assert view.counted == (25, 100, "steps")


def test_an_end_too_many_is_borne():
    assert Told(Ended(), Advanced(1)).outlook.view().labels == ()


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.04, "0.0 s"), (9.94, "9.9 s"), (9.96, "10 s"), (59.4, "59 s"), (59.6, "1 min 00 s"), (3725, "1 h 02 min")],
)
def test_durations(seconds, words):
    assert duration(seconds) == words
