"""Does attention matter at all? Attention weights are set to 0, one in a row or as many as it takes (Serrano & Smith 2019).

Defined in docs/protocols.md, section 16.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, get_args

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from benchmark.analyses.base import Analysis
from benchmark.analyses.context import Context
from benchmark.analyses.debate.edited_runs import Selected, Unedited, Weights, taken
from benchmark.analyses.debate.removed_weights import Order, another, largest, movable_count, ranked, without
from benchmark.analyses.debate.scopes import ALL_SCOPES, Keys, Scope, ScopeNames, scopes
from benchmark.analyses.means import SHARE, mean_line
from benchmark.analyses.resumed import Arrays
from benchmark.models.divergences import LARGEST_JSD, jsd, total_variation
from benchmark.results.store import Ragged
from benchmark.results.tables import Drawing, Table
from benchmark.settings.declared import Count, Natural, configurable

ORDERS: tuple[Order, ...] = get_args(Order)
ROWS = {"left": "left as they are", "renormalised": "renormalised"}

_NOTHING = "no attention to edit"
_SHARE, _CAPPED, _NEVER = "share of weights removed", "share, never counted as 1", "never flips"
_LESS = "share less that of random"


@configurable
class WeightRemoval(Analysis):
    """What a prediction loses with its largest attention weights, against random ones.

    *One weight.* In every edited row and head the largest movable weight is set to 0, or another one of the same row, drawn
    uniformly; the row is left as it is, or renormalised to its former sum. With p, p' and p'' the output as it is, without
    the largest and without another, per example and as means over the draws: JSD(p, p') − JSD(p, p'') in nats, the same of
    the total variation, and how often the decision flips by both, one or neither.

    *Sets.* The movable weights of all edited rows and heads together are removed in descending order of attention A, of the
    gradient ∂y/∂A of the predicted class's logit, of A ⊙ ∂y/∂A, or at random, with renormalisation, until the decision
    flips. `share of weights removed` is that of the examples which flip. Others do not flip by the largest set that is
    tried, all weights but one; they are counted in `never flips`, and as 1 in `share, never counted as 1`, which is a mean
    over the same examples in every order. The set is the smallest of `sizes` equal steps; where there are no more weights
    than steps, it is exact. A row of which nothing is left stays 0.

    Attributes:
        draws: of another weight.
        sizes: numbers of weights that are tried.
        scopes: which layers and rows; see `scopes.scopes`.
        keys: which weights may be removed: those of all tokens, or those of words.
        seed: of what is drawn.

    Source: Serrano & Smith 2019, sections 4 and 5, where one attention layer has one row.
    Cost: (4 · sizes + 2 · draws + 2) · (L + 3) / 2 forward passes with all scopes, and one backward pass. On `planted` with
    the tiny model about 3 s an example on one core.
    """

    version: ClassVar[int] = 1

    draws: Count = 5
    sizes: Count = 30
    limit: Count | None = 20
    scopes: ScopeNames = ALL_SCOPES
    keys: Keys = "tokens"
    seed: Natural = 0

    def __call__(self, context: Context) -> Sequence[Table]:
        """One weight of each row, and the smallest sets."""
        setting = context.setting.limited(self.limit)
        model = setting.model
        found = self.by_example(context, setting, lambda batch: self._of(Unedited.of(model, batch)), "removed weights")
        chosen = scopes(model, self.scopes)
        return [self._single(chosen, found), self._sets(chosen, found)]

    def _of(self, unedited: Unedited) -> Arrays:
        arrays: dict[str, NDArray[Any]] = {}
        for scope in scopes(unedited.model, self.scopes):
            selected = unedited.within(scope, self.keys)
            for rows in ROWS:
                figures = one_weight(selected, self.draws, self.seed, renormalise=rows == "renormalised")
                arrays |= {f"{scope.name}/{rows}/{name}": _defined(selected, value) for name, value in figures.items()}
            for order in ORDERS:
                share = smallest_share(selected, order, self.sizes, self.seed)
                arrays[f"{scope.name}/{order}"] = _defined(selected, share)
        return arrays

    def _single(self, chosen: Sequence[Scope], found: Ragged) -> Table:
        lines = [
            mean_line(
                {"scope": scope.name, "rows": called},
                metric,
                found.arrays[f"{scope.name}/{rows}/{metric}"],
                bounds,
                _NOTHING,
                key=f"{scope.key}.{rows}.jsd_difference" if metric == _JSD_LESS else "",
            )
            for scope in chosen
            for rows, called in ROWS.items()
            for metric, bounds in _SINGLE.items()
        ]
        return Table(
            name="weight_removal",
            title="Change of the prediction without the largest attention weight of a row, and without a random one",
            labels=("scope", "rows"),
            rows=pd.DataFrame(lines),
            sentences=(
                "A positive difference says that the largest weight matters more; divergences are in nats, at most "
                f"ln 2 = {LARGEST_JSD:.3f}.",
                f"Figures of a random weight are means over {self.draws} draws; the four shares of flips add up to 1.",
            ),
        )

    def _sets(self, chosen: Sequence[Scope], found: Ragged) -> Table:
        lines = []
        for scope in chosen:
            random = found.arrays[f"{scope.name}/random"]
            for order in ORDERS:
                labels, share = {"scope": scope.name, "order": order}, found.arrays[f"{scope.name}/{order}"]
                flips = np.where(np.isinf(share), np.nan, share)
                never = np.where(np.isnan(share), np.nan, np.isinf(share))
                lines.append(mean_line(labels, _SHARE, flips, SHARE, "no decision flips"))
                lines.append(mean_line(labels, _NEVER, never, SHARE, _NOTHING))
                lines.append(mean_line(labels, _CAPPED, np.minimum(share, 1), SHARE, _NOTHING))
                if order != "random":
                    less = np.minimum(share, 1) - np.minimum(random, 1)
                    key = f"{scope.key}.{order}.less_random"
                    lines.append(mean_line(labels, _LESS, less, (-1.0, 1.0), _NOTHING, key=key))
        return Table(
            name="smallest_sets",
            title="Smallest set of attention weights whose removal flips the decision, by the order of removal",
            labels=("scope", "order"),
            rows=pd.DataFrame(lines),
            sentences=(
                "Lower is a better order. The share is of all weights in the edited rows, to a resolution of "
                f"1/{self.sizes} where there are more weights than that; {_LESS} is paired by example.",
            ),
            drawing=Drawing("bars", x="order", y=(_CAPPED,), panels=("scope",)) if any(r["n"] for r in lines) else None,
        )


_JSD_LESS = "difference of JSD"
_SINGLE: Mapping[str, tuple[float, float]] = {
    "JSD without the largest": (0.0, LARGEST_JSD),
    "JSD without a random one": (0.0, LARGEST_JSD),
    _JSD_LESS: (-LARGEST_JSD, LARGEST_JSD),
    "TVD without the largest": SHARE,
    "TVD without a random one": SHARE,
    "difference of TVD": (-1.0, 1.0),
    "both flip": SHARE,
    "only the largest flips": SHARE,
    "only the random one flips": SHARE,
    "neither flips": SHARE,
}


def one_weight(selected: Selected, draws: int, seed: int, *, renormalise: bool) -> dict[str, Float[Tensor, "B"]]:
    """What each example loses without the largest weight of each row, and without another, by the names of `_SINGLE`."""
    base = selected.unedited
    own, example = selected.weights, torch.arange(len(base.batch), device=selected.count.device)

    def output(dropped: Mapping[int, Tensor]) -> Float[Tensor, "B C"]:
        return selected.probabilities(example, taken(without(own, dropped, renormalise=renormalise)))

    first = output(largest(selected))
    others = torch.stack([output(another(selected, draw, seed)) for draw in range(draws)])
    figures: dict[str, Tensor] = {}
    for name, measure in (("JSD", jsd), ("TVD", total_variation)):
        one = measure(first, base.probabilities)
        other = measure(others, base.probabilities.expand_as(others)).mean(0)
        figures |= {f"{name} without the largest": one, f"{name} without a random one": other}
        figures[f"difference of {name}"] = one - other
    flips, flip = first.argmax(-1) != base.predicted, others.argmax(-1) != base.predicted
    cells = {
        "both flip": flips & flip,
        "only the largest flips": flips & ~flip,
        "only the random one flips": ~flips & flip,
        "neither flips": ~flips & ~flip,
    }
    return figures | {name: cell.double().mean(0) for name, cell in cells.items()}


def smallest_share(selected: Selected, order: Order, sizes: int, seed: int) -> Float[Tensor, "B"]:
    """The share of an example's movable weights in the smallest set that flips its decision; ∞ where none does."""
    base, count = selected.unedited, movable_count(selected)
    place = ranked(selected, order, seed)
    steps = torch.arange(1, sizes + 1, device=count.device)[:, None]
    tried = (steps * (count - 1).clamp(min=0) / sizes).ceil().long()  # [sizes B]
    example = torch.arange(len(count), device=count.device).repeat(sizes)
    removed = tried.flatten()

    def edited(numbers: Int[Tensor, "R"]) -> Weights:
        chosen, most = example[numbers], removed[numbers][:, None, None, None]
        own = {i: given[chosen] for i, given in selected.weights.items()}
        return without(own, {i: places[chosen] < most for i, places in place.items()}, renormalise=True)

    flipped = selected.probabilities(example, edited).argmax(-1).view(tried.shape) != base.predicted
    share = torch.where(flipped, tried / count.clamp(min=1), torch.inf)
    return share.amin(0)


def _defined(selected: Selected, values: Float[Tensor, "B"]) -> NDArray[np.float64]:
    """The values in numpy; NaN where no row of an example is edited."""
    array: NDArray[np.float64] = values.double().masked_fill(selected.count == 0, torch.nan).cpu().numpy()
    return array
