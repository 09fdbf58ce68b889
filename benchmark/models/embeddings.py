"""Observe and edit the embeddings of tokens or patches, without touching a model's class."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from benchmark.errors import UserError
from benchmark.models.families import Family


def embedding_modules(model: nn.Module, family: Family, name: str) -> list[nn.Module]:
    """The modules that embed tokens, each once; UserError where the model does not say which they are."""
    if family.embeddings:
        base: Any = model.base_model
        return list({id(module): module for module in map(base.get_submodule, family.embeddings)}.values())
    embedding = model.get_input_embeddings()  # type: ignore[operator]  # a module's attribute is a tensor or a module to mypy
    if not isinstance(embedding, nn.Module):
        raise UserError(f"the model '{name}' does not say which module embeds its tokens")
    return [embedding]


@contextmanager
def observing_embeddings(
    modules: Sequence[nn.Module], written: list[Tensor], edit: Callable[[Tensor], Tensor] | None, *, wants_grad: bool
) -> Iterator[None]:
    """Write the embeddings [B T D], after `edit`, to `written` in this block of code; a leaf where `wants_grad`.

    An encoder–decoder embeds its tokens twice. The second time the first embeddings are used again, one place to the right
    as the decoder's ids are, so that an edit and a gradient count both uses. The decoder's start token is no token of the
    input and keeps its own embedding.
    """

    def hook(_module: nn.Module, _args: Any, output: Tensor) -> Tensor:
        if written:
            return torch.cat([output[:, :1], written[0][:, :-1]], dim=1)
        output = output if edit is None else edit(output)
        if wants_grad and not output.requires_grad:
            output = output.detach().requires_grad_()
        written.append(output)
        return output

    with ExitStack() as stack:
        for module in modules:
            stack.callback(module.register_forward_hook(hook).remove)
        yield
