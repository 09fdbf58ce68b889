"""Central types: what flows from a task through a model and a method to an evaluation.

Notation of all shapes: B examples, T tokens (special tokens and padding included), U units, L layers, H heads, C classes.
A *unit* is what a person rates or removes: a whitespace word in text, a patch in an image.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, get_args, get_type_hints, runtime_checkable

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from benchmark.errors import NotApplicable, UserError
from benchmark.results.record import About, Derivation, Figure, Metric
from benchmark.results.wording import span
from benchmark.targets import TARGET_FIELDS, ClassTarget, Target, TargetName, target_from
from benchmark.units import Pool, pool

if TYPE_CHECKING:
    from benchmark.models.classifier import Classifier

Aggregate = Callable[[Float[Tensor, "N L H"]], Float[Tensor, "L H"]]
"""Head importance from the head scores of N examples."""

Reads = Literal["tokens", "classes", "heads", "components", "edges", "method"]
"""What an evaluation reads of an explainer: its stored scores, or the explainer itself (`Evaluation.extract`)."""

Part = Literal["heads", "nodes", "components"]
"""What of a model an explainer may score beside tokens: a field of `Attribution`."""

SCORED: Mapping[Part, str] = {
    "heads": "heads",
    "nodes": "nodes of the computation graph",
    "components": "edges of the computation graph",
}


@dataclass(frozen=True)
class Example:
    """One example of a task.

    Attributes:
        uid: unique within the task, stable between runs.
        inputs: a text; a list of words; a tuple of two of either (a pair); a mapping of ready ids; or a PIL image, or
            the path of one.
        label: index into the task's `labels`; -1 where the class is unknown.
        rationale: one boolean per unit (both segments of a pair, first segment first), or None; what is given as a list, or
            as numbers 0 and 1, becomes an array of them.
        mask: of an image, in place of a rationale: one boolean per pixel [height, width]; the model's image processor and
            patches make marks of it.
        query_units: how many leading units belong to a query and are never rated.
        meta: what an export needs (document id, ...).
        candidates: for the token that comes next, of a prompt of a causal language model: words, the answer first. Where a
            continuation is explained (`models.next_token.Over`), the answer may have several tokens.
        rated: one boolean per unit: whether it is rated and removed; None for all but those of a query.
        hidden: one boolean per unit: whether models see, and learn from, a mask in its place (the mask token for each of
            its tokens; of a patch, black); None for none.
        corrupted: an input like `inputs`, of as many tokens, in which what decides is another; circuits are patched with
            what the model computes of it.
    """

    uid: str
    inputs: Any
    label: int
    rationale: np.ndarray | None = None
    query_units: int = 0
    meta: Mapping[str, Any] = field(default_factory=dict)
    mask: np.ndarray | None = None
    candidates: Sequence[str] = ()
    rated: np.ndarray | None = None
    hidden: np.ndarray | None = None
    corrupted: Any = None

    def __post_init__(self) -> None:
        for name in ("rationale", "rated", "hidden"):
            if (marks := getattr(self, name)) is not None and getattr(marks, "dtype", None) != np.bool_:
                object.__setattr__(self, name, _marks(marks, self.uid))


def _marks(marks: Any, uid: str) -> np.ndarray:
    """The marks of a rationale as an array of booleans; UserError where they are no row of yes and no."""
    try:
        found = np.asarray(marks)
    except ValueError:  # lists of several lengths
        found = np.zeros((0, 0))
    if found.ndim != 1 or not np.isin(found, (0, 1)).all():
        raise UserError(f"example '{uid}' has a rationale that is no row of one yes or no (1 or 0) for each unit")
    return found.astype(bool)


@dataclass(frozen=True, repr=False)
class Batch:
    """Encoded examples: tensors ready for the model, and the alignment of tokens to units, computed once.

    Attributes:
        uids: the examples' identifiers.
        tensors: model inputs, ready for `model(**tensors)`, padded on the right (`input_ids`, `attention_mask`, ...; or
            `pixel_values`).
        units: unit index of each token, -1 for special tokens and padding. Units of the second segment of a pair
            go on counting after *all* units of the first, so that indices agree with `Example.rationale`.
        n_units: units of the whole example, those beyond the model's window included.
        words: surface form of each unit of the whole example (empty strings where there is no text).
        label: annotated class in the *model's* order, -1 where unknown.
        rationale: per example one boolean per unit of the whole example, or None.
        query_units: leading units that belong to a query.
        meta: `Example.meta`.
        patch: height and width in pixels of an image's patches, which are its units row by row; None for texts.
        masks: `Example.mask` at the size of the model's input, or None; empty for texts.
        tokenless: per example the units that have no token wherever they stand, such as a zero-width space; may be empty.
        keys: what draws for an example follow: its identifier where it was given one, else a digest of its input, so that
            scores do not depend on the place in a list. Empty: the identifiers.
        rated: `Example.rated`, or None; empty where no example says it.
        corrupted: model inputs of `Example.corrupted`, padded by themselves; empty where an example has none.
    """

    uids: tuple[str, ...]
    tensors: Mapping[str, Tensor]
    units: Int[Tensor, "B T"]
    n_units: Int[Tensor, "B"]
    words: tuple[tuple[str, ...], ...]
    label: Int[Tensor, "B"]
    rationale: tuple[np.ndarray | None, ...]
    query_units: tuple[int, ...]
    meta: tuple[Mapping[str, Any], ...]
    patch: tuple[int, int] | None = None
    masks: Sequence[np.ndarray | None] = ()
    tokenless: tuple[tuple[int, ...], ...] = ()
    keys: tuple[str, ...] = ()
    rated: Sequence[np.ndarray | None] = ()
    corrupted: Mapping[str, Tensor] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.uids)

    @property
    def attention_mask(self) -> Bool[Tensor, "B T"]:
        """True for tokens, special ones included; False for padding."""
        mask = self.tensors.get("attention_mask")
        return torch.ones_like(self.units, dtype=torch.bool) if mask is None else mask.bool()

    @property
    def cells(self) -> Bool[Tensor, "B T T"]:
        """True for the pairs of a query and a key that are no padding."""
        mask = self.attention_mask
        return mask[:, :, None] & mask[:, None, :]

    @property
    def lost_units(self) -> Int[Tensor, "B"]:
        """How many units of each example lie beyond the model's window; units without a token are not among them."""
        without = self.n_units.new_tensor([len(units) for units in self.tokenless] or [0] * len(self))
        return self.n_units - self.seen_units - without

    @property
    def seen_units(self) -> Int[Tensor, "B"]:
        """How many units of each example have a token within the model's window."""
        return torch.stack([row[row >= 0].unique().numel() * row.new_ones(()) for row in self.units])

    def rated_units(self, b: int) -> Bool[np.ndarray, "U"]:
        """Which units of example b are scored and removed: none of a query's, and those alone that the example names."""
        rated = np.arange(len(self.words[b])) >= self.query_units[b]
        marks = self.rated[b] if self.rated else None
        return rated if marks is None else rated & np.asarray(marks, dtype=bool)

    @property
    def draw_keys(self) -> tuple[str, ...]:
        """What the random numbers of each example follow; see `keys`."""
        return self.keys or self.uids

    @property
    def size(self) -> tuple[int, int] | None:
        """Height and width in pixels of the images; None for texts."""
        pixels = self.tensors.get("pixel_values")
        return None if pixels is None else (int(pixels.shape[-2]), int(pixels.shape[-1]))

    @property
    def grid(self) -> tuple[int, int] | None:
        """Rows and columns of patches; a margin narrower than a patch belongs to none. None for texts."""
        if self.size is None or self.patch is None:
            return None
        return self.size[0] // self.patch[0], self.size[1] // self.patch[1]

    def select(self, rows: Sequence[int]) -> "Batch":
        """The same batch with only these examples, in this order (padding is kept)."""
        index = torch.as_tensor(list(rows), dtype=torch.long, device=self.units.device)
        return Batch(
            uids=tuple(self.uids[i] for i in rows),
            tensors={name: tensor[index] for name, tensor in self.tensors.items()},
            units=self.units[index],
            n_units=self.n_units[index],
            words=tuple(self.words[i] for i in rows),
            label=self.label[index],
            rationale=tuple(self.rationale[i] for i in rows),
            query_units=tuple(self.query_units[i] for i in rows),
            meta=tuple(self.meta[i] for i in rows),
            patch=self.patch,
            masks=tuple(self.masks[i] for i in rows) if self.masks else (),
            tokenless=tuple(self.tokenless[i] for i in rows) if self.tokenless else (),
            keys=tuple(self.keys[i] for i in rows) if self.keys else (),
            rated=tuple(self.rated[i] for i in rows) if self.rated else (),
            corrupted={name: tensor[index] for name, tensor in self.corrupted.items()},
        )

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {list(tensor.shape)}" for name, tensor in self.tensors.items())
        kind = "words" if self.patch is None else "patches"
        return f"Batch({len(self)} examples of {span(self.n_units.tolist())} {kind}: {shapes})"


