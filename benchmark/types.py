"""Central types: what flows from a task through a model and a method to an evaluation.

Notation of all shapes: B examples, T tokens (special tokens and padding included), U units, L layers, H heads, C classes.
A *unit* is what a person rates or removes: a whitespace word in text, a patch in an image.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from benchmark.errors import NotApplicable, UserError
from benchmark.results.record import Figure, Metric
from benchmark.results.wording import span
from benchmark.units import Pool, pool

if TYPE_CHECKING:
    from benchmark.models.classifier import Classifier

Target = Literal["predicted", "label"]
"""Which class is explained: the one that the model predicts, or the annotated one."""

Aggregate = Callable[[Float[Tensor, "N L H"]], Float[Tensor, "L H"]]
"""Head importance from the head scores of N examples."""

Reads = Literal["tokens", "classes", "heads", "edges", "method"]
"""What an evaluation reads of an explainer: its stored scores, or the explainer itself (`run.offers.PreparedEvaluation`)."""


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
    """

    uid: str
    inputs: Any
    label: int
    rationale: np.ndarray | None = None
    query_units: int = 0
    meta: Mapping[str, Any] = field(default_factory=dict)
    mask: np.ndarray | None = None

    def __post_init__(self) -> None:
        if self.rationale is not None and getattr(self.rationale, "dtype", None) != np.bool_:
            object.__setattr__(self, "rationale", _marks(self.rationale, self.uid))


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
        )

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {list(tensor.shape)}" for name, tensor in self.tensors.items())
        kind = "words" if self.patch is None else "patches"
        return f"Batch({len(self)} examples of {span(self.n_units.tolist())} {kind}: {shapes})"


@dataclass(frozen=True, repr=False)
class Attribution:
    """What a method says of a batch.

    Attributes:
        target: the explained class of each example.
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
    """

    target: Int[Tensor, "B"]
    tokens: Float[Tensor, "B T"] | None = None
    heads: Float[Tensor, "B L H"] | None = None
    orders: Float[Tensor, "K L H"] | None = None
    resamples: Float[Tensor, "R L H"] | None = None
    layers: Float[Tensor, "B L T"] | None = None
    totals: Float[Tensor, "B L"] | None = None
    edges: Float[Tensor, "B L T T"] | None = None
    classes: Float[Tensor, "B K T"] | None = None
    pixels: Float[Tensor, "B Y X"] | None = None

    def cpu(self) -> "Attribution":
        """The same on the CPU."""
        return replace(self, **{name: value.cpu() for name, value in self._held.items()})

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
        return f"Attribution({', '.join(f'{name} {list(value.shape)}' for name, value in self._held.items())})"

    @property
    def _held(self) -> dict[str, Tensor]:
        return {f.name: value for f in fields(self) if (value := getattr(self, f.name)) is not None}


@runtime_checkable
class Compared(Protocol):
    """What has a row in the tables: an explainer, or a search whose finds one test of its own reads.

    `version` enters the hash of the run folder: raise it when the numbers change.
    """

    version: ClassVar[int]
    class_specific: bool


@runtime_checkable
class Method(Compared, Protocol):
    """An explainer."""

    def __call__(self, model: "Classifier", batch: Batch, target: Int[Tensor, "B"]) -> Attribution:
        """Explain class `target[b]` of every example b; raises NotApplicable with a reason where it cannot."""


@runtime_checkable
class EdgeMethod(Method, Protocol):
    """An explainer that scores attention edges."""

    def edge_scores(self, model: "Classifier", batch: Batch, target: Int[Tensor, "B"]) -> Float[Tensor, "B L H T T"]:
        """One score per layer, head, query and key; a method without scores per head has one head dimension of 1."""


@runtime_checkable
class Evaluation(Protocol):
    """A test of explanations.

    `rows` returns one row per example and value as a DataFrame with the columns `uid`, `metric`, `x` (NaN for scalars),
    `value` and, where a value is drawn several times, `draw` (0, 1, ...); no two rows agree in all but the value.
    `reduce` is a pure function from all rows (any batch order) to figures.
    """

    version: ClassVar[int]
    reads: ClassVar[Reads]
    target: Target

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """The metrics it reports, by name."""

    def rows(self, model: "Classifier", batch: Batch, attribution: Attribution) -> pd.DataFrame:
        """Test the attributions of one batch; raises NotApplicable with a reason where it cannot."""

    def reduce(self, rows: pd.DataFrame) -> list[Figure]:
        """Figures with intervals from the rows of all examples."""


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
class KnowsTruth(Protocol):
    """A task whose rationales are known by construction to be what speaks for the label; others are what people marked.

    Words that speak against the label, which a model has to weigh too, are no part of them.
    """

    @property
    def rationale_is_truth(self) -> bool:
        """Whether it is so under the task's settings."""
