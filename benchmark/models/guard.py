"""Nothing that a method does to the model or the process outlives its call: it is compared before and after, and put back.

All methods of a comparison share one model in one process. One that leaves it in training mode, or leaves a hook, a weight
or a switch of torch changed, would change the figures of all that follow. Two looks find that:

- `watched`, around every call of a method that is not of the package `methods` (`is_ours`): modules, weights, configuration,
  tokenizer, inputs, random states and switches. Every weight is compared bit by bit with a copy that is made before the
  first such call, so that what is written through `.data` or an array that shares memory is noticed too.
- `Look`, around a stage of any method: flags, hooks, and weights as far as they went through torch (in place, or another
  tensor in their stead). It takes microseconds.

The copy takes the memory of the weights once more, on the CPU, however many foreign methods there are; where all are ours
there is none. The time of `watched` is not counted as the method's.
"""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, fields, is_dataclass
from functools import partial
from itertools import chain
from typing import Any, cast
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules import module as of_all_modules
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.utils import output_capturing

from benchmark.errors import NotApplicable, UserError
from benchmark.models.classifier import Classifier
from benchmark.models.precision import Twin
from benchmark.targets import Target
from benchmark.types import Batch

_OURS = ("methods", "benchmark")
_SHOWN = 3  # names of modules or weights in a message


class ModelChangedError(UserError):
    """A method left something changed that others use.

    Attributes:
        who: the method, as its settings are named: methods.NAME.
        what: what it changed, in words.
        restored: whether all of it is as it was again.
    """

    def __init__(self, who: str, what: Sequence[str], *, restored: bool = True) -> None:
        left = "all of it is as it was again" if restored else "which cannot be put back, so that nothing can follow"
        super().__init__(
            f"{who} left changed: {'; '.join(what)} ({left}; nothing of it is kept: a method leaves the model, its inputs "
            "and the process as it found them)"
        )
        self.who, self.what, self.restored = who, tuple(what), restored

    def __reduce__(self) -> tuple[Any, ...]:
        """Made again of its parts, in another process."""
        return partial(type(self), restored=self.restored), (self.who, self.what)


def is_ours(method: Any) -> bool:
    """Whether a method, and all that it is made of, comes from the packages `methods` and `benchmark`.

    An object of ours that holds a function or an object of somebody else's, such as an edge score, is not.
    """
    return not any(map(_is_foreign, _parts_of(method, set())))


def _parts_of(value: Any, seen: set[int]) -> Iterator[Any]:
    """The value and what it is made of: fields, attributes, items."""
    if id(value) in seen or isinstance(value, str | bytes | int | float | bool | np.ndarray | Tensor | type(None)):
        return
    seen.add(id(value))
    if isinstance(value, Mapping):
        inner: Any = value.values()
    elif isinstance(value, list | tuple | set | frozenset):
        inner = value
    else:
        yield value
        if isinstance(value, partial):
            inner = [value.func, *value.args, *value.keywords.values()]
        elif is_dataclass(value) and not isinstance(value, type):
            inner = [getattr(value, part.name, None) for part in fields(value)]
        else:
            inner = list(getattr(value, "__dict__", {}).values()) if _root(value) in _OURS else []
    for part in inner:
        yield from _parts_of(part, seen)


def _root(value: Any) -> str:
    """The package that a function, a class or an object's class is defined in."""
    own = value if isinstance(value, type) or hasattr(value, "__qualname__") else type(value)
    return str(getattr(own, "__module__", "") or "").partition(".")[0]


def _is_foreign(value: Any) -> bool:
    return callable(value) and not isinstance(value, partial) and _root(value) not in (*_OURS, "builtins")


