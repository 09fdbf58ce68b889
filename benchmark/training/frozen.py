"""Blocks of a model that a training leaves as they are, and all that comes before them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from benchmark.errors import UserError
from benchmark.models.blocks import Reached


def last_frozen(model: nn.Module, source: str, freeze: int) -> nn.Module:
    """The last of the first `freeze` blocks.

    Raises:
        UserError: the model has fewer.
    """
    layers = int(model.config.num_hidden_layers)  # type: ignore[union-attr, arg-type]
    lists = [part for part in model.modules() if isinstance(part, nn.ModuleList) and len(part) == layers]
    if not lists or freeze > layers:
        raise UserError(f"recipe.freeze={freeze}: the model '{source}' has {layers} blocks; allowed are 0 to {layers}")
    return lists[0][freeze - 1]


def output_of(model: nn.Module, block: nn.Module, inputs: Mapping[str, Tensor]) -> Float[Tensor, "B T D"]:
    """The states behind a block; the pass ends there."""

    def stop(_: nn.Module, __: Any, output: Any) -> None:
        raise Reached(output[0] if isinstance(output, tuple) else output)

    device = next(model.parameters()).device
    handle = block.register_forward_hook(stop)
    try:
        model(**{name: tensor.to(device) for name, tensor in inputs.items()})
    except Reached as reached:
        return reached.output
    finally:
        handle.remove()
    raise AssertionError("the block was not called")


def freeze_before(model: nn.Module, last: nn.Module, inputs: Mapping[str, Tensor]) -> None:
    """Freeze the weights of every module that is called until `last` is done with these inputs."""
    called: dict[int, nn.Module] = {}
    with _noting(model, called), torch.no_grad():
        output_of(model, last, inputs)
    for module in called.values():
        for weight in module.parameters(recurse=False):
            weight.requires_grad = False


@contextmanager
def _noting(model: nn.Module, called: dict[int, nn.Module]) -> Iterator[None]:
    def note(module: nn.Module, _: Any) -> None:
        called[id(module)] = module

    handles = [module.register_forward_pre_hook(note) for module in model.modules()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
