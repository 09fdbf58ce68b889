"""Which attention weights of a finished model an analysis edits: layers, rows and keys, decided here alone.

Defined in docs/protocols.md, section 16.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from benchmark.models.classifier import Classifier
from benchmark.settings.declared import Distinct
from benchmark.types import Batch

ScopeName = Literal["read_row", "each_layer", "all_layers"]
ScopeNames = Annotated[Sequence[ScopeName], Distinct()]
ALL_SCOPES: tuple[ScopeName, ...] = ("read_row", "each_layer", "all_layers")

Keys = Literal["tokens", "words"]
"""Which keys have weights that are edited: all tokens that the mask permits, or those of words alone."""


@dataclass(frozen=True)
class Scope:
    """Layers whose attention is edited; other layers compute their own from what reaches them.

    Attributes:
        name: what tables say.
        layers: numbers of the attention calls.
        read_only: of these calls, the ones where only the queries that the classifier reads are edited.
        key: by which code finds its figures (`benchmark.results.tables.line`).
    """

    name: str
    layers: tuple[int, ...]
    read_only: frozenset[int]
    key: str


@dataclass(frozen=True)
class Rows:
    """The rows of one layer that are edited, of B examples.

    Attributes:
        query: number of the query of each of R rows; those that are edited come first, no query stands twice.
        movable: the keys whose weights are edited; none in a row that is not, and never a single one.
    """

    query: Int[Tensor, "B R"]
    movable: Bool[Tensor, "B R T"]

    @property
    def edited(self) -> Bool[Tensor, "B R"]:
        """Rows that are edited."""
        return self.movable.any(-1)


def scopes(model: Classifier, names: Sequence[ScopeName]) -> list[Scope]:
    """The scopes of a model, in the order of the names, layers from the input on.

    - `read_row`: in the last layer the row of the token that the classifier reads, or rows where it reads several. It is the
      one attention of the models that the debate is about. In an encoder–decoder it is the row of the last cross-attention.
    - `each_layer`: all rows of one layer, for every layer but the last: there only the rows that are read can change a
      prediction, which is `read_row`. In an encoder–decoder each call is a layer, and the decoder's last self-attention is
      edited in the rows that are read.
    - `all_layers`: all of these at once.
    """
    last = model.n_layers - 1
    read_only = _reading_calls(model)
    by_name: dict[ScopeName, list[Scope]] = {
        "read_row": [Scope("last layer, read row", (last,), read_only, "read_row")],
        "each_layer": [Scope(f"layer {model.attention_names[i]}", (i,), read_only, f"layer_{i}") for i in range(last)],
        "all_layers": [Scope("all layers", tuple(range(model.n_layers)), read_only, "all_layers")],
    }
    chosen = [scope for name in names for scope in by_name[name]]
    seen: dict[tuple[int, ...], Scope] = {}
    for scope in chosen:  # in a model of one layer the read row is all there is
        seen.setdefault(scope.layers, scope)
    return list(seen.values())


def _reading_calls(model: Classifier) -> frozenset[int]:
    """The calls after which no query takes anything from another: those of the last block of the stream that is read."""
    names, streams = model.attention_names, model.streams.queries
    block = names[-1].rpartition(".")[2]
    return frozenset(
        i for i, name in enumerate(names) if streams[i] == streams[-1] and name.rpartition(".")[2] == block
    )


def rows_of(
    model: Classifier, batch: Batch, permitted: Sequence[Bool[Tensor, "B 1 T T"]], scope: Scope, keys: Keys
) -> dict[int, Rows]:
    """The rows that a scope edits, by layer.

    A row is edited where its query is no padding and at least two of its keys are movable: permitted by the mask of the
    model, and part of a word where `keys` says so.

    Args:
        model: the classifier.
        batch: B examples.
        permitted: by layer the keys that each query may attend to.
        scope: of `scopes`.
        keys: which of them are movable.
    """
    present, read = batch.attention_mask, model.read_weights(batch) > 0
    rows = {}
    for layer in scope.layers:
        wanted = present & read if layer in scope.read_only else present
        count = int(wanted.sum(1).max())
        query = wanted.int().argsort(dim=1, descending=True, stable=True)[:, :count]
        movable = permitted[layer][:, 0] & _keys(model, batch, layer, keys)[:, None] & wanted[:, :, None]
        chosen = movable.gather(1, query[:, :, None].expand(-1, -1, movable.shape[2]))
        rows[layer] = Rows(query, chosen & (chosen.sum(-1, keepdim=True) > 1))
    return rows


def _keys(model: Classifier, batch: Batch, layer: int, keys: Keys) -> Bool[Tensor, "B T"]:
    """Keys of a layer that are no padding, or that belong to words; a decoder's place p holds token p − 1."""
    if keys == "tokens":
        return batch.attention_mask
    words = batch.units >= 0
    if model.streams.keys[layer] == 0:
        return words
    return torch.cat([torch.zeros_like(words[:, :1]), words[:, :-1]], dim=1)
