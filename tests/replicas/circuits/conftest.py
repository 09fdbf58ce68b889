"""The case of all replicas of circuits."""

import pytest

from tests.replicas.circuits import by_hand


@pytest.fixture(scope="session")
def case(tmp_path_factory):
    return by_hand.made(tmp_path_factory.mktemp("circuits"))
