"""Compute the documentation's results and write them between its markers: `python -m docs.results --help`.

`docs/results.yaml` says which comparisons there are and which of their tables, sentences and figures are shown where.
A comparison that is finished is reused, so that a second call writes the same bytes in seconds. What is kept of each in the
repository is said in `docs/archive.py`.
"""

import argparse
import io
import math
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from PIL import Image
from rich.console import Console

from benchmark.analyses.mechanisms import CHANCE, TRUTH
from benchmark.analyses.over_seeds import BETWEEN, BETWEEN_SOME, ERROR, MEAN
from benchmark.comparison import Comparison, compare
from benchmark.opened import Opened, open_comparison
from benchmark.report import terminal_table
from benchmark.report.analysis_tables import OF_WIDE, printed, read_tables
from benchmark.report.leaderboard import MetricColumn, frame, make_board
from benchmark.report.markdown import table_lines
from benchmark.report.naming import OURS
from benchmark.report.pairs import MethodPairs
from benchmark.report.pairs import pairs as method_pairs
from benchmark.report.printed import Heading, PrintedEntry, PrintedRow, PrintedTable
from benchmark.results.store import find_record
from benchmark.results.tables import KEY, NO_INTERVAL, TOO_SMALL, is_too_wide, is_wide, reach_of
from benchmark.results.wording import escape_markdown, number
from benchmark.run.rechecking import Rechecked, drawn, recheck, recheck_kept
from benchmark.settings.configuration import compose
from docs import archive

DOCS = Path(__file__).resolve().parent
TABLES = DOCS / "tables"
SHOWN = {"data": "data", "checkpoints": "checkpoints"}
"""Folders of the reader's own, as the printed commands name them."""

SEEDS = "the same as means over five trainings"


@dataclass(frozen=True)
class Block:
    """What stands between two markers: one view of one comparison."""

    comparison: str
    kind: str
    settings: Mapping[str, Any]


class Results:
    """The comparisons of `results.yaml`, each run once and read once."""

    def __init__(self, comparisons: Mapping[str, Sequence[str]], folders: Mapping[str, str], out: Path) -> None:
        self._overrides, self._folders, self._out = comparisons, folders, out
        self._done: dict[str, Comparison] = {}

    def run(self, name: str) -> Comparison:
        """The comparison, computed where it is not finished."""
        if name not in self._done:
            self._done[name] = compare(*self._words(name))
        return self._done[name]

    def _words(self, name: str) -> list[str]:
        """The overrides that run it, with the folders of this machine."""
        return [*(override.format(**self._folders) for override in self._overrides[name]), f"out={self._out}"]

    def open(self, name: str) -> Opened:
        """Its parts, with nothing computed."""
        return open_comparison(compose("config", self._words(name)))

    def check(self, name: str, share: float) -> Iterator[Rechecked]:
        """Batches explained and tested again: a share where the run folders are finished, else what is kept of them."""
        opened = self.open(name)
        cells = opened.cells()
        if all(find_record(cell.folder) is not None for cell in cells.values()):
            yield from recheck(cells, opened.evaluations, drawn(cells, share))
        elif (kept := archive.kept_rows(TABLES / name)) is not None:
            yield from recheck_kept(cells, opened.evaluations, kept)

    def keep(self, name: str, tables: Sequence[str], hours: float | None) -> None:
        """Write what is kept of it in the repository."""
        archive.keep(TABLES / name, self.line(name), hours, self.run(name), self.open(name), tables)

    def line(self, name: str) -> str:
        """The command in one line."""
        return " ".join(["python -m benchmark", *(shlex.quote(word.format(**SHOWN)) for word in self._overrides[name])])

    def command(self, name: str) -> list[str]:
        """The command line as a reader types it."""
        words = [shlex.quote(override.format(**SHOWN)) for override in self._overrides[name]]
        lines, line = [], "python -m benchmark"
        for word in words:
            if len(line) + len(word) > 110:
                lines.append(line + " \\")
                line = "   "
            line += " " + word
        return ["```", *lines, line, "```"]


def leaderboard(results: Results, block: Block) -> Iterator[str]:
    """A leaderboard of some columns: `columns` maps "evaluation: metric" to the title that is shown."""
    table = frame(results.run(block.comparison).loaded)
    named = _columns(table, block)
    headings = tuple(Heading(title, column.higher_is_better) for title, column in named)
    yield from _wrapped(
        table_lines(replace(make_board(table, [column for _, column in named]), columns=headings)), block
    )


