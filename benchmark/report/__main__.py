"""Command: `python -m benchmark.report RUNS [RUNS ...] [--out DIR]`."""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from rich.console import Console
from yaml import YAMLError  # type: ignore[import-untyped]  # has no types

from benchmark.errors import UserError, near, one_line
from benchmark.exits import Kept, guarded, on_termination
from benchmark.report import load_cells, terminal_table, write_report
from benchmark.report.analysis_tables import read_tables
from benchmark.report.cells import NamedCell
from benchmark.report.run_folders import without_foreign
from benchmark.results.store import find_cells
from benchmark.settings.report_settings import AS_GIVEN, ReportSettings, without_detail


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmark.report",
        description="Make the leaderboard, figures and heatmaps from finished run folders, without loading a model.",
    )
    parser.add_argument(
        "words", metavar="RUNS", nargs="+",
        help="folder with run folders anywhere below it; or a setting of how the report looks, as of a comparison: "
        "report.latex.layout=tasks",
    )  # fmt: skip
    parser.add_argument(
        "--out", metavar="DIR", type=Path, help="where the files go (default: `report` in the first RUNS)"
    )
    parser.add_argument(
        "--mixed", action="store_true",
        help="report several RUNS together though their tasks, models, data or versions differ",
    )  # fmt: skip
    return parser


_SETTING = "report."
"""How a word begins that sets how the report looks, as in a comparison."""


def find_all(roots: Sequence[Path]) -> list[Path]:
    """The finished run folders below all roots.

    Raises:
        UserError: a root does not exist, or has no finished run folder below it.
    """
    finished: list[Path] = []
    for root in roots:
        if not root.is_dir():
            raise UserError(f"RUNS: {root} is no folder; name a folder that holds run folders")
        with_record = find_cells(root)
        cells = without_foreign(with_record)
        if with_record and not cells:
            raise UserError(
                f"RUNS: the {len(with_record)} folders with a record.json below {root} hold none that this version reads "
                "(see the warnings above); use the version that wrote them"
            )
        if not cells:
            raise UserError(
                f"RUNS: no finished run folder (one with record.json) below {root}; run `python -m benchmark` first"
            )
        finished += cells
    return finished


def check_out(out: Path) -> None:
    """UserError where files cannot be written to a folder, before anything is drawn."""
    for folder in (out, *out.absolute().parents):
        if folder.exists():
            if not folder.is_dir():
                raise UserError(f"--out: cannot write to {out} ({folder} is a file); name another folder")
            if not os.access(folder, os.W_OK):
                raise UserError(f"--out: cannot write to {out} ({folder} is not writable); name another folder")
            return


def check_comparable(cells: Sequence[NamedCell], roots: Sequence[Path]) -> None:
    """Where several roots are given, they agree in what makes figures comparable: task, examples, model, tests, methods.

    Within one root sweeps are told apart by their names, as ever. Releases may differ: what changes a number raises the
    version of a task, a test, the statistics or a method.

    Raises:
        UserError: they do not; the message says in what, and that `--mixed` reports them all the same.
    """
    resolved = [root.resolve() for root in roots]
    if len(set(resolved)) < 2:
        return
    for name, values in _facts(cells):
        by_root = {
            root: {value for folder, value in values if root in folder.parents or root == folder} for root in resolved
        }
        first, *others = by_root.items()
        for root, own in others:
            if own and first[1] and own != first[1]:
                shown = " and ".join(
                    f"{', '.join(sorted(map(str, found)))} in {where}" for where, found in (first, (root, own))
                )
                raise UserError(
                    f"RUNS: they cannot be compared, as {name} differs: {shown}; --mixed reports them together"
                )


def _facts(cells: Sequence[NamedCell]) -> Iterator[tuple[str, list[tuple[Path, object]]]]:
    """What must be equal -> its value in each run folder."""

    def of(value: object, cell: NamedCell) -> tuple[Path, object]:
        return cell.stored.folder, value

    records = [(cell, cell.record) for cell in cells]
    yield "the task", [of(f"{r.task.name} version {r.task.version}", cell) for cell, r in records]
    yield "the data", [of(f"{r.task.split} {r.task.fingerprint[:12]}", cell) for cell, r in records]
    yield (
        "the choice of examples",
        [of(f"n={r.task.n}, limit={r.task.limit}, seed={r.task.seed}", cell) for cell, r in records],
    )
    yield "the model", [of(f"{r.model.fingerprint[:12]} ({r.model.dtype})", cell) for cell, r in records]
    for name in sorted({test.name for _, record in records for test in record.evaluations.values()}):
        tests = [(cell, test) for cell, r in records for test in r.evaluations.values() if test.name == name]
        yield (
            f"the test {name}",
            [of(f"version {t.version}, settings {t.digest[:8]}, statistics {t.statistics}", cell) for cell, t in tests],
        )
    for name in sorted({record.method.name for _, record in records}):
        methods = [(cell, record.method) for cell, record in records if record.method.name == name]
        yield f"the version of the method {name}", [of(f"{method.version}", cell) for cell, method in methods]


def report(roots: Sequence[Path], out: Path, settings: ReportSettings = AS_GIVEN, *, mixed: bool = False) -> list[Path]:
    """Write the report of all run folders below the roots and print the headline table.

    Args:
        roots: folders with run folders, of one machine or of several.
        out: where the files go.
        settings: how it looks.
        mixed: report several roots together though they differ in what makes figures comparable.

    Raises:
        UserError: see `find_all` and `check_comparable`; a run folder is corrupt; or the output folder cannot be written.
    """
    found = find_all(roots)
    check_out(out)
    cells = load_cells(found)
    if not mixed:
        check_comparable(cells, roots)
    for kind, known in (
        ("tasks", {cell.record.task.name for cell in cells}),
        ("models", {cell.model for cell in cells}),
    ):
        shorter = {*map(without_detail, known)} | known
        for name in getattr(settings.names, kind):
            if name not in shorter:
                raise UserError(
                    f"report.names.{kind}.{name}: there is none of that name; {near(name, sorted(shorter))}"
                )
    try:
        written = write_report(cells, out, settings)
    except (PermissionError, NotADirectoryError, FileExistsError) as error:
        raise UserError(f"--out: cannot write to {out} ({error.strerror or error}); name another folder") from error
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(terminal_table(cells, read_tables(out) if settings.trust else ()))
    console.print(f"{len(written)} files in {out}", highlight=False, markup=False, soft_wrap=True)
    return written


def _settings(words: Sequence[str]) -> ReportSettings:
    """How the report looks, from words as `report.latex.columns=two`; UserError where one is no setting."""
    try:
        given = OmegaConf.to_container(OmegaConf.from_dotlist(list(words)))
    except (OmegaConfBaseException, YAMLError) as error:
        raise UserError(f"{' '.join(words)}: {one_line(error)}") from error
    return ReportSettings.read(given.get("report") if isinstance(given, dict) else None)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command: 0; what ends it early is a SystemExit, told in one line on standard error (see `benchmark.exits`)."""
    parser = _parser()
    options = parser.parse_intermixed_args(arguments)
    words = [word for word in options.words if word.startswith(_SETTING) and "=" in word]
    runs = [Path(word) for word in options.words if word not in words]
    if not runs:
        parser.error("the following arguments are required: RUNS")
    out = options.out or runs[0] / "report"
    kept = Kept(f"each file in {out} is whole, or of an earlier report; the same command writes them all", out)
    guarded(lambda: report(runs, out, _settings(words), mixed=options.mixed), kept)
    return 0


if __name__ == "__main__":
    on_termination()
    sys.exit(main())
