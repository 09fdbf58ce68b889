"""Erasure in the attention against the mask of the model of transformers."""

import pytest
import torch

from methods.attention_masking import AttentionMasking, HideKeys
from tests.replicas.conftest import assert_same
from tests.replicas.registry import replicates
from tests.replicas.units_by_hand import CLASSES, TEXTS, alone, value_of


@replicates(AttentionMasking)
@pytest.mark.parametrize("output", ["logit", "probability"])
def test_attention_masking(reader, eager_reader, output):
    """The mask of a BERT is added to the scores of every layer, which hides a key from all queries."""
    model, eager = reader, eager_reader
    batch = model.encode(list(TEXTS))
    found = AttentionMasking(output)(model, batch, torch.tensor(CLASSES)).tokens
    for row in range(len(TEXTS)):
        ids, units = alone(batch, row)
        whole = value_of(eager, ids, CLASSES[row], output)
        slow = [
            whole - value_of(eager, ids, CLASSES[row], output, [int(u != unit) for u in units]) if unit >= 0 else 0.0
            for unit in units
        ]
        assert_same(found[row, : len(ids)], torch.tensor(slow, dtype=torch.float64))


def test_a_row_all_of_whose_keys_are_hidden_attends_to_nothing():
    probabilities = torch.tensor([[1.0, 0.0, 0.0], [0.25, 0.75, 0.0], [0.2, 0.3, 0.5]]).expand(1, 1, 3, 3)
    found = HideKeys(torch.tensor([[True, False, False]]))(0, probabilities)
    assert torch.allclose(found[0, 0], torch.tensor([[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.375, 0.625]]))