def seeds(results: Results, block: Block) -> Iterator[str]:
    """The same as means over trainings, of `tests_over_seeds`: interval over seeds and examples, spread between seeds.

    Lines follow the leaderboard of the comparison's own training; no place is marked, since the differences between
    methods were not tested over seeds. A dash has the reason that it has in the first training.
    """
    comparison = results.run(block.comparison)
    table = frame(comparison.loaded)
    named = _columns(table, block)
    board = make_board(table, [column for _, column in named])
    rows = next(one.rows for one in read_tables(comparison.folder) if one.name == "tests_over_seeds")
    found = {(row["explainer"], f"{row['test']}: {row['figure']}", row[KEY]): row for row in rows.to_dict("records")}

    reach = {f"{row['evaluation']}: {row['metric']}": reach_of(row) for row in table.to_dict("records")}
    notes: dict[str, int] = {}

    def noted(reason: str) -> int:
        return notes.setdefault(reason, len(notes) + 1)

    def entry(method: str, key: str, first: PrintedEntry) -> PrintedEntry:
        mean, *spreads = (found.get((method, key, of)) for of in (MEAN, BETWEEN, BETWEEN_SOME))
        spread = next(filter(None, spreads), None)
        if mean is None or spread is None:
            reason = "there is no figure over all trainings" if first.mark is None else board.notes[first.mark - 1]
            return PrintedEntry(words="–", mark=noted(reason))
        if is_wide(mean["low"], mean["high"], reach[key], int(mean["n"])):
            return PrintedEntry(n=int(mean["n"]), words=TOO_SMALL)
        words = f"SD {number(spread['value'])}" if math.isfinite(spread["value"]) else ""
        return PrintedEntry(mean["value"], mean["low"], mean["high"], int(mean["n"]), words=words)

    groups = {
        group: tuple(
            PrintedRow(row.labels, tuple(map(partial(entry, row.labels[0]), block.settings["columns"], row.entries)))
            for row in rows
        )
        for group, rows in board.groups.items()
    }
    shown = replace(
        board,
        columns=tuple(Heading(title, column.higher_is_better) for title, column in named),
        groups={name: rows for name, rows in groups.items() if rows},
        notes=tuple(notes),
        below=(
            "Means over trainings with 95 % intervals for other seeds and other examples; SD: between seeds. "
            f"Where it says '{TOO_SMALL}', the interval spans more than half of what is possible.",
        ),
        best="",
    )
    yield from _wrapped(table_lines(shown), block)


def pairs(results: Results, block: Block) -> Iterator[str]:
    """What paired differences say on some metrics: `columns` as for a leaderboard."""
    cells = results.run(block.comparison).loaded
    columns = [
        (title, column) for title, column in _columns(frame(cells), block) if column.higher_is_better is not None
    ]
    found = [(title, one) for title, column in columns if (one := method_pairs(cells, column)) is not None]
    lines = [f"- {title}: {escape_markdown('; '.join(_said(one)))}." for title, one in found]
    yield from _wrapped(lines or ["The figures are descriptive, so that no difference is tested."], block)


def _said(one: MethodPairs) -> list[str]:
    return [*one.sentences, *([] if one.random is None else [f"against random: {one.random.sentence}"])]


def _columns(table: pd.DataFrame, block: Block) -> list[tuple[str, MetricColumn]]:
    """The columns that a block names, with the titles that are shown."""
    scores = table[table["x"].isna()]
    directions = {(row["evaluation"], row["metric"]): row["higher_is_better"] for row in scores.to_dict("records")}
    named = block.settings["columns"].items()
    return [(title, MetricColumn(*_key(key), directions[_key(key)])) for key, title in named]


def analysis(results: Results, block: Block) -> Iterator[str]:
    """A table of an analysis; `metrics` chooses columns, `where` lines by their labels, `sentences` adds what follows."""
    tables = read_tables(results.run(block.comparison).folder)
    table = next(table for table in tables if table.name == block.settings["table"])
    rows = table.rows
    for label, allowed in block.settings.get("where", {}).items():
        rows = rows[rows[label].isin(allowed)]
    if metrics := block.settings.get("metrics"):
        rows = rows[rows["metric"].isin(metrics)]
    yield from _wrapped(table_lines(printed(replace(table, rows=rows))), block)
    if block.settings.get("sentences"):
        yield from ("", *(f"- {escape_markdown(sentence)}" for sentence in table.sentences))