ROUNDED = {"rounded": True}
"""Marks a field of an `Attribution` that is stored with 16 significant bits, since it takes most of the room."""


@dataclass(frozen=True)
class Layout:
    """How a field of an `Attribution` lies.

    Attributes:
        dimensions: their names, as in its annotation.
        rounded: whether it is stored with 16 significant bits.
    """

    dimensions: tuple[str, ...]
    rounded: bool = False

    @property
    def of_examples(self) -> bool:
        """Whether it holds something of each example."""
        return self.dimensions[0] == "B"

    @property
    def of_tokens(self) -> int:
        """How many of its dimensions are tokens."""
        return self.dimensions.count("T")


@dataclass(frozen=True, repr=False)
class Attribution:
    """What a method says of a batch.

    A field is declared here and nowhere else: its annotation says which dimensions it has (`layouts`), and by them it is
    checked, selected by example, stored without padding and read again. A field whose first dimension is B holds something
    of each example; one with dimensions T has nothing at padding.

    Attributes:
        target: what is explained of each example; class indices [B] stand for the target of these classes.
        tokens: one score per token (0 at padding; special tokens may be scored, evaluations read units only), or None.
        heads: one score per layer and head, or None.
        orders: head scores under K − 1 other draws of equal standing (random orders); given to evaluations that read heads.
        resamples: head scores from R bootstrap resamples of the examples that `heads` was computed from; likewise.
        layers: the read token's row of the edge scores, mean over heads, for each layer, or None for methods
            that do not score edges.
        totals: the sum of a layer's edge scores over heads, queries and keys, or None likewise.
        edges: edge scores of each layer, summed over heads, 0 at padding; for evaluations that read edges, else None.
        classes: token scores for the K most probable classes, most probable first; for evaluations that read classes.
        pixels: one score per pixel of an image, of a method that scores pixels; `benchmark.evaluations.maps` makes those of
            the others from `tokens`.
        nodes: one score per node of the computation graph (`benchmark.models.components.Graph`).
        components: one score per node and slot that reads it, 0 where these are not joined: the edges of that graph.
    """

    target: Target
    tokens: Float[Tensor, "B T"] | None = None
    heads: Float[Tensor, "B L H"] | None = None
    orders: Float[Tensor, "K L H"] | None = None
    resamples: Float[Tensor, "R L H"] | None = None
    layers: Float[Tensor, "B L T"] | None = field(default=None, metadata=ROUNDED)
    totals: Float[Tensor, "B L"] | None = None
    edges: Float[Tensor, "B L T T"] | None = field(default=None, metadata=ROUNDED)
    classes: Float[Tensor, "B K T"] | None = None
    pixels: Float[Tensor, "B Y X"] | None = None
    nodes: Float[Tensor, "B S"] | None = None
    components: Float[Tensor, "B S D"] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.target, Tensor):
            object.__setattr__(self, "target", ClassTarget(self.target))

    @staticmethod
    def of_stored(values: Mapping[str, Tensor]) -> "Attribution":
        """From what the fields hold (`of_examples`)."""
        target = target_from({name: value for name, value in values.items() if name in TARGET_FIELDS})
        return Attribution(target, **{name: value for name, value in values.items() if name not in TARGET_FIELDS})

    def cpu(self) -> "Attribution":
        """The same on the CPU."""
        return replace(self, target=self.target.to("cpu"), **{name: value.cpu() for name, value in self._held.items()})

    def words(self, batch: Batch, how: Pool = "max") -> list[pd.Series]:
        """Each example's words (patches) with their scores: NaN beyond the model's window.

        Args:
            batch: what was explained.
            how: from the scores of a word's tokens to its own; the tests take the largest.

        Raises:
            NotApplicable: there are no token scores.

        Example:
            >>> batch = model.encode(["a fine film"])
            >>> attribution = benchmark.build("methods/position")(model, batch, [0])
            >>> attribution.words(batch)[0].round(2).to_dict()
            {'a': 0.0, 'fine': -0.33, 'film': -0.67}
        """
        if self.tokens is None:
            raise NotApplicable("the method gives no token scores")
        scores, visible = pool(self.tokens.to(batch.units.device), batch.units, how)
        cut = max(map(len, batch.words)) - scores.shape[1]  # words that no text of the batch shows to the model
        values = torch.nn.functional.pad(
            scores.detach().double().masked_fill(~visible, torch.nan), (0, cut), value=torch.nan
        )
        rows = zip(values.cpu().numpy(), batch.words, batch.uids, strict=True)
        return [pd.Series(row[: len(words)], index=list(words), name=uid) for row, words, uid in rows]

    def __repr__(self) -> str:
        held = {**self.target.stored, **self._held}
        return f"Attribution({', '.join(f'{name} {list(value.shape)}' for name, value in held.items())})"

    @property
    def _held(self) -> dict[str, Tensor]:
        """The scores that are given."""
        return {f.name: value for f in fields(self)[1:] if (value := getattr(self, f.name)) is not None}

    @property
    def of_examples(self) -> dict[str, Tensor]:
        """What says something of each example, by the name under which it is stored: the target, and scores."""
        return {
            **self.target.stored,
            **{name: value for name, value in self._held.items() if layouts()[name].of_examples},
        }

    def select(self, rows: Sequence[int]) -> "Attribution":
        """The attributions of these examples, in this order; with `Batch.select`."""
        index = torch.as_tensor(list(rows), dtype=torch.long)
        scores = {name: value for name, value in self._held.items() if layouts()[name].of_examples}
        return replace(
            self,
            target=self.target[index.to(self.target.classes.device)],
            **{name: value[index.to(value.device)] for name, value in scores.items()},
        )


