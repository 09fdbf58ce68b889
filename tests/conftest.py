"""Fixtures that several test folders share."""

import os
from pathlib import Path

import pytest

# before torch and transformers are imported, and for the processes that tests start
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # no test may wait for a network
os.environ.setdefault("OMP_NUM_THREADS", "1")  # models this small only lose by more threads

REPOSITORY = Path(__file__).parents[1]
SHARED = REPOSITORY.parent / "shared"


def shared(relative: str) -> Path:
    """A file or folder of the reference data; the test is skipped where it is absent."""
    path = SHARED / relative
    if not path.exists():
        pytest.skip(f"the reference data '{relative}' is not beside the repository")
    return path


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow tests first, so that no core waits for another's last one."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