@contextmanager
def watched(who: str, model: Classifier, batches: Sequence[Batch], target: Target | None = None) -> Iterator[None]:
    """What a foreign method does in the block is undone where it would outlive it, and said.

    torch's own random state may be drawn from: it is set before every call (`explaining.measured`) and put back.

    Args:
        who: the method, for messages.
        model: that it is given.
        batches: likewise.
        target: likewise.

    Raises:
        ModelChangedError: something was left changed.
    """
    start = time.perf_counter()
    kept = _Kept(model, batches, target)
    model.cost.remembered_seconds -= time.perf_counter() - start
    try:
        yield
    except NotApplicable as answer:
        if what := kept.put_back():
            raise ModelChangedError(who, what) from answer
        raise
    except BaseException:  # an interruption too leaves the model as it was; raised again
        kept.put_back()
        raise
    start = time.perf_counter()
    what = kept.put_back()
    model.cost.remembered_seconds -= time.perf_counter() - start
    if what:
        raise ModelChangedError(who, what)


@contextmanager
def watched_apart(who: str, model: Classifier) -> Iterator[None]:
    """The same of work that asks foreign methods itself: the model is compared, and random states and switches are put back.

    Raises:
        ModelChangedError: the model was left changed.
    """
    process, kept = _Process(), _Kept(model, (), None)
    try:
        yield
    finally:
        list(process.put_back())
        what = kept.put_back()
    if what:
        raise ModelChangedError(who, what)


class Look:
    """The model as it is, for `check`: modules with their flags and hooks, weights by place and number of changes.

    Args:
        model: whose weights none may change.
    """

    def __init__(self, model: Classifier) -> None:
        self._modules = _Modules(model.model, _FLAGS)
        self._weights = _Weights(model.model, {})

    def check(self, who: str) -> None:
        """Put back what can be.

        Args:
            who: was at work since.

        Raises:
            ModelChangedError: something has changed since.
        """
        what = [*self._modules.put_back(), *self._weights.put_back()]
        if what:
            raise ModelChangedError(who, what, restored=not self._weights.lost)


def forget(model: Classifier) -> None:
    """Make the copy of the weights again before the next foreign call; whoever holds the model may have trained it."""
    _COPIES.pop(model.model, None)


@dataclass(frozen=True)
class _Copy:
    """The bits of a weight, on the CPU, with where it lay and how often it had been changed when it was copied."""

    bits: Tensor
    place: int
    version: int


_COPIES: WeakKeyDictionary[nn.Module, dict[int, _Copy]] = WeakKeyDictionary()
"""For each model that a foreign method was given its weights by their identity."""

_LEFT_BY_ALL = "_is_full_backward_hook"  # stays set when such a hook is removed, and changes nothing then
_HOOKS = tuple(name for name in vars(nn.Module()) if "hooks" in name)
_FLAGS = frozenset({"training", "_parameters", *_HOOKS})
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def _bits(tensor: Tensor) -> Tensor:
    """A tensor as whole numbers, on the CPU, which are equal where its bits are; it may share memory."""
    return tensor.detach().cpu().contiguous().view(_INTEGERS[tensor.element_size()])


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(name or "the model itself" for name in names[:_SHOWN])
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown


def _alike(one: Any, other: Any) -> bool:
    """Whether an attribute is the same: numbers and texts by value, mappings by what they hold, others by identity."""
    if one is other:
        return True
    if isinstance(one, dict):
        if not one and not other:
            return isinstance(other, dict)
        return isinstance(other, dict) and list(one) == list(other) and all(one[key] is other[key] for key in one)
    return isinstance(one, bool | int | float | str) and type(one) is type(other) and one == other


