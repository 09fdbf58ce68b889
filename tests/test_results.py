"""Every comparison of the documentation is composed, and every block is of one of them."""

import pytest
import yaml

from benchmark.settings.configuration import compose
from tests.conftest import REPOSITORY

SETTINGS = yaml.safe_load((REPOSITORY / "docs" / "results.yaml").read_text(encoding="utf-8"))
FOLDERS = {"data": "data", "checkpoints": "checkpoints"}


@pytest.mark.parametrize("name", SETTINGS["comparisons"])
def test_its_overrides_are_settings(name):
    assert compose("config", [override.format(**FOLDERS) for override in SETTINGS["comparisons"][name]]).methods


def test_blocks_and_pages_fit():
    text = "".join(
        path.read_text(encoding="utf-8") for path in (REPOSITORY / "README.md", *REPOSITORY.glob("docs/*.md"))
    )
    for name, block in SETTINGS["blocks"].items():
        assert block["comparison"] in SETTINGS["comparisons"], name
        assert f"<!-- results: {name} -->" in text, name
        assert f"<!-- end of {name} -->" in text, name
    assert text.count("<!-- results: ") == len(SETTINGS["blocks"])