@cache
def layouts() -> Mapping[str, Layout]:
    """How what is stored of an `Attribution` lies: the target, and every field with scores, from its annotation."""
    hints = get_type_hints(Attribution)
    found = {name: Layout(("B",)) for name in TARGET_FIELDS}
    for one in fields(Attribution)[1:]:
        hint = next(arm for arm in (hints[one.name], *get_args(hints[one.name])) if hasattr(arm, "dim_str"))
        found[one.name] = Layout(tuple(hint.dim_str.split()), one.metadata.get("rounded", False))
    return found


class Compared:
    """What has a row in the tables: an explainer (`Method`), or a search whose finds one test of its own reads.

    Attributes:
        version: enters the hash of the run folder: raise it when the numbers change.
    """

    version: ClassVar[int] = 1

    @property
    def class_specific(self) -> bool:
        """Whether what it gives depends on the class that is explained."""
        return True

    def check_model(self, model: "Classifier") -> None:
        """Refuse a setting that does not suit a model, before anything is computed; by default all suit.

        Raises:
            UserError: with a text that begins with the setting.
        """


Explainable = Target | Sequence[int] | Int[Tensor, "B"]
"""A target, or the class of each example."""


def as_target(model: "Classifier", batch: Batch, target: Explainable) -> Target:
    """What is explained, on the model's device; of classes the target of these classes.

    Raises:
        UserError: there is not one class for each example, or the model has none of that number.
    """
    if isinstance(target, Target):
        if len(target) != len(batch):
            raise UserError(f"target is of {len(target)} examples, and the batch has {len(batch)}")
        return target.to(model.device)
    classes = torch.as_tensor(target, device=model.device)
    if classes.shape != (len(batch),):
        raise UserError(f"target={target} must hold one class for each of the {len(batch)} examples")
    if not isinstance(target, Tensor) and (unknown := sorted(set(target) - set(range(len(model.labels))))):
        raise UserError(f"target holds {unknown[0]}, but the model's classes are 0 to {len(model.labels) - 1}")
    return ClassTarget(classes)


