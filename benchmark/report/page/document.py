"""The page itself: markup, styles, scripts and data in one file that asks nothing of a network."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

from benchmark.report.arrangement import ordered_tests, repeated_line, repeats
from benchmark.report.cells import NamedCell
from benchmark.report.leaderboard import frame, groups_with_figures
from benchmark.report.naming import Names
from benchmark.report.page.contrasts import contrasts
from benchmark.report.page.overview import COSTS, curves, method_facts, scalars
from benchmark.report.page.packed import packed
from benchmark.report.page.provenance import provenance
from benchmark.report.page.showcase import columns
from benchmark.report.page.studies import studies
from benchmark.report.pairs import MethodPairs, every_pair
from benchmark.results.tables import Table

_ASSETS = Path(__file__).parent / "assets"
_VENDOR = Path(__file__).parents[1] / "vendor" / "uplot"
_STYLES = (
    _VENDOR / "uPlot.min.css",
    *(_ASSETS / f"{name}.css" for name in ("base", "table", "parts", "pictures", "analyses")),
)
_LIBRARY = _VENDOR / "uPlot.iife.min.js"
_SCRIPTS = (
    "elements", "tips", "markers", "choice", "table", "columns", "differences", "charts", "curves", "cost", "words",
    "pictures",
    "drawings", "analyses", "examples", "graph", "circuit", "provenance", "main",
)  # fmt: skip
"""In the order in which they are run: what a file uses stands before it, or is called after all are read."""


def comparison_page(
    cells: Sequence[NamedCell],
    table: pd.DataFrame | None = None,
    pairs: Mapping[tuple[str, str], Sequence[MethodPairs]] | None = None,
    links: Mapping[str, str] | None = None,
    command: str = "",
    tables: Sequence[Table] = (),
    called: Names | None = None,
) -> str:
    """The whole page; equal cells give equal text.

    Args:
        cells: named cells.
        table: their figures (`leaderboard.frame`); computed where it is None.
        pairs: their pairs (`pairs.every_pair`); computed where they are None.
        links: files beside the page, and what they hold.
        command: that made the comparison, where it is known.
        tables: of the comparison's analyses.
        called: what people read in place of code names; titles of our own where it is None.

    Raises:
        UserError: a file of a cell is corrupt; the message names it.
    """
    figures = frame(cells) if table is None else table
    compared = every_pair(cells, figures) if pairs is None else pairs
    words = Names.of(cells) if called is None else called
    boards, showcases = [], []
    for task, model, members, part in groups_with_figures(cells, figures):
        names = [cell.method for cell in members]
        places = {name: place for place, name in enumerate(names)}
        by_name = {cell.method: cell for cell in members}
        boards.append(
            {
                "title": words.place(task, model),
                "methods": method_facts(by_name, names, words),
                "scalars": scalars(members, part, names),
                "curves": list(curves(members, part, names)),
                "hidden": repeated_line(repeats(members)),
                "contrasts": contrasts(members, compared[task, model], places, words),
                "tests": {test: record.about.title or test for test, record in ordered_tests(members).items()},
                "run": provenance(members),
            }
        )
        showcases.append(columns([(places[name], by_name[name]) for name in names]))
    overview = {"boards": boards, "costs": COSTS, "links": dict(links or {}), "command": command}
    return _page(overview | {"analyses": studies(tables, words)}, showcases)


def _page(overview: Mapping[str, Any], showcases: Sequence[Mapping[str, Any]]) -> str:
    styles = "\n".join(path.read_text(encoding="utf-8") for path in _STYLES)
    scripts = [
        _LIBRARY.read_text(encoding="utf-8"),
        "\n".join((_ASSETS / f"{name}.js").read_text(encoding="utf-8") for name in _SCRIPTS),
    ]
    titles = " | ".join(board["title"] for board in overview["boards"])
    templates = Environment(loader=FileSystemLoader(_ASSETS), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return templates.get_template("page.html.jinja").render(
        title=f"Attention explainers compared: {titles}",
        styles=Markup(styles),
        scripts=[Markup(script) for script in scripts],
        allowed=" ".join(map(allowed_digest, scripts)),
        style_digest=allowed_digest(styles),
        overview=packed(overview),
        examples=packed(showcases),
        analyses=bool(overview["analyses"]),
        links=overview["links"],
    )


def allowed_digest(text: str) -> str:
    """How a Content Security Policy names a script or style that may stand in the page; no other is run."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode('ascii')}'"
