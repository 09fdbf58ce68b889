"""Several comparisons with one `out` at once, in forked processes: what is imported is imported once."""

import logging
import multiprocessing
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from benchmark.comparison import run_comparison
from benchmark.results import store
from benchmark.settings.configuration import compose
from tests import text_models, tiny_task

FORK = multiprocessing.get_context("fork")
KEYS = ["evaluation", "metric", "uid", "x", "draw"]
SETTINGS = (
    "task=tiny_task", "model=hf", "tracking=none", "batch_size=2", "methods=[probe,random]",
    "+methods.probe_2={_target_: tests.tiny_task.Probe, how: again}", "evaluations=[rationale,perturbation]",
    "checkpoint_seconds=0",
)  # fmt: skip


@dataclass(frozen=True)
class Place:
    """YAMLs, a checkpoint and a log of explained batches."""

    folder: Path

    @property
    def log(self) -> Path:
        """One line per batch that a process explained."""
        return self.folder / "calls"

    def prepare(self) -> "Place":
        """Write what jobs need."""
        text_models.save_bert(self.folder / "bert")
        tiny_task.write_yamls(self.folder / "conf")
        return self

    def run(self, out: Path, *overrides: str) -> Any:
        """One comparison in this process."""
        given = {text.lstrip("+").partition("=")[0] for text in overrides}
        settings = [
            text for text in SETTINGS if not given & {text.partition("=")[0], text.lstrip("+").partition(".")[0]}
        ]
        chosen = [*settings, f"model.path={self.folder / 'bert'}", f"out={out}", *overrides]
        return run_comparison(compose("config", chosen, str(self.folder / "conf")))

    def start(self, out: Path, *overrides: str) -> Any:
        """One comparison in a process of its own; its standard error goes to a file beside `out`."""

        def job() -> None:
            os.setpgrp()
            torch.set_num_threads(1)
            with open(out.parent / f"stderr-{os.getpid()}", "w") as file:
                os.dup2(file.fileno(), 2)
                logging.basicConfig(level=logging.INFO, format="%(message)s", stream=file, force=True)
                sys.stderr = file
                try:
                    self.run(out, *overrides)
                except BaseException:  # the process was forked, and must not go on as its parent
                    traceback.print_exc()
                    file.flush()
                    os._exit(1)
            os._exit(0)

        process = FORK.Process(target=job)
        process.start()
        return process


@contextmanager
def counted(place: Place, seconds: float) -> Iterator[None]:
    """Every batch of the probe takes so long, and is logged."""
    os.environ |= {"TINY_SECONDS": str(seconds), "TINY_CALLS": str(place.log)}
    try:
        yield
    finally:
        del os.environ["TINY_SECONDS"], os.environ["TINY_CALLS"]


def calls(place: Place) -> Counter[str]:
    """How often each batch was explained since the last look."""
    found = Counter(place.log.read_text().splitlines()) if place.log.exists() else Counter()
    place.log.unlink(missing_ok=True)
    return found


def wait_for(processes: Sequence[Any], seconds: float = 120) -> list[int | None]:
    """Exit statuses."""
    deadline = time.monotonic() + seconds
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))
    return [process.exitcode for process in processes]


def kill(process: Any) -> bool:
    """End a process at once; whether it was still running."""
    running = process.is_alive()
    if running:
        os.kill(process.pid, signal.SIGKILL)
    process.join()
    return running


def killed_at_random(place: Place, out: Path, generator: random.Random, longest: float, *, restarts: int = 3) -> int:
    """Two equal jobs on one `out`, one or both killed at random moments and restarted; how many kills hit."""
    hits = 0
    processes = [place.start(out) for _ in range(2)]
    for _ in range(restarts):
        time.sleep(generator.uniform(0, longest))
        victim = generator.randrange(2)
        hits += kill(processes[victim])
        processes[victim] = place.start(out)
    statuses = wait_for(processes)
    assert statuses == [0, 0], (statuses, errors(out))
    return hits


def errors(out: Path) -> str:
    """What the jobs said."""
    return "\n".join(path.read_text() for path in sorted(out.parent.glob("stderr-*")))


def differences(one: Path, other: Path, names: Sequence[str]) -> list[str]:
    """Files of two comparisons and their cells that differ, costs and times aside."""
    found = []
    cells, others = ({path.name: path for path in store.find_cells(out)} for out in (one, other))
    if cells.keys() != others.keys():
        return [f"cells {sorted(cells)} and {sorted(others)}"]
    for name, cell in cells.items():
        a, b = (rows_of(path) for path in (cell, others[name]))
        if not a.equals(b):
            found.append(f"{name}/rows")
        a, b = (_figures(path) for path in (cell, others[name]))
        found += [f"{name}/{key}" for key in a.keys() | b.keys() if a.get(key) != b.get(key)]
        if {path.name for path in cell.iterdir()} != {path.name for path in others[name].iterdir()}:
            found.append(f"{name}: files")
    folders = [next((out / "comparisons").glob("*/leaderboard.csv")).parent for out in (one, other)]
    found += [file for file in names if (folders[0] / file).read_bytes() != (folders[1] / file).read_bytes()]
    left = [path for path in one.rglob(".*") if path.name.endswith(".lock") or path.is_dir()]
    return found + [f"left: {path}" for path in left]


def rows_of(cell: Path) -> pd.DataFrame:
    """Sorted rows."""
    return store.read_rows(cell).sort_values(KEYS, kind="stable").reset_index(drop=True)


def _figures(cell: Path) -> dict[str, Any]:
    record = store.read_record(cell)
    return {name: (test.figures, test.rows) for name, test in record.evaluations.items()}


def fresh(path: Path) -> Path:
    """An empty folder's path, the folder's parent made."""
    shutil.rmtree(path.parent, ignore_errors=True)
    path.parent.mkdir(parents=True)
    return path
