"""What a page carries: its data, and its markup without them."""

import gzip
import json
import re
from base64 import b64decode
from html.parser import HTMLParser
from typing import Any

_DATA = re.compile(r'<script type="application/gzip" id="([\w-]+)">([\w+/=]*)</script>')


def carried(page: str) -> dict[str, Any]:
    """The data of a page by name: `overview-data`, and `example-data`, a list over tasks and models."""
    return {found[1]: json.loads(gzip.decompress(b64decode(found[2]))) for found in _DATA.finditer(page)}


def scalar(board: dict[str, Any], name: str) -> dict[str, Any]:
    """A scalar metric of a board, by the name of the metric."""
    (found,) = (metric for metric in board["scalars"] if metric["name"] == name)
    return found


class Page(HTMLParser):
    """Tags, attributes and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)
