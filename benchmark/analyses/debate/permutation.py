"""Does it matter which token has which attention weight? Random permutations of a model's attention.

Defined in docs/protocols.md, section 16.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from benchmark.analyses.base import Analysis
from benchmark.analyses.context import Context
from benchmark.analyses.debate.edited_runs import Selected, Unedited, Weights
from benchmark.analyses.debate.scopes import ALL_SCOPES, Keys, Scope, ScopeNames, scopes
from benchmark.analyses.means import SHARE, mean_line
from benchmark.analyses.resumed import Arrays
from benchmark.models.divergences import total_variation
from benchmark.randomness import generator
from benchmark.results.store import Ragged
from benchmark.results.tables import Drawing, Table, frame, line
from benchmark.settings.declared import Count, Natural, configurable
from benchmark.types import Batch

BINS = (0.0, 0.25, 0.5, 0.75, 1.0)
_WEIGHT, _CHANGE = "largest weight", "median change of the output"
_ALL, _ANY = "all", "any"
"""What stands for all classes, and for all largest weights."""


@configurable
class Permutation(Analysis):
    """How much the prediction changes when the attention weights of a row change places at random.

    In every row of a scope and every head, the weights of the movable keys are permuted uniformly at random, each row on its
    own; the values that they multiply, and the weights of other keys, stay. With p and p' the probabilities of the classes
    before and after, an example has

        median over the permutations of ½ Σ_c |p_c − p'_c|,    in [0, 1]

    beside its largest weight, max_j A[l,h,i,j] as a mean over the rows and heads of the scope. Attention that explains would
    have large medians where the largest weight is large.

    Two tables: means over examples by scope, predicted class and largest weight; and the points, which are drawn.

    Attributes:
        permutations: of each example.
        scopes: which layers and rows; see `scopes.scopes`.
        keys: which weights change places: those of all tokens, or those of words.
        seed: of the permutations.

    Source: Jain & Wallace 2019, section 4.2.1, where one attention layer has one row.
    Cost: permutations × (L + 1) / 2 + permutations + 1 forward passes with all scopes. On `planted` with the tiny model
    about 1.7 s an example on one core.
    """

    version: ClassVar[int] = 1

    permutations: Count = 100
    limit: Count | None = 30
    scopes: ScopeNames = ALL_SCOPES
    keys: Keys = "tokens"
    seed: Natural = 0

    def __call__(self, context: Context) -> Sequence[Table]:
        """Means by largest weight, and the points."""
        setting = context.setting.limited(self.limit)
        found = self.by_example(context, setting, lambda batch: self._of(context, batch), "permutations")
        chosen, labels = scopes(setting.model, self.scopes), setting.data.labels
        return [self._means(chosen, found, labels), _points([scope.name for scope in chosen], found, labels)]

    def _of(self, context: Context, batch: Batch) -> Arrays:
        unedited = Unedited.of(context.setting.model, batch)
        arrays = {"predicted": unedited.predicted.cpu().numpy()}
        for scope in scopes(unedited.model, self.scopes):
            selected = unedited.within(scope, self.keys)
            changes = permuted_changes(selected, self.permutations, self.seed)
            medians = np.median(changes.cpu().numpy(), axis=0)
            arrays[f"{scope.name}/{_CHANGE}"] = np.where(selected.count.cpu().numpy() > 0, medians, np.nan)
            arrays[f"{scope.name}/{_WEIGHT}"] = largest_weights(selected).double().cpu().numpy()
        return arrays

    def _means(self, chosen_scopes: Sequence[Scope], found: Ragged, labels: Sequence[str]) -> Table:
        rows = []
        classes = {_ALL: slice(None)} | {name: found.arrays["predicted"] == c for c, name in enumerate(labels)}
        for scope in chosen_scopes:
            weights, changes = (found.arrays[f"{scope.name}/{what}"] for what in (_WEIGHT, _CHANGE))
            for called, chosen in classes.items():
                for label, inside in _bins(weights[chosen]).items():
                    place = {"scope": scope.name, "predicted class": called, _WEIGHT: label}
                    key = f"{scope.key}.change" if (called, label) == (_ALL, _ANY) else ""
                    rows.append(mean_line(place, _CHANGE, changes[chosen][inside], SHARE, "no example", key=key))
        return Table(
            name="permutation",
            title="Change of the prediction when attention weights are permuted, by the largest weight",
            labels=("scope", "predicted class", _WEIGHT),
            rows=pd.DataFrame(rows),
            sentences=(
                f"Each figure is a mean over examples of the median total variation distance of {self.permutations} "
                "random permutations, between 0 (no permutation matters) and 1.",
                "The largest weight of an example is the mean over the permuted rows and heads.",
            ),
        )


def _bins(weights: NDArray[Any]) -> dict[str, NDArray[np.bool_]]:
    """The examples of each bin of largest weights: all, and quarters of [0, 1], each without its upper end but the last."""
    place = np.clip(np.digitize(weights, BINS) - 1, 0, len(BINS) - 2)
    quarters = {f"{BINS[i]:g} to {BINS[i + 1]:g}": place == i for i in range(len(BINS) - 1)}
    return {_ANY: np.ones(len(weights), dtype=bool), **{n: q & ~np.isnan(weights) for n, q in quarters.items()}}


def _points(names: Sequence[str], found: Ragged, labels: Sequence[str]) -> Table:
    rows = []
    for name in names:
        for i, uid in enumerate(found.uids):
            place = {"scope": name, "predicted class": labels[int(found.arrays["predicted"][i])], "example": uid}
            for metric in (_CHANGE, _WEIGHT):
                if not np.isnan(value := float(found.arrays[f"{name}/{metric}"][i])):
                    rows.append(line(place, metric, value, n=1))
    columns = ("scope", "predicted class", "example")
    return Table(
        name="permutation_points",
        title="Median change of the prediction under random permutations, against the largest attention weight",
        labels=columns,
        rows=frame(rows, columns),
        drawing=Drawing("scatter", x=_CHANGE, y=(_WEIGHT,), series="predicted class", panels=("scope",))
        if rows
        else None,
        printed=False,
    )


def largest_weights(selected: Selected) -> Float[Tensor, "B"]:
    """The mean over the edited rows and heads of each row's largest movable weight; NaN where none is edited."""
    largest = {i: (weights * selected.rows[i].movable[:, None]).amax(-1) for i, weights in selected.weights.items()}
    return selected.mean(largest, torch.arange(len(selected.count), device=selected.count.device))


