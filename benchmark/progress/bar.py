"""What a command shows while it works: how far it is, what is left, about how long, and what it does now.

On a terminal that is a bar; in a file or a pipe a line of the log now and then.
"""

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from benchmark.errors import printable
from benchmark.progress import Event, logger
from benchmark.progress.estimate import Outlook, View

_LEAST_BAR = 12  # columns; where they are not there, fewer words are said
_REFRESHES = 4  # in a second
_SHORTEST, _LONGEST = 30.0, 600.0  # seconds between two lines of a log


class _Listener(logging.Handler):
    """Keeps an `Outlook` up to date. What is drawn is the last view, so that drawing never waits for a lock of logging's."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(logging.DEBUG)
        self.clock, self.outlook = clock, Outlook(clock())
        self.view = self.outlook.view()

    def emit(self, record: logging.LogRecord) -> None:
        event: Event | None = getattr(record, "progress", None)
        if event is not None:
            self.outlook.take(event, self.clock(), record.thread or 0)
            self.view = self.outlook.view()


class _Teller(_Listener):
    """Says where the work is in a line of the log, when an event comes and nothing was said for long.

    The first line comes after half a minute, the next each time a quarter more has passed, at least every ten minutes.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(clock)
        self.began = self.said = clock()

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        now = self.clock()
        if now - self.said < min(_LONGEST, max(_SHORTEST, (now - self.began) / 5)) or not self.view.labels:
            return
        self.said = now
        percent, cells, left, elapsed, estimate = _parts(self.view, now)
        said = (percent, cells, left and f"{left} left", f"after {elapsed}", estimate and f"{estimate} more")
        logging.getLogger("benchmark").info("%s (%s)", _current(self.view), ", ".join(filter(None, said)))


@contextmanager
def shown(console: Console | None = None, clock: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """A bar below what is written to standard error; lines of the log where that is no terminal, or one that cannot draw.

    However the block ends, the bar is gone and the cursor is back. Standard output is left alone.

    Args:
        console: where the bar is drawn; None: on standard error.
        clock: gives seconds.
    """
    console = console or Console(file=sys.stderr, force_terminal=sys.stderr.isatty())
    if not console.is_interactive or not console.encoding.startswith("utf"):
        with _listening(_Teller(clock)):
            yield
        return
    listener = _Listener(clock)

    def drawn() -> RenderableType:
        return draw(listener.view, clock(), console.width)

    with (
        _listening(listener),
        Live(
            console=console,
            get_renderable=drawn,
            transient=True,
            redirect_stdout=False,
            refresh_per_second=_REFRESHES,
        ),
        _written_above(),
    ):
        yield


@contextmanager
def _listening(listener: _Listener) -> Iterator[None]:
    """Events go to the listener alone; afterwards the logger is as it was."""
    before = logger.level, logger.propagate
    logger.addHandler(listener)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(listener)
        logger.setLevel(before[0])
        logger.propagate = before[1]


@contextmanager
def _written_above() -> Iterator[None]:
    """Lines that are logged to standard error go where `Live` has put it, which writes them above the bar."""
    proxied = getattr(sys.stderr, "rich_proxied_file", None)
    handlers = [
        handler
        for handler in logging.getLogger().handlers
        if isinstance(handler, logging.StreamHandler) and proxied is not None and handler.stream is proxied
    ]
    for handler in handlers:
        handler.setStream(sys.stderr)
    try:
        yield
    finally:
        for handler in handlers:
            handler.setStream(proxied)


def draw(view: View, now: float, width: int) -> RenderableType:
    """The bar in one line and what is done now in another; they fit the width."""
    share = _share(view)
    words = next((text for text in _summaries(view, now) if len(text) + _LEAST_BAR + 2 <= width), "")
    line = Table.grid(padding=(0, 1), expand=True)
    line.add_column(ratio=1)
    line.add_column(no_wrap=True)
    line.add_row(ProgressBar(1.0, share or 0.0, pulse=share is None, animation_time=now), words)
    return Group(line, Text(_current(view), style="dim", no_wrap=True, overflow="ellipsis"))


def _share(view: View) -> float | None:
    """How much is done, of the plan where there is one; None where nothing can be said."""
    if view.done + view.left:
        return view.done / (view.done + view.left)
    if view.counted is not None and view.counted[1]:
        return min(1.0, view.counted[0] / view.counted[1])
    return None


def _summaries(view: View, now: float) -> Iterator[str]:
    """What is said beside the bar, from the longest form to the shortest."""
    percent, cells, left, elapsed, estimate = _parts(view, now)
    for parts in (
        (percent.rjust(5), cells, left, elapsed, estimate),
        (percent.rjust(5), cells, estimate),
        (percent.rjust(5), estimate),
        (percent.rjust(5),),
    ):
        yield "  ".join(filter(str.strip, parts))


def _parts(view: View, now: float) -> tuple[str, str, str, str, str]:
    """Share, cells and examples left, time that passed and is left; empty where nothing is known."""
    share, seconds = _share(view), view.seconds_left(now)
    cells = f"{view.cells_left} of {view.cells} cells left" if view.cells_left else ""
    return (
        "" if share is None else f"{int(100 * share)} %",
        cells,
        f"{view.left:,} examples" if cells else "",
        _clock(now - view.began),
        "" if seconds is None else f"about {_rounded(seconds)}",
    )


def _current(view: View) -> str:
    """What is worked on: `attattr · perturbation: 48 of 100 examples`."""
    what = printable(" · ".join(view.labels))
    if view.counted is None:
        return what
    done, total, unit = view.counted
    return f"{what}: {done:,} of {total:,} {unit}" if total else f"{what}: {done:,} {unit}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _rounded(seconds: float) -> str:
    """No more figures than an estimate is worth."""
    if seconds < 55:
        return f"{max(5, round(seconds / 5) * 5)} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60 // 10 * 10:02d} min" if minutes < 24 * 60 else f"{minutes // 60} h"
