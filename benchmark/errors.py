"""The exceptions that are answers rather than bugs."""

import difflib
from collections.abc import Sequence
from pathlib import Path

from benchmark.printable import printable


class UserError(Exception):
    """A mistake in the input or the configuration: one line that names the setting and the way out (exit status 2)."""

    def __str__(self) -> str:
        """The message in one line without control characters: it may quote a file of anybody's."""
        return printable(super().__str__())


class Corrupt(UserError):  # noqa: N818 - said of the file
    """Something in a run folder that cannot be read; `reason` says what, without a way out."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} is corrupt ({reason}); remove the folder {path.parent}, and it is computed again")
        self.path, self.reason = path, reason


class Missing(UserError):  # noqa: N818 - said of the file
    """A file of a run folder that is not there."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is missing; the same command computes it again")
        self.path = path


class NotApplicable(Exception):  # noqa: N818 - it is an answer, not an error
    """A method or an evaluation cannot serve this task, model or method; the message is printed beside the dash."""


def near(name: str, known: Sequence[str]) -> str:
    """The way out for a name that does not exist: the nearest ones, or all of them where none is near."""
    matches = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    return f"did you mean {', '.join(matches)}?" if matches else f"allowed: {', '.join(known)}"