def permuted_changes(selected: Selected, permutations: int, seed: int) -> Float[Tensor, "P B"]:
    """Total variation distance of the output of every permutation of every example."""
    n_examples = len(selected.unedited.batch)
    example = torch.arange(n_examples, device=selected.count.device).repeat(permutations)

    def edited(numbers: Int[Tensor, "R"]) -> Weights:
        return permuted(selected, example[numbers], (numbers // n_examples).tolist(), seed)

    changed = selected.probabilities(example, edited)
    return total_variation(changed, selected.unedited.probabilities[example]).view(permutations, n_examples)


def permuted(selected: Selected, example: Int[Tensor, "N"], draw: Sequence[int], seed: int) -> Weights:
    """The weights of each edit with those of movable keys permuted, drawn for the example, the draw and the layer.

    Every row keeps its multiset of weights; keys that are not movable keep theirs.
    """
    result = {}
    for layer, weights in selected.weights.items():
        movable, own = selected.rows[layer].movable[example][:, None], weights[example]
        order = _order(selected, layer, example, draw, seed)  # the movable keys first, at random
        places = _movable_first(selected.rows[layer].movable)[example][:, None].expand_as(order)
        result[layer] = torch.where(movable, own.scatter(-1, places, own.gather(-1, order)), own)
    return result


def _movable_first(movable: Bool[Tensor, "B R T"]) -> Int[Tensor, "B R T"]:
    """The numbers of each row's movable keys in order, then the others."""
    return (~movable).to(torch.uint8).argsort(dim=-1, stable=True)


def _order(
    selected: Selected, layer: int, example: Int[Tensor, "N"], draw: Sequence[int], seed: int
) -> Int[Tensor, "N H R T"]:
    """Each row's movable keys in a random order, then the others.

    It depends on the example's own rows and tokens, not on the padding of its batch.
    """
    batch, movable = selected.unedited.batch, selected.rows[layer].movable.cpu().numpy()
    lengths = batch.attention_mask.sum(1).tolist()
    n_heads = selected.unedited.model.n_heads
    keys = np.full((len(example), n_heads, *movable.shape[1:]), np.inf)
    for place, (b, number) in enumerate(zip(example.tolist(), draw, strict=True)):
        rows, length = min(movable.shape[1], lengths[b]), lengths[b]
        random = generator(seed, "permuted attention", batch.uids[b], str(number), str(layer))
        chosen = np.where(movable[b, :rows, :length], random.random((n_heads, rows, length)), np.inf)
        keys[place, :, :rows, :length] = chosen
    return torch.from_numpy(keys.argsort(-1)).to(example.device)
