"""Where a model computes, how much fits there at once, how tensors get there, and where they begin in its memory.

Numbers begin at a multiple of 64 bytes, whoever put them there. Products of matrices are summed in another order where an
operand begins elsewhere, since kernels read whole registers from an aligned place on: the same weights gave other last bits
as a file that is mapped into memory (safetensors, 8 bytes) than as a copy of it, such as a worker has.
"""

from itertools import chain

import torch
from torch import Tensor, nn

from benchmark.errors import UserError

BYTES = 64  # what PyTorch's own allocator gives, and the widest register needs
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


def aligned(tensor: Tensor) -> Tensor:
    """The tensor itself where it begins at a multiple of 64 bytes, or lies on a GPU; else a copy that does."""
    if tensor.device.type != "cpu" or not tensor.is_floating_point() or tensor.data_ptr() % BYTES == 0:
        return tensor
    return tensor.clone()


def align(model: nn.Module) -> nn.Module:
    """The model, with every weight and buffer `aligned` in its place; those that shared memory still do."""
    known: dict[tuple[object, ...], Tensor] = {}
    for tensor in chain(model.parameters(), model.buffers()):
        held = tensor.detach()
        place = (held.data_ptr(), held.shape, held.stride(), held.dtype)
        tensor.data = known.setdefault(place, aligned(held))
    return model
