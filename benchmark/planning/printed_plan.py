"""A plan as a table for a terminal."""

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from benchmark.report.planned import seconds_of, size_of
from benchmark.results.plans import Plan, PlannedCell

WORKERS = (2, 4, 8, 16)
_HEADS = ("method", "forward passes", "backward passes", "seconds", "F+B", "peak memory", "disk", "")


def printed_plan(plan: Plan) -> RenderableType:
    """A line for each method, for what is no method, and for worker counts; and what the figures are."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for place, head in enumerate(_HEADS):
        table.add_column(Text(head), justify="left" if place in (0, len(_HEADS) - 1) else "right", vertical="bottom")
    for cell in plan.cells:
        table.add_row(*map(Text, _cell(cell, plan.pass_seconds)))
    table.add_section()
    table.add_row(*map(Text, _other("opening task and model", plan.opening_seconds, plan)))
    for name, seconds in plan.analyses:
        table.add_row(*map(Text, _other(f"analysis {name}", seconds, plan)))
    table.add_row(*map(Text, _other("tables and figures", plan.report_seconds, plan, plan.report_bytes)))
    table.add_section()
    table.add_row(*(Text(text, style="bold") for text in _total(plan)))
    workers = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), pad_edge=False, show_edge=False)
    for head in ("workers", *map(str, WORKERS)):
        workers.add_column(Text(head), justify="left" if head == "workers" else "right")
    workers.add_row("seconds", *(seconds_of(plan.with_workers(count)) for count in WORKERS))
    return Group(table, Text(), workers, Text(), *(Text(line, style="dim") for line in _sentences(plan)))


def _cell(cell: PlannedCell, unit: float) -> list[str]:
    if not cell.seconds:
        return [cell.method, *["–"] * 6, cell.note]
    passes = f"{cell.forward_passes:,.0f}", f"{cell.backward_passes:,.0f}"
    sizes = size_of(cell.memory_bytes), size_of(cell.disk_bytes)
    return [cell.method, *passes, seconds_of(cell.seconds), f"{cell.seconds / unit:,.0f}", *sizes, cell.note]


def _other(name: str, seconds: float, plan: Plan, size: int = 0) -> list[str]:
    return [name, "–", "–", seconds_of(seconds), f"{seconds / plan.pass_seconds:,.0f}", "–", size_of(size), ""]


def _total(plan: Plan) -> list[str]:
    cells = plan.cells
    passes = [f"{sum(getattr(cell, name) for cell in cells):,.0f}" for name in ("forward_passes", "backward_passes")]
    memory = max((cell.memory_bytes for cell in cells), default=0)
    disk = sum(cell.disk_bytes for cell in cells) + plan.report_bytes
    seconds = seconds_of(plan.seconds), f"{plan.seconds / plan.pass_seconds:,.0f}"
    return ["total, one process", *passes, *seconds, size_of(memory), size_of(disk), ""]


def _sentences(plan: Plan) -> list[str]:
    """What the figures are, and how they were come by."""
    lines = [
        f"{plan.examples} examples. One batch of {plan.measured_examples} of them was run for each method, on this machine, "
        f"in {plan.measuring_seconds:.0f} s; it is kept, and the figures are of what is left. No intervals: each batch was "
        "timed once, and what else the machine does errs more.",
        f"F+B: one plain forward and backward pass of one example of middling length, with eager attention: here "
        f"{1000 * plan.pass_seconds:.1f} ms. Passes are counted in examples.",
        "Peak memory: of the process when the method is done; as it grew in the measured batch, by the tokens of a batch.",
        "Workers: each with cores of its own; their batches are divided evenly, and opening, statistics, files, analyses "
        "and the report stay in the first process. Starting them is not counted.",
    ]
    return lines + [f"Not planned: {what}." for what in plan.not_planned]
