"""Training with attention in the loss: a copy of a classifier's model, recorded while it learns.

A `Classifier` keeps its parameters frozen and its model bit-identical. What is trained is a copy of the model inside, whose
attention is recorded and edited from outside as everywhere else; no class of transformers is changed.
"""

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Protocol

import torch
from jaxtyping import Float
from torch import Tensor, nn

from benchmark import progress
from benchmark.errors import UserError
from benchmark.models import AttentionEdit, Classifier, Trace
from benchmark.models.passes import Cost
from benchmark.models.precision import Twin, around
from benchmark.randomness import generator
from benchmark.results.cache import atomic_path
from benchmark.settings.declared import Above, AtLeast, Count, Natural, Share, configurable
from benchmark.training.optimisation import masked, one_pass, warm_up_and_decay
from benchmark.training.texts import texts_of
from benchmark.types import Batch, Example

SAVE_SECONDS = 30.0
"""Least time between two saved states of an unfinished training."""

_COPIES = (
    4  # attention-sized tensors of one layer that a training step holds: scores, probabilities and their gradients
)


class Objective(Protocol):
    """A loss that sees what the model gives, its attention and the examples."""

    def __call__(self, trace: Trace, batch: Batch) -> Float[Tensor, "B"]:
        """The loss of each example; their mean is minimised."""


@configurable
class Course:
    """How a model is trained.

    Attributes:
        steps: of the optimiser.
        batch_size: examples per step.
        learning_rate: AdamW's peak, between a linear warm-up over a tenth of the steps and a linear decay.
        embedding_learning_rate: of the token embeddings, whose gradients are sparse; None for the same.
        weight_decay: AdamW's.
        mask_share: in half of a batch's examples the mask token replaces a share of the tokens that is drawn from
            [0, mask_share], so that the model has seen what perturbation puts in.
        seed: of the start, the order of examples, the masks and dropout.
    """

    steps: Count = 200
    batch_size: Count = 32
    learning_rate: Annotated[float, Above(0)] = 1e-3
    embedding_learning_rate: Annotated[float, Above(0)] | None = None
    weight_decay: Annotated[float, AtLeast(0)] = 0.01
    mask_share: Share = 0.0
    seed: Natural = 0


@dataclass(frozen=True)
class Lesson:
    """What is learnt from.

    Attributes:
        examples: of the training split.
        label_map: the model's class for each of the task's labels.
        objective: the loss.
        edits: of the attention, in every pass.
    """

    examples: Sequence[Example]
    label_map: Sequence[int]
    objective: Objective
    edits: tuple[AttentionEdit, ...] = ()


def trainable(classifier: Classifier, module: nn.Module | None = None) -> Classifier:
    """The classifier around a copy of its model whose parameters learn; the classifier itself stays as it is.

    The copy is in training mode except for its attention modules: dropout acts as the checkpoint says everywhere but on
    attention probabilities. Those would be dropped before they are recorded, and the recorded rows would not sum to 1.

    Args:
        classifier: as `load_model` gives it.
        module: a model of the same class to train in place of a copy; None for a copy.

    Raises:
        UserError: an encoder–decoder, whose attention calls have different keys.
    """
    if classifier.streams.count > 1:
        raise UserError(f"model '{classifier.name}' is an encoder–decoder; training with attention takes one stream")
    module = copy.deepcopy(classifier.model) if module is None else module
    trained = replace(around(classifier, module), cost=Cost(), twin=Twin())
    module.requires_grad_(requires_grad=True).train()
    for attention in trained.attention_modules:
        attention.eval()
    return trained


def finished(trained: Classifier) -> Classifier:
    """The same in evaluation mode with frozen parameters."""
    trained.model.eval().requires_grad_(requires_grad=False)
    return trained


