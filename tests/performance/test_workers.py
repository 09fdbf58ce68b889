"""How well workers are kept busy: with work that only waits, on any number of cores. Prints what a shard costs beside it."""

import time

import pytest

from tests.engines.light_work import Wait
from tests.engines.works import computed, crew

pytest.importorskip("ray", reason="the extra `ray` is not installed")
SECONDS = 1.0
ROUNDS = 10
EMPTY = 2000


@pytest.mark.parametrize("count", [8, 64])
def test_workers_that_only_wait_are_waited_for_nine_tenths_of_the_time(count, capsys):
    workers = crew(workers=count)
    try:
        while sum(worker.is_ready for worker in workers._hired) < count:  # processes take longer to start than to work
            computed(workers, Wait(0.0), 1)
            time.sleep(0.5)
        computed(workers, Wait(0.1), 2 * count)
        start = time.perf_counter()
        assert computed(workers, Wait(SECONDS), ROUNDS * count) == list(range(ROUNDS * count))
        efficiency = ROUNDS * SECONDS / (time.perf_counter() - start)
        start = time.perf_counter()
        computed(workers, Wait(0.0), EMPTY)
        overhead = (time.perf_counter() - start) / EMPTY
    finally:
        workers.close()
    with capsys.disabled():
        print(f"\n{count} workers: efficiency {efficiency:.3f}, {1000 * overhead:.2f} ms of the driver per shard")
    assert efficiency >= 0.9
