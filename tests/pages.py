"""What the pages for readers show: commands, files of their own, and settings between backticks."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import REPOSITORY

PAGES = (REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *sorted((REPOSITORY / "docs").glob("*.md")))
_BLOCK = re.compile(r"^```(\w*|\{.*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SHOWN = re.compile(r"^`([\w/]+\.\w+)`:\n\n```\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MADE = re.compile(r"<!-- (?:python|results:) .*?<!-- end of .*?-->", re.DOTALL)
_SPAN = re.compile(r"`([^`]+)`|<code>(.*?)</code>")
_COMMAND = re.compile(r"(?:python|\.venv/bin/python|make|pre-commit|wandb|attention-benchmark check) ")


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    """Language and content of each block of code; directives of the site, in braces, are none."""
    for found in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        if not found[1].startswith("{"):
            yield found[1], found[2]


def spans(page: Path) -> list[str]:
    """What stands between backticks in the text that people wrote, each once, on one line."""
    text = _MADE.sub("", _BLOCK.sub("", page.read_text(encoding="utf-8")))
    return list(dict.fromkeys(" ".join((found[1] or found[2]).split()) for found in _SPAN.finditer(text)))


def made(page: Path) -> str:
    """What programs write of a page."""
    return "\n".join(_MADE.findall(page.read_text(encoding="utf-8")))


def commands(page: Path) -> list[str]:
    """Every command, in blocks and in the text, on one line and without its comment; each once."""
    scripts = job_scripts(page)
    shells = [code for language, code in blocks(page) if language in ("", "bash") and code not in scripts]
    lines = [line for code in shells for line in _joined(code)]
    shown = [line for line in (*lines, *spans(page)) if _COMMAND.match(line)]
    return list(dict.fromkeys(shlex.join(shlex.split(line, comments=True)) for line in shown))


def is_command(line: str) -> bool:
    """Whether a line is one that is typed."""
    return _COMMAND.match(line) is not None


def _joined(code: str) -> list[str]:
    return code.replace("\\\n", " ").splitlines()


def named_files(page: Path) -> dict[str, str]:
    """Blocks that begin with the name of a file in a comment, by that name."""
    heads = ((re.match(r"[#%] ([\w/]+\.\w+)$", code.partition("\n")[0]), code) for _, code in blocks(page))
    return {head[1]: code for head, code in heads if head is not None}


def shown_files(page: Path) -> dict[str, str]:
    """Blocks below a line that is nothing but the name of a file between backticks, by that name."""
    return {found[1]: found[2] for found in _SHOWN.finditer(page.read_text(encoding="utf-8"))}


def programs(page: Path) -> list[str]:
    """Blocks of Python that are no file, in their order; names go on from one to the next."""
    files = named_files(page).values()
    return [code for language, code in blocks(page) if language == "python" and code not in files]


def job_scripts(page: Path) -> list[str]:
    """Blocks that are a whole script of a shell."""
    return [code for _, code in blocks(page) if code.startswith("#!")]


def settings(page: Path) -> list[str]:
    """What the text shows as NAME=VALUE, or as the beginning of it; `-m ` before it where its values are swept."""
    return [span for span in spans(page) if re.match(r"(-m )?[a-z_][\w.]*=", span)]
