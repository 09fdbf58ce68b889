"""The recursion on the whole matrix, cell by cell."""

import torch

from methods.readouts.generic import Generic
from methods.readouts.rollout import Rollout
from tests.replicas.conftest import assert_same
from tests.replicas.readouts.by_hand import B, T, generic_by_hand
from tests.replicas.registry import replicates


@replicates(Generic)
def test_generic(any_edges, read):
    found = Generic()(any_edges, read)
    for b in range(B):
        matrix = generic_by_hand(torch.stack(any_edges, dim=1)[b])
        slow = [sum(float(read[b, i] * matrix[i, j]) for i in range(T)) for j in range(T)]
        assert_same(found[b], torch.tensor(slow, dtype=torch.float64))


def test_generic_of_one_layer_is_the_row_plus_the_identity_and_of_several_an_unnormalised_rollout(any_edges, read):
    positive = tuple(layer.clamp(min=0) for layer in any_edges)
    one = read + torch.einsum("bi,bij->bj", read, positive[0].mean(1))
    assert_same(Generic()(any_edges[:1], read), one)
    assert_same(Generic()(any_edges, read), Rollout(normalize="none")(positive, read))
