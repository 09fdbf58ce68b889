"""Blocks that stay as they are while the rest of a model is trained, and training that goes on from what they make."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from benchmark import progress
from benchmark.errors import UserError
from benchmark.models.blocks import Reached

_AT_ONCE = 32  # examples that the frozen blocks read at once
_EQUAL = 1e-4  # logits of float32 whose padding differs


class CannotGoOn(Exception):  # noqa: N818  # it says what is so
    """Training cannot go on from what a block makes of texts: it has another form, or is not all that later blocks read."""


Item = Mapping[str, Any]
Collate = Callable[[Sequence[Item]], Mapping[str, Tensor]]


def last_frozen(model: nn.Module, source: str, freeze: int) -> nn.Module:
    """The last of the first `freeze` blocks.

    Raises:
        UserError: the model has fewer.
    """
    layers = int(model.config.num_hidden_layers)  # type: ignore[union-attr, arg-type]  # a module's attribute is a tensor or a module to mypy
    lists = [part for part in model.modules() if isinstance(part, nn.ModuleList) and len(part) == layers]
    if not lists or freeze > layers:
        raise UserError(f"recipe.freeze={freeze}: the model '{source}' has {layers} blocks; allowed are 0 to {layers}")
    return lists[0][freeze - 1]


def read_once(model: nn.Module, last: nn.Module, items: Any, collate: Collate, what: str) -> list[dict[str, Any]]:
    """Each example with what the blocks up to `last` make of it: `states` [T, d], without padding. Pixels are dropped.

    The model is moved to the GPU where there is one, and reads in evaluation.

    Args:
        model: reads the examples.
        last: of the frozen blocks.
        items: a sequence of mappings of model inputs and `labels`; each is asked for once.
        collate: makes a batch of some of them.
        what: they are, for who waits.

    Raises:
        CannotGoOn: the states of texts are not told apart from their padding by an attention mask.
    """
    kept: list[dict[str, Any]] = []
    model.to("cuda" if torch.cuda.is_available() else "cpu").eval()
    with progress.step(f"reading the {what} once", len(items), unit=what) as advance, torch.no_grad():
        for start in range(0, len(items), _AT_ONCE):
            chunk = [items[index] for index in range(start, min(start + _AT_ONCE, len(items)))]
            batch = {name: tensor for name, tensor in collate(chunk).items() if name != "labels"}
            states = output_of(model, last, batch).cpu()
            mask = None if "pixel_values" in batch else batch.get("attention_mask")
            if "pixel_values" not in batch and (mask is None or mask.shape != states.shape[:2]):
                raise CannotGoOn
            for row, item in enumerate(chunk):
                own = states[row] if mask is None else states[row][mask[row].bool()]
                kept.append({name: value for name, value in item.items() if name != "pixel_values"} | {"states": own})
            advance(len(chunk))
    return kept


def with_states(collate: Collate) -> Collate:
    """Makes a batch of texts that were read once: their states stand where `collate` puts their tokens, else 0."""

    def collated(items: Sequence[Item]) -> Mapping[str, Tensor]:
        batch = collate([{name: value for name, value in item.items() if name != "states"} for item in items])
        mask = batch["attention_mask"].bool()
        states = torch.zeros(*mask.shape, items[0]["states"].shape[-1])
        for row, item in enumerate(items):
            states[row, mask[row]] = item["states"]
        return {**batch, "states": states}

    return collated


def go_on_from(
    model: Any, last: nn.Module, inputs: Mapping[str, Tensor], shape: Sequence[int] | None = None
) -> Callable[[], None]:
    """Let the model's forward take the states behind `last`: the blocks up to it pass on what they are given.

    Everything before them still runs, of images on black pixels of this shape, and its outcome is replaced.

    Args:
        model: of transformers.
        last: of the frozen blocks.
        inputs: of an example, with which it is seen whether blocks return states alone or a tuple with nothing else in it.
        shape: of an image; None of texts.

    Returns:
        A function that makes the model what it was before.
    """
    blocks = next(part for part in model.modules() if isinstance(part, nn.ModuleList) and last in part)
    frozen = blocks[: list(blocks).index(last) + 1]
    whole, made = model.forward, _made_by(model, last, inputs)

    def like(states: Tensor) -> Any:
        return (states, *(None for _ in made[1:])) if isinstance(made, tuple) else states

    def forward(states: Tensor, labels: Tensor | None = None, **given: Tensor) -> Any:
        states = states.to(next(model.parameters()).device)
        handle = last.register_forward_hook(lambda *_: like(states))
        try:
            before = given if shape is None else {"pixel_values": states.new_zeros((len(states), *shape))}
            return whole(**before, labels=labels)
        finally:
            handle.remove()

    for block in frozen:
        block.forward = lambda hidden, *_, **__: like(hidden)
    model.forward = forward

    def undo() -> None:
        for part in (model, *frozen):
            del part.forward

    return undo


def check_going_on(
    model: Any, last: nn.Module, items: Sequence[Item], collate: Collate, inputs: Mapping[str, Tensor]
) -> None:
    """Does a model that goes on from the states of some texts answer as it does where it reads them?

    Args:
        model: of transformers; it is as it was afterwards.
        last: of the frozen blocks.
        items: texts of several lengths.
        collate: makes a batch of them.
        inputs: as for `go_on_from`.

    Raises:
        CannotGoOn: it does not.
    """
    batch = {name: tensor for name, tensor in collate(items).items() if name != "labels"}
    device = next(model.parameters()).device
    with torch.no_grad():
        whole = model.eval()(**{name: tensor.to(device) for name, tensor in batch.items()}).logits
    kept = with_states(collate)(read_once(model, last, items, collate, "first texts"))
    undo = go_on_from(model, last, inputs)
    try:
        with torch.no_grad():
            found = model(**{name: tensor.to(device) for name, tensor in kept.items() if name != "labels"}).logits
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise CannotGoOn from error  # a block gives more than states
    finally:
        undo()
    if found.shape != whole.shape or not torch.allclose(found, whole, atol=_EQUAL, rtol=_EQUAL):
        raise CannotGoOn


def output_of(model: nn.Module, block: nn.Module, inputs: Mapping[str, Tensor]) -> Float[Tensor, "B T D"]:
    """The states behind a block; the pass ends there."""
    return _states(_made_by(model, block, inputs))


def _states(made: Any) -> Tensor:
    states: Tensor = made[0] if isinstance(made, tuple) else made
    return states


def _made_by(model: nn.Module, block: nn.Module, inputs: Mapping[str, Tensor]) -> Any:
    """What a block returns: states alone, or a tuple that begins with them."""
    made: list[Any] = []

    def stop(_: nn.Module, __: Any, output: Any) -> None:
        made.append(output)
        raise Reached(_states(output))

    device = next(model.parameters()).device
    handle = block.register_forward_hook(stop)
    try:
        model(**{name: tensor.to(device) for name, tensor in inputs.items()})
    except Reached:
        return made[0]
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
