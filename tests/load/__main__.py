"""Concurrency under full load, which takes minutes: `python -m tests.load [equal] [killed] [overlapping] [nodes]`.

Eight equal jobs, twenty trials of two jobs that are killed at random moments, and jobs with overlapping tests in both
orders, all with one `out` each; a comparison on two nodes of Ray, one of which is killed. Everything they leave is
compared with what one undisturbed job leaves.
"""

import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import torch

import benchmark.report.write as report
from tests.load.jobs import Place, calls, counted, differences, errors, fresh, killed_at_random, wait_for
from tests.load.nodes import killed_node

FILES = ("leaderboard.csv", "leaderboard.md", "leaderboard.tex", "curves.csv", "comparison.json")
TRIALS = 20


def main() -> int:
    """Run everything, or the parts that are named; 0 where nothing differs."""
    chosen = sys.argv[1:] or list(PARTS)
    torch.set_num_threads(1)
    report.curve_files = lambda *_: iter(())  # pictures take most of the time and no part in this
    place = Place(Path(tempfile.mkdtemp())).prepare()
    whole = fresh(place.folder / "whole" / "out")
    start = time.monotonic()
    with counted(place, 0.05):
        place.run(whole)
        alone, took = calls(place), time.monotonic() - start
        print(f"one undisturbed job: {took:.1f} s", flush=True)
        wrong = [text for name in chosen for text in PARTS[name](place, whole, alone, took)]
    print("\n".join(wrong) or "no difference")
    shutil.rmtree(place.folder)
    return int(bool(wrong))


def equal_jobs(place: Place, whole: Path, alone: Counter[str], took: float) -> list[str]:
    """Eight equal jobs: each batch is explained once, each ends with status 0."""
    out = fresh(place.folder / "equal" / "out")
    statuses = wait_for([place.start(out) for _ in range(8)], 300)
    found = calls(place)
    print(
        f"8 equal jobs: status {statuses}; {sum(found.values())} batches explained, {len(alone)} are needed", flush=True
    )
    wrong = [] if statuses == [0] * 8 else [errors(out)]
    return wrong + ([] if found == alone else ["batches explained twice"]) + differences(out, whole, FILES)


def killed(place: Place, whole: Path, alone: Counter[str], took: float) -> list[str]:
    """Two equal jobs, three kills at random moments each, restarted."""
    generator, wrong, hits = random.Random(0), [], 0
    for trial in range(TRIALS):
        out = fresh(place.folder / f"killed-{trial}" / "out")
        now = killed_at_random(place, out, generator, took)
        hits += now
        print(f"trial {trial}: {now} kills", flush=True)
        wrong += [f"trial {trial}: {text}" for text in differences(out, whole, FILES)]
    print(f"{TRIALS} trials of two jobs: {hits} kills")
    calls(place)
    return wrong if hits else [*wrong, "no job was alive when it was to be killed"]


def overlapping(place: Place, whole: Path, alone: Counter[str], took: float) -> list[str]:
    """Two jobs with other tests, in both orders, then one with all."""
    wrong = []
    tests = ("evaluations=[rationale]", "evaluations=[perturbation]", "evaluations=[rationale,perturbation]")
    for number, order in enumerate([tests, (tests[1], tests[0], tests[2]), (tests[2], tests[1], tests[0])]):
        for pause in (0.0, 0.4):
            out = fresh(place.folder / f"overlapping-{number}-{pause}" / "out")
            processes = []
            for override in order:
                processes.append(place.start(out, override))
                time.sleep(pause)
            statuses = wait_for(processes)
            wrong += [] if statuses == [0] * 3 else [errors(out)]
            place.run(out)
            wrong += differences_of_cells(out, whole)
    print("overlapping tests: 6 trials of three jobs")
    calls(place)
    return wrong


def differences_of_cells(out: Path, whole: Path) -> list[str]:
    """Without the comparisons' own files, of which there are three."""
    return differences(out, whole, ())


PARTS = {"equal": equal_jobs, "killed": killed, "overlapping": overlapping, "nodes": killed_node}

if __name__ == "__main__":
    sys.exit(main())