class _Modules:
    """Attributes of every module, those of its class that decide a pass, and hooks of all modules.

    Args:
        model: of transformers.
        names: of the attributes that count; None: all.
    """

    def __init__(self, model: nn.Module, names: frozenset[str] | None) -> None:
        self._names = names
        self._held = [(path, module, self._attributes(module)) for path, module in model.named_modules()]
        self._classes = {kind: kind.__dict__.get("forward") for kind in {type(module) for _, module, _ in self._held}}

    def _attributes(self, module: nn.Module) -> dict[str, Any]:
        held, names = vars(module), self._names
        chosen = held if names is None else {name: held[name] for name in names if name in held}
        return {name: _shallow(value) if isinstance(value, dict) else value for name, value in chosen.items()}

    def put_back(self) -> Iterator[str]:
        """What has changed, in words, after it was put back."""
        found: dict[str, list[str]] = {}
        for path, module, before in self._held:
            for name in self._changed(module, before):
                found.setdefault(_said(name), []).append(path)
        for kind, forward in self._classes.items():
            if kind.__dict__.get("forward") is not forward:
                found.setdefault("forward", []).append(kind.__name__)
                delattr(kind, "forward") if forward is None else setattr(kind, "forward", forward)
        yield from (f"{what} of {_named(list(dict.fromkeys(paths)))}" for what, paths in found.items())

    def _changed(self, module: nn.Module, before: dict[str, Any]) -> Iterator[str]:
        held = vars(module)
        names = list(before) if self._names is not None else list(dict.fromkeys((*before, *held)))
        ignored = (*(_OF_POSITIONS if _keeps_positions(module) else ()), _CAPTURES)
        capturing = _capturing_hooks(held)
        for name in names:
            now, was = held.get(name, _ABSENT), before.get(name, _ABSENT)
            own = (
                {key: hook for key, hook in now.items() if key not in capturing}
                if name in _HOOKS and capturing
                else now
            )
            if _alike(was, now) or _alike(was, own) or name in ignored:
                continue
            if name != _LEFT_BY_ALL:
                yield name
            if isinstance(was, dict) and isinstance(now, dict):
                now.clear()
                now.update(was)
            elif was is _ABSENT:
                del held[name]
            else:
                held[name] = was


def _capturing_hooks(held: Mapping[str, Any]) -> set[Any]:
    """Keys of the hooks that transformers leaves for good where a pass is asked for its attention or its states."""
    own = (held.get(name) or {} for name in ("_forward_hooks", "_forward_pre_hooks"))
    return {
        key
        for hooks in own
        for key, hook in hooks.items()
        if getattr(hook, "__module__", "") == output_capturing.__name__
    }


_CAPTURES = "_output_capturing_hooks_installed"


def _shallow(mapping: dict[Any, Any]) -> dict[Any, Any]:
    return dict(mapping) if mapping else {}  # most are empty, and a plain {} costs least


_ABSENT = object()
_OF_POSITIONS = ("max_seq_len_cached", "_buffers", "inv_freq", "original_inv_freq")


def _keeps_positions(module: nn.Module) -> bool:
    """Whether rotary positions are computed anew for longer inputs, in any pass."""
    kinds = str(getattr(module, "rope_type", ""))
    return "dynamic" in kinds or "longrope" in kinds


def _said(attribute: str) -> str:
    if attribute == "training":
        return "training mode"
    if "hooks" in attribute:
        return f"a hook ({attribute.strip('_')})"
    return attribute.strip("_")


class _Weights:
    """Weights and buffers: where they lie, how often they were changed, what they need, and of copied ones the bits.

    Args:
        model: of transformers.
        copies: by identity of the tensor.
    """

    def __init__(self, model: nn.Module, copies: Mapping[int, _Copy]) -> None:
        self._copies = copies
        self._held = [
            (name, tensor, tensor.detach(), tensor.data_ptr(), tensor._version, tensor.requires_grad, tensor.grad)
            for name, tensor in chain(model.named_parameters(), model.named_buffers())
        ]
        self.lost = False

    def put_back(self) -> Iterator[str]:
        """What has changed, in words, after it was put back as far as there is a copy."""
        found: dict[str, list[str]] = {}
        for name, tensor, alias, place, version, needs_grad, grad in self._held:
            if tensor.requires_grad != needs_grad:
                found.setdefault("requires_grad", []).append(name)
                tensor.requires_grad_(needs_grad)
            if tensor.grad is not grad:
                found.setdefault("grad", []).append(name)
                tensor.grad = grad
            moved = tensor.data_ptr() != place or tensor.dtype != alias.dtype
            if moved:
                tensor.data = alias
            if moved | self._differs(tensor, version):
                found.setdefault("weights", []).append(name)
        yield from (f"{what} of {_named(names)}" for what, names in found.items())

    def _differs(self, tensor: Tensor, version: int) -> bool:
        """Whether the values have changed; they are put back from the copy."""
        copied = self._copies.get(id(tensor))
        if copied is None:
            changed = tensor._version != version
            self.lost |= changed
            return changed
        if torch.equal(_bits(tensor), copied.bits):
            return False
        tensor.data.copy_(copied.bits.view(tensor.dtype))
        return True


