"""Ctrl-C and SIGTERM, also where the exception that a signal raises is lost.

Python runs a signal's handler between any two instructions of the main thread. Where these are a finaliser (`__del__`, a
weak reference's callback), what the handler raises is printed and swallowed. Long work therefore asks `raise_if_received`
between two batches, and a command at its end.
"""

import signal
import threading
from dataclasses import dataclass
from types import FrameType


class Terminated(KeyboardInterrupt):
    """SIGTERM, as schedulers send it: unwinds like Ctrl-C, so that locks are released and half-written files removed."""


@dataclass
class _Received:
    """What a signal that came raises, until somebody has caught it."""

    kind: type[KeyboardInterrupt] | None = None


_received = _Received()


def on_signals() -> None:
    """Let SIGTERM and Ctrl-C unwind the program; only in the main thread, where Python delivers signals.

    A second SIGTERM ends it at once. An ignored Ctrl-C, as a shell's background jobs have it, stays ignored.
    """

    def terminate(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _received.kind = Terminated
        raise Terminated

    def interrupt(number: int, frame: FrameType | None) -> None:
        _received.kind = KeyboardInterrupt
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, terminate)
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, interrupt)


def raise_if_received() -> None:
    """Raise what a signal raised that nobody has caught yet, once.

    Raises:
        KeyboardInterrupt: Ctrl-C came.
        Terminated: SIGTERM came.
    """
    kind, _received.kind = _received.kind, None
    if kind is not None:
        raise kind


def caught() -> None:
    """What came has been caught."""
    _received.kind = None
