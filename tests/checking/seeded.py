"""Methods with one mistake each, as people make them, and what has to be said of each."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmark.targets import ClassTarget
from benchmark.types import Attribution, Method
from methods.attention_explainer import AttentionExplainer
from methods.edges.base import LayerwiseScore, attention_and_gradient
from methods.edges.product import FactorProduct
from methods.gradient_x_input import GradientXInput
from methods.lrp import Lrp
from methods.propagation.rule_sets import epsilon
from methods.propagation.rules import SUM, Proportional
from methods.readouts.base import LayerwiseReadout
from methods.readouts.column_sum import ColumnSum
from methods.readouts.read_row import ReadRow
from methods.readouts.rollout import Rollout


@dataclass(frozen=True)
class BiasForInputsToo:
    """A linear layer's inputs get all of R, as if there were no bias, and the bias its share as well."""

    def __call__(self, operation: Any, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return Proportional(1e-6).of(lambda x: F.linear(x, weight, bias), lambda x: F.linear(x, weight), x) + (
            0 if bias is None else bias
        )


@dataclass(frozen=True)
class OneBranch:
    """A sum of two activations hands relevance on to the first of them alone."""

    def __call__(self, operation: Any, a: Tensor, b: Tensor) -> Tensor:
        return SUM(operation, a, b.detach())


class PerBatch(GradientXInput):
    """Scores over the largest of the batch."""

    def explain(self, model, batch, target):
        own = super().explain(model, batch, target)
        return replace(own, tokens=own.tokens / own.tokens.abs().max())


@dataclass(frozen=True)
class RowOne(LayerwiseReadout):
    """The row of token 1, whichever the classifier reads."""

    version: ClassVar[int] = 1

    def reduce(self, edges, read):
        return edges.mean(1)[:, 1]

    def combine(self, layers, read):
        return layers[-1]


class OverQueries(LayerwiseScore):
    """Attention whose columns, and not its rows, are divided by their sums."""

    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = False

    def visit(self, model, batch, target, visit):
        for layer, attention in enumerate(model.run(batch, record=("attentions",)).attentions):
            own = attention * batch.cells[:, None]
            visit(layer, own / own.sum(-2, keepdim=True).clamp(min=1e-12))


class NextLayer(LayerwiseScore):
    """The attention of layer l times the gradient of layer l + 1."""

    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = True

    def visit(self, model, batch, target, visit):
        attentions, gradients = attention_and_gradient(model, batch, target)
        for layer, attention in enumerate(attentions):
            visit(layer, attention * gradients[min(layer + 1, len(gradients) - 1)])


class OverPadding(LayerwiseScore):
    """A softmax over all keys, those of padding too."""

    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = False

    def visit(self, model, batch, target, visit):
        for layer, attention in enumerate(model.run(batch, record=("attentions",)).attentions):
            visit(layer, attention.softmax(-1))


class HeadsFirst(LayerwiseScore):
    """The mean over heads of attention times the mean over heads of its gradient."""

    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = True

    def visit(self, model, batch, target, visit):
        attentions, gradients = attention_and_gradient(model, batch, target)
        for layer, (attention, gradient) in enumerate(zip(attentions, gradients, strict=True)):
            visit(layer, attention.mean(1, keepdim=True) * gradient.mean(1, keepdim=True))


class Accumulated(Method):
    """Gradients with respect to the table of embeddings, which `backward` adds to those of the call before."""

    version: ClassVar[int] = 1

    def explain(self, model, batch, target):
        table = model.model.get_input_embeddings().weight
        table.requires_grad_()
        with torch.enable_grad():
            logits = model.model(**batch.tensors).logits
            (logits * target.seed(logits)).sum().backward()
        ids = batch.tensors["input_ids"]
        scores = (table.grad[ids] * table.detach()[ids]).sum(-1)
        return Attribution(target, tokens=scores * batch.attention_mask)


class Flipped(GradientXInput):
    """The gradient of minus the logit."""

    def explain(self, model, batch, target):
        own = super().explain(model, batch, target)
        return replace(own, tokens=-own.tokens)


class DropoutOn(GradientXInput):
    """The model is in training mode while it explains."""

    def explain(self, model, batch, target):
        model.model.train()
        try:
            return super().explain(model, batch, target)
        finally:
            model.model.eval()


class HookLeft(GradientXInput):
    """A hook that looks at hidden states is never removed."""

    def explain(self, model, batch, target):
        next(iter(model.attention_modules)).register_forward_hook(lambda *_: None)
        return super().explain(model, batch, target)


class ClassZero(GradientXInput):
    """Class 0 is explained, whichever is asked for."""

    def explain(self, model, batch, target):
        own = super().explain(model, batch, ClassTarget(torch.zeros_like(target.classes)))
        return replace(own, target=target)


BUGS = {
    "bias for inputs too": (
        Lrp(rules=replace(epsilon(), linear=BiasForInputsToo())), ("conserved",), ("classifier: linear", "leaves it"),
    ),
    "per batch": (PerBatch(), ("padding", "order"), ("alone", "in a batch")),
    "one branch": (Lrp(rules=replace(epsilon(), add=OneBranch())), ("conserved",), ("fork", "block 2")),
    "row 1": (AttentionExplainer(FactorProduct(), RowOne()), ("read",), ("row 1", "reads row 0")),
    "over queries": (AttentionExplainer(OverQueries(), ReadRow()), ("direction",), ("rows sum to",)),
    "next layer": (AttentionExplainer(NextLayer(), Rollout()), ("layers",), ("layer 0 and layer 1",)),
    "over padding": (AttentionExplainer(OverPadding(), ColumnSum()), ("padding",), ("padding",)),
    "accumulated": (Accumulated(), ("deterministic",), ("second call",)),
    "flipped": (Flipped(), ("sign",), ("−1",)),
    "heads first": (AttentionExplainer(HeadsFirst(), Rollout()), ("heads",), ("head 0", "does nothing")),
    "dropout on": (DropoutOn(), ("deterministic",), ("second call",)),
    "hook left": (HookLeft(), ("untouched",), ("a hook",)),
    "class 0": (ClassZero(), ("class",), ("class 0",)),
}  # fmt: skip
"""By name: the method, the checks of which the first to fail is one, and words that have to be said."""
