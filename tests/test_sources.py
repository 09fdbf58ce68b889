"""What docstrings refer to stands in docs/protocols.md, what they cite in docs/references.bib."""

import ast
import re
import shutil
import subprocess
import unicodedata
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGES = ("benchmark", "methods", "tasks")

OUTSIDE = ("PROTO" + "COLS", "DE" + "SIGN")
"""Documents that are not here. They are put together so that this file does not mention them."""

NO_PAPER = ("this project", "a control of the tests")
"""Sources that are no publication."""

SECTION = re.compile(r"docs/protocols\.md,\s+(?:#\s+)?sections?\s+(\d+)(?:\s+and\s+(\d+))?")
REFERENCE = re.compile(r"docs/protocols\.md")
COMMIT = re.compile(r"\([\w.-]+/[\w.-]+, commit [0-9a-f]{7,40}\)")
CITATION = re.compile(r"\b([^\W\d_a-z][\w’'-]+)( et al\.| & [^\W\d_a-z][\w’'-]+)?\s+((?:19|20)\d\d)([a-z]?)\b")
FIELD = re.compile(r"^\s*(\w+)\s*=\s*\{(.*)\},?\s*$", re.MULTILINE)
KEYS = re.compile(r"\[([a-z]+\d{4}[a-z]*(?:; [a-z]+\d{4}[a-z]*)*)\]")
ENTRY = re.compile(r"^@(\w+)\{([^,\s]+),\n(.*?)^\}", re.MULTILINE | re.DOTALL)


def tracked() -> list[Path]:
    """Every file that git tracks."""
    git = shutil.which("git")
    if git is None:
        pytest.skip("git is not installed")
    listed = subprocess.run([git, "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [path for name in listed.stdout.decode().split("\0") if name and (path := REPOSITORY / name).is_file()]


def texts() -> Iterator[tuple[str, str]]:
    for path in tracked():
        yield str(path.relative_to(REPOSITORY)), path.read_bytes().decode("utf-8", errors="replace")


def docstrings() -> Iterator[tuple[str, str]]:
    """(where, text) of every docstring of the packages, those of attributes and constants included."""
    for package in PACKAGES:
        for path in sorted((REPOSITORY / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                    text = node.value.value
                    if isinstance(text, str):
                        yield f"{path.relative_to(REPOSITORY)}:{node.lineno}", text


def sources_of(text: str) -> list[str]:
    """The `Source:` entries of a docstring, each with the lines that continue it."""
    found: list[list[str]] = []
    inside = False
    for line in map(str.strip, text.splitlines()):
        if line.startswith("Source:"):
            found.append([line.removeprefix("Source:").strip()])
            inside = True
        elif inside and line and not line.startswith("Cost:"):
            found[-1].append(line)
        else:
            inside = False
    return [" ".join(lines) for lines in found]


def plain(name: str) -> str:
    """A family name without braces, accents and case: `{\\v{S}}trumbelj` and `Štrumbelj` are `strumbelj`."""
    name = re.sub(r"\\(?:[a-zA-Z](?![a-zA-Z])|[^a-zA-Z\s])", "", name)
    decomposed = unicodedata.normalize("NFKD", re.sub(r"[{}\\]", "", name))
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter)).casefold()


def entries() -> dict[str, dict[str, str]]:
    text = (REPOSITORY / "docs" / "references.bib").read_text(encoding="utf-8")
    keys = [key for _, key, _ in ENTRY.findall(text)]
    assert text.count("\n@") == len(keys), "an entry of docs/references.bib is not read"
    assert not [key for key, times in Counter(keys).items() if times > 1]
    return {key: dict(FIELD.findall(body)) for _, key, body in ENTRY.findall(text)}


def cited_as() -> dict[tuple[str, str], list[tuple[str, int]]]:
    """(family name of the first author, year with its letter) -> keys with their numbers of authors."""
    names: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for key, fields in entries().items():
        authors = fields["author"].split(" and ")
        year = fields["year"]
        if "shorthand" in fields:
            shown = CITATION.fullmatch(fields["shorthand"])
            assert shown, f"{key}: the shorthand is no citation"
            assert shown[3] == year, f"{key}: the shorthand names another year"
            year += shown[4]
        names.setdefault((plain(authors[0].split(",")[0]), year), []).append((key, len(authors)))
    return names


NAMES = cited_as()


def citations(text: str) -> Iterator[tuple[str, str, str]]:
    """(the citation, first author, year with its letter)."""
    for match in CITATION.finditer(" ".join(text.split())):
        yield match[0], plain(match[1]), match[3] + match[4]


def test_no_file_mentions_documents_that_are_not_here():
    assert [f"{name}: {word}" for name, text in texts() for word in OUTSIDE if word in text] == []


def test_every_section_that_is_referred_to_exists():
    pages = (REPOSITORY / "docs" / "protocols.md").read_text(encoding="utf-8")
    numbers = re.findall(r"^## (\d+)\. \S", pages, flags=re.MULTILINE)
    assert numbers == [str(number) for number in range(1, len(numbers) + 1)]
    referred = [(name, match) for name, text in texts() for match in SECTION.finditer(text)]
    assert len(referred) > 70
    assert [(name, match[0]) for name, match in referred if not {match[1], match[2] or match[1]} <= set(numbers)] == []


def test_every_reference_of_a_docstring_names_a_section():
    unnumbered = [where for where, text in docstrings() if len(REFERENCE.findall(text)) != len(SECTION.findall(text))]
    assert unnumbered == []


def test_every_source_is_a_publication_or_says_that_there_is_none():
    found = [(where, source) for where, text in docstrings() for source in sources_of(text)]
    assert len(found) > 50
    empty = [
        (where, source)
        for where, source in found
        if not (list(citations(source)) or source.startswith(NO_PAPER) or COMMIT.search(source))
    ]
    assert empty == []


def test_every_source_resolves_and_is_spelled_in_one_form():
    wrong = []
    for where, text in docstrings():
        for source in sources_of(text):
            for cited, author, year in citations(source):
                fits = NAMES.get((author, year), [])
                form = {1: r"\S+ \d", 2: r"\S+ & \S+ \d"}.get(fits[0][1], r"\S+ et al\. \d") if fits else ""
                if len(fits) != 1 or not re.match(form, cited):
                    wrong.append(f"{where}: {cited}")
    assert wrong == []


def test_every_citation_of_a_docstring_resolves():
    """Outside `Source:` the first author and the year suffice: (Hao 2021, eq. 4)."""
    wrong = [
        f"{where}: {cited}"
        for where, text in docstrings()
        for cited, author, year in citations(text)
        if len(NAMES.get((author, year), [])) != 1
    ]
    assert wrong == []


def test_protocols_cite_keys_that_exist():
    pages = (REPOSITORY / "docs" / "protocols.md").read_text(encoding="utf-8")
    keys = {key for group in KEYS.findall(pages) for key in group.split("; ")}
    assert len(keys) > 40
    assert keys - set(entries()) == set()


@pytest.mark.parametrize(
    ("written", "read"),
    [("{\\v{S}}trumbelj", "strumbelj"), ("Štrumbelj", "strumbelj"), ("Costa-juss{\\`a}", "costa-jussa")],
)
def test_family_names_are_compared_without_accents(written, read):
    assert plain(written) == read


def test_a_source_goes_on_until_its_cost_or_an_empty_line():
    text = "Head.\n\nSource: Hao et al. 2021, eq. 4; the\n    others are ours.\nCost: 1 pass.\n\nSource: this project."
    assert sources_of(text) == ["Hao et al. 2021, eq. 4; the others are ours.", "this project."]
