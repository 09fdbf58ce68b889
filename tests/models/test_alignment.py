"""The same bits wherever weights lay in memory before."""

import torch
from torch import nn

from benchmark.checking import small_models
from benchmark.models.devices import BYTES, align, aligned


def begins_at(tensor):
    return tensor.data_ptr() % BYTES


def shifted(tensor, places=1):
    """A copy that begins so many numbers behind a multiple of 64 bytes."""
    room = torch.empty(tensor.numel() + 2 * BYTES, dtype=tensor.dtype)
    start = (-begins_at(room) // tensor.element_size()) % BYTES + places
    return room[start : start + tensor.numel()].view(tensor.shape).copy_(tensor)


def test_weights_of_a_checkpoint_are_aligned(tmp_path):
    """A file of safetensors that is mapped into memory holds them at multiples of 8 bytes."""
    model = small_models.load("bert", tmp_path, dtype="float32").model
    assert {begins_at(tensor) for tensor in model.state_dict().values() if tensor.is_floating_point()} == {0}


def test_values_and_shared_memory_stay():
    model = nn.Sequential(nn.Linear(7, 7), nn.Linear(7, 7))
    model[0].weight.data = shifted(model[0].weight.data)
    model[1].weight.data = model[0].weight.data  # two parameters, one memory
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    assert begins_at(model[0].weight) == 4
    align(model)
    assert begins_at(model[0].weight) == 0
    assert model[1].weight.data_ptr() == model[0].weight.data_ptr()
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_what_is_aligned_is_not_copied():
    whole = torch.zeros(64)
    assert aligned(whole) is whole
    assert begins_at(aligned(whole[1:])) == 0
    assert aligned(whole[1:].long()).dtype == torch.long
