"""What a planned comparison took, beside what it was planned to take: `plan.csv` and `plan.md` in its folder."""

import math
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from benchmark.report.printed import csv_bytes, markdown_line
from benchmark.results import store
from benchmark.results.plans import Account, Plan
from benchmark.results.wording import escape_markdown

PLANNED = {
    "plan.md": "what the comparison took, beside what it was planned to take",
    "plan.csv": "the same for each method, as a table",
}
"""Names of the files, and what they hold."""

_SENTENCES = """\
Ratio: actual over planned seconds; no interval, since each is one measurement. Passes are counted in examples, those of \
explaining and of testing together. Seconds hang on what else the machine did; of methods that were worked on at the same \
time they are those of the clock, in which the others were worked on too."""


def write_planned(plan: Plan, account: Account, folder: Path) -> None:
    """Write both files to a comparison's folder."""
    table = planned_table(plan, account)
    for name, content in (("plan.csv", csv_bytes(table)), ("plan.md", _markdown(plan, account, table).encode())):
        store.write_bytes(folder / name, content)


def planned_table(plan: Plan, account: Account) -> pd.DataFrame:
    """A line for each method: planned and actual seconds, passes and bytes; NaN where something is not known."""
    rows = []
    for cell in plan.cells:
        spent = account.cells.get(cell.method)
        passes = None if spent is None or spent.forward_passes is None else spent
        rows.append(
            {
                "method": cell.method,
                "planned_seconds": cell.seconds,
                "seconds": math.nan if spent is None else spent.seconds,
                "planned_forward_passes": cell.forward_passes,
                "forward_passes": math.nan if passes is None else passes.forward_passes,
                "planned_backward_passes": cell.backward_passes,
                "backward_passes": math.nan if passes is None else passes.backward_passes,
                "planned_memory_bytes": cell.memory_bytes,
                "memory_bytes": math.nan if spent is None else spent.memory_bytes,
                "planned_disk_bytes": cell.disk_bytes,
                "disk_bytes": math.nan if spent is None else spent.disk_bytes,
                "note": cell.note,
            }
        )
    return pd.DataFrame(rows)


def _markdown(plan: Plan, account: Account, table: pd.DataFrame) -> str:
    heads = ("", "seconds", "", "", "forward passes", "", "backward passes", "", "memory", "", "disk", "")
    kinds = ("method", "planned", "actual", "ratio", *("planned", "actual") * 4)
    lines = [
        "# Planned and actual",
        "",
        markdown_line(heads),
        markdown_line(["---", *["---:"] * 11]),
        markdown_line(kinds),
    ]
    for row in table.to_dict("records"):
        lines.append(
            markdown_line(
                [
                    escape_markdown(str(row["method"])) + (f" ({escape_markdown(row['note'])})" if row["note"] else ""),
                    *_pair(row["planned_seconds"], row["seconds"]),
                    *_counts(row["planned_forward_passes"], row["forward_passes"]),
                    *_counts(row["planned_backward_passes"], row["backward_passes"]),
                    *map(size_of, (row["planned_memory_bytes"], row["memory_bytes"])),
                    *map(size_of, (row["planned_disk_bytes"], row["disk_bytes"])),
                ]
            )
        )
    rest = [""] * 8
    for name, planned, actual in _totals(plan, account, table):
        lines.append(markdown_line([name, *_pair(planned, math.nan if actual is None else actual), *rest]))
    n = f"{plan.examples} examples; the plan was made in {plan.measuring_seconds:.1f} s on {plan.measured_examples} of them."
    unplanned = [f"Not planned: {what}." for what in plan.not_planned]
    return "\n\n".join(["\n".join(lines), n, *unplanned, _SENTENCES]) + "\n"


def _totals(plan: Plan, account: Account, table: pd.DataFrame) -> Iterator[tuple[str, float, float | None]]:
    """Name, planned and actual seconds of what is no method; the total is of what was planned."""
    cells = float(table["seconds"].sum(min_count=1))
    yield "*methods that were computed*", float(table.loc[table["seconds"].notna(), "planned_seconds"].sum()), cells
    yield "*opening task and model*", plan.opening_seconds, account.opening_seconds
    yield "*tables and figures*", plan.report_seconds, account.report_seconds
    if account.analyses_seconds:
        yield "*analyses*", plan.analyses_seconds or math.nan, account.analyses_seconds
    whole = account.opening_seconds is not None and account.report_seconds is not None
    actual = (account.opening_seconds or 0.0) + cells + (account.report_seconds or 0.0) if whole else None
    yield "**total of what was planned**", plan.seconds, actual


def size_of(count: float) -> str:
    """Bytes as a person reads them; a dash for nothing."""
    if not count or math.isnan(count):
        return "–"
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.2f} GB"


def seconds_of(seconds: float) -> str:
    """Seconds with no more figures than they are worth; a dash where they are not known."""
    return "–" if math.isnan(seconds) else f"{seconds:.2f}" if seconds < 9.995 else f"{seconds:.1f}"


def _pair(planned: float, actual: float) -> list[str]:
    known = not math.isnan(actual) and planned > 0
    return [seconds_of(planned), seconds_of(actual), f"{actual / planned:.2f}" if known else "–"]


def _counts(*counts: float) -> list[str]:
    return ["–" if math.isnan(count) else f"{count:,.0f}" for count in counts]
