"""What a method is asked for one batch: an explanation, one of another class or of several classes, its edges.

What does the asking (`Explain` and those that follow) is a value, so that another process can be told to. What a method
answers is held to what it promises (`Checked`), before anything is computed from it.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from benchmark.errors import NotApplicable, UserError
from benchmark.models import Classifier
from benchmark.models.components import Graph
from benchmark.models.continuations import each_of, summed
from benchmark.models.guard import is_ours, watched
from benchmark.models.next_token import CONTINUATION, NOT_A_SUM
from benchmark.results.store import Ragged
from benchmark.run.arrays import flat, without_padding
from benchmark.targets import TARGET_FIELDS, ClassTarget, LogProbability, Target
from benchmark.types import Attribution, Batch, Method, layouts

MOST_CLASSES = 10
"""How many classes of an example are explained at most."""

_KIND = "torch tensor of floating-point numbers"
_WAY_OUT = "Attribution in benchmark/types.py says what each is, Batch.units which word each token belongs to"


def class_order(logits: Float[Tensor, "B C"]) -> Int[Tensor, "B K"]:
    """The classes of each example, most probable first, at most `MOST_CLASSES` of them.

    Raises:
        NotApplicable: there is a single class.
    """
    if logits.shape[1] < 2:
        raise NotApplicable("the model has a single class")
    return logits.argsort(dim=1, descending=True, stable=True)[:, :MOST_CLASSES]


@dataclass(frozen=True)
class Checked:
    """A method whose answers are checked; a mistake in one is a line that names the method and what was expected.

    Scores that are not finite are let pass: they are a dash, not a mistake of the form (`arrays.flat`). A method that is not
    ours is `watched`: what it leaves changed is put back, and is a line likewise.

    Attributes:
        name: of the method in the comparison.
        method: the explainer.
    """

    name: str
    method: Method

    @property
    def class_specific(self) -> bool:
        """That of the method."""
        return self.method.class_specific

    @cached_property
    def ours(self) -> bool:
        """Whether the method and its parts come from this project."""
        return is_ours(self.method)

    def _watched(self, model: Classifier, batch: Batch, target: Target) -> AbstractContextManager[None]:
        return nullcontext() if self.ours else watched(f"methods.{self.name}", model, [batch], target)

    @contextmanager
    def _not_ended(self) -> Iterator[None]:
        """A method that ends the program is told as one: nothing would be said else, and the status would be its own."""
        try:
            yield
        except SystemExit as error:
            said = "" if error.code is None else repr(error.code)
            raise UserError(f"methods.{self.name}: it ended the program (sys.exit({said})); return scores") from error

    def __call__(self, model: Classifier, batch: Batch, target: Target) -> Attribution:
        """The method's attributions; of a continuation the sum of those of its tokens (`models.continuations`).

        Raises:
            UserError: they are of another form than a batch's `Attribution`.
            NotApplicable: another class than a continuation is to be explained.
        """
        if model.encoder.over == CONTINUATION:
            return self._of_continuation(model, batch, target)
        with self._watched(model, batch, target), self._not_ended():
            answer = self.method.explain(model, batch, target)
        return self._checked(answer, model, batch, "the method")

    def _of_continuation(self, model: Classifier, batch: Batch, target: Target) -> Attribution:
        """As many tokens at once as there are prompts."""
        if not isinstance(target, LogProbability):
            raise NotApplicable(NOT_A_SUM)
        over, each, owner = each_of(model, batch)
        rows = [range(len(owner))[start : start + len(batch)] for start in range(0, len(owner), len(batch))]
        parts = [self(over, each.select(some), LogProbability(each.label[list(some)])) for some in rows]
        return summed(parts, owner, batch, Attribution(target))

    def with_edges(self, model: Classifier, batch: Batch, target: Target) -> Attribution:
        """The same with edge scores, of a method whose edges come along.

        Raises:
            UserError: they are of another form than a batch's `Attribution`.
            NotApplicable: a continuation is explained, whose tokens have edges each.
        """
        _has_edges(model)
        with self._watched(model, batch, target), self._not_ended():
            answer = self.method.with_edges(model, batch, target)
        return self._checked(answer, model, batch, "with_edges")

    def edge_scores(self, model: Classifier, batch: Batch, target: Target) -> Float[Tensor, "B L H T T"]:
        """The method's edge scores.

        Raises:
            UserError: they are not of the batch's edges.
            NotApplicable: as `with_edges`.
        """
        _has_edges(model)
        with self._watched(model, batch, target), self._not_ended():
            scores = self.method.edge_scores(model, batch, target)
        n_examples, width = batch.units.shape
        heads = {1, model.n_heads}
        expected = f"a {_KIND} of shape [{n_examples}, {model.n_layers}, {model.n_heads} or 1, {width}, {width}]"
        if not isinstance(scores, Tensor) or not scores.is_floating_point():
            raise self._mistake(f"edge_scores gave {_described(scores)}; expected is {expected}")
        fixed = (*scores.shape[:2], *scores.shape[3:]) == (n_examples, model.n_layers, width, width)
        if scores.ndim != 5 or not fixed or scores.shape[2] not in heads:
            raise self._mistake(f"edge_scores gave {_described(scores)}; expected is {expected}")
        return scores

    def _checked(self, answer: Any, model: Classifier, batch: Batch, who: str) -> Attribution:
        if not isinstance(answer, Attribution):
            raise self._mistake(
                f"{who} gave {_described(answer)}; expected is benchmark.types.Attribution(target=target, tokens=...), "
                f"with tokens of shape {list(batch.units.shape)}, one score for each token of each example"
            )
        if not isinstance(answer.target, Target):
            expected = f"a torch tensor of shape [{len(batch)}]"
            raise self._mistake(f"{who} gave as target {_described(answer.target)}; expected is {expected}")
        for name, shape in _shapes(answer, model, batch).items():
            value, kind = answer.of_examples[name], "torch tensor" if name in TARGET_FIELDS else _KIND
            if not (
                isinstance(value, Tensor)
                and _fits(value, shape)
                and (name in TARGET_FIELDS or value.is_floating_point())
            ):
                found = _described(value)
                raise self._mistake(f"{who} gave as {name} {found}; expected is a {kind} of shape {_typed(shape)}")
        return answer

    def _mistake(self, text: str) -> UserError:
        return UserError(f"methods.{self.name}: {text} ({_WAY_OUT})")


def _has_edges(model: Classifier) -> None:
    if model.encoder.over == CONTINUATION:
        raise NotApplicable(f"{NOT_A_SUM}; each token has edges of its own")


def _shapes(answer: Attribution, model: Classifier, batch: Batch) -> Mapping[str, tuple[int | None, ...]]:
    """What every field that is given must have; None for a dimension of any size."""
    n_examples, width = batch.units.shape
    sizes = {"B": n_examples, "T": width, "L": model.n_layers, "H": model.n_heads}
    graph = Graph(model.n_layers, model.n_heads)
    sizes |= {"S": len(graph.nodes), "D": len(graph.slots)}
    sizes |= dict(zip("YX", batch.size or (0, 0), strict=True))
    return {name: tuple(map(sizes.get, layouts()[name].dimensions)) for name in answer.of_examples}


def _fits(value: Tensor, shape: tuple[int | None, ...]) -> bool:
    return value.ndim == len(shape) and all(
        size in (None, found) for size, found in zip(shape, value.shape, strict=True)
    )


def _typed(shape: tuple[int | None, ...]) -> str:
    return f"[{', '.join('K' if size is None else str(size) for size in shape)}]"


def _described(value: Any) -> str:
    """Type and shape of what was given, in words."""
    if isinstance(value, Tensor):
        kind = "" if value.is_floating_point() else f" of {str(value.dtype).removeprefix('torch.')}"
        return f"a tensor{kind} of shape {list(value.shape)}"
    kind = type(value).__name__
    if value is None:
        return "None"
    size = f" of {len(value)} items" if isinstance(value, list | tuple | dict) else ""
    return f"a {kind}{size}"


def for_target(
    method: Method | Checked, model: Classifier, batch: Batch, target: Target, base: Attribution
) -> Attribution:
    """Attributions for `target`, from those of `base` for another target.

    Only the examples whose two targets differ are explained, and none where the method does not look at the class.
    """
    changed = _changed(method, target, base)
    if not changed:
        return replace(base, target=target)
    fresh = method(model, batch.select(changed), target[changed])
    rows = torch.tensor(changed, device=target.classes.device)
    scores = {name: getattr(base, name) for name in base.of_examples if name not in TARGET_FIELDS}
    return Attribution(target, **{name: old.index_copy(0, rows, getattr(fresh, name)) for name, old in scores.items()})


def _changed(method: Method | Checked, target: Target, base: Attribution) -> list[int]:
    """The examples whose explanation for `target` is another than that of `base`."""
    return target.differs(base.target).nonzero().flatten().tolist() if method.class_specific else []


def for_classes(
    method: Method | Checked, model: Classifier, batch: Batch, order: Int[Tensor, "B K"], base: Attribution
) -> Attribution:
    """`classes[b, k]`: the token scores for class `order[b, k]`; the class that `base` explains is not asked again.

    Raises:
        NotApplicable: the method gives no token scores.
    """
    scores = []
    for classes in order.unbind(1):
        tokens = for_target(method, model, batch, ClassTarget(classes), base).tokens
        if tokens is None:
            raise NotApplicable("the method gives no token scores")
        scores.append(tokens)
    return Attribution(target=base.target, classes=torch.stack(scores, dim=1))


def edge_sums(method: Method | Checked, model: Classifier, batch: Batch, target: Target) -> Attribution:
    """Edge scores summed over heads, in chunks that keep attention-sized tensors within the memory budget."""
    parts = model.parts(batch)
    sums = [without_padding(method.edge_scores(model, part, target[rows]), part) for part, rows in parts]
    return Attribution(target=target, edges=torch.cat(sums))


@dataclass
class Cost:
    """What the block of `costing` took: seconds of the clock, and passes by example.

    Attributes:
        spent: by name, as run folders keep it; empty until the block is over.
    """

    spent: dict[str, float] = field(default_factory=dict)


@contextmanager
def costing(model: Classifier) -> Iterator[Cost]:
    """Takes the cost of a block of explaining; methods that draw from the global generator draw the same after a restart."""
    torch.manual_seed(0)
    cost, before, start = Cost(), replace(model.cost), time.perf_counter()
    yield cost
    cost.spent = {
        "seconds": time.perf_counter() - start + model.cost.remembered_seconds - before.remembered_seconds,
        "forward_passes": model.cost.forward_passes - before.forward_passes,
        "backward_passes": model.cost.backward_passes - before.backward_passes,
    }


@dataclass(frozen=True)
class Explain:
    """Attributions for a class of each example.

    Attributes:
        method: the explainer.
    """

    method: Checked

    def __call__(self, model: Classifier, batch: Batch, target: Target) -> Ragged:
        """The attributions, with their cost."""
        with costing(model) as cost:
            attribution = self.method(model, batch, target).cpu()
        return flat(batch, attribution, cost.spent)


@dataclass(frozen=True)
class ExplainAnother:
    """Attributions for another class than one that is explained already, of the examples whose classes differ.

    Attributes:
        method: the explainer.
    """

    method: Checked

    def __call__(self, model: Classifier, batch: Batch, target: Target, base: Attribution) -> Ragged:
        """The attributions of these examples, of none where the method does not look at the class; with their cost."""
        changed = _changed(self.method, target, base)
        part = batch.select(changed)
        with costing(model) as cost:
            attribution = (self.method(model, part, target[changed]) if changed else base.select(changed)).cpu()
        return flat(part, attribution, cost.spent)


@dataclass(frozen=True)
class ExplainClasses:
    """Token scores for several classes, see `for_classes`.

    Attributes:
        method: the explainer.
    """

    method: Checked

    def __call__(self, model: Classifier, batch: Batch, order: Int[Tensor, "B K"], base: Attribution) -> Ragged:
        """The scores, with their cost."""
        with costing(model) as cost:
            attribution = for_classes(self.method, model, batch, order, base).cpu()
        return flat(batch, attribution, cost.spent)


@dataclass(frozen=True)
class ScoreEdges:
    """Edge scores summed over heads, see `edge_sums`.

    Attributes:
        method: the explainer, which scores edges.
    """

    method: Checked

    def __call__(self, model: Classifier, batch: Batch, target: Target) -> Ragged:
        """The scores, with their cost."""
        with costing(model) as cost:
            attribution = edge_sums(self.method, model, batch, target).cpu()
        return flat(batch, attribution, cost.spent)


@dataclass(frozen=True)
class ExplainWithEdges:
    """Attributions and edge scores at once.

    Attributes:
        method: the explainer, whose edges come along.
    """

    method: Checked

    def __call__(self, model: Classifier, batch: Batch, target: Target) -> Ragged:
        """Both, with what they cost together."""
        with costing(model) as cost:
            attribution = self.method.with_edges(model, batch, target).cpu()
        return flat(batch, attribution, cost.spent)
