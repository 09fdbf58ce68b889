"""Heads as parsers: which head finds the syntactic head of a word, relation by relation (Clark et al. 2019, section 4.2).

Defined in docs/protocols.md, section 17.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float
from numpy.typing import NDArray

from benchmark.analyses.base import ModelsAnalysis
from benchmark.analyses.context import Context
from benchmark.analyses.measured import figure_line
from benchmark.analyses.syntax.head_votes import DIRECTIONS, Votes, offset_votes, votes_of
from benchmark.analyses.syntax.trees import TreeScores, tree_scores
from benchmark.errors import NotApplicable
from benchmark.results import statistics
from benchmark.results.tables import Drawing, Table, line
from benchmark.run.workbench import Setting
from benchmark.settings.declared import Count, Natural, configurable
from benchmark.types import Batch

ALL = "all"
ROOT = "root"
_ACCURACY, _LESS, _CLAIMED, _UUAS = "accuracy", "less offset", "accuracy where it was chosen", "UUAS"
BEST_HEAD, BEST_OFFSET = "best head", "best offset"
_SHARE, _DIFFERENCE = (0.0, 1.0), (-1.0, 1.0)


@dataclass(frozen=True)
class Parsed:
    """Votes and trees of one model on the sentences that heads are chosen on, and on those that they are measured on."""

    chosen: Votes
    measured: Votes
    trees_chosen: TreeScores
    trees_measured: TreeScores


@configurable
class SyntaxHeads(ModelsAnalysis):
    """How often the word that a head attends to most is the syntactic head.

    Attention is between words (`word_attention`); self and special tokens are left out. A head votes for the word that the
    dependent attends to most, or for the word that attends to the dependent most (`head_votes`). `syntax_heads` has for each
    relation, with n sentences that hold it,

        accuracy = Σ_sentences [right votes] / Σ_sentences [words of the relation]

    of the best head and direction, and of the best fixed offset (a word's head is the word so many places on). Choosing the
    best of 2 · L · H votes on the words that one reports is selection: both are chosen on the validation split and measured
    on the scored examples; the accuracy where they were chosen stands beside. `all` counts every word, the root and
    punctuation included, as the authors' code does.

    `syntax_head_map` has every head for the most frequent relations, in the direction that is better on the validation
    split.
    `syntax_trees` has the UUAS of maximum spanning trees of A + Aᵀ: the share of annotated edges (undirected, punctuation
    left out) that are in the tree, for the head that is best on the validation split, beside the tree that joins each word
    to the next and the tree of random weights.

    Differs from the authors in one thing: they count a possessor as right where the following 's finds the head (relation
    `poss` of Stanford dependencies); here a word's own vote counts.

    Attributes:
        limit: how many of the scored sentences, drawn by the comparison's seed; None for all.
        validation: sentences that heads and offsets are chosen on.
        trees: how many of either are made into trees, of all lengths alike.
        least: relations of fewer words in the scored sentences are left out.
        offsets: the offsets that are tried, from and to.
        mapped: relations in `syntax_head_map`.
        seed: of the random trees.

    Raises:
        NotApplicable: the examples have no parse, there is no validation split, or the model has two sequences.

    Source: Clark et al. 2019, section 4.2 and table 1; the authors' notebook was read. Their BERT-base on the Penn Treebank,
    chosen and measured on the same sentences: all 34.7 (offset 26.7), det 94.3 (51.7), dobj 86.8 (40.0), pobj 76.3 (34.6),
    nsubj 58.5 (45.5), auxpass 94.1 (82.5). UUAS: Hewitt & Manning 2019b.
    Cost: two forward passes, and a spanning tree for every head of `trees` sentences.
    """

    version: ClassVar[int] = 1

    limit: Count | None = 1000
    validation: Count = 500
    trees: Count = 200
    least: Count = 50
    offsets: tuple[int, int] = (-3, 3)
    mapped: Count = 6
    seed: Natural = 0

    def __call__(self, context: Context) -> Sequence[Table]:
        """Relations, trees, and the map of heads."""
        found = {name: self.parsed(setting) for name, setting in self.looked_at(context).items()}
        return [self._relations(found), _trees(found), self._map(found)]

    def parsed(self, setting: Setting) -> Parsed:
        """Votes and trees of a model."""
        validation = setting.data.calibration("validation", self.validation)
        batches = setting.data.batches
        return Parsed(
            votes_of(setting.model, validation),
            votes_of(setting.model, batches),
            tree_scores(setting.model, of_all_lengths(validation, self.trees), self.seed),
            tree_scores(setting.model, of_all_lengths(batches, self.trees), self.seed),
        )

    def relations_of(self, votes: Votes) -> list[str]:
        """`all`, and the relations of enough words, the most frequent first; the root, which no head can vote for, not."""
        names, counts = np.unique(votes.relation, return_counts=True)
        order = sorted(zip(names.tolist(), counts.tolist(), strict=True), key=lambda item: (-item[1], item[0]))
        return [ALL, *(name for name, count in order if count >= self.least and name != ROOT)]

    def _relations(self, found: Mapping[str, Parsed]) -> Table:
        rows: list[dict[str, Any]] = []
        told = []
        for name, parsed in found.items():
            lost = f"; {parsed.measured.lost} words beyond its window are left out" if parsed.measured.lost else ""
            told.append(
                f"{name}: {parsed.measured.n_sentences} sentences, chosen on {parsed.chosen.n_sentences}{lost}."
            )
            for relation in self.relations_of(parsed.measured):
                rows += self._of_relation(name, relation, parsed)
        return Table(
            name="syntax_heads",
            title="Heads as parsers: accuracy of the best head and of the best fixed offset",
            labels=("model", "relation", "by", "which"),
            rows=pd.DataFrame(rows),
            sentences=(
                "Heads (layer-head) and offsets are chosen on the validation split and measured on the scored sentences; n "
                "counts the sentences that hold the relation, and intervals are over sentences.",
                "The accuracy where it was chosen is that of the validation split: what selection would have claimed.",
                *told,
            ),
            drawing=Drawing("bars", x="relation", y=(_ACCURACY,), series="by", panels=("model",)),
        )

    def _of_relation(self, name: str, relation: str, parsed: Parsed) -> list[dict[str, Any]]:
        place = {"model": name, "relation": relation}
        of_chosen, of_measured = (_is(relation, votes) for votes in (parsed.chosen, parsed.measured))
        if not of_chosen.any():
            none = line(
                place | {"by": BEST_HEAD, "which": ""}, _ACCURACY, note="the validation split has no such relation"
            )
            return [none]
        way, layer, head = best_head(parsed.chosen, of_chosen)
        offset = self._best_offset(parsed.chosen, of_chosen)

        def right(votes: Votes, which: Bool[NDArray[np.bool_], " W"], *, by_head: bool) -> NDArray[np.float64]:
            voted = votes.voted[:, way, layer, head] if by_head else offset_votes(votes, offset)
            return by_sentence(votes, which, voted == votes.head)

        rows = []
        for by, which in ((BEST_HEAD, f"{layer}-{head}, {DIRECTIONS[way]}"), (BEST_OFFSET, f"{offset:+d}")):
            at = place | {"by": by, "which": which}
            values = right(parsed.measured, of_measured, by_head=by == BEST_HEAD)
            rows.append(share_line(at, _ACCURACY, share_of(values)))
            claimed = right(parsed.chosen, of_chosen, by_head=by == BEST_HEAD)
            if by == BEST_HEAD:
                other = right(parsed.measured, of_measured, by_head=False)
                less = np.stack([values[:, 0] - other[:, 0], values[:, 1]], axis=1)
                rows.append(share_line(at, _LESS, statistics.interval(less, statistics.ratio, bounds=_DIFFERENCE)))
            rows.append(share_line(at, _CLAIMED, share_of(claimed)))
        return rows

    def _best_offset(self, votes: Votes, which: Bool[NDArray[np.bool_], " W"]) -> int:
        """The first of the best, those nearest to the word first."""
        tried = sorted((o for o in range(self.offsets[0], self.offsets[1] + 1) if o), key=lambda o: (abs(o), -o))
        return max(tried, key=lambda offset: int((offset_votes(votes, offset) == votes.head)[which].sum()))

    def _map(self, found: Mapping[str, Parsed]) -> Table:
        rows: list[dict[str, Any]] = []
        for name, parsed in found.items():
            for relation in self.relations_of(parsed.measured)[: self.mapped]:
                of_chosen, of_measured = (_is(relation, votes) for votes in (parsed.chosen, parsed.measured))
                if not of_chosen.any():
                    continue
                way = (parsed.chosen.voted == parsed.chosen.head[:, None, None, None])[of_chosen].sum(0).argmax(0)
                for layer, head in np.ndindex(way.shape):
                    voted = parsed.measured.voted[:, way[layer, head], layer, head]
                    values = by_sentence(parsed.measured, of_measured, voted == parsed.measured.head)
                    place = {"model": name, "relation": relation, "layer": layer, "head": head}
                    rows.append(share_line(place, _ACCURACY, share_of(values)))
        return Table(
            name="syntax_head_map",
            title="Accuracy of every head, in the direction that is better on the validation split",
            labels=("model", "relation", "layer", "head"),
            rows=pd.DataFrame(rows),
            drawing=Drawing("heat", x="head", y=("layer",), panels=("model", "relation"), value=_ACCURACY),
            printed=False,
        )


def best_head(votes: Votes, which: Bool[NDArray[np.bool_], " W"]) -> tuple[int, int, int]:
    """Direction, layer and head with the most right votes on these words; the first of equal ones."""
    right = (votes.voted == votes.head[:, None, None, None])[which].sum(0)
    way, layer, head = np.unravel_index(int(right.argmax()), right.shape)
    return int(way), int(layer), int(head)


def by_sentence(
    votes: Votes, which: Bool[NDArray[np.bool_], " W"], right: Bool[NDArray[np.bool_], " W"]
) -> Float[NDArray[np.float64], "S 2"]:
    """Right votes and words of every sentence that has such words."""
    sentences, place = np.unique(votes.sentence[which], return_inverse=True)
    counts = np.bincount(place, minlength=len(sentences))
    return np.stack([np.bincount(place, weights=right[which], minlength=len(sentences)), counts], axis=1)


def share_of(values: Float[NDArray[np.float64], "S 2"]) -> statistics.Interval:
    """Right over all, summed over sentences, with an interval over sentences.

    Where all sentences are wholly right (or wrong) no resample differs: the interval is then that of the share of sentences
    that are (a score interval), which is wider than one over words would be.
    """
    found = statistics.interval(values, statistics.ratio, bounds=_SHARE)
    whole = values[:, 0] / values[:, 1]
    if len(whole) > 1 and np.isnan(found.low) and (np.all(whole == 0) or np.all(whole == 1)):
        return statistics.interval(whole, bounds=_SHARE)
    return found


def share_line(
    labels: Mapping[str, Any], metric: str, figure: statistics.Interval, bounds: statistics.Range | None = None
) -> dict[str, Any]:
    """The figure as a line, which says so where there is no interval."""
    lacks = figure.n and np.isfinite(figure.value) and np.isnan(figure.low)
    return figure_line(labels, metric, figure, "no interval: too few sentences differ" if lacks else "", bounds)


def of_all_lengths(batches: Sequence[Batch], count: int) -> list[Batch]:
    """As many examples, evenly spaced among those of some batches, which are in the order of their lengths."""
    sizes = [len(batch) for batch in batches]
    chosen = set(np.linspace(0, sum(sizes) - 1, min(count, sum(sizes))).round().astype(int).tolist())
    starts = np.cumsum([0, *sizes])
    parts = [
        batch.select([row for row in range(len(batch)) if start + row in chosen])
        for start, batch in zip(starts.tolist(), batches, strict=False)
    ]
    return [part for part in parts if len(part)]


def _is(relation: str, votes: Votes) -> Bool[NDArray[np.bool_], " W"]:
    return np.ones(len(votes.head), dtype=bool) if relation == ALL else votes.relation == relation


def _trees(found: Mapping[str, Parsed]) -> Table:
    rows: list[dict[str, Any]] = []
    for name, parsed in found.items():
        chosen, measured = parsed.trees_chosen, parsed.trees_measured
        if not len(chosen.gold) or not len(measured.gold):
            raise NotApplicable("no sentence has two words beside punctuation")
        shares = chosen.heads.sum(0) / chosen.gold.sum()
        layer, head = np.unravel_index(int(shares.argmax()), shares.shape)
        trees = {
            f"best head, {layer}-{head}": measured.heads[:, layer, head],
            "mean of the heads": measured.heads.mean((1, 2)),
            "each word to the next": measured.chain,
            "random weights": measured.random,
        }
        for tree, shared in trees.items():
            values = np.stack([shared, measured.gold], axis=1)
            rows.append(share_line({"model": name, "tree": tree}, _UUAS, share_of(values)))
    return Table(
        name="syntax_trees",
        title="Undirected trees: share of annotated edges in the maximum spanning tree of a head's attention",
        labels=("model", "tree"),
        rows=pd.DataFrame(rows),
        sentences=(
            "The best head is chosen on the validation split. Punctuation is left out; intervals are over sentences.",
        ),
        drawing=Drawing("bars", x="tree", y=(_UUAS,), panels=("model",)),
    )
