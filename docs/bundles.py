"""Make the project's own bundles and its site from the comparisons of `docs/results.yaml`: `python -m docs.bundles --help`.

What has no texts of others is built from nothing; SST-2 and the movie reviews need the folders that their comparisons need.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from benchmark.bundles.making import Asked, make_bundle
from benchmark.bundles.repository import Repository
from benchmark.bundles.site.pages import write_site
from benchmark.errors import UserError
from docs.results import DOCS, Results


def main(arguments: Sequence[str]) -> int:
    """Make the bundles that are named (all that need no folder otherwise), and the site of all that are there."""
    parser = argparse.ArgumentParser("python -m docs.bundles", description=__doc__)
    parser.add_argument("names", nargs="*", help="bundles; those that need no folder without any")
    parser.add_argument("--data", default="data", help="folder with eraser_movies/ and glue/ (SST-2)")
    parser.add_argument("--checkpoints", default="checkpoints", help="folder with sst2/ and movies/")
    parser.add_argument("--out", default="runs", type=Path, help="where run folders lie")
    parser.add_argument("--board", default="runs/board", type=Path, help="where bundles/ and results/ lie")
    parser.add_argument("--site", default="site", type=Path, help="folder of the site")
    given = parser.parse_args(arguments)
    settings = yaml.safe_load((DOCS / "results.yaml").read_text(encoding="utf-8"))
    results = Results(settings["comparisons"], {"data": given.data, "checkpoints": given.checkpoints}, given.out)
    bundles: Mapping[str, Mapping[str, Any]] = settings["bundles"]
    for name in given.names or [name for name, one in bundles.items() if not one.get("needs")]:
        if name not in bundles:
            raise UserError(f"{name} is no bundle of docs/results.yaml; there are {', '.join(bundles)}")
        print(make(name, bundles[name], results, given.board / "bundles"))
    (given.board / "results").mkdir(exist_ok=True)
    count, size = write_site(Repository(given.board / "results"), given.site)
    print(f"{given.site / 'index.html'}: {count} files, {size / 1e6:.1f} MB")
    return 0


def make(name: str, settings: Mapping[str, Any], results: Results, place: Path) -> str:
    """One bundle, from the comparison that it names; a line of what was done."""
    key = f"{name}@{settings['version']}"
    if (place / key).is_dir():
        return f"{key} is there"
    made = results.run(settings["comparison"])
    trust = results.run(settings["trust"]).folder if "trust" in settings else None
    asked = Asked(name, settings["version"], settings["licence"], settings["texts"], date.today().isoformat(), trust)
    _, left_out = make_bundle([made.folder], asked, place)
    said = f", without {', '.join(left_out)}, which read what a submission does not carry" if left_out else ""
    return f"{key} made of {settings['comparison']}{said}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