class Method(Compared, ABC):
    """An explainer: a subclass says how to `explain`, and may say more; what it does not say has a default.

    It is called as `method(model, batch, target)`, with a `Target`, or with the class of each example as a tensor or a list.
    """

    fitted: ClassVar[bool] = False
    """Whether it looks at examples of the training split first (`fit`)."""

    explains_others: ClassVar[bool] = True
    """Whether it can explain other examples, and other models, than those of its comparison."""

    replicates: ClassVar[Any] = None
    """What it has to equal: the name of a method of the benchmark's, or a callable; `benchmark.check` compares them."""

    sum_tolerance: ClassVar[float] = 0.05
    """By how much sums may differ from what `sum_of_scores` or `sums_of_layers` says, over the mean of its magnitude."""

    @property
    def properties(self) -> Mapping[str, str]:
        """Checks of `benchmark.check` that the method does not pass by its definition, and why; by default none.

        A key is the name of a check, or of a check and one of its lines: `twins: heads permuted`.
        """
        return {}

    def __call__(self, model: "Classifier", batch: Batch, target: Explainable) -> Attribution:
        """Explain the target, or class `target[b]`, of every example b."""
        return self.explain(model, batch, as_target(model, batch, target))

    @abstractmethod
    def explain(self, model: "Classifier", batch: Batch, target: Target) -> Attribution:
        """What `__call__` gives, with the target as a `Target` on the model's device.

        Where a backward pass starts is `target.seed(logits)`, and the number that is explained `target.value(logits)`, or
        `target.probability(logits)`, so that a method serves classes and contrasts alike. Class indices are
        `target.classes`.

        Raises:
            NotApplicable: it cannot explain here, with the reason.
        """

    def check(self, batches: Sequence[Batch]) -> None:
        """Look at the scored examples before any work, without a model; by default all can be explained.

        Raises:
            UserError: one of them cannot be explained.
        """

    def fit(self, examples: Sequence[Example]) -> "Method":
        """A copy that has seen these examples of the training split, which explains; asked of one that is `fitted` alone."""
        return self

    def edge_scores(self, model: "Classifier", batch: Batch, target: Target) -> Float[Tensor, "B L H T T"]:
        """One score per layer, head, query and key; a method without scores per head has one head dimension of 1.

        Raises:
            NotApplicable: it scores no attention edges, which is the default.
        """
        raise NotApplicable("the method does not score edges")

    def with_edges(self, model: "Classifier", batch: Batch, target: Target) -> Attribution:
        """What `explain` gives, with `edges`: those of `edge_scores` summed over heads, 0 at padding, from the same pass.

        Raises:
            NotApplicable: it gives the two from passes of their own, which is the default.
        """
        raise NotApplicable("the method gives attributions and edge scores from passes of their own")

    def sum_of_scores(self, model: "Classifier", batch: Batch, target: Target) -> Float[Tensor, "B"]:
        """What the token scores of each example add up to, for `benchmark.check`.

        Raises:
            NotApplicable: it does not say, which is the default.
        """
        raise NotApplicable("the method does not say what its scores add up to")

    def sums_of_layers(self, model: "Classifier", batch: Batch, target: Target) -> Float[Tensor, "B L"]:
        """What the edge scores of each layer add up to, likewise.

        Raises:
            NotApplicable: it does not say, which is the default.
        """
        raise NotApplicable("the method does not say what its scores add up to")

    def aggregate_heads(self, heads: Float[Tensor, "N L H"]) -> Float[Tensor, "L H"]:
        """Head importance from the head scores of N examples; by default their mean."""
        return heads.mean(0)

    def head_orders(self, n_layers: int, n_heads: int) -> Float[Tensor, "K L H"] | None:
        """Where head scores are drawn once for all examples: K draws of equal standing, the first that of `explain`."""
        return None

    @property
    def scores_edges(self) -> bool:
        """Whether it has `edge_scores`."""
        return type(self).edge_scores is not Method.edge_scores

    @property
    def edges_come_along(self) -> bool:
        """Whether it has `with_edges`."""
        return type(self).with_edges is not Method.with_edges


