"""Is attention to separators a no-op? How much a loss changes with it, and what happens without it.

Defined in docs/protocols.md, section 17.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from benchmark.analyses.base import ModelsAnalysis
from benchmark.analyses.context import Context
from benchmark.analyses.means import mean_line
from benchmark.analyses.patterns.token_roles import ROLES, token_roles
from benchmark.analyses.resumed import Arrays
from benchmark.errors import NotApplicable
from benchmark.models import Classifier
from benchmark.models.divergences import total_variation
from benchmark.models.edits import KeepEdges
from benchmark.models.headless import needs_head
from benchmark.models.variants import run_variants
from benchmark.randomness import generator
from benchmark.results.tables import Drawing, Table
from benchmark.run.workbench import Setting
from benchmark.settings.declared import Count, Natural, configurable
from benchmark.types import Batch

OTHERS = "other tokens"
DRAWN = "words drawn at random"
GRADIENT_GROUPS = (*ROLES, OTHERS)
REMOVED_GROUPS = (*ROLES, DRAWN)
_GRADIENT, _CHANGE, _DROP, _ACCURACY = "mean |∂loss/∂A|", "change", "drop", "accuracy drop"
_LESS, _NONE = "less that of other tokens", "no example has such a token"
ALL_LAYERS = "all"


@configurable
class NoOp(ModelsAnalysis):
    """Two questions about the tokens that heads are said to attend to when they have nothing to do.

    `no_op_gradient`: with the loss −log p_c of the annotated class (of the predicted one where there is no label), the mean
    over heads, queries i and keys j of a group, for each layer,

        g_group = mean_{h, i, j ∈ group} |∂ loss / ∂A[h, i, j]|

    beside its difference from that of other tokens in the same examples. Were attention to separators a no-op, changing it
    would change little: the difference would be below 0.

    `no_op_removal`: all attention to a group is set to 0 in one layer, or in all, and each row is rescaled to its former
    sum. With p the probabilities of the classes before and p' after,

        change = ½ Σ_c |p_c − p'_c|,    drop = p_ĉ − p'_ĉ of the predicted class,    accuracy drop = 1[ŷ = y] − 1[ŷ' = y]

    beside as many words, drawn at random, as the example has separators. Rows with attention to the group alone stay 0.

    Attributes:
        models: by name, further models for the same examples: the path of a checkpoint, or the overrides that open a model.
        seed: of the words that are drawn.

    Source: Clark et al. 2019, section 3.2 and figure 3 (gradients of the loss of masked language modelling; here that of the
    classifier, the loss that there is); the removal is ours.
    Cost: a forward and a backward pass, and 4 (L + 1) + 1 forward passes.
    """

    version: ClassVar[int] = 1

    limit: Count | None = 100
    seed: Natural = 0

    def __call__(self, context: Context) -> Sequence[Table]:
        """Gradients and removals."""
        found = {name: self._of(context, setting) for name, setting in self.looked_at(context).items()}
        return [_gradients(found), _removals(found)]

    def _of(self, context: Context, setting: Setting) -> Arrays:
        needs_head(setting.model)
        if setting.model.streams.count > 1:
            raise NotApplicable(
                "the model has an encoder and a decoder, whose attention has no single sequence of tokens"
            )

        def compute(batch: Batch) -> Arrays:
            gradients = gradient_magnitudes(setting.model, batch)
            removal = removed(setting.model, batch, self.seed)
            return {"gradients": _numpy(gradients), **removal.arrays}

        return self.by_example(context, setting, compute, "no-op").arrays


def gradient_magnitudes(model: Classifier, batch: Batch) -> Float[Tensor, "B G L"]:
    """g of each of `GRADIENT_GROUPS` and layer; NaN where the example has no token of the group."""
    model.needs_distribution("cross-entropy")
    found = []
    for part, _ in model.parts(batch, 2 * model.n_layers):
        trace = model.run(part, record=("attentions",), grad=True)
        target = torch.where(part.label < 0, trace.logits.argmax(-1), part.label)
        loss = -trace.logits.log_softmax(-1).gather(1, target[:, None]).squeeze(1)
        gradients = model.gradients(loss, trace.attentions)
        groups = _groups(model, part)
        found.append(torch.stack([_magnitudes(layer.abs().mean(1), part, groups) for layer in gradients], dim=2))
    return torch.cat(found)


def _groups(model: Classifier, batch: Batch) -> Bool[Tensor, "B G T"]:
    """The tokens of each of `GRADIENT_GROUPS`; the last are those of no other."""
    roles = token_roles(model, batch)
    nothing = torch.zeros_like(batch.attention_mask)
    chosen = [roles.get(role, nothing) for role in ROLES]
    others = batch.attention_mask & ~torch.stack(chosen).any(0)
    return torch.stack([*chosen, others], dim=1)


def _magnitudes(mean: Float[Tensor, "B T T"], batch: Batch, groups: Bool[Tensor, "B G T"]) -> Float[Tensor, "B G"]:
    cells = batch.cells[:, None] & groups[:, :, None, :]
    count = cells.sum((-1, -2)).to(mean.dtype)
    total = torch.where(cells, mean[:, None], 0).sum((-1, -2))
    return torch.where(count > 0, total / count.clamp(min=1), torch.nan)


@dataclass(frozen=True)
class Removal:
    """What attention to a group is worth: [B G L + 1], all layers last; NaN where the example has none of the group.

    Attributes:
        change: total variation of the output.
        drop: of the predicted class's probability.
        accuracy_drop: of correctness; NaN without a label too.
    """

    change: Float[Tensor, "B G K"]
    drop: Float[Tensor, "B G K"]
    accuracy_drop: Float[Tensor, "B G K"]

    @property
    def arrays(self) -> Arrays:
        """By name."""
        return {_CHANGE: _numpy(self.change), _DROP: _numpy(self.drop), _ACCURACY: _numpy(self.accuracy_drop)}


def removed(model: Classifier, batch: Batch, seed: int) -> Removal:
    """Predictions without attention to each of `REMOVED_GROUPS`, in every layer and in all of them."""
    model.needs_distribution("total variation")
    groups = _groups(model, batch)
    groups[:, -1] = _drawn(batch, groups[:, REMOVED_GROUPS.index("separators")].sum(-1), seed)
    n_groups, n_layers = len(REMOVED_GROUPS), model.n_layers
    layers = torch.cat([torch.eye(n_layers), torch.ones(1, n_layers)]).bool().to(groups.device)
    masks = torch.zeros(1 + n_groups * len(layers), n_groups, n_layers, dtype=torch.bool, device=groups.device)
    for group in range(n_groups):
        masks[1 + group * len(layers) : 1 + (group + 1) * len(layers), group] = layers

    def run(tensors: Mapping[str, Tensor], units: Tensor, mask: Tensor, example: Tensor) -> Tensor:
        by_layer = mask.view(-1, n_groups, n_layers)
        gone = (by_layer[..., None] & groups[example][:, :, None, : units.shape[1]]).any(1)  # [R L T]
        keep = (~gone)[:, :, None, :].expand(-1, -1, units.shape[1], -1)
        return model.run(tensors, edits=[KeepEdges(keep, renormalise=True)]).logits

    every = masks.flatten(1)[:, None].expand(-1, len(batch), -1)
    logits = run_variants(model, batch, every, run)
    predicted = logits[0].argmax(-1)
    probabilities = logits.softmax(-1)
    of_predicted = probabilities.gather(2, predicted.expand(len(logits), -1)[..., None]).squeeze(2)
    right = (logits.argmax(-1) == batch.label).to(logits.dtype).masked_fill(batch.label < 0, torch.nan)
    present = groups.any(-1)[..., None]

    def shaped(values: Float[Tensor, "R B"]) -> Float[Tensor, "B G K"]:
        return torch.where(present, values.T.reshape(len(batch), n_groups, -1), torch.nan)

    return Removal(
        change=shaped(total_variation(probabilities[1:], probabilities[:1])),
        drop=shaped(of_predicted[:1] - of_predicted[1:]),
        accuracy_drop=shaped(right[:1] - right[1:]),
    )


def _drawn(batch: Batch, counts: Int[Tensor, "B"], seed: int) -> Bool[Tensor, "B T"]:
    """As many tokens of words as `counts`, drawn for each example; fewer where it has fewer."""
    chosen = np.zeros(batch.units.shape, dtype=bool)
    for row, (uid, count) in enumerate(zip(batch.uids, counts.tolist(), strict=True)):
        words = np.flatnonzero(batch.units[row].cpu().numpy() >= 0)
        chosen[row, generator(seed, "keys without attention", uid).permutation(words)[:count]] = True
    return torch.from_numpy(chosen).to(batch.units.device)


def _gradients(found: Mapping[str, Arrays]) -> Table:
    rows: list[dict[str, Any]] = []
    for name, arrays in found.items():
        for number, group in enumerate(GRADIENT_GROUPS):
            for layer in range(arrays["gradients"].shape[2]):
                values = arrays["gradients"][:, number, layer]
                place = {"model": name, "tokens": group, "layer": layer}
                rows.append(mean_line(place, _GRADIENT, values, (0.0, np.inf), _NONE))
                if group != OTHERS:
                    less = values - arrays["gradients"][:, GRADIENT_GROUPS.index(OTHERS), layer]
                    rows.append(mean_line(place, _LESS, less, (-np.inf, np.inf), _NONE))
    return Table(
        name="no_op_gradient",
        title="How much the loss changes with attention to a token, by layer",
        labels=("model", "tokens", "layer"),
        rows=pd.DataFrame(rows),
        sentences=(
            "Mean magnitude of the gradient of the classifier's loss with respect to an attention weight, over heads, "
            "queries and the keys of a group, and less that of other tokens in the same examples; intervals over examples.",
        ),
        drawing=Drawing("curves", x="layer", y=(_GRADIENT,), series="tokens", panels=("model",)),
    )


def _removals(found: Mapping[str, Arrays]) -> Table:
    rows: list[dict[str, Any]] = []
    for name, arrays in found.items():
        for number, group in enumerate(REMOVED_GROUPS):
            n_layers = arrays[_CHANGE].shape[2] - 1
            for place, layer in enumerate([*map(str, range(n_layers)), ALL_LAYERS]):
                labels = {"model": name, "without attention to": group, "layer": layer}
                for metric, least in ((_CHANGE, 0.0), (_DROP, -1.0), (_ACCURACY, -1.0)):
                    values = arrays[metric][:, number, place]
                    nothing = "no example has a label" if metric == _ACCURACY else _NONE
                    rows.append(mean_line(labels, metric, values, (least, 1.0), nothing))
    return Table(
        name="no_op_removal",
        title="Change of the prediction without attention to a kind of token",
        labels=("model", "without attention to", "layer"),
        rows=pd.DataFrame(rows),
        sentences=(
            "Attention to all tokens of the group is set to 0 in the layer, in all heads, and rows are rescaled to the sum "
            "that they had; the words drawn at random are as many tokens as the example has separators.",
        ),
        drawing=Drawing("bars", x="layer", y=(_CHANGE,), series="without attention to", panels=("model",)),
    )


def _numpy(values: Tensor) -> NDArray[np.float64]:
    array: NDArray[np.float64] = values.detach().double().cpu().numpy()
    return array
