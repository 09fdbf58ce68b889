"""Every mistake is named by the first check that fails, in words that say where to look."""

import pytest

import benchmark
from tests.checking.seeded import BUGS
from tests.covering import one_in


@pytest.mark.parametrize("name", one_in(2, [*BUGS]))
def test_a_bug_is_named(name):
    method, checks, words = BUGS[name]
    first = benchmark.check(method).first
    assert first is not None
    assert first.check in checks, first
    assert all(word in str(first) for word in words), first
