"""A model that learns what a mechanism is, from random weights: as a written one it answers, and under interventions too."""

import logging
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from benchmark.models.checkpoints import quiet_transformers
from benchmark.models.classifier import Classifier
from benchmark.models.divergences import attention_divergence, even_rows, kl
from benchmark.models.edits import KeepEdges, KeepOutputs, PatchHeads
from benchmark.models.loading import load_model
from benchmark.models.passes import Trace
from benchmark.models.removal import OPERATORS, OperatorName
from benchmark.models.written.truth import answer
from benchmark.settings.declared import Above, AtLeast, Count, Natural
from benchmark.training.attended import finished, trainable
from benchmark.training.cached import checkpoint_directory, source_digest, trained_once, write_record
from benchmark.training.sources import Loading
from benchmark.training.trainer import adamw, descend, with_threads
from benchmark.training.written import Written
from benchmark.types import Batch, Task

logger = logging.getLogger(__name__)

Learner = Literal["bert", "gpt2"]

LEARNERS: tuple[Learner, ...] = get_args(Learner)
"""Families that learn mechanisms."""

_LEARNT_FROM = 2048
"""Inputs; each is met with words blanked and heads patched anew every time."""

_HELD_OUT, _AT_ONCE = 1024, 64
"""Interventions on inputs that were not learnt from, and how many are run at once."""


