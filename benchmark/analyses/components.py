"""How much of a prediction flows through attention, through the feed-forward layers, and past both?"""

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from benchmark.analyses.ablation import ABLATIONS, ablated_logits, ablation_plan
from benchmark.analyses.base import Analysis
from benchmark.analyses.context import Context
from benchmark.analyses.measured import figure_line
from benchmark.errors import NotApplicable
from benchmark.models.classifier import Classifier
from benchmark.models.parts import blocks_parts
from benchmark.results import statistics
from benchmark.results.tables import Drawing, Table, line
from benchmark.settings.declared import Count, configurable
from benchmark.targets import Target, TargetName
from benchmark.types import Batch

PATHS = ("attention", "feed-forward", "residual")
ALL_LAYERS = "all"


@runtime_checkable
class ComponentShares(Protocol):
    """Shares of a block's relevance that go through its attention, its feed-forward layers, and past both."""

    version: ClassVar[int]

    def __call__(self, model: Classifier, batch: Batch, target: Target) -> Float[Tensor, "B L 3"]:
        """Rows sum to 1; raises NotApplicable with a reason where the model cannot be served."""


@configurable
class Components(Analysis):
    """Two tables that say how much of a prediction attention carries, and so how much it can explain.

    `component_shares`: per layer the shares of relevance that pass the attention, the feed-forward layers, or neither, as
    means over examples. `shares` defines and computes them.

    `component_ablation`: with p the probability of the target and y the annotated class, per ablation and layer, and for
    all layers at once,

        drop = p(x) − p(x; ablated),    accuracy_drop = 1[ŷ(x) = y] − 1[ŷ(x; ablated) = y]

    as means over examples with bootstrap intervals. Accuracy counts examples with a label. The ablations are:

    - `attention zero`: probabilities × 0; the bias of the output layer stays.
    - `feed-forward zero`: 0 in place of what these layers add to the residual stream, bias included.
    - `attention uniform`: the same probability for every key that a query may attend to.
    - `attention identity`: every token attends to itself.

    Later layers recompute their own attention.

    Attributes:
        shares: computes the shares of relevance.
        limit: how many of the scored examples are used, the first ones; None for all.
        target: class that is explained.

    Source: Wiegreffe & Pinter 2019, section 3.2 (uniform attention); Hao et al. 2021, section 4 (attention × 0); the others
    are ours.
    Cost: 4 L + 5 forward passes, and the cost of `shares`.
    """

    version: ClassVar[int] = 2

    shares: ComponentShares
    limit: Count | None = None
    target: TargetName = "predicted"

    def __call__(self, context: Context) -> Sequence[Table]:
        """The shares of relevance and the ablations."""
        chosen = list(context.first_examples(self.limit, self.target))
        return [self._shares(context.setting.model, chosen), self._ablations(context.setting.model, chosen)]

    def _shares(self, model: Classifier, chosen: Sequence[tuple[Batch, Target]]) -> Table:
        try:
            rows = share_rows(np.concatenate([_numpy(self.shares(model, batch, target)) for batch, target in chosen]))
        except NotApplicable as answer:
            rows = [line({"layer": ALL_LAYERS, "path": ""}, "share", note=f"cannot, because {answer}")]
        return _table(
            "component_shares",
            "Where relevance flows in a layer",
            ("layer", "path"),
            rows,
            ("The three shares of a layer sum to 1; magnitudes of relevance are summed over tokens and hidden units.",),
            Drawing(kind="bars", x="layer", y=("share",), series="path"),
        )

    def _ablations(self, model: Classifier, chosen: Sequence[tuple[Batch, Target]]) -> Table:
        try:
            parts = [ablation_drops(model, batch, target) for batch, target in chosen]
            rows = ablation_rows(np.concatenate([drop for drop, _ in parts]), np.concatenate([a for _, a in parts]))
        except NotApplicable as answer:
            rows = [line({"ablation": "", "layer": ALL_LAYERS}, "drop", note=f"cannot, because {answer}")]
        return _table(
            "component_ablation",
            "Loss of the prediction when a part is taken out",
            ("ablation", "layer"),
            rows,
            ("A drop is the probability of the explained class before less that after; below 0 it grew.",),
            Drawing(kind="bars", x="layer", y=("drop", "accuracy_drop"), series="ablation"),
        )


def ablation_drops(
    model: Classifier, batch: Batch, target: Target
) -> tuple[Float[NDArray[np.float64], "B K"], Float[NDArray[np.float64], "B K"]]:
    """Drops of the target's probability and of correctness (NaN without a label) in the runs of `ablation_plan`.

    The K = 4·(L + 1) runs are ordered by ablation, then layer, all layers last.

    Raises:
        NotApplicable: the parts of a block cannot be told apart.
    """
    plan = ablation_plan(model.n_layers)
    logits = ablated_logits(model, batch, blocks_parts(model, batch), plan)
    probability = model.probability(logits, target)
    correct = (logits.argmax(-1) == batch.label).to(logits.dtype).masked_fill(batch.label < 0, torch.nan)
    return _numpy((probability[:1] - probability[1:]).T), _numpy((correct[:1] - correct[1:]).T)


def share_rows(shares: Float[NDArray[np.float64], "n L 3"]) -> list[dict[str, Any]]:
    """Means and intervals per layer and path, and over all layers; examples without relevance are left out."""
    rows = []
    layers = {str(layer): shares[:, layer] for layer in range(shares.shape[1])} | {ALL_LAYERS: shares.mean(1)}
    for layer, values in layers.items():
        intervals = statistics.intervals(values[~np.isnan(values).any(1)], bounds=(0.0, 1.0))
        for path, share in zip(PATHS, intervals, strict=True):
            labels = {"layer": layer, "path": path}
            note = "" if share.n else "no relevance reaches it"
            rows.append(figure_line(labels, "share", share, note))
    return rows


def ablation_rows(
    drops: Float[NDArray[np.float64], "n K"], accuracy: Float[NDArray[np.float64], "n K"]
) -> list[dict[str, Any]]:
    """Means and intervals per ablation and layer; accuracy over the examples that have a label."""
    n_layers = drops.shape[1] // len(ABLATIONS) - 1
    layers = [*map(str, range(n_layers)), ALL_LAYERS]
    runs = [{"ablation": ablation, "layer": layer} for ablation in ABLATIONS for layer in layers]
    rows = []
    for metric, values in (("drop", drops), ("accuracy_drop", accuracy)):
        intervals = statistics.intervals(values[~np.isnan(values).any(1)], bounds=(-1.0, 1.0))
        for labels, drop in zip(runs, intervals, strict=True):
            note = "" if drop.n else "no example has a label"
            rows.append(figure_line(labels, metric, drop, note))
    return rows


def _table(
    name: str,
    title: str,
    labels: tuple[str, str],
    rows: list[dict[str, Any]],
    sentences: tuple[str, ...],
    drawing: Drawing,
) -> Table:
    shown = drawing if any(row["n"] for row in rows) else None
    return Table(name, title, labels, pd.DataFrame(rows), sentences, shown)


def _numpy(values: Tensor) -> NDArray[np.float64]:
    array: NDArray[np.float64] = values.detach().double().cpu().numpy()
    return array