def analysis_seeds(results: Results, block: Block) -> Iterator[str]:
    """The lines and columns of an analysis as means over trainings, from its table of `over_seeds`; the same settings.

    An entry is the mean with its interval for other seeds and other examples, and the standard deviation between seeds.
    """
    settings = block.settings
    (table,) = (
        table
        for table in read_tables(results.run(block.comparison).folder)
        if table.name == f"{settings['table']}_over_seeds"
    )
    rows = table.rows
    for label, allowed in settings.get("where", {}).items():
        rows = rows[rows[label].isin(allowed)]
    labels = [label for label in table.labels if label != "figure"]
    named = rows["figure"] if "figure" in rows else pd.Series("figure", index=rows.index)
    named = named.where(rows[KEY].isin([MEAN, BETWEEN, BETWEEN_SOME, ERROR]), rows["metric"])
    columns = [one for one in dict.fromkeys(named) if one in settings.get("metrics", [*named])]
    lines = [
        PrintedRow(
            tuple(OURS.label(label, one) for label, one in zip(labels, key, strict=True)),
            tuple(_over_seeds(part[named.loc[part.index] == column]) for column in columns),
        )
        for key, part in rows.groupby(labels, sort=False, dropna=False)
    ]
    below = "Means over trainings with 95 % intervals for other seeds and other examples; SD: between seeds."
    told = any(map(is_too_wide, rows[named.isin(columns) & (rows[KEY] == MEAN)].to_dict("records")))
    shown = PrintedTable(
        table.title,
        tuple(labels),
        tuple(Heading(OURS.heading(table, column)) for column in columns),
        {"": tuple(lines)},
        below=(below, *[OF_WIDE] * told),
    )
    yield from _wrapped(table_lines(shown), Block(block.comparison, block.kind, {**settings, "summary": SEEDS}))


def _over_seeds(rows: pd.DataFrame) -> PrintedEntry:
    """The mean with what is known of seeds beside it, or words and in how many seeds they stand."""
    of = {row[KEY]: row for row in rows.to_dict("records")}
    if (mean := of.get(MEAN)) is None:
        said = dict(zip(rows["metric"], rows["note"], strict=True))  # of several figures in words, the last
        return PrintedEntry(words=" / ".join(map(str, said.values())))
    count = int(mean["n"]) or None
    if is_too_wide(mean):
        return PrintedEntry(n=count, words=TOO_SMALL)
    between = of.get(BETWEEN) or of[BETWEEN_SOME]
    spread = f"SD {number(between['value'])}" if between["value"] > 0 or math.isfinite(mean["low"]) else ""
    notes = [mean["note"], "" if BETWEEN in of else between["note"]]
    why, have = (note.removeprefix(NO_INTERVAL) for note in notes)
    words = [why, spread, have]
    return PrintedEntry(mean["value"], mean["low"], mean["high"], count, words="; ".join(filter(None, words)))


def terminal(results: Results, block: Block) -> Iterator[str]:
    """The table that the command prints at its end."""
    console = Console(width=140, file=io.StringIO())
    comparison = results.run(block.comparison)
    console.print(terminal_table(comparison.loaded, read_tables(comparison.folder)))
    yield from ("```", *(line.rstrip() for line in console.file.getvalue().strip("\n").splitlines()), "```")


def command(results: Results, block: Block) -> Iterator[str]:
    """The command that computes the comparison."""
    yield from results.command(block.comparison)


def figure(results: Results, block: Block) -> Iterator[str]:
    """A figure of the report, copied into this folder: `file`, `to`, `text`; one of photographs is made smaller, `width`."""
    place = results.run(block.comparison).folder / block.settings["file"], DOCS / block.settings["to"]
    if (width := block.settings.get("width")) is None:
        shutil.copyfile(*place)
    else:
        shrink(*place, width)
    yield f"![{block.settings['text']}]({block.settings['to']})"


def shrink(source: Path, to: Path, width: int) -> None:
    """A picture of so many pixels across; as a JPEG it keeps the colours of photographs in a tenth of the bytes."""
    with Image.open(source) as picture:
        smaller = picture.convert("RGB").resize((width, round(width * picture.height / picture.width)))
    smaller.save(to, quality=88)


def mechanisms(results: Results, block: Block) -> Iterator[str]:
    """By explainer the mechanisms whose words it finds, misses or is fooled by in more than half of a model's inputs."""
    tables = read_tables(results.run(block.comparison).folder)
    table = next(table for table in tables if table.name == "mechanisms")
    rows = table.rows[(table.rows["model"] == block.settings["model"]) & (table.rows["value"] > 0.5)]
    asked = [name for name in dict.fromkeys(table.rows["explainer"]) if name not in (TRUTH, CHANCE)]
    yield "| explainer | finds | misses | is fooled by |"
    yield "|---|---|---|---|"
    for name in asked:
        own = rows[rows["explainer"] == name]
        told = [", ".join(own[own["metric"] == kind]["mechanism"]) or "–" for kind in ("found", "missed", "fooled")]
        yield f"| `{name}` | {' | '.join(told)} |"


KINDS: Mapping[str, Callable[[Results, Block], Iterator[str]]] = {
    "leaderboard": leaderboard,
    "seeds": seeds,
    "pairs": pairs,
    "analysis": analysis,
    "analysis_seeds": analysis_seeds,
    "command": command,
    "figure": figure,
    "mechanisms": mechanisms,
    "terminal": terminal,
}


