"""Locks die with their process, and leave nothing behind."""

import errno
import logging
import multiprocessing
import os
import signal

import pytest

from benchmark.comparison import run_comparison
from benchmark.results import locks
from benchmark.results.locks import Lock, lack_of_locks
from benchmark.settings.configuration import compose

FORK = multiprocessing.get_context("fork")


def child(action):
    """Run `action(connection)` in a process of its own."""
    here, there = FORK.Pipe()
    process = FORK.Process(target=action, args=(there,), daemon=True)  # a test that fails leaves it waiting
    process.start()
    return process, here


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / ".cell.lock"


def hold(path):
    def action(connection):
        lock = Lock(path, "cell")
        connection.send(lock.acquire(wait=False))
        connection.recv()
        lock.release()
        connection.send("released")

    return child(action)


def test_one_at_a_time_and_again_by_its_holder(path):
    lock = Lock(path, "cell")
    with lock:
        assert lock.acquire(wait=False)
        lock.release()
        process, connection = hold(path)
        assert connection.recv() is False
        connection.send("end")
        process.join()
        assert path.exists(), "what does not hold the lock does not take it away"
    assert list(path.parent.iterdir()) == []


def test_a_killed_holder_frees_it(path, caplog):
    process, connection = hold(path)
    assert connection.recv() is True
    lock = Lock(path, "cell")
    assert not lock.acquire(wait=False)
    os.kill(process.pid, signal.SIGKILL)
    with caplog.at_level(logging.INFO):
        assert lock.acquire(wait=True)
    process.join()
    lock.release()
    assert list(path.parent.iterdir()) == []


def test_who_waits_says_so_once_and_gets_it_though_the_file_goes(path, caplog):
    process, connection = hold(path)
    assert connection.recv() is True
    connection.send("end")
    with caplog.at_level(logging.INFO), Lock(path, "the cell"):
        assert path.exists()
    process.join()
    assert [record.message for record in caplog.records] in (
        [],
        ["the cell: another process works on it; waiting"],
    )
    assert list(path.parent.iterdir()) == []


def test_many_take_turns(path, tmp_path):
    """Eight processes add 1 to a file 50 times each; each opens, waits for and removes the lock's file."""
    counter = tmp_path / "counter"
    counter.write_text("0")

    def action(connection):
        for _ in range(50):
            with Lock(path, "cell"):
                counter.write_text(str(int(counter.read_text()) + 1))

    processes = [child(action)[0] for _ in range(8)]
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 8
    assert counter.read_text() == "400"
    assert list(path.parent.iterdir()) == []


def test_locks_that_hold_are_found_to_hold(tmp_path):
    assert lack_of_locks(tmp_path) is None
    assert list(tmp_path.iterdir()) == []
    assert lack_of_locks(tmp_path / "nowhere") is None


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_that_refuses_locks_is_noticed(tmp_path, monkeypatch, number):
    def refuse(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(locks.fcntl, "flock", refuse)
    assert lack_of_locks(tmp_path) == os.strerror(number)
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_that_grants_a_lock_to_two_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(locks.fcntl, "flock", lambda *_: None)
    assert lack_of_locks(tmp_path) == "they are granted to two at once"
    assert list(tmp_path.iterdir()) == []


def test_locks_of_a_process_that_other_processes_respect_hold(tmp_path, monkeypatch):
    """On NFS `flock` may be a lock of the process: a second descriptor of it gets the lock, another process does not."""
    monkeypatch.setattr(locks, "_is_held", lambda name: False)
    assert lack_of_locks(tmp_path) is None


@pytest.mark.usefixtures("no_pictures")
def test_a_comparison_says_that_it_has_no_locks_before_it_begins(place, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("benchmark.comparison.lack_of_locks", lambda folder: "No locks available")
    monkeypatch.setattr("benchmark.comparison.open_comparison", lambda _: pytest.fail("it has begun"))
    settings = [
        "task=tiny_task", "model=hf", f"model.path={place / 'bert'}", "tracking=none", "methods=[probe]",
        f"out={tmp_path / 'out'}",
    ]  # fmt: skip
    with pytest.raises(pytest.fail.Exception):
        run_comparison(compose("config", settings, str(place / "conf")))
    assert "out: the file system has no locks (No locks available); run one process at a time on it" in caplog.text
