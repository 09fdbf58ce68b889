"""Workers of Ray that are lost, that fail, and that answer."""

import threading
import time

import pytest

from benchmark.engines.base import ShardError, StoppedError
from benchmark.engines.crew import Crew
from benchmark.engines.ray_engine import Ray
from benchmark.errors import Corrupt, NotApplicable, UserError
from tests.engines.light_work import Fails, Wait
from tests.engines.works import computed, crew

pytest.importorskip("ray", reason="the extra `ray` is not installed")


@pytest.fixture(scope="module")
def workers():
    """Two workers on this machine."""
    found = crew(workers=2, cpus_per_worker=0.5)
    yield found
    found.close()


def test_results_come_in_the_order_of_the_shards(workers):
    assert computed(workers, Wait(0.01), 12) == list(range(12))


def test_a_lost_worker_costs_its_shards_which_are_computed_again(workers, tmp_path):
    calls = tmp_path / "calls"
    assert computed(workers, Fails(calls, "killed", 1), 6) == list(range(6))
    assert len(calls.read_text().split()) == 7, "one shard was computed twice"


def test_a_shard_that_kills_every_worker_is_given_up(workers, tmp_path):
    with pytest.raises(ShardError, match="lost in every attempt"):
        computed(workers, Fails(tmp_path / "calls", "killed", 99), 1)
    assert len((tmp_path / "calls").read_text().split()) == 3
    assert computed(workers, Wait(0.0), 3) == [0, 1, 2], "others are computed all the same"


def test_what_fails_is_tried_three_times(workers, tmp_path):
    assert computed(workers, Fails(tmp_path / "twice", "bug", 2), 1) == [0]
    with pytest.raises(ShardError, match="ZeroDivisionError: a bug") as failed:
        computed(workers, Fails(tmp_path / "always", "bug", 99), 1)
    assert isinstance(failed.value.__cause__, ZeroDivisionError)
    assert len((tmp_path / "always").read_text().split()) == 3


@pytest.mark.parametrize(("how", "kind"), [("mistake", UserError), ("dash", NotApplicable), ("corrupt", Corrupt)])
def test_an_answer_is_no_failure_and_keeps_its_kind(workers, tmp_path, how, kind):
    with pytest.raises(kind) as answer:
        computed(workers, Fails(tmp_path / "calls", how, 99), 1)
    assert type(answer.value) is kind
    assert len((tmp_path / "calls").read_text().split()) == 1


def test_whoever_waits_is_told_that_it_is_over():
    ending = crew(workers=1, cpus_per_worker=0.5)
    assert computed(ending, Wait(0.0), 1) == [0]
    threading.Timer(0.3, ending.stop).start()
    began = time.monotonic()
    with pytest.raises(StoppedError):
        computed(ending, Wait(60.0), 2)
    assert time.monotonic() - began < 10
    ending.close()


@pytest.mark.thorough
def test_a_model_that_no_worker_can_read_is_given_up():
    helpless = Crew(Ray(workers=1, cpus_per_worker=0.5, attempts=2).terms, lambda: b"no pickle")
    with pytest.raises(ShardError, match=r"^workers cannot be started: .*UnpicklingError: [^\n]*$"):
        computed(helpless, Wait(0.0), 1)
    helpless.close()


def test_a_cluster_that_is_not_there_is_named(monkeypatch):
    def refused(**settings):
        raise ConnectionError("nobody listens")

    monkeypatch.setattr("ray.is_initialized", lambda: False)
    monkeypatch.setattr("ray.init", refused)
    with pytest.raises(UserError, match=r"engine\.address=node:9: nobody listens; .*ray start --head"):
        crew(address="node:9").size
