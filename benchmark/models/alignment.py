"""Where numbers begin in memory: at a multiple of 64 bytes, whoever put them there.

Products of matrices are summed in another order where an operand begins elsewhere, since kernels read whole registers from
an aligned place on: the same weights gave other last bits as a file that is mapped into memory (safetensors, 8 bytes) than
as a copy of it, such as a worker has.
"""

from itertools import chain

from torch import Tensor, nn

BYTES = 64  # what PyTorch's own allocator gives, and the widest register needs


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
