"""Games of units: what coalitions answer, and the regression on them by its normal equations."""

import numpy as np
import torch

TEXTS = ["the untoldly film was good", "a dull plot", "bad"]


TARGET = torch.tensor([0, 1, 1])


def value(model, batch, row, kept):
    """Probability of the target with these units of one example, the others masked."""
    units = batch.units[row].tolist()
    ids = [
        token if unit < 0 or unit in kept else model.mask_token_id
        for token, unit in zip(batch.tensors["input_ids"][row].tolist(), units, strict=True)
    ]
    tensors = {name: tensor[row : row + 1] for name, tensor in batch.tensors.items()}
    logits = model.run({**tensors, "input_ids": torch.tensor([ids])}).logits[0]
    return float(logits.softmax(0)[TARGET[row]])


def to_tokens(batch, row, scores):
    return torch.tensor([scores[u] if u >= 0 else 0.0 for u in batch.units[row].tolist()], dtype=torch.float64)


def weighted_ridge(present, answers, weights, alpha):
    """argmin Σ_z w (v − w_0 − Σ_u w_u z_u)² + α Σ_u w_u², by its normal equations."""
    design = np.concatenate([np.ones((len(present), 1)), present.numpy()], axis=1)
    penalty = alpha * np.diag([0.0] + [1.0] * present.shape[1])
    left = design.T @ (weights[:, None] * design) + penalty
    return np.linalg.solve(left, design.T @ (weights * answers.numpy()))[1:]
