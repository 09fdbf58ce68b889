"""Text that can be shown in one line: names and messages may come from anybody's files."""

import sys
import unicodedata

_LINE_ENDS = "\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"
_DIRECTIONS = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))  # they reorder the rest of a line, figures included
_TABLE: dict[int, str | None] = {
    **{code: None for code in range(0xA0) if unicodedata.category(chr(code)) == "Cc"},
    **dict.fromkeys((*_DIRECTIONS, 0xFEFF)),  # the last: a mark of byte order, on which matplotlib stumbles
    **dict.fromkeys(map(ord, _LINE_ENDS), " "),
    **dict.fromkeys(range(0xD800, 0xE000), "\ufffd"),  # half of a pair: no file can hold it
}


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
