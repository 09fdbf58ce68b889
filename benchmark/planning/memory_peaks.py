"""How much memory each method takes at most, one by one where the system can forget a peak."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from benchmark.engines.local import peak_memory
from benchmark.types import Batch

if TYPE_CHECKING:
    from benchmark.planning.pilot import Pilot, Round


def forget_peak() -> int:
    """Let the high-water mark of memory begin anew, where the system can (CUDA, Linux); the mark afterwards, in bytes."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    else:
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")
    return peak_memory()


def high_water(pilot: "Pilot") -> dict[str, int]:
    """The process's high-water mark when each method of the comparison is done, in bytes.

    What a method added to what was held before it grows with the tokens of the largest batch; at most so, since methods cut
    batches that would take more than the memory budget.
    """
    last = pilot.rounds[-1]
    growth = _largest(pilot.data.batches) / max(_largest(each.data.batches) for each in pilot.rounds)
    base, mark = min(before for _, before in pilot.rounds[0].peak.values()), 0
    marks = {}
    for name in last.cells:
        added = max(_added(each, one) for each in pilot.rounds for one in (name, pilot.like[name]))
        mark = max(mark, base + round(added * max(1.0, growth)))
        marks[name] = mark
    return marks


def _added(each: "Round", name: str) -> int:
    peak, before = each.peak[name]
    return peak - before


def _largest(batches: Sequence[Batch]) -> int:
    return max(batch.units.numel() for batch in batches)
