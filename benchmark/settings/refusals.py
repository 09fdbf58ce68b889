"""What Hydra 1.3 and OmegaConf 2.3 refuse, in the words of a command line."""

import re
from collections.abc import Callable, Sequence

from benchmark.errors import near

_REFUSALS = (
    (
        r"^(?:LexerNoViableAltException|missing EQUAL|mismatched input|extraneous|no viable alt|Error parsing override)",
        "a setting is written NAME=VALUE, and a text with spaces or brackets in quotation marks of its own",
    ),
    (
        r"An item is already at '([^']+)'. Either remove \+ prefix: '([^']+)'",
        "{0} is there already; write {1}, without +",
    ),
    (r"Multiple values for ([\w/]+)", "{0} is chosen twice; write {0}=NAME once, without +"),
    (r"Could not delete from config\. '([^']+)' does not exist", "~{0}: there is no setting {0}"),
    (r"Could not delete from config\. The value of '([^']+)' is (\S+) and not", "~{0}: its value is {1}; write ~{0}"),
    (r"Could not delete '([^']+)'\. No match in the defaults list", "~{0}: write {0}=[...] with those that stay"),
    (
        r"Could not override '([^']+)'\. No match in the defaults list",
        "+experiment=NAME does not fit: there is no {0} here",
    ),
    (r"Environment variable '([^']+)' not found", "the environment variable {0} is not set"),
    (r"Interpolation key '([^']+)' not found", "${{{0}}} refers to a setting that does not exist"),
    (r"InterpolationKeyError.*'([^']+)' not found", "${{{0}}} refers to a setting that does not exist"),
    (r"Unsupported interpolation type (\S+)", "there is no resolver ${{{0}:...}}"),
    (r"Error merging override (\S+)", "{0}: this setting takes no such value"),
    (r"looks like a config group override, but config group '([^']+)' does not", "there is no group {0}"),
    (r"Missing mandatory value: (\S+)", "{0} is not set; give it on the command line: {0}=..."),
    (r"([\w./-]+) appears more than once in the final defaults list", "{0} is named twice; name it once"),
)


def in_plain_words(error: BaseException, options: Callable[[str], Sequence[str]]) -> str:
    """The refusal in one line; for an option that does not exist, with the nearest ones.

    Args:
        error: of Hydra's or OmegaConf's.
        options: those of a group.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    if missing := re.search(r"Could not (?:find|load) '(.+)/(.+?)'", lines[0]):
        names = [line for line in lines[2:] if ":" not in line and "provider=" not in line]
        return f"{missing[1]}={missing[2]} does not exist; {near(missing[2], names or options(missing[1]))}"
    text = " ".join(lines)
    for pattern, sentence in _REFUSALS:
        if refused := re.search(pattern, text):
            return sentence.format(*refused.groups())
    return f"the settings do not fit together: {lines[0]}"
