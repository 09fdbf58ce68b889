"""Docstrings as a person at a terminal reads them: what holds for the settings at hand, and a text for each setting."""

import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_CASE = re.compile(r"^With (\w+)=(.+):\n((?: {4}.+(?:\n|$))+)", re.MULTILINE)
_FACT = re.compile(r"^(Source|Cost): (?:.+(?:\n|$))+?(?=\n|[A-Z]|\Z)", re.MULTILINE)
_SECTION = re.compile(r"^(\w+):\n((?:(?: {4}.*)?(?:\n|$))+)", re.MULTILINE)
_SETTINGS = ("Attributes", "Args")
_ITEM = re.compile(r"^ {4}(\w+(?:, \w+)*): (.+(?:\n {8}.+)*)", re.MULTILINE)
_BEGINS_A_LINE = re.compile(r"- |[A-Z]\w+: ")


@dataclass(frozen=True)
class Docstring:
    """A docstring in its parts.

    Attributes:
        text: all but the cases and the sections (`Attributes:`, `Args:`, `Raises:`, ...).
        cases: what it says `With SETTING=VALUE:`, in their order: setting, value, text.
        settings: what it says of each setting, on one line.
    """

    text: str
    cases: tuple[tuple[str, str, str], ...]
    settings: Mapping[str, str]

    @classmethod
    def of(cls, docstring: str) -> "Docstring":
        """The parts of one docstring, whose first line has no indent."""
        cases = tuple((name, value, textwrap.dedent(said).strip()) for name, value, said in _CASE.findall(docstring))
        text = _CASE.sub("", docstring)
        sections = "\n".join(said for name, said in _SECTION.findall(text) if name in _SETTINGS)
        settings = {
            name: " ".join(said.split()) for names, said in _ITEM.findall(sections) for name in names.split(", ")
        }
        return cls(re.sub(r"\n{3,}", "\n\n", _SECTION.sub("", text)).strip(), cases, settings)

    def holding(self, config: Mapping[str, Any]) -> list[str]:
        """The texts of the cases that a part's settings are one of."""
        return [said for name, value, said in self.cases if _is_set(value, config.get(name))]

    def read(self, config: Mapping[str, Any]) -> str:
        """The text for these settings: of a case that holds come definition, source and cost, in place of the general."""
        held = self.holding(config)
        text = _FACT.sub("", self.text) if any(_FACT.search(said) for said in held) else self.text
        return re.sub(r"\n{3,}", "\n\n", "\n\n".join([*held, text])).strip()


def _is_set(value: str, configured: Any) -> bool:
    """Whether a setting has a value; that of a list in any order."""
    return set(value.split(", ")) == (set(map(str, configured)) if isinstance(configured, list) else {str(configured)})


def wrapped(text: str, width: int, indent: str = "") -> str:
    """Paragraphs and items of lists on lines of at most `width` characters."""
    return "\n".join(line for paragraph in _paragraphs(text) for line in _lines(paragraph, width, indent))


def _paragraphs(text: str) -> Iterator[str]:
    """What is on lines of its own; an empty text between paragraphs."""
    held: list[str] = []
    for line in text.splitlines():
        if held and (not line.strip() or _BEGINS_A_LINE.match(line)):
            yield " ".join(held)
            held = []
        if line.strip():
            held.append(line.strip())
        else:
            yield ""
    yield " ".join(held)


def _lines(paragraph: str, width: int, indent: str) -> list[str]:
    hanging = indent + "  " * paragraph.startswith("- ")
    return textwrap.wrap(
        paragraph,
        width,
        initial_indent=indent,
        subsequent_indent=hanging,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [""]
