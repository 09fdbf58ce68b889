"""The read token's row of one layer or of all, of all heads or of one."""

import numpy as np
import pytest

from benchmark.errors import UserError
from methods.readouts.read_row import ReadRow
from tests.replicas.conftest import assert_same
from tests.replicas.readouts.by_hand import (
    B,
    H,
    L,
    T,
    by_token,
    mean_over_heads,
    one_hot,
    random_edges,
)
from tests.replicas.registry import replicates


def row(edges, read, b, layer, j):
    """Σ_i read_i mean_h E[l,h,i,j]."""
    return sum(float(read[b, i]) * mean_over_heads(edges, b, layer, i, j) for i in range(T))


@replicates(ReadRow, layer={-1, 0, 1}, head=None)
@pytest.mark.parametrize("layer", [-1, 0, 1])
@pytest.mark.parametrize("part", ["signed", "positive"])
def test_the_read_row_of_a_layer(edges, read, layer, part):
    def slow(b, j):
        value = row(edges, read, b, layer % L, j)
        return value if part == "signed" else max(value, 0.0)

    assert_same(ReadRow(layer, part)(edges, read), by_token(slow))


@replicates(ReadRow, layer={"mean", "max"}, head=None)
@pytest.mark.parametrize("part", ["signed", "positive"])
@pytest.mark.parametrize("how", ["mean", "max"])
def test_the_read_row_over_all_layers(edges, read, how, part):
    def slow(b, j):
        rows = [row(edges, read, b, layer, j) for layer in range(L)]
        value = max(rows) if how == "max" else sum(rows) / L
        return value if part == "signed" else max(value, 0.0)

    assert_same(ReadRow(how, part)(edges, read), by_token(slow))


def test_the_read_row_of_one_head_over_all_layers(edges, read):
    single = tuple(layer[:, 2:3].expand(-1, H, -1, -1) for layer in edges)
    assert_same(ReadRow("mean", head=2)(edges, read), ReadRow("mean")(single, read))


def test_the_maximum_over_layers(any_edges, read):
    found = ReadRow("max")(any_edges, read)
    for b, j in np.ndindex(B, T):
        rows = [
            sum(float(read[b, i] * layer[b, h, i, j]) for i in range(T) for h in range(layer.shape[1])) / layer.shape[1]
            for layer in any_edges
        ]
        assert float(found[b, j]) == pytest.approx(max(rows), abs=1e-12)


@replicates(ReadRow, layer={0, -1}, head={0, 2, -1}, part="positive")
@pytest.mark.parametrize("head", [0, 2, -1])
@pytest.mark.parametrize("layer", [0, -1])
def test_a_single_head(read, layer, head):
    edges = random_edges()
    found = ReadRow(layer, "positive", head)(edges, read)
    for b, j in np.ndindex(B, T):
        slow = sum(float(read[b, i] * edges[layer % L][b, head % H, i, j]) for i in range(T))
        assert float(found[b, j]) == pytest.approx(max(slow, 0.0), abs=1e-12)


@pytest.mark.parametrize(
    ("readout", "message"),
    [
        (ReadRow(head=4), r"readout\.head=4 is out of range: these edge scores have 4 heads; -4 to 3 are allowed"),
        (ReadRow(head=-5), r"readout\.head=-5 is out of range"),
        (ReadRow(layer=3), r"readout\.layer=3 is out of range: the model has 3 layers; -3 to 2 are allowed"),
    ],
)
def test_a_layer_or_head_that_does_not_exist(readout, message):
    with pytest.raises(UserError, match=message) as caught:
        readout(random_edges(), one_hot(0))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("readout", [ReadRow(layer=3), ReadRow(layer=-4)])
def test_a_layer_that_does_not_exist(edges, read, readout):
    with pytest.raises(UserError, match=r"readout\.layer=-?\d is out of range: the model has 3 layers"):
        readout(edges, read)
