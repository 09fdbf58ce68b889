"""Every figure of the page of claims stands, digit by digit, on the page that its line links to."""

import re

import pytest

from tests.conftest import REPOSITORY

DOCS = REPOSITORY / "docs"
PAGES = {"docs/claims.md": DOCS, "README.md": REPOSITORY}
FIGURE = re.compile(r"-?[\d.]+(?:e-\d+)? [\[(]-?[\d.e-]+(?:,| to) -?[\d.e-]+[\])]")
LINK = re.compile(r"\]\(([\w/-]+\.md)#([^)]+)\)")
VERDICTS = ("holds", "holds in part", "does not hold", "intervals apart", "cannot be told here")


def lines():
    """The lines with a verdict: table rows of the page, and the list of the README."""
    rows = [("docs/claims.md", line) for line in (DOCS / "claims.md").read_text().splitlines() if " | `" in line]
    start = (REPOSITORY / "README.md").read_text().partition("## Which conclusions of the sources hold")[2]
    listed = [("README.md", line) for line in start.partition("\n## ")[0].splitlines() if line.startswith("- ")]
    return [(page, line) for page, line in (*rows, *listed) if LINK.search(line)]


def verdict(line):
    found = re.findall(r"(?:`|\*\*)(" + "|".join(VERDICTS) + r")(?:`|\*\*)", line)
    return found[0] if len(found) == 1 else None


def anchor(heading):
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize(("page", "line"), lines(), ids=lambda value: value[:60])
def test_a_figure_is_that_of_its_table(page, line):
    links = LINK.findall(line)
    text = "\n".join((PAGES[page] / name).read_text() for name, _ in links)
    text = re.sub(r"\*\*|</?u>", "", text)
    missing = [figure for figure in FIGURE.findall(line) if figure not in text]
    assert missing == []
    assert verdict(line) in VERDICTS
    for name, section in links:
        headings = re.findall(r"^#+ (.*)$", (PAGES[page] / name).read_text(), re.MULTILINE)
        assert section in map(anchor, headings), section


def test_the_counts_of_the_page_are_those_of_its_lines():
    found = [verdict(line) for page, line in lines() if page == "docs/claims.md"]
    said = (DOCS / "claims.md").read_text()
    counts = [
        len(found),
        *map(found.count, VERDICTS),
    ]
    told = "{} claims, of which {} hold, {} hold in part, {} do not, {} rest on intervals that lie apart"
    assert f"{told}, and {{}} cannot be told here".format(*counts) in said
    listed = [line for page, line in lines() if page == "README.md"]
    assert f"and {len(found) - len(listed)} others" in (REPOSITORY / "README.md").read_text()