@dataclass(frozen=True, kw_only=True)
class Softened(Loading):
    """The program of the task (`task=mechanism`), learnt by a plain model of transformers from random weights; then cached.

    The model t that is written by hand (`model=written`) is the teacher. The learner s has its layers and heads, a width of
    its own and ordinary normalisation layers. In every step inputs x and x' are drawn with some words blanked, and an
    intervention: none; the outputs of some heads at some positions taken from x', or set to 0; or an attention edge cut in
    all heads. It is the same in both models, and

        L = mean Σ_c (y_sc − y_tc)² / Var F_t + w · mean KL(A_t ‖ A_s)

    with y the logits of the two classes, F that of the label less that of the other class, and A the attention of every head
    under the intervention. Each logit is that of the teacher, and not their difference alone, since explainers are asked for
    one of them. Words are blanked by the padding token, by deletion or by the mask token where there is one, so that what
    explainers and tests remove does not lead out of what the learner knows. Where the loss is 0, a head takes part in s if
    it does in t (interchange interventions), all others can be exchanged without a change, and every set of words has the
    same value in both. Weights are as training leaves them, and no constant lies in the residual stream.

    `training.json` beside the weights has on held-out inputs the accuracy, and the share of the variance of F_t under
    interventions that F_s explains.

    Attributes:
        family: bert and gpt2.
        seed: of the weights and of what is drawn.
        head_size: dimensions of a head; the width is so many times the number of heads.
        intermediate: neurons of a layer.
        steps, batch_size, learning_rate: the training; AdamW with warm-up and decay.
        attention_weight: w; 0 leaves it to the model where its heads look.

    Source: Gupta et al. 2024 (InterpBench), who train from random weights with interchange interventions on the nodes that
    take part and on those that do not; Geiger et al. 2022. The written teacher, its attention and the blanks are this
    project's.
    """

    training_version: ClassVar[int] = 1
    """Enters the cache's key."""

    family: Learner = "bert"
    seed: Natural = 0
    head_size: Count = 16
    intermediate: Count = 64
    steps: Count = 1500
    batch_size: Count = 128
    learning_rate: Annotated[float, Above(0)] = 3e-3
    attention_weight: Annotated[float, AtLeast(0)] = 1.0

    def resolve(self, task: Task) -> str:
        """Directory of the checkpoint for a task; trains it on one thread where the cache has none.

        Raises:
            UserError: the task has no program.
        """
        written = Written(family=self.family).resolve(task)
        covered = [self.training_version, source_digest(written), task.fingerprint, self.of_weights()]
        what = f"the softened model of {task.name}"

        def into(folder: Path) -> None:
            with with_threads(1), quiet_transformers():
                torch.manual_seed(self.seed)
                self._train(task, load_model(written, dtype="float64", device="cpu"), folder, what)

        return trained_once(checkpoint_directory(f"softened-{self.family}", covered), what, into)

    def _train(self, task: Task, teacher: Classifier, folder: Path, what: str) -> None:
        started = time.monotonic()
        learner = trainable(self._untrained(teacher, folder))
        given: Any = task
        own: Task = replace(given, examples=_LEARNT_FROM) if hasattr(task, "examples") else task
        lesson = _Lesson(teacher, _encoded(teacher, own, "train"))
        optimizer = adamw(learner.model, self.learning_rate, self.learning_rate, 0.0)

        def learn(step: int) -> None:
            generator = torch.Generator().manual_seed((self.seed << 32) + step)
            drawn = lesson.draw(self.batch_size, generator)
            wanted, given = drawn.run(teacher, grad=False), drawn.run(learner, grad=True)
            error = (given.logits - wanted.logits.float()) / lesson.scale
            rows = even_rows(drawn.batch.attention_mask, torch.float32)
            looked = [attention.float() for attention in wanted.attentions]
            looks = attention_divergence(looked, given.attentions, rows, kl)
            loss = error.square().sum(-1).mean() + self.attention_weight * looks.mean()
            torch.autograd.backward(loss)

        descend(learner.model, optimizer, self.steps, learn, f"training {what}")
        learner = finished(learner)
        held_out = _Lesson(teacher, _encoded(teacher, own, "validation"))
        explained = held_out.explained(learner)
        test = _encoded(learner, task, "test")
        right = float((learner.predict(test) == test.label).double().mean())
        seconds = time.monotonic() - started
        logger.info("%s: accuracy %.3f, %.4f of the variance under interventions", what, right, explained)
        model: Any = learner.model
        model.set_attn_implementation("eager")
        model.save_pretrained(folder)
        write_record(
            folder,
            {
                "accuracy": {"test": right},
                "variance explained under interventions": explained,
                "seconds": round(seconds, 1),
                "settings": self.of_weights(),
            },
        )

    def _untrained(self, teacher: Classifier, folder: Path) -> Classifier:
        """A model of the teacher's class, layers and heads with random weights, which is left in the folder."""
        config = teacher.config.to_dict()
        width = self.head_size * teacher.n_heads
        sizes = {"bert": ("hidden_size", "intermediate_size"), "gpt2": ("n_embd", "n_inner")}[self.family]
        config |= dict(zip(sizes, (width, self.intermediate), strict=True)) | {"dtype": "float32"}
        config |= {name: 0.0 for name in config if name.endswith(("dropout", "dropout_prob", "pdrop"))}
        made = type(teacher.config).from_dict(config | {"initializer_range": width**-0.5 / 2})
        model: Any = type(teacher.model)
        model(made).save_pretrained(folder)
        teacher.tokenizer.save_pretrained(folder)
        return load_model(folder, dtype="float32", device="cpu")


def _encoded(model: Classifier, task: Task, split: str) -> Batch:
    return model.encode_examples(task.split(split), model.label_map(task.labels))


@dataclass(frozen=True)
class _Drawn:
    """Inputs with an intervention each.

    Attributes:
        batch: the inputs.
        source: those whose heads' outputs are put in their place; of as many tokens.
        where: outputs that are exchanged.
        nothing: whether 0 is put there in place of the source's.
        keep: attention edges that stay.
    """

    batch: Batch
    source: Batch
    where: Bool[Tensor, "B L H T"]
    nothing: Bool[Tensor, "B"]
    keep: Bool[Tensor, "B L T T"]

    def run(self, model: Classifier, *, grad: bool) -> Trace:
        """Of a model under the interventions, with its attention."""
        kept = KeepOutputs()
        model.run(self.source, output_edits=[kept], grad=grad)
        given = [output.masked_fill(self.nothing[:, None, None, None], 0) for output in kept.outputs]
        patch, cut = PatchHeads(given, self.where), KeepEdges(self.keep)
        looked: list[Tensor] = []

        def look(_layer: int, attention: Tensor) -> Tensor:
            looked.append(attention)  # before edges are cut
            return attention

        trace = model.run(self.batch, output_edits=[patch], edits=[look, cut], grad=grad)
        return replace(trace, attentions=tuple(looked))

    def answer(self, trace: Trace) -> Float[Tensor, "B"]:
        """F."""
        return answer(trace.logits, self.batch).float()


