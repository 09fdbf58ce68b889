"""A model that reads words without attending to them (Pruthi et al. 2020)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from benchmark.errors import UserError
from benchmark.models import Classifier, Trace
from benchmark.models.divergences import even_rows, over_rows
from benchmark.settings.declared import AtLeast, configurable
from benchmark.training.attended import AttentionTrained, Objective
from benchmark.training.starts import FromBase, Start
from benchmark.types import Batch, Example, Task

Heads = Literal["mean", "max"]
Rows = Literal["read", "all"]
Layers = Literal["last", "all"]


@configurable
class Deceptive(AttentionTrained):
    """Trained to classify with no attention on the words of the rationale (docs/protocols.md, section 16).

        L = mean over examples of CE(y, p) − λ · log(1 − m),    m the attention mass on impermissible tokens

    with the logarithm averaged over heads, or at the head where m is largest. Impermissible are the tokens of the words that
    the rationale marks; an example without one has m = 0.

    Attributes:
        penalty_weight: λ.
        heads: `mean` of log(1 − m) over heads, or `max`, the head with the most mass.
        rows: queries whose attention counts: `read`, the token that the classifier reads, or `all`, the mean over queries.
        layers: `last`, or `all` layers, whose heads count alike.

    Source: Pruthi et al. 2020, section 3. There, tokens of one kind also cannot attend to those of the other; here they can.
    """

    kind: ClassVar[str] = "deceptive"

    start: Start = field(default_factory=FromBase)
    penalty_weight: Annotated[float, AtLeast(0)] = 1.0
    heads: Heads = "mean"
    rows: Rows = "read"
    layers: Layers = "last"

    def check(self, task: Task) -> None:
        """UserError where no example of the training split has a rationale with a word in it."""
        if not has_marked_words(task.split("train")):
            raise UserError(
                f"task {task.name} has no rationales in its training split, so that no word is impermissible; "
                "model=deceptive needs another task"
            )

    def objective(self, base: Classifier) -> Objective:
        """The loss; the base says which token the classifier reads."""
        return UnattendedWords(base, self.penalty_weight, self.heads, self.rows, self.layers)


@dataclass(frozen=True)
class UnattendedWords:
    """CE(y, p) − λ · log(1 − m) of each example.

    Attributes:
        reader: says which token is read.
        weight: λ.
        heads, rows, layers: of the mass m, as `Deceptive` has them.
    """

    reader: Classifier
    weight: float
    heads: Heads
    rows: Rows
    layers: Layers

    def __call__(self, trace: Trace, batch: Batch) -> Float[Tensor, "B"]:
        """The loss of each example."""
        loss = torch.nn.functional.cross_entropy(trace.logits, batch.label, reduction="none")
        return loss + self.weight * self.penalty(trace, batch)

    def penalty(self, trace: Trace, batch: Batch) -> Float[Tensor, "B"]:
        """−log(1 − m), at least 0; finite where all mass is impermissible."""
        layers = trace.attentions[-1:] if self.layers == "last" else trace.attentions
        elsewhere = mass_elsewhere(layers, marked_tokens(batch))
        dtype = elsewhere.dtype
        read = self.reader.read_weights(batch) if self.rows == "read" else even_rows(batch.attention_mask, dtype)
        penalties = -elsewhere.clamp(torch.finfo(dtype).tiny, 1.0).log()
        by_head = over_rows(penalties, read.to(dtype)[:, None, None]).flatten(1)
        return by_head.mean(1) if self.heads == "mean" else by_head.amax(1)


def has_marked_words(examples: Sequence[Example]) -> bool:
    """Whether an example has a rationale with a word in it."""
    return any(example.rationale is not None and example.rationale.any() for example in examples)


def marked_tokens(batch: Batch) -> Bool[Tensor, "B T"]:
    """Tokens of the rationale's words; none in an example without a rationale."""
    width = max(1, int(batch.n_units.max()))
    marked = torch.zeros(len(batch), width, dtype=torch.bool)
    for row, rationale in enumerate(batch.rationale):
        if rationale is not None:
            marked[row, : len(rationale)] = torch.as_tensor(rationale)
    of_token = marked.to(batch.units.device).gather(1, batch.units.clamp(min=0))
    return of_token & (batch.units >= 0)


def mass_elsewhere(
    attentions: Sequence[Float[Tensor, "B H T T"]], marked: Bool[Tensor, "B T"]
) -> Float[Tensor, "B L H T"]:
    """1 − the mass on marked tokens, of each layer, head and query, as the sum over all other tokens.

    Args:
        attentions: of each layer.
        marked: tokens.
    """
    return torch.stack([layer.masked_fill(marked[:, None, None], 0).sum(-1) for layer in attentions], dim=1)
