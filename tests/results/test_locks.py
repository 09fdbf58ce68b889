"""Locks die with their process, and leave nothing behind."""

import logging
import multiprocessing
import os
import signal

import pytest

from benchmark.results.locks import Lock

FORK = multiprocessing.get_context("fork")


def child(action):
    """Run `action(connection)` in a process of its own."""
    here, there = FORK.Pipe()
    process = FORK.Process(target=action, args=(there,))
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
