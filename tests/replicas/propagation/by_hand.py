"""Division as the rules stabilise it, and the relevance that a rule gives; what the tests of rules share."""

import numpy as np
import torch

EPSILON = 1e-3


def divide(a, z, epsilon=EPSILON):
    """Bach's: ε takes the sign of the denominator."""
    return 0.0 if z == 0 else a / (z + epsilon * np.sign(z))


def published_divide(a, b):
    """Chefer's."""
    return 0.0 if b == 0 else a / (b + 1e-9)


def relevance_of(rule, operation, relevance, *operands):
    """Of the first operand."""
    active = operands[0].clone().requires_grad_()
    return torch.autograd.grad(rule(operation, active, *operands[1:]), active, relevance)[0]