def fit(
    trained: Classifier,
    lesson: Lesson,
    course: Course,
    *,
    label: str,
    state: Path | None = None,
    save_seconds: float = SAVE_SECONDS,
) -> None:
    """Train in place: minimise the mean of the objective over batches of the examples.

    What is drawn at a step depends on the seed and the step alone. A training that goes on from its saved state therefore
    ends at the same weights, to the last bit.

    Args:
        trained: of `trainable`.
        lesson: what is learnt from.
        course: how.
        label: what a person reads while it is trained.
        state: file of the unfinished training, which a later call goes on from; None keeps none.
        save_seconds: least time between two saves.

    Raises:
        UserError: masks are asked for, and the model has no mask token.
    """
    if course.mask_share and trained.mask_token_id is None:
        raise UserError(f"model '{trained.name}' has no mask token; set course.mask_share=0")
    optimizer = _optimizer(trained.model, course)
    begin = _restored(state, trained.model, optimizer)
    batches, rate, saved = _Order(lesson.examples, course), warm_up_and_decay(course.steps), time.monotonic()
    with progress.step(label, course.steps, done=begin, unit="steps") as advance:
        for step in range(begin, course.steps):
            for group in optimizer.param_groups:
                group["lr"] = group["peak"] * rate(step)
            with torch.random.fork_rng(devices=_devices(trained)):
                torch.manual_seed(_seed(course, "step", step))
                _learn(trained, lesson, course, batches(step))
            optimizer.step()
            advance(1)
            if state is not None and step + 1 < course.steps and time.monotonic() - saved >= save_seconds:
                _save(state, step + 1, trained.model, optimizer)
                saved = time.monotonic()


def _learn(trained: Classifier, lesson: Lesson, course: Course, examples: Sequence[Example]) -> None:
    """Gradients of the mean loss of one batch, clipped to norm 1; computed in parts that fit the memory budget."""
    batch = trained.encode_examples(examples, lesson.label_map)
    if course.mask_share and trained.mask_token_id is not None:
        ids = masked(batch.tensors["input_ids"], batch.units >= 0, trained.mask_token_id, course.mask_share)
        batch = replace(batch, tensors={**batch.tensors, "input_ids": ids})
    trained.model.zero_grad(set_to_none=True)
    for part, _ in trained.parts(batch, _COPIES * trained.n_layers):
        trace = trained.run(part, edits=lesson.edits, record=("attentions",), grad=True)
        torch.autograd.backward((lesson.objective(trace, part) / len(batch)).sum())
    torch.nn.utils.clip_grad_norm_(trained.model.parameters(), 1.0)


class _Order:
    """The examples of every step."""

    def __init__(self, examples: Sequence[Example], course: Course) -> None:
        self.examples, self.course = examples, course
        self.lengths = [sum(map(len, texts_of(example))) for example in examples]
        self.per_pass = -(-len(examples) // course.batch_size)
        self.number, self.batches = -1, [[0]]

    def __call__(self, step: int) -> list[Example]:
        number, place = divmod(step, self.per_pass)
        if number != self.number:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(_seed(self.course, "order", number))
                self.number, self.batches = number, [*one_pass(self.lengths, self.course.batch_size)]
        return [self.examples[row] for row in self.batches[place]]


def _optimizer(model: Any, course: Course) -> torch.optim.AdamW:
    embeddings = model.get_input_embeddings().weight
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    rate = course.embedding_learning_rate or course.learning_rate
    groups: list[dict[str, Any]] = [
        {"params": [p for p in learning if p is embeddings], "peak": rate},
        {"params": [p for p in learning if p is not embeddings], "peak": course.learning_rate},
    ]
    return torch.optim.AdamW(groups, course.learning_rate, (0.9, 0.98), weight_decay=course.weight_decay)


def _save(state: Path, step: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    with atomic_path(state) as temporary:
        torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, temporary)


def _restored(state: Path | None, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Put back what was saved; the step that is next, 0 where nothing was."""
    if state is None or not state.is_file():
        return 0
    saved = torch.load(state, map_location="cpu", weights_only=True)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    return int(saved["step"])


def _seed(course: Course, purpose: str, number: int) -> int:
    return int(generator(course.seed, purpose, str(number)).integers(2**63 - 1))


def _devices(trained: Classifier) -> list[torch.device]:
    return [trained.device] if trained.device.type == "cuda" else []
