"""The instrumented classifier: any `transformers` sequence or image classifier, recorded and edited from outside."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from hashlib import sha256
from types import MappingProxyType
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.overrides import has_torch_function
from transformers import Cache

from benchmark.errors import NotApplicable, UserError
from benchmark.models.attention_interface import (
    AttentionEdit,
    OutputEdit,
    PruneHeads,
    Tape,
    ValueEdit,
    hold_constant,
    recording,
)
from benchmark.models.blocks import BlockTape, observing
from benchmark.models.embeddings import embedding_modules, observing_embeddings
from benchmark.models.encoding import Encoder
from benchmark.models.families import Family, read_weights
from benchmark.models.label_matching import label_map
from benchmark.models.next_token import CANDIDATES, CONTINUATION, VOCABULARY, Over, refuse_whole
from benchmark.models.passes import Cost, Trace, share_of_tokens
from benchmark.models.precision import Twin, WeightParts
from benchmark.models.read_rows import Narrow, Rows, lone_rows
from benchmark.models.remarks import say_how_texts_are_read
from benchmark.models.streams import Streams
from benchmark.targets import LogProbability, Target, TargetName, probabilities_of, target_of
from benchmark.types import Batch, Example

Tensors = Mapping[str, Tensor]


@dataclass(frozen=True, repr=False)
class Classifier:
    """A classifier whose attention can be recorded, edited and differentiated; made by `load_model`.

    Every method leaves the wrapped model bit-identical, after an exception too; classifiers do not disturb each other.

    Attributes:
        name: directory or hub name.
        model: the unmodified transformers model, in evaluation mode, its parameters frozen.
        encoder: turns examples into batches.
        labels: class names in the order of the logits.
        family: which token the classifier reads.
        attention_modules: one per attention call of a forward pass (repeated where layers share weights).
        streams: which sequence of states each attention call joins.
        n_heads: attention heads per layer.
        fingerprint: digest of configuration, weights and tokenizer.
        max_tokens: tokens of one forward pass of many variants of the examples.
        memory_budget: bytes that a method may let attention-sized tensors take at once; see `recomputing.is_long`.
        twin: holds the copy in float64 that `precision.precise` makes.
        magnitudes: of the weights, which relevance propagation divides by.
    """

    name: str
    model: nn.Module
    encoder: Encoder
    labels: tuple[str, ...]
    family: Family
    attention_modules: tuple[nn.Module, ...]
    streams: Streams
    n_heads: int
    fingerprint: str
    max_tokens: int = 1024
    memory_budget: int = 1 << 27
    cost: Cost = field(default_factory=Cost)
    twin: Twin = field(default_factory=Twin, repr=False, compare=False)
    weight_parts: WeightParts = field(default_factory=WeightParts, repr=False, compare=False)

    def __repr__(self) -> str:
        shown = ", ".join([*self.labels[:4], *(["…"] if len(self.labels) > 4 else [])])
        size = f"{self.n_layers} layers, {self.n_heads} heads, window {self.window}"
        place = f"{str(self.dtype).removeprefix('torch.')} on {self.device}"
        return f"Classifier('{self.name}': {type(self.model).__name__}, classes {shown}; {size}; {place})"

    @property
    def tokenizer(self) -> Any:
        """The tokenizer, or None."""
        return self.encoder.tokenizer

    @property
    def config(self) -> Any:
        """The transformers configuration."""
        return self.model.config

    @property
    def window(self) -> int:
        """How many tokens the model reads at most."""
        return self.encoder.window

    @property
    def n_layers(self) -> int:
        """Attention calls in a forward pass."""
        return len(self.attention_modules)

    @property
    def attention_names(self) -> tuple[str, ...]:
        """Name of each attention call: "0", "1", ...; of an encoder–decoder "encoder.0", ..., "decoder.0", "cross.0", ..."""
        return self.streams.names

    @property
    def multilabel(self) -> bool:
        """Whether an example may have several labels, each with a probability of its own."""
        return bool(getattr(self.config, "problem_type", None) == "multi_label_classification")

    @property
    def device(self) -> torch.device:
        """Where the model lies."""
        return self.encoder.device

    @property
    def dtype(self) -> torch.dtype:
        """Precision of weights and activations."""
        return self.encoder.dtype

    @property
    def scores_dtype(self) -> torch.dtype:
        """Precision of logits and of what is computed from them: float32 where the model's own is a half."""
        return torch.promote_types(self.dtype, torch.float32)

    @property
    def mask_token_id(self) -> int | None:
        """The tokenizer's mask token, or None where it has none or the family's pretraining knows none."""
        return getattr(self.tokenizer, "mask_token_id", None) if self.family.mask_token else None

    @property
    def pad_token_id(self) -> int:
        """The id that fills the shorter rows of a batch."""
        return self.encoder.pad_token_id

    def encode(
        self,
        inputs: Sequence[Any],
        labels: Sequence[int] | None = None,
        candidates: Sequence[Sequence[str | int]] = (),
    ) -> Batch:
        """Encode texts, pairs (tuples of two), word lists, mappings of ready ids, or images.

        Args:
            inputs: all of one kind; see `Example.inputs`.
            labels: classes in the model's order; -1 where unknown (the default).
            candidates: for the next token after each text, of a causal language model: words or ids, the answer first.

        Returns:
            A batch padded on the right and truncated to the model's window; `Batch.lost_units` says how many words of
            each example were cut.

        Raises:
            UserError: for a text of zero words, ids without a tokenizer where texts are given, and the like.
        """
        count = range(len(inputs))
        batch = self.encoder(
            inputs,
            uids=[str(i) for i in count],
            labels=labels if labels is not None else [-1] * len(inputs),
            rationale=[None] * len(inputs),
            query_units=[0] * len(inputs),
            meta=[{}] * len(inputs),
            named=False,
            candidates=candidates,
        )
        say_how_texts_are_read(self.encoder, [batch])
        return self._with_as_many(batch)

    def _with_as_many(self, batch: Batch) -> Batch:
        """The batch; UserError where its candidates are not as many as the model's labels."""
        candidates = batch.tensors.get(CANDIDATES)
        if candidates is not None and candidates.shape[1] != len(self.labels):
            raise UserError(
                f"the examples have {candidates.shape[1]} candidates, and the model {len(self.labels)} labels "
                f"({', '.join(self.labels)}); name each: load_model(..., labels=[...]) or model.labels=[...]"
            )
        return batch

    def encode_examples(self, examples: Sequence[Example], label_map: Sequence[int]) -> Batch:
        """Encode a task's examples; `label_map[k]` is the model's class for the task's label k, which UserError checks.

        A label of -1 is unknown to the task, and stays so.
        """
        if wrong := [example for example in examples if not -1 <= example.label < len(label_map)]:
            raise UserError(f"example '{wrong[0].uid}' has the label {wrong[0].label} of {len(label_map)} classes")
        batch = self.encoder(
            [example.inputs for example in examples],
            uids=[example.uid for example in examples],
            labels=[-1 if self._is_unknown(example) else label_map[example.label] for example in examples],
            rationale=[example.rationale for example in examples],
            query_units=[example.query_units for example in examples],
            meta=[example.meta for example in examples],
            masks=[example.mask for example in examples],
            candidates=[example.candidates for example in examples],
            rated=[example.rated for example in examples],
            hidden=[example.hidden for example in examples],
        )
        return self._with_as_many(self._with_corrupted(batch, examples))

    def _with_corrupted(self, batch: Batch, examples: Sequence[Example]) -> Batch:
        """The batch with its corrupted inputs, where every example has one."""
        if any(example.corrupted is None for example in examples):
            return batch
        tensors = self.encoder(
            [example.corrupted for example in examples],
            uids=batch.uids,
            labels=[-1] * len(batch),
            rationale=[None] * len(batch),
            query_units=[0] * len(batch),
            meta=batch.meta,
            candidates=[example.candidates for example in examples],
            hidden=[example.hidden for example in examples],
        ).tensors
        return replace(batch, corrupted=tensors)

    def _is_unknown(self, example: Example) -> bool:
        """Whether an example's class is not known; where the classes are all tokens, its answer alone says it."""
        return example.label < 0 or (self.encoder.over == VOCABULARY and not example.candidates)

    def label_map(self, task_labels: Sequence[str]) -> list[int]:
        """The model's class for each of a task's labels, matched by name without regard to case; else UserError.

        Of a language model over its vocabulary, the token of each example's answer is the class, whatever this says, and of
        one of continuations the first class.
        """
        if self.encoder.over in (VOCABULARY, CONTINUATION):
            return list(range(len(task_labels)))
        return label_map(self.labels, task_labels, self.name)

    def asked_over(self, over: Over, labels: tuple[str, ...]) -> "Classifier":
        """The language model with other classes, and so with another fingerprint."""
        told = json.dumps([self.fingerprint, over])
        encoder = replace(self.encoder, over=over)
        return replace(self, labels=labels, encoder=encoder, fingerprint=sha256(told.encode()).hexdigest())

    @property
    def removed_token_id(self) -> int:
        """The id that stands in the place of a removed token."""
        return self.encoder.removed_token_id

    def read_weights(self, batch: Batch) -> Float[Tensor, "B T"]:
        """How much of each token's final state the classifier reads; rows sum to 1. See `families.read_weights`."""
        return read_weights(
            self.family, batch.attention_mask, batch.tensors.get("input_ids"), self.config, self.scores_dtype
        )

    def run(
        self,
        inputs: Batch | Tensors,
        *,
        edits: Sequence[AttentionEdit] = (),
        replace: Mapping[int, Tensor] = MappingProxyType({}),
        embedding_edit: Callable[[Tensor], Tensor] | None = None,
        value_edits: Sequence[ValueEdit] = (),
        output_edits: Sequence[OutputEdit] = (),
        record: Sequence[str] = (),
        grad: bool = False,
        start: tuple[int, Tensor] | None = None,
        rows: Rows = "all",
        past: Cache | None = None,
    ) -> Trace:
        """One forward pass.

        Of the last block only `read_rows` are computed where its attention is neither edited nor, without `rows`, recorded.

        Args:
            inputs: a batch, or tensors ready for the model (of a batch, or expanded from one).
            edits: applied to the attention probabilities of every layer.
            replace: by layer, probabilities [B H T T] that stand in for the layer's own, which are not computed.
            embedding_edit: applied to the output of the token embeddings.
            value_edits: applied to the value vectors of every layer.
            output_edits: applied to what the heads of every layer give the output projection, [B T H D].
            record: any of "attentions", "permitted", "embeddings", "hidden".
            grad: build the graph from what is recorded on; without it nothing is kept.
            start: (l, hidden [B T D]): skip the blocks before that of attention call l, which reads `hidden`. `inputs` must
                have the batch dimension of `hidden`: repeat its rows where `hidden` is an expanded batch. Attentions and
                hidden states are recorded from call l on. A restart in a decoder skips the decoder's blocks before l, but
                computes the encoder anew, with all edits, since cross-attention reads it.
            rows: "read": of the last layer's attention the `read_rows` alone may be recorded, [B H R T]; see `everywhere`.
            past: of a causal model, keys and values of the tokens before `inputs` (but `attention_mask` is of all); grows.
        """
        tensors = inputs.tensors if isinstance(inputs, Batch) else inputs
        if unknown := set(record) - {"attentions", "permitted", "embeddings", "hidden"}:
            raise ValueError(
                f"cannot record {sorted(unknown)}; record takes attentions, permitted, embeddings and hidden"
            )
        only_prunes = not output_edits and all(isinstance(edit, PruneHeads) for edit in value_edits)
        if record or edits or replace or start or not only_prunes:
            refuse_whole(tensors)
        first_call = start[0] if start is not None else 0
        first_of_stream = self.streams.entries[self.streams.queries[first_call]]
        tape = Tape(
            modules=frozenset(map(id, self.attention_modules)),
            edits=edits,
            value_edits=value_edits,
            output_edits=output_edits,
            replace=replace,
            record="attentions" in record,
            record_permitted="permitted" in record,
            grad=grad and "attentions" in record,
            first=first_call,
        )
        whole = tape.record or tape.record_permitted or output_edits or has_torch_function(tuple(tensors.values()))
        if rows == "read" or not whole:
            index = self.read_rows(tensors) if all(edit is hold_constant for edit in edits) else None
            tape.narrow = None if index is None else Narrow(self.n_layers - 1, index)
        block_tape = BlockTape(tape, grad=grad and "hidden" in record, start=start, skip_from=first_of_stream)
        embeddings: list[Tensor] = []
        with ExitStack() as stack:
            stack.enter_context(torch.set_grad_enabled(grad))
            stack.enter_context(recording(tape))
            if "hidden" in record or start is not None:
                stack.enter_context(observing(self.model, self.attention_modules, block_tape))
            elif tape.narrow is not None:
                stack.enter_context(observing(self.model, self.attention_modules[-1:], block_tape))
            if "embeddings" in record or embedding_edit is not None:
                wants_grad = grad and "embeddings" in record
                modules = embedding_modules(self.model, self.family, self.name)
                stack.enter_context(observing_embeddings(modules, embeddings, embedding_edit, wants_grad=wants_grad))
            more = {} if past is None else {"past_key_values": past}
            output = self.model(**self.streams.both_masks(tensors), **more)
            logits = output.logits.to(self.scores_dtype)
        self.cost.forward_passes += len(logits) * (share_of_tokens(tensors) - block_tape.skipped / self.n_layers)
        return Trace(
            logits=logits,
            attentions=tuple(tape.attentions),
            permitted=tuple(tape.permitted),
            embeddings=embeddings[0] if embeddings else None,
            hidden=tuple(block_tape.hidden) if "hidden" in record else (),
            multilabel=self.multilabel,
            vocabulary=None
            if (all_of := getattr(output, "vocabulary", None)) is None
            else all_of.to(self.scores_dtype),
        )

    def probabilities(self, logits: Float[Tensor, "*n C"]) -> Float[Tensor, "*n C"]:
        """What the model's logits say of its classes: `softmax(y)`, or `σ(y_c)` of each label c of several at a time."""
        return probabilities_of(logits, multilabel=self.multilabel)

    def probability(self, logits: Float[Tensor, "*n B C"], target: Target) -> Float[Tensor, "*n B"]:
        """What the model's logits say of a target, on the scale of probabilities (`Target.probability`)."""
        return target.probability(logits, multilabel=self.multilabel)

    def likelihood(self, logits: Float[Tensor, "*n B C"], target: Target) -> Float[Tensor, "*n B"]:
        """What methods explain that explain probabilities (`Target.likelihood`)."""
        return target.likelihood(logits, multilabel=self.multilabel)

    def needs_distribution(self, what: str) -> None:
        """NotApplicable where the labels have a probability each, over which `what` is not defined."""
        if self.multilabel:
            raise NotApplicable(
                f"{what} is defined for a distribution over classes, and each label of this model has a probability of its "
                "own (problem_type=multi_label_classification)"
            )

    def read_rows(self, tensors: Tensors) -> Int[Tensor, "B R"] | None:
        """The rows of the last attention call that are enough for the logits; None for all."""
        some, ids = next(iter(tensors.values())), tensors.get("input_ids")
        several = self.streams.count > 1 or CONTINUATION in tensors
        return None if several else lone_rows(self.family, some, ids, self.config)

    def gradients(
        self,
        outputs: Tensor,
        inputs: Sequence[Tensor],
        *,
        weights: Tensor | None = None,
        from_layer: int = 0,
        again: bool = False,
    ) -> tuple[Tensor, ...]:
        """`∂(Σ outputs · weights)/∂inputs` in `scores_dtype`; zeros where there is no path.

        Counted as one backward pass per row of `outputs`, less the share of the layers before `from_layer`. The graph is
        kept where it is needed `again`.
        """
        self.cost.backward_passes += len(outputs) * (1 - from_layer / self.n_layers)
        weights = torch.ones_like(outputs) if weights is None else weights
        gradients = torch.autograd.grad(outputs, list(inputs), weights, allow_unused=True, retain_graph=again)
        pairs = zip(inputs, gradients, strict=True)
        return tuple((torch.zeros_like(x) if grad is None else grad).to(self.scores_dtype) for x, grad in pairs)

    def target(
        self, batch: Batch, which: TargetName, logits: Callable[[], Float[Tensor, "B C"]] | None = None
    ) -> Target:
        """What a setting asks for of these examples; of a continuation its log-probability, whichever class it names.

        Args:
            batch: the examples.
            which: the setting.
            logits: gives theirs where they matter; without, the model is run.

        Raises:
            NotApplicable: there is no second class, or each label has a probability of its own.
        """
        if self.encoder.over == CONTINUATION:
            if which in ("contrast", "margin"):
                raise NotApplicable("a continuation is contrasted with nothing: its log-probability is explained")
            return LogProbability(torch.zeros_like(batch.label))
        return target_of(which, batch.label, logits or (lambda: self.run(batch).logits), multilabel=self.multilabel)

    def predict(self, batch: Batch) -> Int[Tensor, "B"]:
        """The class (the label) with the largest logit, which is the most probable one."""
        return self.run(batch).logits.argmax(-1)

    def rows_per_chunk(self, n_tokens: int, layers: int | None = None) -> int:
        """How many rows of a batch of `n_tokens` tokens keep `layers` layers of attention within the memory budget."""
        return max(1, self.memory_budget // (4 * self.attention_bytes(n_tokens, layers)))

    def attention_bytes(self, n_tokens: int, layers: int | None = None) -> int:
        """What the attention probabilities of one example take in `layers` layers (None: in all)."""
        per_layer = self.n_heads * n_tokens * n_tokens * self.streams.count**2 * torch.finfo(self.dtype).bits // 8
        return per_layer * (self.n_layers if layers is None else layers)

    def parts(self, batch: Batch, layers: int | None = None) -> Iterator[tuple[Batch, list[int]]]:
        """The batch in parts that keep `layers` layers of attention within the memory budget, each with its rows."""
        size = self.rows_per_chunk(batch.units.shape[1], layers)
        for start in range(0, len(batch), size):
            rows = list(range(start, min(start + size, len(batch))))
            yield batch.select(rows), rows
