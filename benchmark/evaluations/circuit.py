"""How much of a model's answer the best components keep up (Mueller et al. 2025; docs/protocols.md, section 18)."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

from benchmark.errors import NotApplicable
from benchmark.evaluations import curves
from benchmark.evaluations.base import Averaged, Derived, Rows, described, higher, lower
from benchmark.evaluations.head_pruning import Calibration, checked_calibration
from benchmark.models.classifier import Classifier
from benchmark.models.components import Ablation, Components, Graph
from benchmark.models.components.selection import Circuits, Level, Order, best, ends, orders_nothing, size_of
from benchmark.results import statistics
from benchmark.results.record import About, Figure, Metric
from benchmark.settings.declared import Natural, Shares, configurable
from benchmark.targets import Target, TargetName
from benchmark.types import SCORED, Attribution, Batch, Part, Reads

SIZES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Shares of the components that a circuit may have, those of MIB."""

NOTHING_TO_KEEP_UP = (
    "without these components the answer is no less than with them, so that circuits have nothing to keep up"
)

NO_DISTRIBUTION_OF_CIRCUITS = (
    "a divergence is between distributions over classes, and each label of this model has a probability of its own"
)

_PARTS: Mapping[Level, Part] = {"edges": "components", "nodes": "nodes", "heads": "heads"}
_ANY = (-float("inf"), float("inf"))