class PlainMethod(Method):
    """A callable `f(model, batch, target)` as a method; of its other attributes `version`, `class_specific`, `properties`
    and `replicates` are read.

    Args:
        function: gives an `Attribution`; it is given the class of each example as a tensor [B].
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = self.identified_as = function
        self.__dict__["version"] = getattr(function, "version", 1)
        self.__dict__["replicates"] = getattr(function, "replicates", None)

    @property
    def class_specific(self) -> bool:
        """What the callable says, True where it says nothing."""
        return bool(getattr(self.function, "class_specific", True))

    @property
    def properties(self) -> Mapping[str, str]:
        """What the callable says, none where it says nothing."""
        found: Mapping[str, str] = getattr(self.function, "properties", {})
        return found

    def explain(self, model: "Classifier", batch: Batch, target: Target) -> Attribution:
        """What the callable gives.

        Raises:
            NotApplicable: a contrast is asked for, and it explains classes.
        """
        classes = class_indices(target, class_specific=self.class_specific)
        answer: Attribution = self.function(model, batch, classes)  # `run.explaining.Checked` looks at its form
        return answer


def class_indices(target: Target, *, class_specific: bool = True) -> Int[Tensor, "B"]:
    """The class of each example, for a callable that explains classes.

    Raises:
        NotApplicable: something else than a class is asked of one that looks at it.
    """
    if class_specific and not isinstance(target, ClassTarget):
        raise NotApplicable("it explains classes alone: a subclass of benchmark.types.Method can explain a contrast")
    return target.classes


def as_compared(value: Any) -> Compared:
    """An explainer or a search as it is, and any other callable as a method.

    Raises:
        UserError: it is neither, or one of its methods cannot be called as the base class says.
    """
    if isinstance(value, Compared):
        hold_signatures(value, Method if isinstance(value, Method) else Compared)
        return value
    kind = type(value)
    if isinstance(value, type) or not callable(value):
        raise UserError(
            f"{kind.__name__} is no method: subclass benchmark.types.Method, or give what can be called as "
            "f(model, batch, target)"
        )
    hold_signature(value, getattr(value, "__qualname__", kind.__qualname__), ("model", "batch", "target"))
    return PlainMethod(value)


def hold_signatures(value: Any, base: type) -> None:
    """UserError where a method of the base class was overridden by one that takes something else."""
    for one in (each for kind in base.__mro__ for each in vars(kind)):
        expected, own = getattr(base, one), getattr(type(value), one)
        if inspect.isfunction(expected) and own is not expected and not one.startswith("_"):
            _, *names = inspect.signature(expected).parameters
            hold_signature(getattr(value, one), f"{type(value).__qualname__}.{one}", names)


def hold_signature(function: Callable[..., Any], name: str, expected: Sequence[str]) -> None:
    """UserError where a function cannot be called with arguments of these names, in their order."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of a builtin: it says itself what is wrong when it is called
        return
    try:
        signature.bind(*expected)
    except TypeError as error:
        raise UserError(f"{name}{signature} is called as {name}({', '.join(expected)})") from error


