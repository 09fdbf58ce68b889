"""What is said to a person: the exceptions that are answers rather than bugs, and text that can be shown in one line."""

import difflib
import sys
import unicodedata
from collections.abc import Sequence
from pathlib import Path

_LINE_ENDS = "\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"
_DIRECTIONS = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))  # they reorder the rest of a line, figures included
_TABLE: dict[int, str | None] = {
    **{code: None for code in range(0xA0) if unicodedata.category(chr(code)) == "Cc"},
    **dict.fromkeys((*_DIRECTIONS, 0xFEFF)),  # the last: a mark of byte order, on which matplotlib stumbles
    **dict.fromkeys(map(ord, _LINE_ENDS), " "),
    **dict.fromkeys(range(0xD800, 0xE000), "\ufffd"),  # half of a pair: no file can hold it
}


class UserError(Exception):
    """A mistake in the input or the configuration: one line that names the setting and the way out (exit status 2)."""

    def __str__(self) -> str:
        """The message in one line without control characters: it may quote a file of anybody's."""
        return printable(super().__str__())

    def _render_traceback_(self) -> list[str]:
        """What IPython shows: the line, without the way through our code."""
        return [f"{type(self).__name__}: {self}"]


class LostError(Exception):
    """Something ended that the command needs and that is no part of it: one line, and exit status 1."""


class Corrupt(UserError):  # noqa: N818 - said of the file
    """Something in a run folder that cannot be read; `reason` says what, without a way out."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} is corrupt ({reason}); remove the folder {path.parent}, and it is computed again")
        self.path, self.reason = path, reason

    def __reduce__(self) -> tuple[type["Corrupt"], tuple[Path, str]]:
        """Made again of what it was made of: an exception is otherwise made of its message, in another process."""
        return type(self), (self.path, self.reason)


class Missing(UserError):  # noqa: N818 - said of the file
    """A file of a run folder that is not there."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is missing; the same command computes it again")
        self.path = path

    def __reduce__(self) -> tuple[type["Missing"], tuple[Path]]:
        """As that of `Corrupt`."""
        return type(self), (self.path,)


class NoSplit(UserError):  # noqa: N818 - said of the task
    """A task has no such split. What is scored needs it; whoever only calibrates on it prints a dash.

    Attributes:
        lacking: the message without the proposal to score another split, which helps nobody who is trained on this one.
    """

    def __init__(self, lacking: str, proposal: str = "") -> None:
        super().__init__(f"{lacking}{proposal}")
        self.lacking, self.proposal = lacking, proposal

    def __reduce__(self) -> tuple[type["NoSplit"], tuple[str, str]]:
        """As that of `Corrupt`."""
        return type(self), (self.lacking, self.proposal)


class NotApplicable(Exception):  # noqa: N818 - it is an answer, not an error
    """A method or an evaluation cannot serve this task, model or method; the message is printed beside the dash."""


_FARTHER = 0.3  # a name that is so much less alike than the nearest one is not meant
_LISTED = 200


def near(name: str, allowed: Sequence[str]) -> str:
    """The way out for a name that does not exist: the nearest ones, or all of them where none is near."""
    matches = difflib.get_close_matches(name, allowed, n=3, cutoff=0.5)
    if matches:
        alike = [difflib.SequenceMatcher(None, name, match).ratio() for match in matches]
        nearest = [match for match, ratio in zip(matches, alike, strict=True) if ratio > alike[0] - _FARTHER]
        return f"did you mean {', '.join(nearest)}?"
    more = f", ... ({len(allowed)} in all)" if len(allowed) > _LISTED else ""
    return f"allowed: {', '.join(allowed[:_LISTED])}{more}"


def printable(text: str) -> str:
    """The text without control characters and without characters that turn the direction of a line.

    Line ends and tabs become spaces; what no encoding can write becomes U+FFFD, and so does a text of which nothing else
    would be left.
    """
    if text.isprintable() and text.isascii():
        return text
    return text.translate(_TABLE) or ("\ufffd" if text else "")


def one_line(error: BaseException) -> str:
    """What an error says, in one line; its type where it says nothing."""
    return shorter(" ".join(printable(str(error)).split())) or type(error).__name__


def shorter(text: str, letters: int = 300) -> str:
    """The text, cut where it is long."""
    return text if len(text) <= letters else text[: letters - 1] + "…"


def echo(message: str) -> None:
    """Write a line to standard error, whatever it is encoded in."""
    encoding = sys.stderr.encoding or "utf-8"
    print(message.encode(encoding, "backslashreplace").decode(encoding), file=sys.stderr)


def check_characters(text: str, whose: str) -> None:
    """UserError where a text has half of a surrogate pair, which is no character and cannot be tokenised or written."""
    if half := next((character for character in text if "\ud800" <= character <= "\udfff"), None):
        raise UserError(
            f"{whose} has a lone surrogate (\\u{ord(half):x} at character {text.index(half)}), which is no "
            "character; mend the file, or replace it: text.encode('utf-16', 'surrogatepass').decode('utf-16', 'replace')"
        )
