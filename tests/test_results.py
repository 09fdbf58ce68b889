"""Every block of the documentation's results is of one of its comparisons (`tests/test_pages.py` runs these)."""

import re

import yaml

from tests.conftest import REPOSITORY

SETTINGS = yaml.safe_load((REPOSITORY / "docs" / "results.yaml").read_text(encoding="utf-8"))


def test_blocks_and_pages_fit():
    text = "".join(
        path.read_text(encoding="utf-8") for path in (REPOSITORY / "README.md", *REPOSITORY.glob("docs/*.md"))
    )
    for name, block in SETTINGS["blocks"].items():
        assert block["comparison"] in SETTINGS["comparisons"], name
        assert f"<!-- results: {name} -->" in text, name
        assert f"<!-- end of {name} -->" in text, name
    assert set(re.findall("<!-- results: (.+?) -->", text)) == set(SETTINGS["blocks"])


def test_pictures_and_links_lead_to_files():
    """From where a page lies, as its readers follow them."""
    for page in (REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *REPOSITORY.glob("docs/*.md")):
        for link in re.findall(r"\]\(([^)#\s]+)(?:#[\w-]+)?\)", page.read_text(encoding="utf-8")):
            assert link.startswith("http") or (page.parent / link).is_file(), f"{page.name}: {link}"
