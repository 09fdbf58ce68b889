"""Attention without the first token, row by row in plain loops."""

import numpy as np
import pytest
import torch

from benchmark import load_model
from methods.edges.sinkless import SinklessAttention
from tests import text_models
from tests.replicas.registry import replicates

TEXTS = ["the untold story was good", "a fine film", "good"]


@replicates(SinklessAttention)
@pytest.mark.parametrize("save", [text_models.save_gpt2, text_models.save_bert])
def test_what_is_left_of_each_row_is_divided_by_its_sum(save, tmp_path):
    model = load_model(save(tmp_path), "float64")
    batch = model.encode(TEXTS)
    attention = [layer.numpy() for layer in model.run(batch, record=("attentions",)).attentions]
    found = SinklessAttention()(model, batch, torch.zeros(3, dtype=torch.long))
    for whole, left in zip(attention, found, strict=True):
        expected = np.zeros_like(whole)
        for place in np.ndindex(whole.shape[:3]):
            rest = sum(whole[place][1:])
            for key in range(1, whole.shape[3]):
                expected[place][key] = whole[place][key] / rest if rest else 0.0
        assert left.numpy() == pytest.approx(expected, abs=1e-12)
