"""The two exceptions that are answers rather than bugs."""

from benchmark.printable import printable


class UserError(Exception):
    """A mistake in the input or the configuration: one line that names the setting and the way out (exit status 2)."""

    def __str__(self) -> str:
        """The message in one line without control characters: it may quote a file of anybody's."""
        return printable(super().__str__())


class NotApplicable(Exception):  # noqa: N818 - it is an answer, not an error
    """A method or an evaluation cannot serve this task, model or method; the message is printed beside the dash."""
