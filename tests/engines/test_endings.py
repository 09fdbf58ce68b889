"""What ends a command that works with Ray: one line and a status, as without it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.engines.processes import family, is_running

pytest.importorskip("ray", reason="the extra `ray` is not installed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="finds processes in /proc"),
]

REPOSITORY = Path(__file__).parents[2]
PATIENCE = 100.0  # seconds until agents of Ray have noticed that it was killed; at most, some 40 were seen
WORK = """
import time
from benchmark.exits import Kept, guarded, on_termination
from tests.engines.light_work import Wait
from tests.engines.works import computed, crew
on_termination()

def work():
    workers = crew(workers=1, cpus_per_worker=0.5)
    try:
        computed(workers, Wait(0.0), 1)
        print("on", flush=True)
        computed(workers, Wait(1.0), 100)
    finally:
        time.sleep({pause})
        workers.close()

guarded(work, Kept("all is kept"))
"""


def ended(end, pause: float = 0.0) -> tuple[int, str]:
    """Status and what was said, of a command for which `end` is called while a worker is at work."""
    command = [sys.executable, "-c", WORK.format(pause=pause)]
    process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "on\n"
        started = family(process.pid)
        end(process, started)
        out, said = process.communicate(timeout=120)
    finally:
        process.kill()
    deadline = time.monotonic() + PATIENCE
    while left := {number: name for number, name in started.items() if is_running(number)}:
        assert time.monotonic() < deadline, f"processes of Ray are left: {left}"
        time.sleep(0.1)
    return process.returncode, out + said


@pytest.mark.thorough
def test_a_termination_is_told_however_long_the_unwinding_takes():
    """Ray's own handler would abort the process three seconds after the signal."""
    assert ended(lambda process, started: process.terminate(), pause=4.5) == (143, "terminated: all is kept\n")


@pytest.mark.skipif(not os.environ.get("KILL_RAY"), reason="minutes until the agents of Ray have noticed: `make load`")
@pytest.mark.parametrize("name", ["raylet", "gcs_server"])
def test_a_killed_process_of_ray_itself_is_told(name):
    def kill(process, started):
        (number,) = (number for number, command in started.items() if command.endswith(f"/{name}"))
        os.kill(number, signal.SIGKILL)

    status, said = ended(kill)
    assert said == f"error: Ray has ended on this machine: its process {name} was killed or has failed; all is kept\n"
    assert status == 1
