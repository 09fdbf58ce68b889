"""How every command ends early: a mistake, a signal, or a disk that takes no more; one line and a status each.

| status | why | what to do |
| --- | --- | --- |
| 1 | a full or read-only disk, something that was removed: the command was right | make room, the same command again |
| 1 | workers cannot go on, since Ray was killed or failed: the command was right | the same command |
| 1 | a method of somebody else's left the model changed; the others are finished | the same command without it |
| 2 | a mistake in the command or in what it reads | another command |
| 130, 143 | Ctrl-C, SIGTERM (128 + the signal's number, as shells have it) | the same command again |

A bug is none of these: it keeps its traceback (and status 1).
"""

import errno
import os
import re
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmark.errors import LostError, Missing, UserError, echo, one_line, printable
from benchmark.signals import Terminated, caught, on_signals, raise_if_received

_WAYS_OUT = {
    errno.ENOSPC: "make room",
    errno.EDQUOT: "make room, or have the quota raised",
    errno.EFBIG: "raise the limit of file sizes (ulimit -f)",
    errno.EROFS: "make it writable",
    errno.EACCES: "make it writable",
    errno.EPERM: "make it writable",
    errno.EIO: "look at the disk",
    errno.ESTALE: "mount it again",
}
# torch tells of a write that failed by these words alone
_TORCH = re.compile(
    r"PytorchStreamWriter failed|unexpected pos \d+ vs|iostream error|Parent directory .* does not exist"
)


@dataclass(frozen=True)
class Kept:
    """What a command leaves when it ends early.

    Attributes:
        sentence: what is kept, and how to go on.
        place: the folder that it writes to, None where that is not known.
        identity: of that folder when the command began: device and inode; None where it was not there. The folder is held
            open meanwhile, since a system may give the inode of a removed folder to the next one.
    """

    sentence: str
    place: Path | None = None
    identity: tuple[int, int] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        object.__setattr__(self, "identity", None if self.place is None else _identity(self.place))
        with suppress(OSError):  # of no folder, or of one that cannot be read; some systems open no folder at all
            if self.identity is not None:
                weakref.finalize(self, os.close, os.open(str(self.place), os.O_RDONLY))

    @property
    def is_gone(self) -> bool:
        """Whether the folder was removed since the command began, or another one lies in its place."""
        if self.place is None:
            return False
        return not self.place.is_dir() or self.identity not in (None, _identity(self.place))


@contextmanager
def kept_in(sentence: str, place: Path) -> Iterator[Kept]:
    """`Kept` of a folder that is made if need be, and goes again if nothing was put into it."""
    made = not place.exists()
    if made:
        with suppress(OSError):  # whoever writes to it says why it cannot be made
            place.mkdir(parents=True)
    try:
        yield Kept(sentence, place)
    finally:
        if made:
            with suppress(OSError):
                place.rmdir()


def _identity(place: Path) -> tuple[int, int] | None:
    try:
        found = place.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def on_termination() -> None:
    """Let Ctrl-C and SIGTERM unwind the program, see `benchmark.signals`."""
    on_signals()


def ended(error: BaseException, kept: Kept) -> tuple[int, str] | None:
    """Exit status and line for what ended a command; None for a bug."""
    if isinstance(error, KeyboardInterrupt):
        ending, status = ("terminated", 143) if isinstance(error, Terminated) else ("interrupted", 130)
        return status, f"{ending}: {kept.sentence}"
    if (removed := _removed(error, kept)) is not None:
        return 1, f"error: {removed}; the same command computes what is missing again"
    if isinstance(error, UserError):
        return 2, f"error: {error}"
    if isinstance(error, ExceptionGroup) and all(isinstance(each, UserError) for each in error.exceptions):
        return 1, f"error: {'; '.join(map(str, error.exceptions))}; the other methods are finished"
    problem = one_line(error) if isinstance(error, LostError) else disk_problem(error)
    if problem is not None:
        return 1, f"error: {problem}; {kept.sentence}"
    return None


@contextmanager
def in_one_line(kept: Kept) -> Iterator[None]:
    """What ends the block early ends the program with one line, a bug with its traceback."""
    try:
        yield
        raise_if_received()
    except (Exception, KeyboardInterrupt) as error:
        caught()
        if (ending := ended(error, kept)) is None:
            raise
        status, line = ending
        echo(printable(line))
        raise SystemExit(status) from error


def guarded(action: Callable[[], Any], kept: Kept) -> Any:
    """The result of `action`, see `in_one_line`."""
    with in_one_line(kept):
        return action()


def disk_problem(error: BaseException) -> str | None:
    """What a disk refused and what helps, or None for another error."""
    number = _number(error)
    if number in _WAYS_OUT:
        place = getattr(error, "filename", None)
        where = f" ({place})" if isinstance(place, str) else ""
        return f"{os.strerror(number)}{where}; {_WAYS_OUT[number]}"
    if isinstance(error, RuntimeError) and _TORCH.search(str(error)):
        return f"a file could not be written ({one_line(error)}); make room"
    return None


def _number(error: BaseException) -> int | None:
    """The system's number of an error; safetensors only writes it into the message."""
    if isinstance(error, OSError):
        return error.errno
    match = re.search(r"\(os error (\d+)\)", str(error)) if type(error).__name__ == "SafetensorError" else None
    return int(match[1]) if match else None


def _removed(error: BaseException, kept: Kept) -> str | None:
    """What of the folder that was written to is gone, in a sentence; None where an error says nothing of that.

    A file that was not found there may have been missing from the beginning (`Missing`, a mistake in what the command
    reads); or another process of the same command took it away, which locks prevent where a file system has them.
    """
    if kept.place is None or not isinstance(error, Exception):
        return None
    absent = isinstance(error, Missing) or _number(error) in (errno.ENOENT, errno.ENOTDIR)
    name = error.path if isinstance(error, Missing) else getattr(error, "filename", None)
    if not absent or not (name is None or kept.place.absolute() in Path(os.fsdecode(name)).absolute().parents):
        return None
    if kept.is_gone:
        return f"{kept.place} was removed while the command ran"
    if name is None or isinstance(error, Missing):
        return None
    return f"{os.fsdecode(name)} is not there any more: somebody else, or another process, works in {kept.place}"