@configurable
class Circuit(Averaged):
    """`f(k) = (m(C_k) − m(∅)) / (m(all) − m(∅))`: the share of an answer that the best k of the components keep up.

    C_k is the circuit of the ⌊k · n⌋ best of n components by a method's scores, averaged over the calibration examples. Of
    what is not in it, others read what it writes for the corrupted input (`benchmark.models.components`). m is the number
    that is explained, its means over examples come first, and ∅ has no component. CPR is the area under f by trapezoids over
    the shares, of circuits by signed scores; CMD is that of |1 − f|, of circuits by magnitude. The last two intervals of the
    published shares weigh four fifths.

    `measure=divergence` takes m(C) = −KL(p(all) ‖ p(C)) over the model's classes, which are tokens where it is asked for the
    vocabulary. f is then at most 1, and what a circuit does to other classes than the two of a margin counts, too.

    Edges and nodes: of a circuit is what hangs together (`selection.connected`). Heads: input and feed-forward networks are
    always of it, so that every method that scores heads can be asked, and ∅ has them too.

    A CPR above 1 is no merit: circuits without what speaks against an answer have a larger m than the model, and f has no
    upper bound. Random orders have about .25 and .75 only where half of the components alone keep nothing up, which is false
    of small models: the analysis `circuits` compares with many of them.

    Attributes:
        level: `edges`, `nodes`, or `heads`.
        target: what is explained.
        measure: what m is: the number that is explained, or `divergence`.
        ablation: what stands in for what is not of a circuit; `zero`: nothing.
        order: `top` as published, or `greedy`: from the logits on, always the best edge to what is taken already.
        fractions: the shares k.
        calibration: where scores come from; `Calibration`, a mapping with its fields, `same` or `each`.
        seed: of the permutation that breaks ties.

    Source: Mueller et al. 2025 (MIB), and its code, which has no intervals; `divergence` as in Conmy et al. 2023.
    Cost: shares + 2 forward passes for each kind of circuit, in which every slot that differs is computed by itself.
    """

    version: ClassVar[int] = 1
    reads: ClassVar[Reads] = "components"

    level: Level = "heads"
    target: TargetName = "margin"
    measure: Literal["value", "divergence"] = "value"
    ablation: Ablation = "patching"
    order: Literal["top", "greedy"] = "top"
    fractions: Shares = SIZES
    calibration: Calibration | Mapping[str, Any] | Literal["same", "each"] = Calibration()
    seed: Natural = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "calibration", checked_calibration(self.calibration))

    @property
    def part(self) -> Part:  # type: ignore[override]  # a property where the base has a field
        """The field of an attribution that has the scores."""
        return _PARTS[self.level]

    @property
    def about(self) -> About:
        """Circuits show whether scores name what the model computes with."""
        return About("faithfulness", 45, f"Circuits of {self.level}")

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """Both areas, and the curve."""
        axis = f"share of the {self.level}"
        of, kept = f"circuits of {self.level}", "share of the answer that the best components keep up"
        if self.measure == "divergence":
            of, kept = f"{of}, divergence", "share of the divergence that the best components take away"
        at = partial(described, bounds=_ANY, x=axis)
        return {
            "cpr": higher(
                f"CPR, {of}",
                f"area under the {kept}; above 1 it is no merit",
                short=f"CPR, {self.level}",
                bounds=_ANY,
                headline=True,
            ),
            "cmd": lower(
                f"CMD, {of}",
                "area of the distance between that share and 1, components by the magnitude of their scores",
                short=f"CMD, {self.level}",
                bounds=(0.0, float("inf")),
                headline=True,
            ),
            "faithfulness": higher(
                f"faithfulness, {of}",
                f"{kept}, by signed scores",
                short=f"faithfulness, {self.level}",
                bounds=_ANY,
                x=axis,
                headline=True,
            ),
            "edges": at(
                f"edges, {of}", "edges of a circuit by signed scores, after what hangs on nothing has fallen away"
            ),
        }

    @property
    def derived(self) -> Mapping[str, Derived]:
        """Ratios of means; the distance as a sum of magnitudes of means, one for each share."""
        losses = tuple(("loss", share) for share in self.fractions)
        return {
            "cpr": Derived(("gain", "room"), statistics.ratio, scalars=("gain", "room")),
            "cmd": Derived((*losses, "room"), statistics.absolute_ratio, scalars=("room",)),
            "faithfulness": Derived(("gained", "room"), statistics.ratio, scalars=("room",)),
        }

    def caution(self, figures: Sequence[Figure]) -> str | None:
        """A curve above 1 is told."""
        most = max((one.value for one in figures if one.metric == "faithfulness"), default=0.0)
        if most <= 1 + 1e-6:
            return None
        return f"circuits have up to {most:.2f} of the whole model's value, and more than all of it raises CPR without merit"

    def reduce(self, rows: pd.DataFrame) -> list[Figure]:
        """Both areas and the curve.

        Raises:
            NotApplicable: corrupted inputs are answered no worse than clean ones, so that there is nothing to keep up.
        """
        room = rows.loc[rows["metric"] == "room", "value"] if len(rows) else rows
        if len(room) and not room.mean() > 0:
            raise NotApplicable(NOTHING_TO_KEEP_UP)
        return super().reduce(rows)

    def rows(self, model: Classifier, batch: Batch, attribution: Attribution) -> pd.DataFrame:
        """Of each example what the circuits gain and lose; NotApplicable where the method scores no such components."""
        scores = getattr(attribution, self.part)
        if scores is None:
            raise NotApplicable(f"the method does not score {SCORED[self.part]}")
        components = Components.of(model, batch)
        if orders_nothing(components.graph, self.level, scores):
            raise NotApplicable(f"its scores of {SCORED[self.part]} are all equal, so that they order nothing")
        keep, edges = self._circuits(components.graph, scores)
        values = self.values_of(components, batch, attribution.target, keep)
        nothing, signed, magnitude = values[1], *np.split(values[2:] - values[1], 2)
        room = values[0] - nothing
        weights = trapezoid_weights(self.fractions)
        known = attribution.target.known | (self.measure == "divergence")
        rows = Rows(batch.uids)
        rows.add("gain", weights @ signed, defined=known)
        rows.add("room", room, defined=known)
        rows.add("gained", signed.T, x=self.fractions, defined=known)
        rows.add("loss", (weights[:, None] * (room - magnitude)).T, x=self.fractions, defined=known)
        rows.add("edges", edges.T, x=self.fractions, defined=known)
        return rows.frame()

    def values_of(
        self, components: Components, batch: Batch, target: Target, keep: Bool[Tensor, "N B S _"]
    ) -> Float[NDArray[np.float64], "N B"]:
        """m of every example in each of N circuits, of which the first is the whole model.

        Raises:
            NotApplicable: the examples have no corrupted counterpart of their length; classes do not exclude each other, so
                that there is no distribution over them.
        """
        if self.measure == "divergence" and components.model.multilabel:
            raise NotApplicable(NO_DISTRIBUTION_OF_CIRCUITS)
        others = components.others(batch, self.ablation)
        logits = components.run(batch.tensors, keep.to(components.model.device), others)
        if self.measure == "divergence":
            logarithms = logits.double().log_softmax(-1)
            found = (logarithms[0].exp() * (logarithms - logarithms[0])).sum(-1)
        else:
            found = target.value(logits).double()
        values: NDArray[np.float64] = found.cpu().numpy()
        return values

    def counts(self, graph: Graph) -> list[int]:
        """How many components the circuit of each share has."""
        shares: list[int] = curves.counts(torch.tensor([size_of(graph, self.level)]), self.fractions)[:, 0].tolist()
        return shares

    def _circuits(
        self, graph: Graph, scores: Float[Tensor, "B ..."]
    ) -> tuple[Bool[Tensor, "N B S _"], Float[NDArray[np.float64], "K B"]]:
        """All, none, those by signed scores and by magnitude, of each example; and how many edges the signed ones have."""
        own = scores[:1] if bool((scores == scores[:1]).all()) else scores
        shares = self.counts(graph)
        found: list[tuple[Circuits, Circuits]] = []
        for one in own:
            signed, magnitude = (best(graph, self.level, one, shares, order, self.seed) for order in self.orders)
            found.append((signed, magnitude))
        kept = [torch.cat([ends(graph, self.level), signed.keep, magnitude.keep]) for signed, magnitude in found]
        counts = np.array([signed.edges.sum((1, 2)).numpy() for signed, _ in found], dtype=np.float64).T
        keep = torch.stack(kept, dim=1).expand(-1, len(scores), -1, -1)
        return keep, np.repeat(counts, len(scores) // counts.shape[1], axis=1)

    @property
    def orders(self) -> tuple[Order, Order]:
        """How components are taken for CPR and for CMD."""
        return ("greedy", "greedy") if self.order == "greedy" and self.level == "edges" else ("signed", "magnitude")


def trapezoid_weights(x: Sequence[float]) -> Float[NDArray[np.float64], " K"]:
    """w with `Σ_k w_k y_k` the integral of y over x by trapezoids."""
    steps = np.diff(np.asarray(x, dtype=np.float64))
    return np.concatenate([steps, [0.0]]) / 2 + np.concatenate([[0.0], steps]) / 2
