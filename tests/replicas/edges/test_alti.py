"""ALTI by a loop over tokens."""

from methods.edges.alti import Alti
from tests.replicas.blocks_by_hand import by_cell, compare, normed, normed_part, rows_divided
from tests.replicas.registry import replicates


def alti_by_hand(block, x, attention):
    def contribution(block, x, attention, i, j):
        y = normed(block, x, attention, i)
        return (y.abs().sum() - (y - normed_part(block, x, attention, i, j)).abs().sum()).clamp(min=0)

    return rows_divided(by_cell(block, x, attention, contribution))


@replicates(Alti)
def test_alti(case):
    compare(Alti(), case, alti_by_hand)
