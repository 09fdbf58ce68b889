"""The two exceptions that are answers rather than bugs."""


class UserError(Exception):
    """A mistake in the input or the configuration: one line that names the setting and the way out (exit status 2)."""


class NotApplicable(Exception):  # noqa: N818 - it is an answer, not an error
    """A method or an evaluation cannot serve this task, model or method; the message is printed beside the dash."""
