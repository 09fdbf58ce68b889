"""Comprehensiveness and sufficiency between the worst and the best order of removal (Edin 2024).

Defined in docs/protocols.md, section 8.

The area over the perturbation curve of an order π of U units is `AOPC(π) = (1/U) Σ_{k=1..U} d({π_1 … π_k})`, d(S) being how
much the probability of a class falls when the units S are removed. d depends on the set alone, not on the order of its
removal: all orders share 2^U values of d.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Annotated, ClassVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from benchmark.evaluations.base import SHARE, SIGNED, Averaged, described, higher, lower, table
from benchmark.evaluations.perturbation import Ranking, rank_units
from benchmark.models.classifier import Classifier
from benchmark.models.removal import Operator, OperatorName, logits_without, operator_for
from benchmark.models.variants import take
from benchmark.results.record import About, Metric
from benchmark.settings.declared import Count, Natural, Within, configurable
from benchmark.targets import Target, TargetName
from benchmark.types import Attribution, Batch, Reads
from benchmark.units import Pool

MOST_EXHAUSTIVE = 16
"""Units of which all 2^U subsets can be asked for at most: 65,536 passes per example."""

_BOUND = "mean drop of the class's probability in the order of removal for which it is"

Masks = Bool[NDArray[np.bool_], "K U"]
Drops = Callable[[Masks], Float[NDArray[np.float64], "K"]]
"""How much the probability falls for each of K sets of removed units."""


@dataclass(frozen=True)
class AopcBounds:
    """The lowest and the highest AOPC of the orders of removal that were searched; `exact` where no order can leave them."""

    low: float
    high: float
    exact: bool

    def normalised(self, aopc: float) -> float:
        """`(AOPC − low) / (high − low)`; within [0, 1] where the bounds are exact."""
        share = (aopc - self.low) / (self.high - self.low)
        return min(max(share, 0.0), 1.0) if self.exact else share  # exact: what is cut is the rounding of a sum


@configurable
class NormalisedAopc(Averaged):
    """Where a method's AOPC lies between the lowest and the highest that any order of removal has on the same example.

    `AOPC(π) = (1/U) Σ_{k=1..U} p_t(x) − p_t(x without π_1 … π_k)`: one unit is removed at a time until none is left; t is
    the explained class. Comprehensiveness is the AOPC of the method's order, most relevant first. Sufficiency is that of
    the reverse, least relevant first, which keeps the best U − k units. Both are normalised by the same bounds,
    `(AOPC − lowest) / (highest − lowest)`. Comprehensiveness 1 and sufficiency 0 are the best that any explanation can
    have, so that models and examples can be compared. The shares of ERASER (`aopc`) are another average and have other
    bounds.

    Bounds are exact up to `exhaustive` units: all 2^U subsets are run once, and dynamic programming finds the best order.
    Above, a beam search looks for them, which keeps `beam` partial orders at each step (5 in the authors' package). An order
    may be better than the best that it finds: the value may then leave [0, 1], and the metric's bounds admit that. With
    `beam=null` those examples get no value, and everything lies within [0, 1].

    There is no value either for a single unit, beyond `units` units, or where no order makes a difference beyond rounding
    (100 machine precisions). `left_out` is the share of examples without a value; `exhaustive` is, among those with one, the
    share whose bounds are exact.

    Attributes:
        target: the class that is explained, and whose probability is followed; the authors' experiments take the label's.
        operator: `auto`, or a name in `removal.OPERATORS`.
        exhaustive: most units whose subsets are all run, up to 16.
        beam: width of the search above; None to leave such examples out.
        units: most units of an example that gets a value; None for no limit.
        pool: from the scores of a unit's tokens to its own.
        seed: of the tie-breaking permutations.

    Source: Edin et al. 2024, and the authors' package, which differs in the class (given by the caller).
    Cost: 2^U passes per example, or at most `beam` · U² by beam search (2,000 for 20 units, 20,000 for 64), and 2 · U for
    each method's own orders above `exhaustive`. Bounds do not depend on the method: an evaluation remembers them, so
    that the methods of one comparison share them within one process.
    """

    version: ClassVar[int] = 1
    reads: ClassVar[Reads] = "tokens"
    about: ClassVar[About] = About("faithfulness", 30, "Comprehensiveness and sufficiency, normalised")

    target: TargetName = "predicted"
    operator: OperatorName = "auto"
    exhaustive: Annotated[int, Within(0, MOST_EXHAUSTIVE)] = 8
    beam: Count | None = 5
    units: Count | None = 64
    pool: Pool = "max"
    seed: Natural = 0

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """Both normalised measures, what they are made of, and how many examples have them."""
        normalised = SHARE if self.beam is None else (-float("inf"), float("inf"))
        return {
            "normalised_comprehensiveness": higher(
                "normalised comprehensiveness",
                "where comprehensiveness lies between the lowest (0) and the highest (1) of any order of removal",
                short="norm. compr.",
                bounds=normalised,
                headline=True,
            ),
            "normalised_sufficiency": lower(
                "normalised sufficiency",
                "where sufficiency lies between the lowest (0) and the highest (1) of any order of removal",
                short="norm. suff.",
                bounds=normalised,
                headline=True,
            ),
            "comprehensiveness_every_step": higher(
                "comprehensiveness, word by word",
                "mean drop of the class's probability while words are removed one by one, most relevant first",
                short="compr. (words)",
                bounds=SIGNED,
            ),
            "sufficiency_every_step": lower(
                "sufficiency, word by word",
                "mean drop of the class's probability while words are removed one by one, least relevant first",
                short="suff. (words)",
                bounds=SIGNED,
            ),
            "lowest_aopc": described("lowest drop of any order", f"{_BOUND} lowest", bounds=SIGNED),
            "highest_aopc": described("highest drop of any order", f"{_BOUND} highest", bounds=SIGNED),
            "exhaustive": described("share with exact bounds", "share of the scored examples whose bounds are exact"),
            "left_out": described("share left out", "share of the examples without a value"),
        }

    def rows(self, model: Classifier, batch: Batch, attribution: Attribution) -> pd.DataFrame:
        """Both measures of each example; NotApplicable where the method scores no tokens."""
        ranking = rank_units(batch, attribution, how=self.pool, seed=self.seed)
        operator = operator_for(self.operator, model, batch, "evaluations.normalised_aopc.operator")
        frames = []
        for b, n in enumerate(ranking.n.tolist()):
            target = attribution.target[b : b + 1]
            if n == 0 or not bool(target.known):
                continue
            values = self._values(model, batch.select([b]), _one(ranking, b), operator, target)
            values["left_out"] = float("normalised_comprehensiveness" not in values)
            frames += [table(batch.uids[b : b + 1], name, np.array([value])) for name, value in values.items()]
        return pd.concat(frames, ignore_index=True) if frames else table((), "left_out", torch.zeros(0))

    def _values(
        self, model: Classifier, example: Batch, ranking: Ranking, operator: Operator, target: Target
    ) -> dict[str, float]:
        """The measures of one example; empty where it has none."""
        units = ranking.rated[0].nonzero()[:, 0].cpu()
        n = len(units)
        if n < 2 or (self.units is not None and n > self.units) or (n > self.exhaustive and self.beam is None):
            return {}
        drops = _drops(model, example, units, ranking.ranks.shape[1], operator, target)
        bounds, drops = self._bounds(input_key(model, example, units, target), drops, n)
        order = ranking.ranks[0, units].argsort().cpu().numpy()
        drops_of_orders = drops(np.concatenate([prefixes(order), prefixes(order[::-1])]))
        comprehensiveness, sufficiency = float(drops_of_orders[:n].mean()), float(drops_of_orders[n:].mean())
        if bounds.high - bounds.low <= 100 * torch.finfo(model.dtype).eps:
            return {}
        return {
            "normalised_comprehensiveness": bounds.normalised(comprehensiveness),
            "normalised_sufficiency": bounds.normalised(sufficiency),
            "comprehensiveness_every_step": comprehensiveness,
            "sufficiency_every_step": sufficiency,
            "lowest_aopc": bounds.low,
            "highest_aopc": bounds.high,
            "exhaustive": float(bounds.exact),
        }

    def _bounds(self, key: bytes, drops: Drops, n: int) -> tuple[AopcBounds, Drops]:
        """The bounds of an example, and its drops, which are looked up where those of all subsets are remembered."""
        if key not in self._memory:
            if n <= self.exhaustive:
                of_all = drops(subsets(n))
                self._memory[key] = (exact_bounds(of_all), of_all)
            else:
                self._memory[key] = (beam_bounds(drops, n, self.beam or 1), None)
        bounds, drops_of_subsets = self._memory[key]
        return bounds, drops if drops_of_subsets is None else recalled(drops_of_subsets)

    @cached_property
    def _memory(self) -> dict[bytes, tuple[AopcBounds, NDArray[np.float64] | None]]:
        """By `input_key`: bounds, and where they are exact the drops of all subsets. It is no setting."""
        return {}


def _drops(
    model: Classifier,
    example: Batch,
    units: Tensor,
    n_columns: int,
    operator: Operator,
    target: Target,
) -> Drops:
    """How much the probability of the target falls when sets of an example's rated units are removed."""

    def probability(removed: Bool[Tensor, "K U"]) -> NDArray[np.float64]:
        columns = torch.zeros(len(removed), 1, n_columns, dtype=torch.bool, device=example.units.device)
        columns[:, 0, units] = removed.to(columns.device)
        logits = logits_without(model, example, columns, operator)
        probabilities: NDArray[np.float64] = model.probability(logits, target)[:, 0].double().cpu().numpy()
        return probabilities

    unperturbed = cache(lambda: probability(torch.zeros(1, len(units), dtype=torch.bool)))
    return lambda removed: unperturbed() - probability(torch.from_numpy(removed))


def input_key(model: Classifier, example: Batch, units: Tensor, target: Target) -> bytes:
    """What a model's answers to removals depend on: the model, its precision, the input, its rated units, and the target."""
    tensors, tokens = take(example, torch.zeros(1, dtype=torch.long, device=example.units.device))
    digest = hashlib.blake2b(f"{model.fingerprint} {model.dtype} {target.ids}".encode(), digest_size=16)
    for name, tensor in sorted({**tensors, "units": tokens, "rated": units}.items()):
        digest.update(f"{name} {tuple(tensor.shape)}".encode() + tensor.contiguous().cpu().numpy().tobytes())
    return digest.digest()


def _one(ranking: Ranking, b: int) -> Ranking:
    return Ranking(ranking.ranks[b : b + 1], ranking.rated[b : b + 1])


def prefixes(order: Int[NDArray[np.int64], "U"]) -> Masks:
    """The sets that an order removes: row k − 1 holds its first k units."""
    place = np.argsort(order)
    removed: Masks = place[None, :] <= np.arange(len(order))[:, None]
    return removed


def subsets(n: int) -> Masks:
    """All 2^n sets of n units; row s holds those whose bit is set in s."""
    masks: Masks = (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(bool)
    return masks


def recalled(drop: Float[NDArray[np.float64], "S"]) -> Drops:
    """The drops of any sets from those of all of them, in the order of `subsets`."""
    return lambda removed: drop[removed @ (1 << np.arange(removed.shape[1]))]


def exact_bounds(drop: Float[NDArray[np.float64], "S"]) -> AopcBounds:
    """Bounds over all n! orders, from the drops of all 2^n sets in the order of `subsets`, by dynamic programming.

    `H(S) = d(S) + max_{u ∈ S} H(S without u)`, `H(∅) = 0`; the highest AOPC is `H(all) / n`, the lowest that of the minimum.
    """
    n = len(drop).bit_length() - 1
    highest, lowest = np.zeros(2**n), np.zeros(2**n)
    for removed in range(1, 2**n):
        before = [removed ^ (1 << u) for u in range(n) if removed >> u & 1]
        highest[removed] = drop[removed] + highest[before].max()
        lowest[removed] = drop[removed] + lowest[before].min()
    return AopcBounds(float(lowest[-1] / n), float(highest[-1] / n), exact=True)


def beam_bounds(drops: Drops, n: int, width: int) -> AopcBounds:
    """Bounds over the orders that a beam search meets, one search upwards and one downwards.

    A partial order is extended by every unit that is left. The `width` partial orders with the largest (smallest) sum of
    drops so far are kept; as in the authors' code, two orders of one set are two entries. The true bounds are never inside
    the ones found: other orders may leave these.
    """
    beams = {sign: _Beam(sign, np.zeros((1, n), dtype=bool), np.zeros(1)) for sign in (1, -1)}
    for _ in range(n):
        extended = {sign: beam.extensions() for sign, beam in beams.items()}
        masks = np.concatenate([beam.removed for beam in extended.values()])
        drops_of_signs = np.split(drops(masks), [len(extended[1].removed)])
        beams = {sign: extended[sign].best(drop, width) for sign, drop in zip(beams, drops_of_signs, strict=True)}
    return AopcBounds(float(beams[-1].total[0] / n), float(beams[1].total[0] / n), exact=False)


@dataclass(frozen=True)
class _Beam:
    """Partial orders of a search for the largest sum of `sign` · drop: the units that each removed, and its sum so far."""

    sign: int
    removed: Masks
    total: Float[NDArray[np.float64], "K"]

    def extensions(self) -> "_Beam":
        """Every partial order with every unit that it left added; totals are those before."""
        entry, unit = np.nonzero(~self.removed)
        removed = self.removed[entry]
        removed[np.arange(len(unit)), unit] = True
        return _Beam(self.sign, removed, self.total[entry])

    def best(self, drop: Float[NDArray[np.float64], "K"], width: int) -> "_Beam":
        """The `width` best after adding the drops of the new sets; equal sums keep their order."""
        total = self.total + drop
        chosen = np.argsort(-self.sign * total, kind="stable")[:width]
        return _Beam(self.sign, self.removed[chosen], total[chosen])