class _Lesson:
    """Inputs from which interventions are drawn.

    Args:
        teacher: the written model.
        batch: whole inputs.
    """

    def __init__(self, teacher: Classifier, batch: Batch) -> None:
        self.teacher, self.batch = teacher, batch
        masks: tuple[OperatorName, ...] = () if teacher.mask_token_id is None else ("mask",)
        self.blanks: tuple[OperatorName, ...] = ("pad", "delete", *masks)
        self.scale = self._answers(teacher).std()

    def draw(self, count: int, generator: torch.Generator) -> _Drawn:
        """So many inputs: in a half of them words are blanked, in five sixths there is an intervention."""
        operator = self.blanks[int(torch.randint(len(self.blanks), (), generator=generator))]
        batch, source = (self._blanked(count, operator, generator) for _ in range(2))
        shape = (count, self.teacher.n_layers, self.teacher.n_heads)
        width = batch.units.shape[1]

        def one_of(*sizes: int) -> Tensor:
            """True in one place of each row."""
            size = torch.Size(sizes).numel()
            places = torch.randint(size, (count,), generator=generator)
            return F.one_hot(places, size).bool().view(count, *sizes)

        def some(*sizes: int) -> Tensor:
            return torch.rand(count, *sizes, generator=generator) < 0.5

        heads = torch.stack([torch.zeros(shape, dtype=torch.bool), one_of(*shape[1:]), some(*shape[1:])])
        kind = torch.randint(6, (count,), generator=generator)
        where = heads[_PATCHED[kind], torch.arange(count)][..., None].expand(*shape, width)
        at = some(1, 1, width) | (kind != _AT_POSITIONS)[:, None, None, None]
        cut = one_of(shape[1], width, width) & (kind == _AN_EDGE)[:, None, None, None]
        return _Drawn(batch, source, where & at, kind == _NOTHING, ~cut)

    def _blanked(self, count: int, operator: OperatorName, generator: torch.Generator) -> Batch:
        rows = torch.randint(len(self.batch), (count,), generator=generator).tolist()
        batch = self.batch.select(rows)
        rated = torch.stack([torch.as_tensor(batch.rated_units(row)) for row in range(count)])
        gone = torch.rand(rated.shape, generator=generator) < torch.rand(count, 1, generator=generator)
        gone &= rated & (torch.rand(count, 1, generator=generator) < 0.5)
        blanked = OPERATORS[operator]()(self.teacher, batch.tensors, batch.units, gone).tensors
        missing = batch.units.shape[1] - blanked["input_ids"].shape[1]
        fill = {"input_ids": self.teacher.pad_token_id}
        padded = {name: F.pad(tensor, (0, missing), value=fill.get(name, 0)) for name, tensor in blanked.items()}
        return replace(batch, tensors=padded)

    def explained(self, learner: Classifier) -> float:
        """Share of the variance of the teacher's F that the learner's explains, under interventions of this lesson."""
        wanted = self._answers(self.teacher)
        return float(1 - (self._answers(learner) - wanted).square().mean() / wanted.var())

    def _answers(self, model: Classifier) -> Float[Tensor, "N"]:
        """F of a model on the same draws for every model, those of all ways to blank words among them."""
        draws = (
            self.draw(_AT_ONCE, torch.Generator().manual_seed(-1 - number)) for number in range(_HELD_OUT // _AT_ONCE)
        )
        return torch.cat([drawn.answer(drawn.run(model, grad=False)) for drawn in draws])


_PATCHED = torch.tensor([0, 1, 2, 2, 1, 0])
"""By the kind of an intervention, whose outputs are exchanged: no head's, those of one head, or of some.

The kinds: none; one head; some heads; some at some positions; one head, for 0; none, but an edge is cut.
"""

_AT_POSITIONS, _NOTHING, _AN_EDGE = 3, 4, 5
