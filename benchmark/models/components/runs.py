"""Runs of a circuit: every slot reads its own mixture of what the nodes write now and of what they wrote elsewhere."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.overrides import TorchFunctionMode, handle_torch_function, has_torch_function

from benchmark.errors import NotApplicable
from benchmark.models.attention_interface import AttentionEdit, HeadInputs, Tape, recording
from benchmark.models.blocks import observing
from benchmark.models.classifier import Classifier
from benchmark.models.components.graph import READERS, Graph
from benchmark.models.components.structure import Layer, structure_of
from benchmark.models.embeddings import embedding_modules, observing_embeddings
from benchmark.models.next_token import refuse_whole
from benchmark.models.parts import is_residual_addition
from benchmark.models.read_rows import Gathered
from benchmark.types import Batch

Tensors = Mapping[str, Tensor]

Value = Callable[[Float[Tensor, "R C"], Int[Tensor, "R"]], Float[Tensor, "R"]]
"""`(logits, example of each row) -> the number that a circuit is to keep`."""

Ablation = Literal["patching", "zero"]
"""What stands in for a node's output: what it writes for the corrupted input, or 0 (for the input: embeddings of 0)."""

Of = Literal["edges", "nodes"]
"""Of which components something is asked."""

_PROJECTIONS = 3 / 12  # of a block's products, which a run that ends at its attention computes


@dataclass(frozen=True)
class Outputs:
    """What each node writes to the residual stream.

    Attributes:
        input: what the first block reads.
        heads: of each layer.
        feed_forward: of each layer.
    """

    input: Float[Tensor, "B T D"]
    heads: tuple[Float[Tensor, "B H T D"], ...]
    feed_forward: tuple[Float[Tensor, "B T D"], ...]

    def groups(self) -> tuple[Float[Tensor, "B _ T D"], ...]:
        """By layer, in the order of the graph's nodes: the input, then heads and feed-forward network of each layer."""
        layers = zip(self.heads, self.feed_forward, strict=True)
        return (self.input[:, None], *(part for heads, network in layers for part in (heads, network[:, None])))

    @staticmethod
    def of_groups(groups: Sequence[Float[Tensor, "B _ T D"]]) -> "Outputs":
        """The inverse of `groups`."""
        return Outputs(groups[0][:, 0], tuple(groups[1::2]), tuple(part[:, 0] for part in groups[2::2]))

    def map(self, change: Callable[[Tensor], Tensor]) -> "Outputs":
        """Each of them changed."""
        return Outputs.of_groups([change(part) for part in self.groups()])

    def less(self, other: "Outputs") -> "Outputs":
        """The difference, node by node."""
        return Outputs.of_groups([a - b for a, b in zip(self.groups(), other.groups(), strict=True)])

    def rows(self, index: Int[Tensor, "R"]) -> "Outputs":
        """Those of some examples, repetitions allowed."""
        return self.map(lambda part: part[index])

    @property
    def stacked(self) -> Float[Tensor, "B S T D"]:
        """All nodes in one tensor."""
        return torch.cat(self.groups(), dim=1)


def corrupted_of(batch: Batch) -> Tensors:
    """The corrupted inputs of a batch, each of as many tokens as the example's own.

    Raises:
        NotApplicable: an example has none, or one of another length.
    """
    if not batch.corrupted:
        raise NotApplicable("the task's examples have no corrupted counterparts (Example.corrupted)")
    names = [name for name in ("attention_mask", "pixel_values", "input_ids") if name in batch.tensors]
    clean, corrupted = batch.tensors[names[0]], batch.corrupted[names[0]]
    if clean.ndim != corrupted.ndim or (names[0] != "attention_mask" and clean.shape != corrupted.shape):
        raise NotApplicable(
            f"the inputs are of shape {list(clean.shape)}, and their counterparts {list(corrupted.shape)}"
        )
    if names[0] == "attention_mask":
        counts = zip(clean.sum(1).tolist(), corrupted.sum(1).tolist(), batch.uids, strict=True)
        for own, other, uid in counts:
            if own != other:
                raise NotApplicable(f"example '{uid}' has {own} tokens, and its corrupted counterpart {other}")
        width = clean.shape[1]  # padding beyond the longest is nobody's
        return {
            name: part[:, :width] if part.ndim == 2 and part.shape[1] > width else part
            for name, part in batch.corrupted.items()
        }
    return batch.corrupted


