"""Where a model computes, how much fits there at once, and how tensors get there."""

import torch
from torch import Tensor

from benchmark.errors import UserError

_CPU_BUDGET = 1 << 27  # on a CPU small chunks stay closer to its caches; a GPU wants large ones
_CPU_TOKENS, _GPU_TOKENS = 1024, 32_768  # of a CPU more no longer fit a core's cache: 40 % slower at 400 tokens
_SHARE_OF_FREE = (
    16  # gradients, scores and what a method makes of them come beside the attention that the budget counts
)


def device_named(name: str) -> torch.device:
    """The device of that name, "auto" being a GPU where there is one; UserError where this machine has none."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(
            f"model.device={name} cannot be used ({reason}); allowed: auto, cpu, cuda, cuda:1, ..."
        ) from error
    return device


def tokens_at_once(device: torch.device) -> int:
    """Tokens of one forward pass of many variants."""
    return _CPU_TOKENS if device.type == "cpu" else _GPU_TOKENS


def memory_budget_of(device: torch.device) -> int:
    """Bytes; of a GPU the largest power of two within a sixteenth of what is free now, so that most runs are cut alike."""
    if device.type == "cuda":
        free = torch.cuda.mem_get_info(device)[0]
    elif device.type == "mps":
        free = torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory()
    else:
        return _CPU_BUDGET
    share = max(free, _SHARE_OF_FREE) // _SHARE_OF_FREE
    return max(_CPU_BUDGET, 1 << (share.bit_length() - 1))


def on_device(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor on the device; to a CUDA device from pinned memory, so that nothing waits for the transfer."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
