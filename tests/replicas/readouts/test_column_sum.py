"""Sums over all edges of a token."""

import pytest

from methods.readouts.column_sum import ColumnSum
from tests.replicas.conftest import assert_same
from tests.replicas.readouts.by_hand import H, L, T, by_token
from tests.replicas.registry import replicates


@replicates(ColumnSum, scored="key")
@pytest.mark.parametrize("part", ["signed", "positive"])
def test_column_sum(edges, read, part):
    def slow(b, j):
        cells = [float(edges[layer][b, h, i, j]) for layer in range(L) for h in range(H) for i in range(T)]
        return sum(cell for cell in cells if part == "signed" or cell > 0)

    assert_same(ColumnSum(part)(edges, read), by_token(slow))


@replicates(ColumnSum, scored="query")
@pytest.mark.parametrize("part", ["signed", "positive"])
def test_column_sum_of_queries_sums_rows(edges, read, part):
    def slow(b, i):
        cells = [float(edges[layer][b, h, i, j]) for layer in range(L) for h in range(H) for j in range(T)]
        return sum(cell for cell in cells if part == "signed" or cell > 0)

    assert_same(ColumnSum(part, scored="query")(edges, read), by_token(slow))
