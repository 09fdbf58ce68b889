"""What goes from one process to another: on the CPU on its way, on the worker's device when it is there."""

import copy
from dataclasses import fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor

from benchmark.models import Classifier
from benchmark.models.again import MasksAgain, TensorsAgain
from benchmark.models.passes import Cost
from benchmark.models.precision import Twin, around


def moved(value: Any, device: str | torch.device) -> Any:
    """The value with every tensor in it on the device: tensors, tuples, lists, mappings and dataclasses of them."""
    if isinstance(value, Tensor):
        part_of_more = value.is_contiguous() and value.untyped_storage().nbytes() > value.nbytes
        return value.to(device, copy=part_of_more)  # what is pickled of a part is the whole that it is part of
    if isinstance(value, tuple | list):
        return type(value)(moved(part, device) for part in value)
    if isinstance(value, MasksAgain):
        return tuple(value)
    if type(value) is dict or isinstance(value, TensorsAgain):
        return {name: moved(part, device) for name, part in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        held = {part.name: getattr(value, part.name) for part in fields(value) if part.init}
        return replace(value, **{name: moved(part, device) for name, part in held.items()})
    return value


def portable(model: Classifier) -> Classifier:
    """The classifier as it travels: on the CPU, with nothing counted and no float64 twin, which a worker makes itself.

    The original stays as it is; one that lies on the CPU shares its weights.
    """
    module = model.model if model.device.type == "cpu" else copy.deepcopy(model.model).cpu()
    carried = around(model, module)
    return replace(carried, encoder=replace(carried.encoder, device=torch.device("cpu")), cost=Cost(), twin=Twin())


def placed(model: Classifier, device: str) -> Classifier:
    """A classifier that came from another process, on a device of this one."""
    model.model.to(device)
    return replace(model, encoder=replace(model.encoder, device=torch.device(device)))
