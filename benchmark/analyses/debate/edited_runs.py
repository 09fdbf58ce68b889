"""One batch as the model runs it, and again with some of its attention weights replaced by others."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from benchmark.analyses.debate.scopes import Keys, Rows, Scope, rows_of
from benchmark.models.classifier import Classifier
from benchmark.targets import ClassTarget
from benchmark.types import Batch

Weights = Mapping[int, Float[Tensor, "N H R T"]]
"""By layer the attention in the rows of a scope."""


@dataclass(frozen=True)
class Unedited:
    """What one forward pass of a batch gave.

    Attributes:
        model: the classifier.
        batch: B examples.
        attentions: by layer.
        permitted: by layer the keys that the mask leaves to each query.
        hidden: by layer the input of its block.
        probabilities: of the classes, in float64.
    """

    model: Classifier
    batch: Batch
    attentions: tuple[Float[Tensor, "B H T T"], ...]
    permitted: tuple[Bool[Tensor, "B 1 T T"], ...]
    hidden: tuple[Tensor, ...]
    probabilities: Float[Tensor, "B C"]

    @staticmethod
    def of(model: Classifier, batch: Batch) -> "Unedited":
        """Run a batch as it is."""
        trace = model.run(batch, record=("attentions", "permitted", "hidden"))
        model.needs_distribution("total variation")
        probabilities = trace.logits.double().softmax(-1)
        return Unedited(model, batch, trace.attentions, trace.permitted, trace.hidden, probabilities)

    @cached_property
    def gradients(self) -> tuple[Float[Tensor, "B H T T"], ...]:
        """By layer ∂y/∂A of the logit of the predicted class."""
        trace = self.model.run(self.batch, record=("attentions",), grad=True)
        seed = ClassTarget(self.predicted).seed(trace.logits)
        return self.model.gradients(trace.logits, trace.attentions, weights=seed)

    def within(self, scope: Scope, keys: Keys) -> "Selected":
        """The weights that a scope edits."""
        return Selected(self, scope, rows_of(self.model, self.batch, self.permitted, scope, keys))

    @property
    def predicted(self) -> Int[Tensor, "B"]:
        """The class with the largest probability."""
        return self.probabilities.argmax(-1)


@dataclass(frozen=True)
class Selected:
    """The weights of a batch that a scope edits, and what the model does when others stand in their place.

    Attributes:
        unedited: the batch as it is.
        scope: which layers and rows.
        rows: by layer.
    """

    unedited: Unedited
    scope: Scope
    rows: Mapping[int, Rows]

    @cached_property
    def weights(self) -> Weights:
        """The model's own attention in these rows [B H R T]."""
        return {i: self.unedited.attentions[i].gather(2, self._index(i)) for i in self.rows}

    @cached_property
    def gradients(self) -> Weights:
        """The gradient of the predicted class's logit with respect to these weights [B H R T]."""
        return {i: self.unedited.gradients[i].gather(2, self._index(i)) for i in self.rows}

    @cached_property
    def count(self) -> Int[Tensor, "B"]:
        """How many rows of all layers and heads are edited in each example."""
        edited = torch.stack([rows.edited.sum(1) for rows in self.rows.values()])
        return edited.sum(0) * self.unedited.model.n_heads

    def mean(self, of_rows: Mapping[int, Float[Tensor, "N H R"]], example: Int[Tensor, "N"]) -> Float[Tensor, "N"]:
        """The mean over the edited rows of all layers and heads of what each row has; NaN where none is edited."""
        sums = [(values * self.rows[i].edited[example][:, None]).sum((1, 2)) for i, values in of_rows.items()]
        return torch.stack(sums).sum(0) / self.count[example]

    def logits(self, example: Int[Tensor, "N"], weights: Weights, *, grad: bool = False) -> Float[Tensor, "N C"]:
        """What the model says of examples (repetitions allowed) when these weights [N H R T] stand in the edited rows.

        Layers before the first edited one are not computed again; layers outside of the scope recompute their attention.
        """
        base, first = self.unedited, min(weights)
        replace = {
            i: base.attentions[i][example].scatter(2, self._index(i)[example], new.to(base.model.dtype))
            for i, new in weights.items()
        }
        tensors = {name: tensor[example] for name, tensor in base.batch.tensors.items()}
        start = (first, base.hidden[first][example]) if first else None
        return base.model.run(tensors, replace=replace, start=start, grad=grad).logits

    def probabilities(
        self, example: Int[Tensor, "N"], edited: Callable[[Int[Tensor, "R"]], Weights]
    ) -> Float[Tensor, "N C"]:
        """The model's probabilities, in float64, for N edits in as many passes as its budgets ask for.

        Args:
            example: that each edit belongs to.
            edited: the weights of the edits with these numbers.
        """
        parts = [self.logits(example[part], edited(part)).double().softmax(-1) for part in self.chunks(len(example))]
        return torch.cat(parts) if parts else self.unedited.probabilities[:0]

    def chunks(self, count: int) -> Sequence[Int[Tensor, "R"]]:
        """Numbers 0 … count − 1 in parts of one pass each."""
        numbers = torch.arange(count, device=self.unedited.batch.units.device)
        return [numbers[i : i + self.rows_per_pass] for i in range(0, count, self.rows_per_pass)]

    @property
    def rows_per_pass(self) -> int:
        """How many edited examples one pass takes."""
        model, length = self.unedited.model, self.unedited.batch.units.shape[1]
        return max(1, min(model.max_tokens // length, model.rows_per_chunk(length, len(self.rows))))

    def _index(self, layer: int) -> Int[Tensor, "B H R T"]:
        query = self.rows[layer].query[:, None, :, None]
        return query.expand(-1, self.unedited.model.n_heads, -1, self.unedited.batch.units.shape[1])


def taken(weights: Weights) -> Callable[[Int[Tensor, "R"]], Weights]:
    """Weights that are there for all edits, by the numbers of some."""
    return lambda numbers: {i: given[numbers] for i, given in weights.items()}
