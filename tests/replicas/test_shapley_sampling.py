"""Sampled Shapley values with the same orders, one unit at a time."""

import pytest
import torch

from benchmark.errors import UserError
from methods.shapley_sampling import ShapleySampling
from methods.shared.seeds import seeded
from tests.replicas.games_by_hand import TARGET, TEXTS, to_tokens, value
from tests.replicas.registry import replicates


@replicates(ShapleySampling)
def test_shapley_sampling(reader):
    batch, method = reader.encode(TEXTS), ShapleySampling(samples=4, seed=2)
    found = method(reader, batch, TARGET).tokens
    for row, uid in enumerate(batch.draw_keys):
        n = int(batch.n_units[row])
        with seeded(uid, 2, reader.device):
            orders = [torch.randperm(n).tolist() for _ in range(4)]
        scores = [0.0] * n
        for order in orders:
            for place, unit in enumerate(order):
                added = value(reader, batch, row, order[: place + 1]) - value(reader, batch, row, order[:place])
                scores[unit] += added / 4
        assert torch.allclose(found[row], to_tokens(batch, row, scores), atol=1e-6)
        total = value(reader, batch, row, range(n)) - value(reader, batch, row, [])
        assert sum(scores) == pytest.approx(total, abs=1e-9)


def test_settings_out_of_range():
    with pytest.raises(UserError, match="samples=0: allowed are whole numbers from 1"):
        ShapleySampling(samples=0)