Delta = Callable[[int, Float[Tensor, "R n T D"]], Float[Tensor, "R n T D"]]
"""`(group of nodes, what they write now) -> what takes its place, less what they write now`."""


@dataclass(frozen=True)
class _Along:
    """A direction that does not hang on what is written now."""

    groups: Sequence[Tensor]

    def __call__(self, group: int, now: Tensor) -> Tensor:
        return self.groups[group].expand_as(now)


@dataclass(frozen=True)
class Components:
    """A model's nodes and edges.

    Attributes:
        model: the classifier.
        layers: how each block writes to the residual stream.
    """

    model: Classifier
    layers: tuple[Layer, ...]

    @staticmethod
    def of(model: Classifier, batch: Batch) -> "Components":
        """Those of a model, found with the batch's longest example; NotApplicable as `structure_of`."""
        return Components(model, structure_of(model, batch))

    @property
    def graph(self) -> Graph:
        """Its nodes, slots and edges."""
        return Graph(self.model.n_layers, self.model.n_heads)

    @property
    def normed_behind(self) -> bool:
        """Whether norms stand behind the additions, as in BERT, so that the stream is no plain sum."""
        return any(norm is not None for layer in self.layers for norm in layer.norms)

    def outputs(self, tensors: Tensors) -> Outputs:
        """What every node writes in one plain run."""
        run = _Run(self, len(next(iter(tensors.values()))))
        with torch.no_grad():
            run.logits(tensors)
        return Outputs.of_groups(run.now)

    def streams(self, tensors: Tensors) -> list[tuple[slice, Float[Tensor, "B T D"]]]:
        """What slots read in a plain run: those of a layer's heads together, then its feed-forward network; last the logits.

        Of models whose norms stand before the sublayers.
        """
        run = _Run(self, len(next(iter(tensors.values()))))
        with torch.no_grad():
            run.logits(tensors)
        graph, state = self.graph, run.now[0][:, 0]
        found: list[tuple[slice, Tensor]] = []
        for layer, (attention, network) in enumerate(run.sums):
            readers = [graph.reading(layer, reader) for reader in READERS]
            found.append((slice(readers[0].start, readers[2].stop), state))
            found.append((readers[3], state + attention))
            state = state + attention + network
        found.append((slice(len(graph.slots) - 1, len(graph.slots)), state))
        return found

    def run(
        self,
        tensors: Tensors,
        keep: Bool[Tensor, "N S _"] | Bool[Tensor, "N B S _"],
        others: Outputs,
    ) -> Float[Tensor, "N B C"]:
        """Logits of N circuits on B examples: slot s reads `Σ_{u→s kept} u(now) + Σ_{others} ũ` and what is of no node.

        u(now) is what node u writes in this very run, of what it reads itself. With all edges kept it is the plain run, with
        none the run in which all nodes write ũ. Equal circuits, as the small ones of random orders mostly are, run once.

        Args:
            tensors: of the batch.
            keep: True for edges that are kept, [S, D]; or [S, 1], for nodes whose edges are kept all.
            others: ũ of each node.
        """
        first, like = _distinct(keep)
        keep, count, size = keep[first], len(first), len(others.input)
        place = torch.arange(count * size, device=keep.device)
        found = []
        for rows in self._chunks(len(place), others):
            circuit, example = place[rows] // size, place[rows] % size
            own = keep[circuit] if keep.ndim == 3 else keep[circuit, example]
            found.append(self._run_rows(tensors, own, others, example))
        logits = torch.cat(found)
        return logits.reshape(count, size, logits.shape[-1])[like]

    def _run_rows(
        self, tensors: Tensors, keep: Bool[Tensor, "R S _"], others: Outputs, example: Int[Tensor, "R"]
    ) -> Float[Tensor, "R C"]:
        alternative = others.rows(example).groups()
        dropped = (~keep).to(alternative[0].dtype)
        run = _Run(self, len(example), dropped, lambda group, now: alternative[group] - now)
        with torch.no_grad():
            return run.logits({name: tensor[example] for name, tensor in tensors.items()})

    def others(self, batch: Batch, ablation: Ablation) -> Outputs:
        """ũ of every node: what it writes for the corrupted input, or nothing.

        Raises:
            NotApplicable: the examples have no corrupted counterpart of their length.
        """
        return self.without(batch.tensors) if ablation == "zero" else self.outputs(corrupted_of(batch))

    def without(self, tensors: Tensors) -> Outputs:
        """What stands in for nodes that are taken away: 0, and for the input what a first block reads without embeddings."""
        model, written = self.model, self.outputs(tensors)
        modules, none = embedding_modules(model.model, model.family, model.name), torch.zeros_like
        with observing_embeddings(modules, [], none, wants_grad=False):
            start = self.outputs(tensors).input
        return replace(written.map(torch.zeros_like), input=start)

    def effects(
        self,
        of: Of,
        tensors: Tensors,
        value: Value,
        direction: Outputs,
        replaced: Mapping[int, Float[Tensor, "B _ T D"]] = MappingProxyType({}),
        *,
        edits: Sequence[AttentionEdit] = (),
        scope: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> Float[Tensor, "B S _"]:
        """`∂ value / ∂ε` where slots read `u(now) + ε · direction_u` of node u.

        Of edges one slot alone, [B S D], 0 where nothing is joined; of nodes all slots behind it, [B S 1], the sum over its
        edges. In models whose norms stand before the sublayers it is `Σ direction_u · ∂value/∂s`, s what the slot reads.

        Args:
            of: edges or nodes.
            tensors: of the batch.
            value: of the logits.
            direction: of each node.
            replaced: by group of nodes (`Outputs.groups`) what they write in this run.
            edits: of the attention probabilities.
            scope: in which the forward pass runs, as a mode that replaces gradients of operations.
        """
        width = len(self.graph.slots) if of == "edges" else 1
        found = []
        for rows in self._chunks(len(direction.input), direction, times=1 + width):
            index = torch.arange(len(direction.input), device=direction.input.device)[rows]
            along = direction.rows(index).groups()
            epsilon = along[0].new_zeros(len(index), len(self.graph.nodes), width, requires_grad=True)
            run = _Run(
                self, len(index), epsilon, _Along(along), {group: part[index] for group, part in replaced.items()}
            )
            with torch.enable_grad():
                with scope():
                    logits = run.logits({name: tensor[index] for name, tensor in tensors.items()}, edits)
                total = value(logits, index).sum()
            self.model.cost.backward_passes += len(index)
            found.append(torch.autograd.grad(total, epsilon)[0])
        return torch.cat(found)

    def _chunks(self, count: int, like: Outputs, times: int = 1) -> Iterator[slice]:
        """Rows that are run at once: what the nodes write, and with a graph what each slot reads, within the budget."""
        each = len(self.graph.nodes) * like.input[0].numel() * like.input.element_size() * times
        size = max(1, 2 * self.model.memory_budget // each)
        for start in range(0, count, size):
            yield slice(start, start + size)


def _distinct(keep: Bool[Tensor, "N ..."]) -> tuple[list[int], list[int]]:
    """The first of each circuit's equals, and for every circuit the place among these of its own."""
    masks = [mask.tobytes() for mask in np.packbits(keep.flatten(1).cpu().numpy(), axis=1)]
    first: dict[bytes, int] = {}
    for place, mask in enumerate(masks):
        first.setdefault(mask, place)
    places = {mask: number for number, mask in enumerate(first)}
    return list(first.values()), [places[mask] for mask in masks]


class _Mixing(TorchFunctionMode):
    """Edits the two residual additions of the block that runs: what is added is what `edit(place, operand)` gives."""

    def __init__(self, hidden: Tensor, branches: tuple[int, int], edit: Callable[[int, Tensor], Tensor]) -> None:
        super().__init__()
        self.hidden, self.branches, self.edit = hidden, branches, edit
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if is_residual_addition(func, args, self.hidden):
            operands = list(args[:2])
            branch = self.branches[self.count]
            operands[branch] = self.edit(self.count, operands[branch])
            self.count += 1
            args = (*operands, *args[2:])
        # a mode below sees the call as it was made: also that of a function that does not look for modes itself
        below = tuple(one for one in args if isinstance(one, Tensor))
        if has_torch_function(below):
            return handle_torch_function(func, below, *args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


@dataclass
class _Run:
    """One forward pass.

    Attributes:
        components: of the model.
        size: rows.
        dropped: how much of the difference each slot reads of each node; one column for all slots, or one each; None:
            nothing.
        delta: that difference.
        replaced: by group of nodes, what they write whatever they compute.
        now: by group of nodes, what they write in this run.
        added: the differences, by group.
        total: the stream if every slot read what is written now.
        sums: of each layer what its attention and its feed-forward network add to that.
    """

    components: Components
    size: int
    dropped: Float[Tensor, "R S _"] | None = None
    delta: Delta = lambda _group, now: torch.zeros_like(now)
    replaced: Mapping[int, Tensor] = field(default_factory=dict)
    now: list[Tensor] = field(default_factory=list)
    added: list[Tensor] = field(default_factory=list)
    total: Tensor | None = None
    sums: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    layer: int = 0
    inputs: HeadInputs = field(default_factory=HeadInputs)
    given: Tensor | None = None
    gathered: int = 0

    def logits(self, tensors: Tensors, edits: Sequence[AttentionEdit] = ()) -> Float[Tensor, "R C"]:
        """The logits of the run."""
        model = self.components.model
        refuse_whole(tensors)
        modules = frozenset(map(id, model.attention_modules))
        tape = Tape(modules=modules, edits=edits, output_edits=[self._heads_give], inputs=self.inputs)
        with recording(tape), observing(model.model, model.attention_modules, self):
            logits: Tensor = model.model(**model.streams.both_masks(tensors)).logits.to(model.scores_dtype)
        model.cost.forward_passes += self.size * (1 + _PROJECTIONS * self.gathered / model.n_layers)
        return logits

    def _heads_give(self, _layer: int, outputs: Tensor) -> Tensor:
        self.given = outputs
        return outputs

    def call(self, forward: Callable[..., Any], _n_calls: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One block: of each slot what it reads, then its heads, then its feed-forward network."""
        hidden = args[0] if args else kwargs["hidden_states"]
        if self.total is None:
            self.total = self._writes(hidden[:, None])[:, 0]

        def run(states: Tensor) -> Any:
            return forward(states, *args[1:], **kwargs) if args else forward(**{**kwargs, "hidden_states": states})

        self.inputs.given = self._what_heads_read(run)
        output = self._rest_of_block(run)
        self.inputs.given = None
        self.layer += 1
        if self.layer < self.components.model.n_layers:
            states = self.total
        else:
            states = self._stream(len(self.components.graph.slots) - 1)
        return (states, *output[1:]) if isinstance(output, tuple) else states

    def _what_heads_read(self, run: Callable[[Tensor], Any]) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, those of each head from its own mixture."""
        found = []
        taken: dict[int, tuple[Tensor, Tensor, Tensor]] = {}
        slots = [self.components.graph.reading(self.layer, reader) for reader in READERS[:3]]
        alike = self._alike([place for own in slots for place in range(own.start, own.stop)])
        for number, own in enumerate(slots):
            parts = []
            for head, slot in enumerate(range(own.start, own.stop)):
                group = alike[slot]
                if group not in taken:
                    taken[group] = self._gather(run, self._stream(slot))
                parts.append(taken[group][number][:, head])
            found.append(torch.stack(parts, dim=1))
        queries, keys, values = found
        return queries, keys, values

    def _alike(self, slots: Sequence[int]) -> dict[int, int]:
        """By slot the first one that reads the same."""
        if self.dropped is None or self.dropped.shape[2] == 1:
            return dict.fromkeys(slots, slots[0])
        if self.dropped.requires_grad:
            return {slot: slot for slot in slots}
        behind = self.components.graph.behind[slots[0]]
        columns = self.dropped[:, :behind, slots[0] : slots[-1] + 1].flatten(0, 1)
        _, group = torch.unique(columns, dim=1, return_inverse=True)
        first: dict[int, int] = {}
        return {slot: first.setdefault(int(own), slot) for slot, own in zip(slots, group, strict=True)}

    def _gather(self, run: Callable[[Tensor], Any], states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        self.gathered += 1
        try:
            run(states)
        except Gathered:
            assert self.inputs.taken is not None
            taken, self.inputs.taken = self.inputs.taken, None
            return taken
        raise AssertionError("a block ran without its attention")

    def _rest_of_block(self, run: Callable[[Tensor], Any]) -> Any:
        """The block behind its attention's inputs, its feed-forward network reading its own mixture."""
        layer, slot = (
            self.components.layers[self.layer],
            self.components.graph.reading(self.layer, "feed_forward").start,
        )
        sums: list[Tensor] = []

        def edit(place: int, operand: Tensor) -> Tensor:
            if place == 0:
                sums.append(self._attention(layer, operand))
                return sums[0] if (more := self._mixed(slot, [len(self.now) - 1])) is None else sums[0] + more
            sums.append(self._writes(operand[:, None])[:, 0])
            return sums[1]

        states = self._stream(slot)
        with _Mixing(states, layer.branches, edit):
            output = run(states)
        attention, network = sums
        self.sums.append((attention, network))
        assert self.total is not None
        self.total = _passed(layer.norms[1], _passed(layer.norms[0], self.total + attention) + network)
        return output

    def _attention(self, layer: Layer, operand: Tensor) -> Tensor:
        """What the attention of a layer adds, from what its heads write."""
        assert self.given is not None
        written = torch.einsum("bthe,hed->bhtd", self.given, layer.projection.to(self.given))
        heads = self._writes(written)
        return operand if heads is written else operand + (heads - written).sum(1)

    def _writes(self, computed: Float[Tensor, "R n T D"]) -> Float[Tensor, "R n T D"]:
        """What a group of nodes writes, which is noted."""
        group = len(self.now)
        written = self.replaced.get(group, computed)
        self.now.append(written)
        if self.dropped is not None:
            self.added.append(self.delta(group, written))
        return written

    def _stream(self, slot: int) -> Tensor:
        """What a slot reads of the blocks so far."""
        assert self.total is not None
        if self.dropped is None:
            return self.total
        if not self.components.normed_behind:
            more = self._mixed(slot, range(len(self.now)))
            return self.total if more is None else self.total + more
        if not self._reads_other(slot):
            return self.total
        states = self._plus(self.now[0][:, 0], slot, 0)
        for number, (sums, layer) in enumerate(zip(self.sums, self.components.layers, strict=False)):
            for place in (0, 1):
                states = _passed(layer.norms[place], self._plus(states + sums[place], slot, 1 + 2 * number + place))
        return states

    def _reads_other(self, slot: int) -> bool:
        assert self.dropped is not None
        return self.dropped.requires_grad or bool(self._column(slot).any())

    def _column(self, slot: int) -> Float[Tensor, "R S"]:
        assert self.dropped is not None
        return self.dropped[:, :, slot if self.dropped.shape[2] > 1 else 0]

    def _plus(self, states: Tensor, slot: int, group: int) -> Tensor:
        more = self._mixed(slot, [group])
        return states if more is None else states + more

    def _mixed(self, slot: int, groups: Sequence[int]) -> Tensor | None:
        """The differences of some groups of nodes, as much as a slot reads of each; None where it reads none."""
        if self.dropped is None or not self._reads_other(slot):
            return None
        column, found = self._column(slot), None
        for group in groups:
            own = torch.einsum("bn,bntd->btd", column[:, self._nodes(group)], self.added[group])
            found = own if found is None else found + own
        return found

    def _nodes(self, group: int) -> slice:
        """Which nodes of the graph a group holds."""
        graph = self.components.graph
        if group == 0:
            return slice(0, 1)
        layer, place = divmod(group - 1, 2)
        return graph.heads(layer) if place == 0 else slice(graph.feed_forward(layer), graph.feed_forward(layer) + 1)


def _passed(norm: Any, states: Tensor) -> Tensor:
    passed: Tensor = states if norm is None else norm(states)
    return passed
