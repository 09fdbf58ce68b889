"""Relevance down to the first block: what `lrp` reads off, and its setting for the mask."""

import numpy as np
import pytest

from benchmark.targets import ClassTarget
from methods.lrp import Lrp
from methods.propagation.relevance import relevance_pass
from methods.propagation.rule_sets import lrp as rule_set_with_mask
from methods.propagation.rule_sets import rule_set
from tests.replicas.registry import replicates


def test_the_mask_moves_lrp_a_little_and_padding_does_not(model, batch, target):
    summed = Lrp(rule_set_with_mask("sum"))
    found, passed = (method(model, batch, target).tokens for method in (summed, Lrp()))
    largest = float(passed.abs().max())
    assert 0 < float((found - passed).abs().max()) < 1e-4 * largest
    for row in range(len(batch)):
        alone = model.encode([{"input_ids": batch.tensors["input_ids"][row][batch.attention_mask[row]].tolist()}])
        single = summed(model, alone, target[row : row + 1]).tokens[0]
        assert float((single - found[row, : len(single)]).abs().max()) < 1e-9 * largest


@replicates(Lrp)
def test_lrp_sums_the_relevance_of_the_first_blocks_input(model, batch, target):
    hidden = relevance_pass(model, batch, ClassTarget(target), rule_set("lrp"), "hidden").layers
    tokens = Lrp()(model, batch, target).tokens
    for b, t in np.ndindex(*batch.units.shape):
        expected = sum(float(r) for r in hidden[0][b, t]) if batch.attention_mask[b, t] else 0.0
        assert float(tokens[b, t]) == pytest.approx(expected, rel=1e-9, abs=1e-9)
