"""A cluster on this machine is nobody else's: where it listens, and what it asks of whoever joins."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmark.engines.seclusion import environment_kept, secluded
from tests.engines.processes import LOOPBACK, family, listening
from tests.engines.works import computed, crew

pytest.importorskip("ray", reason="the extra `ray` is not installed")


@dataclass(frozen=True)
class Environment:
    """What a worker's process was told of tokens."""

    def __call__(self, model, batch, *inputs):
        return {name: value for name, value in os.environ.items() if name.startswith("RAY_AUTH")}


@pytest.fixture
def none_set(monkeypatch, tmp_path):
    """A user who has set nothing; the home is an empty folder."""
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


JOIN = """
import ray
ray.init(address="{address}", log_to_driver=False, logging_level="ERROR")
print("joined", len(ray.nodes()))
"""


def joining(address: str, **environment: str) -> str:
    """What a process of this machine says that joins a cluster on loopback with these variables."""
    command = [sys.executable, "-c", JOIN.format(address=address)]
    own = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_NUM_REDIS_GET_RETRIES": "1"}  # it would ask for 20 seconds
    done = subprocess.run(
        command, env={**os.environ, **own, **environment}, capture_output=True, text=True, timeout=100, check=False
    )
    return done.stdout if done.returncode == 0 else done.stderr


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="finds sockets in /proc")
def test_nobody_else_reaches_a_cluster_on_this_machine(none_set):
    import ray

    environment, tokens = dict(os.environ), []
    for _ in range(2):  # of one process, one after the other
        workers = crew(workers=1, cpus_per_worker=0.5)
        (told,) = computed(workers, Environment(), 1)
        address = ray.get_runtime_context().gcs_address
        started = family(os.getpid())
        sockets = listening(started)
        assert {Path(started[number]).name for number, _ in sockets} >= {"raylet", "gcs_server"}
        assert [(started[number], place) for number, place in sockets if place not in LOOPBACK] == []
        assert dict(os.environ) == environment, "the user's environment is as it was"
        assert told["RAY_AUTH_MODE"] == "token"
        tokens.append(told["RAY_AUTH_TOKEN"])
        if len(tokens) == 2:
            assert "joined 1" in joining(address, **told), "whoever has the token"
            for stranger in ({"RAY_AUTH_MODE": "disabled"}, {**told, "RAY_AUTH_TOKEN": tokens[0]}):
                assert "oken" in (said := joining(address, **stranger)), said
                assert "joined" not in said
        workers.close()
    assert tokens[0] != tokens[1]
    assert not list(none_set.iterdir()), "no token is left in the user's home"


@pytest.mark.parametrize(
    "own", [{"RAY_AUTH_MODE": "disabled"}, {"RAY_AUTH_TOKEN": "own" * 20}, {"RAY_AUTH_TOKEN_PATH": "/a/token"}]
)
def test_a_mode_or_a_token_of_the_users_own_stays(none_set, monkeypatch, own):
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    before = dict(os.environ)
    with environment_kept(), secluded():
        told = {name: value for name, value in os.environ.items() if name.startswith("RAY_AUTH")}
    assert told == {"RAY_AUTH_MODE": "token"} | own
    assert dict(os.environ) == before
