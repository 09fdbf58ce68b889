"""May the run folders of several machines stand in one table?"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmark.errors import UserError
from benchmark.report.cells import NamedCell


def check_comparable(cells: Sequence[NamedCell], roots: Sequence[Path]) -> None:
    """Where several roots are given, they agree in what makes figures comparable: task, examples, model and versions.

    Within one root sweeps are told apart by their names, as ever.

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
    yield "the version of benchmark", [of(r.versions.get("benchmark", "unknown"), cell) for cell, r in records]
    for name in sorted({test.name for _, record in records for test in record.evaluations.values()}):
        tests = [(cell, test) for cell, r in records for test in r.evaluations.values() if test.name == name]
        yield (
            f"the test {name}",
            [of(f"version {t.version}, settings {t.digest[:8]}, statistics {t.statistics}", cell) for cell, t in tests],
        )
    for name in sorted({record.method.name for _, record in records}):
        methods = [(cell, record.method) for cell, record in records if record.method.name == name]
        yield f"the version of the method {name}", [of(f"{method.version}", cell) for cell, method in methods]
