"""ALTI-Logit as the sum over layers of its equation, each followed down to the input by whole products of matrices."""

import torch

from methods.alti_logit import AltiLogit
from methods.edges.alti import Alti
from methods.edges.direct_logit import DirectLogit
from tests.replicas.blocks_by_hand import LENGTHS
from tests.replicas.registry import replicates


@replicates(AltiLogit)
def test_what_is_written_is_followed_to_the_input(case):
    found = AltiLogit()(case.model, case.batch, case.target)
    for row, n in enumerate(LENGTHS):
        alone = case.model.encode([case.inputs[row]])
        written = DirectLogit()(case.model, alone, case.target[row : row + 1])
        mixed = Alti()(case.model, alone, case.target[row : row + 1])
        tokens = torch.zeros(n, dtype=torch.float64)
        for layer, edges in enumerate(written):
            down = torch.eye(n, dtype=torch.float64)
            for below in range(layer):
                down = mixed[below][0, 0] @ down
            assert torch.allclose(down.sum(1), torch.ones(n, dtype=torch.float64)), "states are mixtures of tokens"
            for j in range(n):
                tokens += edges[0, :, :, j].sum() * down[j]
        assert torch.allclose(found.tokens[row, :n], tokens, atol=1e-9)
        assert not found.tokens[row, n:].any()
        heads = torch.stack([layer[0].sum((1, 2)) for layer in written])
        assert torch.allclose(found.heads[row], heads, atol=1e-9)
        assert torch.allclose(found.tokens[row].sum(), found.heads[row].sum(), atol=1e-9)
