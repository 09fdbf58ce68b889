"""What do heads look at? Attention to neighbours, special tokens and punctuation, and its entropy (Clark et al. 2019).

Defined in docs/protocols.md, section 17.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from benchmark.analyses.base import ModelsAnalysis
from benchmark.analyses.context import Context
from benchmark.analyses.measured import figure_line
from benchmark.analyses.patterns.pattern_sums import (
    BETWEEN,
    OFFSETS,
    PATTERNS,
    SINK,
    TO_ROLE,
    Ends,
    entropies,
    pattern_shares,
    permitted_keys,
    uniform_entropies,
)
from benchmark.analyses.patterns.token_roles import role_names, token_roles
from benchmark.analyses.resumed import Arrays
from benchmark.errors import NotApplicable
from benchmark.models import Classifier
from benchmark.results import statistics
from benchmark.results.tables import Drawing, Table, line
from benchmark.run.workbench import Setting
from benchmark.settings.declared import Count, configurable
from benchmark.types import Batch

GROUPS: Mapping[str, Sequence[str]] = {
    "special, punctuation": (*TO_ROLE, SINK),
    "to separators": tuple(BETWEEN),
    "neighbours": tuple(OFFSETS),
}
"""The panels of figure 2 of the paper from top to bottom; the first with the share on the first token."""

_ALL, _START = "all tokens", "first token"
_NATS, _SHARE, _PARTS = "entropy", "attention", (0.0, 1.0)
MEAN = "mean of the heads"


@configurable
class AttentionPatterns(ModelsAnalysis):
    """What each head attends to, as means over documents with intervals over documents.

    `attention_patterns`: per layer and head the share of attention of every pattern (`pattern_sums.pattern_shares`), and
    `attention_entropy` the entropy in nats of all queries and of the first one alone (`pattern_sums.entropies`), beside
    that of uniform attention: the points of figures 2 and 4 of the paper. `attention_patterns_by_layer` has the means over
    the heads of a layer, `attention_patterns_strongest` the head with the largest share of each pattern: it is chosen on
    every other document and measured on the rest, as the largest of many is too large on the documents that it is chosen on.

    A document is an example of the task. What a model has no token for (GPT-2 no separator, an image no punctuation) stands
    as a dash with the reason.

    Attributes:
        ends: queries without a previous (next) token are `left out` of the mean, so that a head that always attends to the
            previous token has 1; or `counted` with 0, as in the authors' code: then it has (n − 1)/n.

    Source: Clark et al. 2019, sections 3.1 to 3.3, figures 2 and 4; equal to the authors' code with `ends=counted`.
    Cost: one forward pass.
    """

    version: ClassVar[int] = 1

    limit: Count | None = 300
    ends: Ends = "left out"

    def __call__(self, context: Context) -> Sequence[Table]:
        """The strongest heads, layers, and the points of both figures."""
        found = {name: self._of(context, setting) for name, setting in self.looked_at(context).items()}
        sentences = tuple(_told(name, model) for name, (model, _) in found.items())
        arrays = {name: arrays for name, (_, arrays) in found.items()}
        largest = {name: math.log(model.window) for name, (model, _) in found.items()}
        return [
            _strongest(arrays, sentences),
            _by_layer(arrays, largest),
            _points(arrays),
            _entropy_points(arrays, largest),
        ]

    def _of(self, context: Context, setting: Setting) -> tuple[Classifier, Arrays]:
        compute = lambda batch: pattern_arrays(setting.model, batch, self.ends)  # noqa: E731  # a closure of one line
        return setting.model, self.by_example(context, setting, compute, "attention patterns").arrays


def pattern_arrays(model: Classifier, batch: Batch, ends: Ends = "left out") -> Arrays:
    """Of each document `shares` [B P L H], `entropies` [B 2 L H] and `uniform` [B 2 L] (all queries, the first one).

    Raises:
        NotApplicable: the model has an encoder and a decoder, whose calls attend to two sequences.
    """
    if model.streams.count > 1:
        raise NotApplicable("the model has an encoder and a decoder, whose attention has no single sequence of tokens")
    shares, spreads, uniform = [], [], []
    for part, _ in model.parts(batch):
        trace = model.run(part, record=("attentions", "permitted"))
        mask, roles = part.attention_mask, token_roles(model, part)
        layers = [layer.to(model.scores_dtype) for layer in trace.attentions]
        permitted = [permitted_keys(each, mask) for each in trace.permitted]
        shares.append(torch.stack([pattern_shares(layer, mask, roles, ends) for layer in layers], dim=2))
        pairs = [entropies(layer, keys, mask) for layer, keys in zip(layers, permitted, strict=True)]
        spreads.append(torch.stack([torch.stack(each, dim=1) for each in zip(*pairs, strict=True)], dim=1))
        even = [torch.stack(uniform_entropies(keys, mask), dim=1) for keys in permitted]
        uniform.append(torch.stack(even, dim=2))
    return {
        "shares": _numpy(shares),
        "entropies": _numpy(spreads),
        "uniform": _numpy(uniform),
    }


def _numpy(parts: Sequence[torch.Tensor]) -> NDArray[np.float64]:
    array: NDArray[np.float64] = torch.cat([part.double() for part in parts]).cpu().numpy()
    return array


def _told(name: str, model: Classifier) -> str:
    spelled = [f"{role} {text}" for role, text in role_names(model).items() if text]
    return f"{name} has {model.n_layers} layers of {model.n_heads} heads; its tokenizer calls: {', '.join(spelled)}."


def _lines(
    places: Sequence[Mapping[str, Any]], metric: str, values: NDArray[np.float64], bounds: tuple[float, float] | None
) -> list[dict[str, Any]]:
    """A line per column of `values` [n K], of the documents in which none of the column is NaN."""
    columns: dict[bytes, list[int]] = {}
    present = ~np.isnan(values)
    for column in range(values.shape[1]):
        columns.setdefault(present[:, column].tobytes(), []).append(column)
    lines: list[dict[str, Any]] = [{}] * values.shape[1]
    for chosen in columns.values():
        rows = present[:, chosen[0]]
        for column, interval in zip(chosen, statistics.intervals(values[rows][:, chosen], bounds=bounds), strict=True):
            note = "" if interval.n else "no document has such a token"
            lines[column] = figure_line(places[column], metric, interval, note)
    return lines


def _strongest(found: Mapping[str, Arrays], sentences: tuple[str, ...]) -> Table:
    rows = []
    for name, arrays in found.items():
        shares = arrays["shares"]
        for number, pattern in enumerate(PATTERNS):
            place = {"model": name, "pattern": pattern}
            values = shares[:, number]
            defined = values[~np.isnan(values).any((1, 2))]
            if len(defined) < 2:
                note = "no document has such a token" if not len(defined) else "one document alone has such a token"
                rows.append(line(place | {"layer": "", "head": ""}, _SHARE, note=note))
                continue
            chosen_on, measured_on = defined[::2], defined[1::2]
            layer, head = np.unravel_index(int(chosen_on.mean(0).argmax()), chosen_on.shape[1:])
            interval = statistics.interval(measured_on[:, layer, head], bounds=_PARTS)
            at = place | {"layer": str(layer), "head": str(head)}
            rows.append(figure_line(at, _SHARE, interval))
            rows.append(figure_line(at, MEAN, statistics.interval(measured_on.mean((1, 2)), bounds=_PARTS)))
    return Table(
        name="attention_patterns_strongest",
        title="The head that attends most to each kind of token",
        labels=("model", "pattern", "layer", "head"),
        rows=pd.DataFrame(rows),
        sentences=(
            "Attention is the share of its attention that a head gives, mean over the queries of a document and over "
            "documents; intervals are over documents.",
            "The head is chosen on every other document and measured on the rest; beside it the mean of all heads there.",
            *sentences,
        ),
    )


def _by_layer(found: Mapping[str, Arrays], largest: Mapping[str, float]) -> Table:
    rows: list[dict[str, Any]] = []
    for name, arrays in found.items():
        layers = [{"model": name, "layer": layer} for layer in range(arrays["shares"].shape[2])]
        for number, pattern in enumerate(PATTERNS):
            rows += _lines(layers, pattern, arrays["shares"][:, number].mean(-1), _PARTS)
        for number, queries in enumerate((_ALL, _START)):
            bounds = 0.0, largest[name]
            rows += _lines(layers, f"entropy, {queries} (nats)", arrays["entropies"][:, number].mean(-1), bounds)
            rows += _lines(layers, f"of uniform attention, {queries} (nats)", arrays["uniform"][:, number], bounds)
    return Table(
        name="attention_patterns_by_layer",
        title="What the heads of a layer look at, mean over heads",
        labels=("model", "layer"),
        rows=pd.DataFrame(rows),
    )


def _heads(values: NDArray[np.float64]) -> list[dict[str, int]]:
    return [{"layer": int(layer), "head": int(head)} for layer, head in np.ndindex(values.shape[-2:])]


def _points(found: Mapping[str, Arrays]) -> Table:
    rows: list[dict[str, Any]] = []
    for name, arrays in found.items():
        for group, patterns in GROUPS.items():
            for pattern in patterns:
                values = arrays["shares"][:, PATTERNS.index(pattern)]
                places = [{"model": name, "group": group, "pattern": pattern} | head for head in _heads(values)]
                rows += _lines(places, _SHARE, values.reshape(len(values), -1), _PARTS)
    return Table(
        name="attention_patterns",
        title="What each head looks at, by layer",
        labels=("model", "group", "pattern", "layer", "head"),
        rows=pd.DataFrame(rows),
        sentences=("Each point is a head; lines are the means of a layer's heads (figure 2 of Clark et al. 2019).",),
        drawing=Drawing("points", x="layer", y=(_SHARE,), series="pattern", panels=("model", "group")),
        printed=False,
    )


def _entropy_points(found: Mapping[str, Arrays], largest: Mapping[str, float]) -> Table:
    rows: list[dict[str, Any]] = []
    for name, arrays in found.items():
        values, layers = arrays["entropies"], range(arrays["uniform"].shape[2])
        for number, queries in enumerate((_ALL, _START)):
            of_queries = values[:, number]
            places = [{"model": name, "queries": queries, "of": "heads"} | head for head in _heads(values)]
            rows += _lines(places, _NATS, of_queries.reshape(len(values), -1), (0.0, largest[name]))
            uniform = arrays["uniform"][:, number]
            even = [
                {"model": name, "queries": queries, "of": "uniform attention", "layer": i, "head": ""} for i in layers
            ]
            rows += _lines(even, _NATS, uniform, (0.0, largest[name]))
    return Table(
        name="attention_entropy",
        title="Entropy of attention in nats, by layer",
        labels=("model", "queries", "of", "layer", "head"),
        rows=pd.DataFrame(rows),
        sentences=("Each point is a head; lines are the means of a layer's heads (figure 4 of Clark et al. 2019).",),
        drawing=Drawing("points", x="layer", y=(_NATS,), series="of", panels=("model", "queries")),
        printed=False,
    )