def _copies(model: nn.Module) -> Mapping[int, _Copy]:
    """Of all weights; made again where one has changed since, as nobody but its owner changes a model between two calls."""
    weights = list(chain(model.parameters(), model.buffers()))
    known = _COPIES.get(model, {})
    states = {id(tensor): (tensor.data_ptr(), tensor._version) for tensor in weights}
    if {key: (copied.place, copied.version) for key, copied in known.items()} != states:
        _COPIES[model] = {id(tensor): _Copy(_bits(tensor).clone(), *states[id(tensor)]) for tensor in weights}
    return _COPIES[model]


@dataclass(frozen=True)
class _Switch:
    """Something that holds for the whole process."""

    name: str
    get: Callable[[], Any]
    put: Callable[[Any], Any]


def _attribute(name: str, owner: Any, attribute: str) -> _Switch:
    return _Switch(name, lambda: getattr(owner, attribute), lambda value: setattr(owner, attribute, value))


def _default_device() -> Any:
    context = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    return None if context is None else context.device


def _flushes() -> bool:
    """Whether numbers too small for the format's full precision become 0."""
    return bool((torch.tensor(1e-40, dtype=torch.float32, device="cpu") * 1 == 0).item())


def _set_deterministic(value: tuple[bool, bool]) -> None:
    torch.use_deterministic_algorithms(value[0], warn_only=value[1])


