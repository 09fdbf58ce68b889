"""The bar as a terminal gets it: drawn on a recorded console, with a clock that the tests set."""

import io
import logging
import sys
import time

import pytest
from rich.console import Console

from benchmark import progress
from benchmark.progress import Planned, emit, scope, step
from benchmark.progress.bar import draw, shown
from benchmark.progress.estimate import View

COMPUTING = View(
    ("attattr", "perturbation", "testing"), (48, 100, "examples"), 9, 13, 3_760, 6_240, 200.0, 52.0, 130.0, 0.0
)
FIGURES = View(("tables and figures", "making files"), (12, 0, "files"), 0, 13, 9_900, 100, None, 0.0, 0.0, 0.0)
OPENING = View(("opening task and model",), None, 0, 0, 0, 0, None, 0.0, 0.0, 0.0)
TRAINING = View(("fine-tuning",), (30, 120, "steps"), 0, 0, 0, 0, 0.0, 6000.0, 9.0, 0.0)

TESTING = "attattr · perturbation · testing: 48 of 100 examples"


def lines(view, width, now=130.0):
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    console.print(draw(view, now, width))
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("view", "width", "beside", "below"),
    [
        (COMPUTING, 120, " 37 %  9 of 13 cells left  6,240 examples  2:10  about 4 min", TESTING),
        (COMPUTING, 80, " 37 %  9 of 13 cells left  6,240 examples  2:10  about 4 min", TESTING),
        (COMPUTING, 60, " 37 %  9 of 13 cells left  about 4 min", TESTING),
        (COMPUTING, 40, " 37 %  about 4 min", "attattr · perturbation · testing: 48 of…"),
        (FIGURES, 80, " 99 %  2:10", "tables and figures · making files: 12 files"),
        (OPENING, 80, "2:10", "opening task and model"),
        (TRAINING, 80, " 25 %  2:10  about 1 h 30 min", "fine-tuning: 30 of 120 steps"),
    ],
)  # fmt: skip
def test_the_bar_and_what_is_done_fit_the_width(view, width, beside, below):
    bar, what = lines(view, width)
    assert (bar.lstrip("━╸╺ "), what) == (beside.lstrip(), below)
    assert len(bar) == width


def terminal():
    return Console(file=io.StringIO(), width=80, force_terminal=True, force_interactive=True, color_system=None)


@pytest.fixture
def log(monkeypatch):
    """Makes a log that writes to standard error, as the commands' does."""
    handler = logging.StreamHandler(io.StringIO())

    def make():
        monkeypatch.setattr(sys, "stderr", handler.stream)
        logging.getLogger().addHandler(handler)
        return handler

    yield make
    logging.getLogger().removeHandler(handler)


def test_lines_of_the_log_stand_above_the_bar_and_the_terminal_is_left_clean(log):
    handler, console, now = log(), terminal(), [0.0]
    with shown(console, lambda: now[0]):
        emit(Planned({("cell", "rollout"): {"test": 4}, ("cell", "old"): {}}))
        with scope("cell", "rollout"), step("test", 4, label="testing") as advance:
            now[0] = 61.0
            advance(2)
            logging.getLogger("anything").warning("a line of the log")
            print("a line of a library", file=sys.stderr)
            deadline = time.monotonic() + 10
            while " 50 %" not in console.file.getvalue() and time.monotonic() < deadline:
                time.sleep(0.01)  # it is drawn four times a second
    written = console.file.getvalue()
    assert "a line of the log\n" in written
    assert "a line of a library\n" in written
    assert " 50 %  1 of 2 cells left  2 examples  1:01" in written
    assert "rollout · testing: 2 of 4 examples" in written
    assert written.endswith("\x1b[2K"), "the last that is written removes the bar"
    assert written.rindex("\x1b[?25h") > written.rindex("\x1b[?25l"), "the cursor is back"
    assert sys.stderr is handler.stream is not console.file


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_whatever_ends_the_work_everything_is_as_it_was(log, error):
    handler = log()
    console, before = terminal(), (progress.logger.level, progress.logger.propagate, list(progress.logger.handlers))
    with pytest.raises(error), shown(console), scope("cell", "rollout"), step("test", 3):
        raise error
    assert console.file.getvalue().rindex("\x1b[?25h") > console.file.getvalue().rindex("\x1b[?25l")
    assert (progress.logger.level, progress.logger.propagate, progress.logger.handlers) == before
    assert handler.stream is sys.stderr
    assert not progress.watched()


@pytest.mark.parametrize(
    "console",
    [
        Console(file=io.StringIO(), force_terminal=False),
        Console(file=io.StringIO(), force_terminal=True, _environ={"TERM": "dumb"}),
        Console(file=io.TextIOWrapper(io.BytesIO(), "ascii"), force_terminal=True),
    ],
)
def test_what_cannot_draw_gets_lines_of_the_log(console, caplog):
    now = [0.0]

    def after(seconds):
        caplog.clear()
        now[0] += seconds
        advance(1)
        return [record.getMessage() for record in caplog.records if record.name == "benchmark"]

    with caplog.at_level("INFO"), shown(console, lambda: now[0]):
        emit(Planned({("cell", "rollout"): {"test": 1000}}))
        with scope("cell", "rollout"), step("test", 1000, label="testing") as advance:
            assert after(29) == [], "short work says nothing"
            assert after(2) == [
                "rollout · testing: 2 of 1,000 examples "
                "(0 %, 1 of 1 cells left, 998 examples left, after 0:31, about 4 h 10 min more)"
            ]
            assert after(20) == []
            assert len(after(15)) == 1
            now[0] = 1000
            assert [len(after(100)) for _ in range(10)] == [1, 0, 0, 1, 0, 0, 0, 1, 0, 0]
            now[0] = 50_000
            assert [len(after(200)) for _ in range(6)] == [1, 0, 0, 1, 0, 0], "at least every ten minutes"
    assert not progress.watched()
    console.file.seek(0)
    assert console.file.read() == ""


def test_a_pipe_is_no_terminal_whatever_the_environment_says(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    with shown(), step("test", 3) as advance:
        advance(3)
    assert capsys.readouterr().err == ""
