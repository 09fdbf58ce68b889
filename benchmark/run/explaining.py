"""What a method is asked for one batch: an explanation, one of another class or of several classes, its edges.

What does the asking (`Explain` and those that follow) is a value, so that another process can be told to.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from benchmark.errors import NotApplicable
from benchmark.models import Classifier
from benchmark.results.store import Ragged
from benchmark.run.arrays import flat, without_padding
from benchmark.run.contract import Checked
from benchmark.types import Attribution, Batch, EdgeMethod, Method

MOST_CLASSES = 10
"""How many classes of an example are explained at most."""


def class_order(logits: Float[Tensor, "B C"]) -> Int[Tensor, "B K"]:
    """The classes of each example, most probable first, at most `MOST_CLASSES` of them.

    Raises:
        NotApplicable: there is a single class.
    """
    if logits.shape[1] < 2:
        raise NotApplicable("the model has a single class")
    return logits.argsort(dim=1, descending=True, stable=True)[:, :MOST_CLASSES]


def for_target(
    method: Method | Checked, model: Classifier, batch: Batch, target: Int[Tensor, "B"], base: Attribution
) -> Attribution:
    """Attributions for `target`, from those of `base` for another target.

    Only the examples whose two targets differ are explained, and none where the method does not look at the class.
    """
    changed = _changed(method, target, base)
    if not changed:
        return replace(base, target=target)
    fresh = method(model, batch.select(changed), target[changed])
    rows = torch.tensor(changed, device=base.target.device)
    scores = {name: old.index_copy(0, rows, getattr(fresh, name)) for name, old in base.of_examples.items()}
    return Attribution(**{**scores, "target": target})


def _changed(method: Method | Checked, target: Int[Tensor, "B"], base: Attribution) -> list[int]:
    """The examples whose explanation for `target` is another than that of `base`."""
    return (base.target != target).nonzero().flatten().tolist() if method.class_specific else []


def for_classes(
    method: Method | Checked, model: Classifier, batch: Batch, order: Int[Tensor, "B K"], base: Attribution
) -> Attribution:
    """`classes[b, k]`: the token scores for class `order[b, k]`; the class that `base` explains is not asked again.

    Raises:
        NotApplicable: the method gives no token scores.
    """
    scores = []
    for target in order.unbind(1):
        tokens = for_target(method, model, batch, target, base).tokens
        if tokens is None:
            raise NotApplicable("the method gives no token scores")
        scores.append(tokens)
    return Attribution(target=base.target, classes=torch.stack(scores, dim=1))


def edge_sums(method: EdgeMethod | Checked, model: Classifier, batch: Batch, target: Int[Tensor, "B"]) -> Attribution:
    """Edge scores summed over heads, in chunks that keep attention-sized tensors within the memory budget."""
    parts = model.parts(batch)
    sums = [without_padding(method.edge_scores(model, part, target[rows]), part) for part, rows in parts]
    return Attribution(target=target, edges=torch.cat(sums))


def measured(model: Classifier, batch: Batch, compute: Callable[[], Attribution]) -> Ragged:
    """What `compute` gives for a batch, with its cost."""
    torch.manual_seed(0)  # for methods that draw from the global generator: the same after a restart
    before, start = replace(model.cost), time.perf_counter()
    attribution = compute().cpu()
    cost = {
        "seconds": time.perf_counter() - start + model.cost.remembered_seconds - before.remembered_seconds,
        "forward_passes": model.cost.forward_passes - before.forward_passes,
        "backward_passes": model.cost.backward_passes - before.backward_passes,
    }
    return flat(batch, attribution, cost)


@dataclass(frozen=True)
class Explain:
    """Attributions for a class of each example.

    Attributes:
        method: the explainer.
    """

    method: Checked

    def __call__(self, model: Classifier, batch: Batch, target: Int[Tensor, "B"]) -> Ragged:
        """The attributions, with their cost."""
        return measured(model, batch, lambda: self.method(model, batch, target))


@dataclass(frozen=True)
class ExplainAnother:
    """Attributions for another class than one that is explained already, of the examples whose classes differ.

    Attributes:
        method: the explainer.
    """

    method: Checked

    def __call__(self, model: Classifier, batch: Batch, target: Int[Tensor, "B"], base: Attribution) -> Ragged:
        """The attributions of these examples, of none where the method does not look at the class; with their cost."""
        changed = _changed(self.method, target, base)
        part = batch.select(changed)
        return measured(
            model, part, lambda: self.method(model, part, target[changed]) if changed else base.select(changed)
        )


@dataclass(frozen=True)
class ExplainClasses:
    """Token scores for several classes, see `for_classes`.

    Attributes:
        method: the explainer.
    """

    method: Checked

    def __call__(self, model: Classifier, batch: Batch, order: Int[Tensor, "B K"], base: Attribution) -> Ragged:
        """The scores, with their cost."""
        return measured(model, batch, lambda: for_classes(self.method, model, batch, order, base))


@dataclass(frozen=True)
class ScoreEdges:
    """Edge scores summed over heads, see `edge_sums`.

    Attributes:
        method: the explainer, which is an `EdgeMethod`.
    """

    method: Checked

    def __call__(self, model: Classifier, batch: Batch, target: Int[Tensor, "B"]) -> Ragged:
        """The scores, with their cost."""
        return measured(model, batch, lambda: edge_sums(self.method, model, batch, target))


@dataclass(frozen=True)
class ExplainWithEdges:
    """Attributions and edge scores at once.

    Attributes:
        method: the explainer, which is a `JointMethod`.
    """

    method: Checked

    def __call__(self, model: Classifier, batch: Batch, target: Int[Tensor, "B"]) -> Ragged:
        """Both, with what they cost together."""
        return measured(model, batch, lambda: self.method.with_edges(model, batch, target))