_SWITCHES = (
    _Switch("torch's default dtype", torch.get_default_dtype, torch.set_default_dtype),
    _Switch("torch's default device", _default_device, torch.set_default_device),
    _Switch("torch's number of threads", torch.get_num_threads, torch.set_num_threads),
    _Switch("torch's gradient mode", torch.is_grad_enabled, torch.set_grad_enabled),
    _Switch("torch's anomaly detection", torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly),
    _Switch("torch's flushing of denormal numbers", _flushes, torch.set_flush_denormal),
    _Switch(
        "torch's deterministic algorithms",
        lambda: (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        ),
        _set_deterministic,
    ),
    _Switch("torch's precision of products", torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    *(
        _Switch(
            f"torch's autocast on {device}",
            partial(torch.is_autocast_enabled, device),
            partial(torch.set_autocast_enabled, device),
        )
        for device in ("cpu", "cuda")
    ),
    *(
        _attribute(f"torch.backends.cudnn.{name}", torch.backends.cudnn, name)
        for name in ("enabled", "deterministic", "benchmark")
    ),
    _Switch(
        "torch.backends.cuda.flash_sdp", torch.backends.cuda.flash_sdp_enabled, torch.backends.cuda.enable_flash_sdp
    ),
    _Switch("torch.backends.cuda.math_sdp", torch.backends.cuda.math_sdp_enabled, torch.backends.cuda.enable_math_sdp),
    _Switch(
        "torch.backends.cuda.mem_efficient_sdp",
        torch.backends.cuda.mem_efficient_sdp_enabled,
        torch.backends.cuda.enable_mem_efficient_sdp,
    ),
    _Switch("numpy's handling of errors", np.geterr, lambda value: np.seterr(**value)),
    _Switch("the random state of Python (draw from random.Random(seed))", random.getstate, random.setstate),
    _Switch(
        "the random state of numpy (draw from numpy.random.default_rng(seed))",
        lambda: (lambda state: (state[0], state[1].tobytes(), *state[2:]))(np.random.get_state()),  # type: ignore[index]  # numpy's legacy state is a tuple here
        lambda value: np.random.set_state((value[0], np.frombuffer(value[1], dtype=np.uint32), *value[2:])),
    ),
    _Switch("the seed of torch's random state (draw from a torch.Generator)", torch.initial_seed, lambda value: None),
)


class _Process:
    """Switches of torch and numpy, hooks of all modules, attention functions, random states."""

    def __init__(self) -> None:
        self._values = [switch.get() for switch in _SWITCHES]
        self._torch = torch.get_rng_state()
        self._cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else None
        shared = {name: value for name, value in vars(of_all_modules).items() if name.startswith("_global_")}
        self._shared: list[tuple[str, Any, dict[Any, Any]]] = [
            *((name, value, dict(value)) for name, value in shared.items() if isinstance(value, dict)),
            (
                "attention functions",
                ALL_ATTENTION_FUNCTIONS._global_mapping,
                dict(ALL_ATTENTION_FUNCTIONS._global_mapping),
            ),
            (
                "attention functions",
                ALL_ATTENTION_FUNCTIONS._local_mapping,
                dict(ALL_ATTENTION_FUNCTIONS._local_mapping),
            ),
        ]

    def put_back(self) -> Iterator[str]:
        """What has changed, in words, after it was put back."""
        for switch, before in zip(_SWITCHES, self._values, strict=True):
            if switch.get() != before:
                yield switch.name
                switch.put(before)
        torch.set_rng_state(self._torch)
        if self._cuda is not None:
            torch.cuda.set_rng_state_all(self._cuda)
        for name, now, before in self._shared:
            if not _alike(before, now):
                yield f"{_said(name)} of all modules" if "hooks" in name else name
                now.clear()
                now.update(before)


class _Settings:
    """The configuration of the model, its tokenizer's and its image processor's settings."""

    _OF_TOKENIZERS = ("padding_side", "truncation_side", "model_max_length")

    def __init__(self, model: Classifier) -> None:
        self._tokenizer, processor = model.tokenizer, model.encoder.processor
        owners = {"configuration": getattr(model.model, "config", None), "image processor": processor}
        self._held = [(name, owner, _plain(owner)) for name, owner in owners.items() if owner is not None]
        self._vocabulary = self._size()
        self._sides = {name: getattr(self._tokenizer, name, None) for name in self._OF_TOKENIZERS}

    def _size(self) -> int:
        return 0 if self._tokenizer is None else len(self._tokenizer)

    def put_back(self) -> Iterator[str]:
        """What has changed, in words, after it was put back as far as it can be."""
        for name, owner, before in self._held:
            if changed := _put_plain(owner, before):
                yield f"{', '.join(changed)} of the {name}"
        for name, side in self._sides.items():
            if self._tokenizer is not None and getattr(self._tokenizer, name, None) != side:
                yield f"{name} of the tokenizer"
                setattr(self._tokenizer, name, side)
        if self._size() != self._vocabulary:
            yield "the vocabulary of the tokenizer (which stays changed)"


def _plain(owner: Any) -> dict[str, Any]:
    """A copy of the attributes of an object of transformers, those of the configurations in it likewise."""
    return {
        name: _plain(value) if hasattr(value, "to_dict") else deepcopy(value) if _is_data(value) else value
        for name, value in vars(owner).items()
    }


def _is_data(value: Any) -> bool:
    return isinstance(value, dict | list | set)


def _put_plain(owner: Any, before: Mapping[str, Any]) -> list[str]:
    """Names of the attributes that differ, which are put back."""
    changed, held = [], vars(owner)
    for name in [*dict.fromkeys((*before, *held))]:
        now, was = held.get(name, _ABSENT), before.get(name, _ABSENT)
        if isinstance(was, dict) and hasattr(now, "to_dict"):
            changed += _put_plain(now, was)
        elif not _alike(was, now) and not (_is_data(was) and now == was):
            changed.append(name)
            if was is _ABSENT:
                del held[name]
            else:
                held[name] = was
    return changed


@dataclass(frozen=True)
class _Array:
    """A tensor or an array that the method was given, and its bits."""

    name: str
    array: Tensor | np.ndarray
    before: Tensor
    alias: Tensor

    @staticmethod
    def of(name: str, array: Tensor | np.ndarray) -> "_Array":
        alias = torch.from_numpy(array) if isinstance(array, np.ndarray) else array.detach()
        return _Array(name, array, alias.clone(), alias)

    def put_back(self) -> bool:
        """Whether it has changed; it is as it was afterwards."""
        changed = False
        if isinstance(self.array, Tensor):
            changed = self.array.data_ptr() != self.alias.data_ptr() or self.array.requires_grad
            if changed:
                self.array.requires_grad_(False)  # noqa: FBT003 - torch's own signature
                self.array.data = self.alias
        if not torch.equal(_bits(self.alias), _bits(self.before)):
            self.alias.copy_(self.before)
            changed = True
        return changed


class _Inputs:
    """What a method is given beside the model."""

    def __init__(self, batches: Sequence[Batch], target: Target | None) -> None:
        self._mappings = [(cast("dict[str, Tensor]", batch.tensors), dict(batch.tensors)) for batch in batches]
        targets = () if target is None else target.stored.values()
        self._arrays = [_Array.of("the target", numbers) for numbers in targets]
        for batch in batches:
            given: dict[str, Any] = {f"{name} of the batch": tensor for name, tensor in batch.tensors.items()}
            given |= {f"{name} of the batch": getattr(batch, name) for name in ("units", "n_units", "label")}
            self._arrays += [_Array.of(name, tensor) for name, tensor in given.items()]
            marks = [array for array in (*batch.rationale, *batch.masks) if array is not None and array.flags.writeable]
            self._arrays += [_Array.of("the rationale of the batch", array) for array in marks]

    def put_back(self) -> Iterator[str]:
        """What has changed, in words, after it was put back."""
        for now, before in self._mappings:
            if not _alike(before, now):
                yield "the tensors of the batch"
                now.clear()
                now.update(before)
        yield from dict.fromkeys(given.name for given in self._arrays if given.put_back())


@dataclass
class _Kept:
    """All that a foreign method may not change, as it is.

    A float64 twin of the model and parts of its weights, which ours share, are out of its reach meanwhile.
    """

    model: Classifier
    batches: Sequence[Batch]
    target: Target | None
    _parts: list[Any] = field(init=False)
    _twin: Twin = field(init=False)
    _weight_parts: dict[Any, Any] = field(init=False)

    def __post_init__(self) -> None:
        module, twin, parts = self.model.model, self.model.twin, self.model.weight_parts
        self._parts = [
            _Process(),
            _Modules(module, None),
            _Weights(module, _copies(module)),
            _Settings(self.model),
            _Inputs(self.batches, self.target),
        ]
        self._twin = Twin(twin.source, twin.state, twin.modules)
        twin.source, twin.state, twin.modules = None, (), {}
        self._weight_parts, parts.kept = parts.kept, {}

    def put_back(self) -> list[str]:
        """What has changed, in words, after it was put back."""
        what = [words for part in self._parts for words in part.put_back()]
        twin = self.model.twin
        twin.source, twin.state, twin.modules = self._twin.source, self._twin.state, self._twin.modules
        self.model.weight_parts.kept = self._weight_parts
        return what
