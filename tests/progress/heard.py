"""What a listener of `benchmark.progress` hears."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from benchmark.progress import Event, logger


class _Heard(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.events: list[Event] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.events.append(record.progress)


@contextmanager
def heard() -> Iterator[list[Event]]:
    """The events of the block, in order."""
    handler, level = _Heard(), logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield handler.events
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
