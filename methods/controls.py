"""Controls: scores whose place in a ranking is known beforehand (docs/protocols.md, section 11)."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from benchmark.errors import NotApplicable
from benchmark.models import Classifier
from benchmark.randomness import generator
from benchmark.settings.declared import AtLeast, Natural, configurable
from benchmark.targets import Target
from benchmark.types import Attribution, Batch, Example, Method
from methods.shared.properties import LOOKS_AT_NO_MODEL

LEAST_ORDERS = 5


def _from_units(model: Classifier, batch: Batch, target: Target, scores: Callable[[int], np.ndarray]) -> Attribution:
    """Every token with the score of its unit; `scores(b)` scores all units of example b."""
    rows = [torch.as_tensor(scores(b), dtype=model.scores_dtype, device=model.device) for b in range(len(batch))]
    padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    tokens = padded.gather(1, batch.units.clamp(min=0)) * (batch.units >= 0)
    return Attribution(target=target, tokens=tokens)


@configurable
class Random(Method):
    """`s_u ~ U(0, 1)` per unit and head, from a seed and the example's identifier.

    Head scores are drawn once per seed for all examples: a random order of the heads. One order decides little: the pruning
    AUC difference of 20 sentences varies by ±0.1 between orders. So there are several; head pruning is run for each of them,
    and a figure is their mean.

    Attributes:
        seed: of all draws.
        orders: random orders of the heads, at least 5.

    Source: a control of the tests.
    Cost: no pass.
    """

    seed: Natural = 0
    orders: Annotated[int, AtLeast(LEAST_ORDERS)] = 5
    version: ClassVar[int] = 2
    properties: ClassVar[Mapping[str, str]] = LOOKS_AT_NO_MODEL
    class_specific: ClassVar[bool] = False

    def head_orders(self, n_layers: int, n_heads: int) -> Float[Tensor, "K L H"]:
        """The orders: random scores of the heads, the first those of every explanation."""
        seeds = [[self.seed, order] if order else self.seed for order in range(self.orders)]
        return torch.as_tensor(np.stack([np.random.default_rng(seed).random((n_layers, n_heads)) for seed in seeds]))

    def explain(self, model: Classifier, batch: Batch, target: Target) -> Attribution:
        """Random scores in [0, 1)."""
        n_units = batch.n_units.tolist()
        tokens = _from_units(
            model, batch, target, lambda b: generator(self.seed, "scores", batch.draw_keys[b]).random(n_units[b])
        )
        heads = self.head_orders(model.n_layers, model.n_heads)[:1].to(model.scores_dtype)
        return replace(tokens, heads=heads.expand(len(batch), -1, -1).contiguous())


def _rationale(batch: Batch, b: int) -> np.ndarray:
    rationale = batch.rationale[b]
    if rationale is None:
        if any(marks is not None for marks in batch.rationale):
            raise NotApplicable(f"example '{batch.uids[b]}' has no rationale")
        raise NotApplicable("the task has no rationales")
    return np.asarray(rationale, dtype=np.float64)


@dataclass(frozen=True)
class Oracle(Method):
    """`s_u = 1` for units of the rationale, 0 for others: the best that agreement with it can be.

    Source: a control of the tests.
    Cost: no pass.
    """

    version: ClassVar[int] = 1
    properties: ClassVar[Mapping[str, str]] = LOOKS_AT_NO_MODEL
    class_specific: ClassVar[bool] = False

    def explain(self, model: Classifier, batch: Batch, target: Target) -> Attribution:
        """The rationale; raises NotApplicable where there is none."""
        return _from_units(model, batch, target, lambda b: _rationale(batch, b))


@dataclass(frozen=True)
class Inverted(Method):
    """`s_u = −1` for units of the rationale, 0 for others: the oracle negated.

    Source: a control of the tests.
    Cost: no pass.
    """

    version: ClassVar[int] = 1
    properties: ClassVar[Mapping[str, str]] = LOOKS_AT_NO_MODEL
    class_specific: ClassVar[bool] = False

    def explain(self, model: Classifier, batch: Batch, target: Target) -> Attribution:
        """The negated rationale; raises NotApplicable where there is none."""
        return _from_units(model, batch, target, lambda b: -_rationale(batch, b))


@dataclass(frozen=True)
class Constant(Method):
    """`s_u = 0`: an explanation that says nothing, and so orders nothing.

    Where a test gives it another figure than the mean of random scores, the test rewards or punishes equal scores: what a
    method that is constant on some examples gets there is not what it found. Tests that run the model order its units by
    the permutation that breaks every other tie. Heads are not scored: equal ones have no order that could be pruned, and
    `random` has the mean of several.

    Source: a control of the tests.
    Cost: no pass.
    """

    version: ClassVar[int] = 1
    properties: ClassVar[Mapping[str, str]] = LOOKS_AT_NO_MODEL
    class_specific: ClassVar[bool] = False

    def explain(self, model: Classifier, batch: Batch, target: Target) -> Attribution:
        """Zeros."""
        return Attribution(target=target, tokens=torch.zeros_like(batch.units, dtype=model.scores_dtype))


@dataclass(frozen=True)
class Position(Method):
    """`s_u = −u/U`: earlier units are higher.

    Source: a control of the tests.
    Cost: no pass.
    """

    version: ClassVar[int] = 1
    properties: ClassVar[Mapping[str, str]] = LOOKS_AT_NO_MODEL
    class_specific: ClassVar[bool] = False

    def explain(self, model: Classifier, batch: Batch, target: Target) -> Attribution:
        """Scores in (−1, 0]."""
        n_units = batch.n_units.tolist()
        return _from_units(model, batch, target, lambda b: -np.arange(n_units[b]) / n_units[b])


@dataclass(frozen=True)
class Recency(Method):
    """`s_u = u/U`: later units are higher, as what stands near the end of a prompt is for a causal language model.

    Source: a control of the tests.
    Cost: no pass.
    """

    version: ClassVar[int] = 1
    properties: ClassVar[Mapping[str, str]] = LOOKS_AT_NO_MODEL
    class_specific: ClassVar[bool] = False

    def explain(self, model: Classifier, batch: Batch, target: Target) -> Attribution:
        """Scores in [0, 1)."""
        n_units = batch.n_units.tolist()
        return _from_units(model, batch, target, lambda b: np.arange(n_units[b]) / n_units[b])


def _one_unit(model: Classifier, batch: Batch, target: Target, place: int) -> Attribution:
    """1 for the first (0) or the last (−1) of the rated units that have a token, 0 for others."""

    def scores(b: int) -> np.ndarray:
        found = np.zeros(int(batch.n_units[b]))
        seen = np.isin(np.arange(len(found)), batch.units[b].cpu().numpy())
        if len(chosen := np.flatnonzero(seen & batch.rated_units(b)[: len(found)])):
            found[chosen[place]] = 1.0
        return found

    return _from_units(model, batch, target, scores)


@dataclass(frozen=True)
class FirstWord(Method):
    """`s_u = 1` for the first rated unit, 0 for others.

    Where all words are rated and no token for the beginning stands before them, this is what a method says that names the
    sink of attention alone: models that read from left to right lay much attention on the first token whatever it is.

    Source: a control of the tests.
    Cost: no pass.
    """

    version: ClassVar[int] = 1
    properties: ClassVar[Mapping[str, str]] = LOOKS_AT_NO_MODEL
    class_specific: ClassVar[bool] = False

    def explain(self, model: Classifier, batch: Batch, target: Target) -> Attribution:
        """A single 1 for each example."""
        return _one_unit(model, batch, target, 0)


@dataclass(frozen=True)
class LastWord(Method):
    """`s_u = 1` for the last rated unit that the model sees, 0 for others.

    Source: a control of the tests.
    Cost: no pass.
    """

    version: ClassVar[int] = 1
    properties: ClassVar[Mapping[str, str]] = LOOKS_AT_NO_MODEL
    class_specific: ClassVar[bool] = False

    def explain(self, model: Classifier, batch: Batch, target: Target) -> Attribution:
        """A single 1 for each example."""
        return _one_unit(model, batch, target, -1)


@dataclass(frozen=True)
class Frequency(Method):
    """`s_u = −log(1 + count(u))`: rarer words are higher; counts are over the texts of the training split.

    Attributes:
        counts: occurrences of each word, lower case; filled by `fit`.

    Source: a control of the tests.
    Cost: no pass.
    """

    counts: Counter[str] = field(default_factory=Counter)
    version: ClassVar[int] = 1
    properties: ClassVar[Mapping[str, str]] = LOOKS_AT_NO_MODEL
    fitted: ClassVar[bool] = True
    class_specific: ClassVar[bool] = False

    def fit(self, examples: Sequence[Example]) -> "Frequency":
        """The same control with the word counts of these examples."""
        counts: Counter[str] = Counter()
        for example in examples:
            parts = example.inputs if isinstance(example.inputs, tuple) else (example.inputs,)
            for part in parts:
                if not isinstance(part, str | list):
                    raise NotApplicable("the task has no words to count")
                counts.update(word.lower() for word in (part.split() if isinstance(part, str) else part))
        return replace(self, counts=counts)

    def explain(self, model: Classifier, batch: Batch, target: Target) -> Attribution:
        """Scores at most 0."""
        return _from_units(model, batch, target, lambda b: self._scores(batch.words[b]))

    def _scores(self, words: Sequence[str]) -> Float[np.ndarray, "U"]:
        if not any(words):
            raise NotApplicable("the examples have no words to count")
        return -np.log1p(np.array([self.counts[word.lower()] for word in words], dtype=np.float64))
