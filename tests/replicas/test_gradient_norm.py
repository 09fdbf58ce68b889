"""Norms of the gradient, one token at a time."""

import pytest

from methods.gradient_norm import GradientNorm
from tests.replicas.embeddings_by_hand import check, embedded, gradient, reduced
from tests.replicas.registry import replicates


@replicates(GradientNorm)
@pytest.mark.parametrize("output", ["logit", "probability"])
@pytest.mark.parametrize("p", [1, 2])
def test_gradient_norm(model, batch, target, plain, p, output):
    def slow(example, _):
        return [reduced(vector, f"l{p}") for vector in gradient(example, embedded(example), output)]

    check(GradientNorm(p, output), model, batch, target, plain, slow)
