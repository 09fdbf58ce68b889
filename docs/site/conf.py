"""How the pages of `docs/` become a site: `make docs`.

It lies apart from `docs/results.py`, which could not import the package `conf` beside it.
What a page cites as `[hao2021]` becomes a link to the entry of that key on the page of references.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

from pybtex.database import Entry
from pybtex.plugin import register_plugin
from pybtex.style.formatting.unsrt import Style
from pybtex.style.labels import BaseLabelStyle
from sphinx.application import Sphinx

DOCS = Path(__file__).resolve().parents[1]
_KEYS = re.compile(r"(?<![\]`])\[([a-z]+\d{4}[a-z]*(?:; [a-z]+\d{4}[a-z]*)*)\](?!\()")


class Citations(BaseLabelStyle):  # type: ignore[misc]  # untyped in pybtex
    """Labels as docstrings cite: Hao et al. 2021, Abnar & Zuidema 2020."""

    def format_labels(self, sorted_entries: Iterable[Entry]) -> Iterator[str]:
        """The entry's own `shorthand` where two would read alike; else authors and year."""
        for entry in sorted_entries:
            names = [
                " ".join(person.rich_last_names[0].render_as("text").split()) for person in entry.persons["author"]
            ]
            authors = " & ".join(names) if len(names) < 3 else f"{names[0]} et al."
            yield entry.fields.get("shorthand") or f"{authors} {entry.fields['year']}"


class References(Style):  # type: ignore[misc]  # untyped in pybtex
    """Entries by author and year."""

    default_label_style = Citations
    default_sorting_style = "author_year_title"


def cite(app: Sphinx, name: str, source: list[str]) -> None:
    """Keys in brackets become citations."""
    source[0] = _KEYS.sub(lambda keys: f"{{cite}}`{keys[1].replace('; ', ',')}`", source[0])


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    register_plugin("pybtex.style.formatting", "references", References)
    app.connect("source-read", cite)


_project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
project = "Attention Explainer Benchmark"
version = release = _project["version"]

extensions = ["myst_nb", "sphinxcontrib.bibtex"]
exclude_patterns = ["_build", "site"]
nitpicky = True
highlight_language = "none"  # where a block names none

myst_heading_anchors = 4
nb_execution_mode = "off"  # outputs are those of the file; a test executes it

bibtex_bibfiles = [str(DOCS / "references.bib")]
bibtex_default_style = "references"

html_theme = "furo"
html_title = f"{project} {version}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_copyright = False
html_copy_source = False
html_show_sphinx = False
