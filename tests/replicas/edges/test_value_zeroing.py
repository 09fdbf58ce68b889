"""Value zeroing by a loop over tokens."""

import torch

from methods.edges.value_zeroing import ValueZeroing
from tests.replicas.blocks_by_hand import by_cell, compare, output, rows_divided
from tests.replicas.registry import replicates


def value_zeroing_by_hand(block, x, attention):
    """Zeroing v_j zeroes column j of the attention."""

    def distance(block, x, attention, i, j):
        without = attention.clone()
        without[:, :, j] = 0
        # The residual of token i stays; only what attention carries from j goes.
        whole, changed = output(block, x, attention, i), output(block, x, without, i)
        return 1 - torch.nn.functional.cosine_similarity(whole, changed, dim=0, eps=0)

    return rows_divided(by_cell(block, x, attention, distance))


@replicates(ValueZeroing)
def test_value_zeroing(case):
    compare(ValueZeroing(), case, value_zeroing_by_hand)