class Evaluation(ABC):
    """A test of explanations: a subclass says what it `reads`, its `metrics`, `rows` and how to `reduce` them.

    `rows` returns one row per example and value as a DataFrame with the columns `uid`, `metric`, `x` (NaN for scalars),
    `value` and, where a value is drawn several times, `draw` (0, 1, ...); no two rows agree in all but the value.
    `reduce` is a pure function from all rows (any batch order) to figures. Everything else has a default. Means over
    examples, with their intervals, are `benchmark.evaluations.base.Averaged`.

    Attributes:
        version: enters the identity of stored rows: raise it when the numbers change.
        reads: what it is given of a method.
        target: what is explained: the predicted class, the annotated one ("label"), or the predicted class rather than the
            one with the second largest logit ("contrast"), the annotated class rather than the best of the others
            ("margin"), or ln p of the annotated class ("log_probability").
        part: of one that reads `components`, which scores these are.
        calibration: examples that head importance, or what a test takes from a method, comes from. It has `split` and
            `limit`: the first examples of that split which are not scored. A test of heads may have `same` (importance
            over the scored examples) or `each` (the importance of every example by itself).
        of_images: whether it can serve images alone. Among other tests of texts it is then left out, as if it had not been
            named.
        averaged: whether its figures are means of rows, except those of `parts`.
    """

    version: ClassVar[int] = 1
    reads: ClassVar[Reads]
    of_images: ClassVar[bool] = False
    averaged: ClassVar[bool] = False
    target: TargetName = "predicted"
    part: Part = "heads"
    calibration: Any = "same"

    @property
    def about(self) -> About:
        """Its kind, its place among the tests of that kind, and its title; without them it has its name in reports."""
        return About()

    @property
    @abstractmethod
    def metrics(self) -> Mapping[str, Metric]:
        """The metrics it reports, by name."""

    @abstractmethod
    def rows(self, model: "Classifier", batch: Batch, attribution: Attribution) -> pd.DataFrame:
        """Test the attributions of one batch.

        Raises:
            NotApplicable: it cannot, with the reason.
        """

    @abstractmethod
    def reduce(self, rows: pd.DataFrame) -> list[Figure]:
        """Figures with intervals from the rows of all examples."""

    def over(self, batches: Sequence[Batch]) -> "Evaluation":
        """A copy that knows what its rows need of all scored examples (no explanation, no model); else the test itself.

        Raises:
            NotApplicable: there is no such thing, with the reason.
        """
        return self

    @property
    def parts(self) -> Mapping[str, Derivation]:
        """How reports compute those of its scalars again that are no means over examples; by default there are none."""
        return {}

    def caution(self, figures: Sequence[Figure]) -> str | None:
        """What must be known of these figures of a method, which tables show as a footnote; by default nothing."""
        return None

    def divided(self, metrics: Sequence[str]) -> Sequence[Sequence[str]]:
        """Names of rows in groups, each of which `reduce` may be given by itself; by default all are one group."""
        return [list(metrics)]

    @property
    def for_predicted(self) -> "Evaluation | None":
        """The same test of explanations for the predicted class; by default there is none.

        It is there for a test of token scores whose rows of an example hang on the explained class through the attribution
        alone: where the annotated class is the predicted one, its rows are those of this twin.
        """
        return None

    def resampled(self, scores: Float[Tensor, "N L H"], aggregate: Aggregate) -> Float[Tensor, "R L H"] | None:
        """Head importance from R bootstrap resamples of the N calibration examples; None where a test does not ask.

        By them it tells how far its figures hang on these examples.
        """
        return None

    def extract(self, model: "Classifier", method: Compared, batches: Sequence[Batch]) -> dict[str, Any]:
        """What a test that reads the method itself takes from it and from calibration examples, serialisable as JSON.

        It is data: it is written to the run folder and read back, and testing needs nothing else.

        Raises:
            NotApplicable: there is nothing to take, with the reason.
        """
        raise NotImplementedError(f"{type(self).__name__} reads the method, and does not say what it takes from it")

    def restored(self, artifact: Mapping[str, Any]) -> "Evaluation":
        """A copy of the test that holds what `extract` returned."""
        raise NotImplementedError(f"{type(self).__name__} reads the method, and does not say how what it takes is read")


@runtime_checkable
class Task(Protocol):
    """A data set: `labels` are names, `split` returns the examples of "train", "validation" or "test".

    One that makes its examples of another task's has that as `learned_from`: models of it are trained on the other.
    """

    name: str
    version: int

    @property
    def labels(self) -> Sequence[str]:
        """Class names, in the order of `Example.label`."""

    @property
    def fingerprint(self) -> str:
        """Digest of the data that the task reads and of its settings."""

    def split(self, name: str) -> Sequence[Example]:
        """The examples of one split, in a fixed order; UserError where there is no such split or it is empty."""


@runtime_checkable
class KnowsEvidence(Protocol):
    """A task that knows which words speak for any class, those against an example's label, too."""

    def evidence(self, split: str) -> Mapping[str, Bool[NDArray[np.bool_], " U"]]:
        """By an example's identifier, which of its units do; empty where the task's settings leave it open."""


@runtime_checkable
class KnowsTruth(Protocol):
    """A task whose rationales are known by construction to be what speaks for the label; others are what people marked.

    Words that speak against the label, which a model has to weigh too, are no part of them.
    """

    @property
    def rationale_is_truth(self) -> bool:
        """Whether it is so under the task's settings."""