def block_of(blocks: Mapping[str, Mapping[str, Any]], name: str) -> Block:
    """A block of `results.yaml`; one that is `like` another has the other's settings where it has none of its own."""
    facts = {**blocks[blocks[name].get("like", name)], **blocks[name]}
    settings = {key: value for key, value in facts.items() if key not in ("comparison", "kind", "like")}
    return Block(facts["comparison"], facts["kind"], settings)


def tables_of(blocks: Mapping[str, Mapping[str, Any]], comparison: str) -> list[str]:
    """Names of the tables of a comparison's analyses that pages show."""
    found: dict[str, None] = {}
    for block in (block_of(blocks, name) for name in blocks):
        if block.comparison == comparison and (
            name := {
                "analysis": block.settings.get("table"),
                "mechanisms": "mechanisms",
                "analysis_seeds": f"{block.settings.get('table')}_over_seeds",
                "seeds": "tests_over_seeds",
            }.get(block.kind)
        ):
            found[name] = None
    return list(found)


def _key(name: str) -> tuple[str, str]:
    evaluation, metric = name.split(": ")
    return evaluation, metric


def _wrapped(lines: Sequence[str], block: Block) -> list[str]:
    """Lines behind a title that opens them, where the block has a `summary`."""
    if (summary := block.settings.get("summary")) is None:
        return list(lines)
    return [f"<details>\n<summary>{summary}</summary>\n", *lines, "\n</details>"]


def fill(text: str, blocks: Mapping[str, str]) -> str:
    """Replace what stands between `<!-- results: NAME -->` and `<!-- end of NAME -->` for every block given."""
    for name, content in blocks.items():
        begin, end = f"<!-- results: {name} -->", f"<!-- end of {name} -->"
        if begin in text:
            head, _, rest = text.partition(begin)
            text = f"{head}{begin}\n{content}\n{end}{rest.partition(end)[2]}"
    return text


def from_above(blocks: Mapping[str, str]) -> dict[str, str]:
    """The same blocks for a page that lies above this folder: figures are found from there."""
    return {name: re.sub(r"(?m)^(!\[.*\]\()", rf"\1{DOCS.name}/", content) for name, content in blocks.items()}


def main(arguments: Sequence[str]) -> int:
    """Run the comparisons that are named (all of them otherwise), and fill the pages that show them."""
    parser = argparse.ArgumentParser(
        "python -m docs.results", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="comparisons; all without any")
    parser.add_argument("--data", default="data", help="folder with eraser_movies/ and glue/ (SST-2, MRPC, RTE)")
    parser.add_argument("--checkpoints", default="checkpoints", help="folder with sst2/, movies/, mrpc/, rte/")
    parser.add_argument("--out", default="runs", type=Path, help="where run folders lie")
    parser.add_argument(
        "--check", metavar="SHARE", nargs="?", type=float, const=0.1,
        help="write nothing; explain and test a drawn share of the batches again (a tenth without a number)",
    )  # fmt: skip
    parser.add_argument(
        "--hours", type=float, help="that computing took one process on one core, to be kept beside the tables"
    )
    given = parser.parse_args(arguments)
    settings = yaml.safe_load((DOCS / "results.yaml").read_text(encoding="utf-8"))
    results = Results(settings["comparisons"], {"data": given.data, "checkpoints": given.checkpoints}, given.out)
    chosen = given.names or list(settings["comparisons"])
    if given.check is not None:
        return _check(results, chosen, given.check)
    blocks: dict[str, str] = {}
    for name in settings["blocks"]:
        block = block_of(settings["blocks"], name)
        if block.comparison in chosen:
            blocks[name] = "\n".join(KINDS[block.kind](results, block))
    for name in chosen:
        results.keep(name, tables_of(settings["blocks"], name), given.hours)
    for page in (DOCS.parent / "README.md", *sorted(DOCS.glob("*.md"))):
        old = page.read_text(encoding="utf-8")
        if (new := fill(old, blocks if page.parent == DOCS else from_above(blocks))) != old:
            page.write_text(new, encoding="utf-8")
            print(f"{page.relative_to(DOCS.parent)} written")
    return 0


def _check(results: Results, chosen: Sequence[str], share: float) -> int:
    """Say of each batch that was computed again whether its rows are equal to the stored ones; 1 where any is not."""
    differ = 0
    for name in chosen:
        found = None
        for found in results.check(name, share):
            differ += len(found.differences)
            told = f"{len(found.differences)} differ" if found.differences else "none differs"
            told = f"{told} (largest difference {found.largest:.2g})"
            print(f"{name}: {found.method}, batch {found.batch}: {found.rows} rows, {told}", flush=True)
            print(*(f"  {line}" for line in found.differences[:3]), sep="\n", end="\n" if found.differences else "")
        if found is None:
            differ += 1
            print(f"{name}: no rows to check against, neither of a finished comparison nor in docs/tables/{name}")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
