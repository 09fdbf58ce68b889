"""A sweep whose comparisons are jobs of submitit, on this machine: the command of a SLURM cluster with another launcher."""

import os
import subprocess
import sys

import pytest

from benchmark.results import store
from benchmark.settings.configuration import compose
from tests.conftest import REPOSITORY

pytest.importorskip("hydra_plugins.hydra_submitit_launcher", reason="the extra `launchers` is not installed")
LAUNCHED = ("-m", "hydra/launcher=submitit_local", "hydra.launcher.timeout_min=5")


def sweep(place, out, *overrides):
    given = ["task=tiny_task", "model=hf", f"model.path={place / 'bert'}", "tracking=none", "evaluations=[rationale]"]
    words = [*LAUNCHED, "--config-dir", str(place / "conf"), *given, f"out={out}", *overrides]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmark", *words]
    return subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=240)


@pytest.mark.slow
@pytest.mark.thorough
def test_every_value_is_a_job_and_all_share_one_folder(place, tmp_path):
    done = sweep(place, tmp_path, "methods=[attattr,random]", "methods.attattr.edges.steps=1,2,3")
    assert done.returncode == 0, done.stderr
    found = [store.read_record(cell).method for cell in store.find_cells(tmp_path)]
    assert sorted(method.name for method in found) == [*["attattr"] * 3, "random"], "random is computed once"
    assert len(list((tmp_path / "comparisons").iterdir())) == 3
    assert len(list(tmp_path.glob(".submitit/*/*_result.pkl"))) == 3
    (together,) = (tmp_path / "sweeps").iterdir()
    assert f"All values of the sweep together, with curves of the figures: {together / 'index.html'}" in done.stdout
    lines = (together / "table-sweep_attattr_steps.csv").read_text().splitlines()
    assert {line.split(",")[2] for line in lines[1:]} == {"1.0", "2.0", "3.0"}
    assert (together / "table-sweep_attattr_steps.png").is_file()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("hydra.launcher.cores=1", "hydra.launcher.cores is no setting of Hydra's; --cfg hydra prints those there are"),
        ("methods=[attattr] methods.attattr.edges.steps=1,-2", "methods.attattr.edges.steps=-2: allowed are"),
    ],
)
def test_a_mistake_is_said_before_any_job_is_sent(place, tmp_path, wrong, said):
    done = sweep(place, tmp_path, *wrong.split())
    assert done.returncode == 2
    assert f"error: {said}" in done.stderr
    assert not any(tmp_path.iterdir())


def test_the_experiment_sweeps_over_steps():
    config = compose("config", ["+experiment=steps_sweep"])
    assert [*config.methods] == ["attattr"]
