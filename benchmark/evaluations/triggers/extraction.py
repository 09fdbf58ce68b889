"""Read triggers off edge or token scores of correctly classified examples (Hao 2021, "Adversarial Attack")."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from benchmark.errors import NotApplicable
from benchmark.evaluations.triggers.insertion import relative_positions, segments
from benchmark.evaluations.triggers.patterns import Placed, Search, Trigger, TriggerSearch
from benchmark.evaluations.triggers.words import Exclusion, eligible_tokens, require_words
from benchmark.models import Classifier
from benchmark.randomness import generator
from benchmark.targets import ClassTarget
from benchmark.types import Batch, Compared, Method

Chosen = tuple[list[int], float]
"""Units of a pattern, and its score."""


@dataclass(frozen=True)
class PaperRule:
    """How patterns are read off scores.

    Attributes:
        triggers: patterns kept for each class.
        pairs: cells of the best head that make a pattern.
        tau: take all cells above tau × the largest one in place of `pairs` cells; None for `pairs`.
        max_words: of a pattern.
        min_words: shorter texts give no pattern.
        least_tokens: nor do texts with fewer tokens, special ones included.
        score: of a pattern, the `sum` over its pairs (or tokens), or the `mean`: the sum divided by its number of words.
        exclusion: words that no pattern may hold.
        seed: of the order of tied cells.
    """

    triggers: int = 3
    pairs: int = 2
    tau: float | int | None = None
    max_words: int = 5
    min_words: int = 5
    least_tokens: int = 0
    score: str = "sum"
    exclusion: Exclusion = field(default_factory=Exclusion)
    seed: int = 0

    @property
    def n_words(self) -> int:
        """Words of a pattern that is no union of pairs: as many as the pairs have at most."""
        return min(self.max_words, 2 * self.pairs)


def extract(model: Classifier, method: Compared, batches: Sequence[Batch], *rules: PaperRule) -> list[list[Trigger]]:
    """For each rule the best triggers of each class that occurs in labelled source examples.

    The examples are explained once for all rules. These may differ in `pairs`, `tau` and the like, but not in how long a
    text has to be.

    A trigger comes from examples of its source class that the model classifies correctly, explained for that class, and
    attacks every other class. Methods with `edge_scores` are read by their best head's pairs, the others by their best
    tokens. A `TriggerSearch` searches itself, and gives the triggers of the first rule only.

    Raises:
        NotApplicable: the examples hold no words, or fewer than two classes, or a class has no usable example.
    """
    for batch in batches:
        require_words(model, batch)
    rule = rules[0]
    usable_batches = [_usable(model, batch, rule) for batch in batches]
    present = sorted({label for batch in batches for label in batch.label.tolist() if label >= 0})
    _require_usable(model, usable_batches, present, sum(map(len, batches)), rule)
    if isinstance(method, TriggerSearch):
        search = Search(triggers=rule.triggers, words=rule.n_words, exclusion=rule.exclusion)
        return [method.search_triggers(model, [batch for batch in usable_batches if len(batch)], search)]
    patterns_of_rules: list[list[Pattern]] = [[] for _ in rules]
    for batch in usable_batches:
        for patterns, of_batch in zip(patterns_of_rules, _patterns(model, method, batch, rules), strict=True):
            patterns += of_batch
    return [_best(model, patterns, present, rule) for patterns, rule in zip(patterns_of_rules, rules, strict=True)]


def _best(model: Classifier, patterns: Sequence["Pattern"], present: Sequence[int], rule: PaperRule) -> list[Trigger]:
    """The best patterns of each class; they attack every other one."""
    return [
        pattern.trigger(model.labels, [other for other in present if other != label])
        for label in present
        for pattern in _ranked([p for p in patterns if p.label == label], rule.triggers, model.labels[label])
    ]


@dataclass(frozen=True)
class Pattern:
    """Words of one example, with their score and the class that is explained."""

    words: tuple[Placed, ...]
    score: float
    uid: str
    label: int

    def trigger(self, labels: Sequence[str], attacked: Iterable[int]) -> Trigger:
        """A trigger of these words that attacks these classes."""
        attacks = tuple(labels[label] for label in attacked)
        return Trigger(self.words, labels[self.label], attacks, self.score, self.uid)


def _usable(model: Classifier, batch: Batch, rule: PaperRule) -> Batch:
    """Labelled examples that are classified correctly and long enough."""
    correct = torch.cat([model.predict(part) == part.label for part, _ in model.parts(batch, layers=1)])
    long = batch.seen_units >= rule.min_words
    long &= batch.attention_mask.sum(1) >= rule.least_tokens
    return batch.select((correct & long & (batch.label >= 0)).nonzero().flatten().tolist())


def _require_usable(
    model: Classifier, usable: Sequence[Batch], labels: Sequence[int], total: int, rule: PaperRule
) -> None:
    advice = "raise calibration.limit or take another calibration.split"
    if len(labels) < 2:
        names = ", ".join(model.labels[label] for label in labels) or "no label"
        raise NotApplicable(
            f"triggers need source examples of two classes; the {total} examples have {names}; {advice}"
        )
    usable_labels = {label for batch in usable for label in batch.label.tolist()}
    if missing := [model.labels[label] for label in labels if label not in usable_labels]:
        length = f"{rule.min_words} words" + (f" and {rule.least_tokens} tokens" if rule.least_tokens else "")
        raise NotApplicable(
            f"no trigger for class {missing[0]}: none of its examples among the {total} of the source split is "
            f"classified correctly and has {length}; {advice}"
        )


def _patterns(model: Classifier, method: Any, batch: Batch, rules: Sequence[PaperRule]) -> list[list[Pattern]]:
    """Patterns of the examples of a batch by each rule, in chunks where edges are scored."""
    patterns_of_rules: list[list[Pattern]] = [[] for _ in rules]
    if not len(batch):
        return patterns_of_rules
    if not (isinstance(method, Method) and method.scores_edges):
        tokens = method(model, batch, batch.label).tokens
        if tokens is None:
            raise NotApplicable("the method scores neither edges nor tokens, so no trigger can be read off it")
        return [patterns_of_tokens(model, batch, tokens.to(batch.units.device), rule) for rule in rules]
    for part, _ in model.parts(batch):
        edges = method.edge_scores(model, part, ClassTarget(part.label))
        for patterns, rule in zip(patterns_of_rules, rules, strict=True):
            patterns += patterns_of_edges(model, part, edges, rule)
    return patterns_of_rules


def patterns_of_edges(
    model: Classifier, batch: Batch, edges: Float[Tensor, "B L H T T"], rule: PaperRule
) -> list[Pattern]:
    """The best pairs of words of each example's best head: the head with `max_{l,h} max_{i,j} E[l,h,i,j]` (Hao 2021).

    Only cells between tokens of two different, eligible words count, for the choice of the head as well. The score of a pair
    of words is the largest of its cells, in either direction; that of the pattern is the sum over its pairs, or that divided
    by its number of words. The paper leaves open what is done with word pieces and with the two directions of a pair. Here
    whole words are inserted, so the
    two best pairs are two pairs of words.
    """
    eligible = eligible_tokens(model, batch, rule.exclusion)
    units = batch.units
    pair = eligible[:, :, None] & eligible[:, None, :] & (units[:, :, None] != units[:, None, :])
    cells = edges.detach().flatten(1, 2).masked_fill(~pair[:, None], -torch.inf)
    best = cells.amax((2, 3)).argmax(1)
    head = cells[torch.arange(len(batch), device=units.device), best]
    n_units = int(units.max()) + 1
    low, high = torch.minimum(units[:, :, None], units[:, None, :]), torch.maximum(units[:, :, None], units[:, None, :])
    index = torch.where(pair, low * n_units + high, 0).flatten(1)
    pooled = head.new_full((len(batch), n_units * n_units), -torch.inf)
    pooled = pooled.scatter_reduce(1, index, head.flatten(1), reduce="amax").view(-1, n_units, n_units)
    scores = pooled.double().cpu().numpy()

    def choose(b: int, n: int) -> Chosen | None:
        first, second = np.triu_indices(n, k=1)
        values = scores[b][first, second]
        order = _order(values, batch.uids[b], rule)
        return _union([([int(first[k]), int(second[k])], float(values[k])) for k in order], rule)

    return _patterns_of_words(model, batch, choose, rule)


def patterns_of_tokens(model: Classifier, batch: Batch, tokens: Float[Tensor, "B T"], rule: PaperRule) -> list[Pattern]:
    """The best words of each example, as many as the pairs of an edge method have: 2 · `pairs`, or those above tau.

    The score of a word is the largest of its tokens, that of the pattern the sum over its words, or their mean.
    """
    eligible = eligible_tokens(model, batch, rule.exclusion)
    n_units = int(batch.units.max()) + 1
    pooled = tokens.new_full((len(batch), n_units), -torch.inf)
    eligible_scores = tokens.detach().masked_fill(~eligible, -torch.inf)
    scores = pooled.scatter_reduce(1, batch.units.clamp(min=0), eligible_scores, reduce="amax").double().cpu().numpy()

    def choose(b: int, n: int) -> Chosen | None:
        order = _order(scores[b][:n], batch.uids[b], rule)
        if rule.tau is None:
            order = order[: rule.n_words]
        return _union([([int(k)], float(scores[b][k])) for k in order], rule)

    return _patterns_of_words(model, batch, choose, rule)


def _order(scores: NDArray[np.float64], uid: str, rule: PaperRule) -> NDArray[np.intp]:
    """Finite scores from high to low; ties in an order that the example and the seed alone decide."""
    keys = generator(rule.seed, "triggers", uid).random(len(scores))
    order: NDArray[np.intp] = np.lexsort((keys, -scores))
    return order[np.isfinite(scores[order])]


def _union(ranked: Sequence[Chosen], rule: PaperRule) -> Chosen | None:
    """The words of the first groups: the first `pairs` pairs, all single words, or those above tau; at most `max_words`."""
    if not ranked:
        return None
    best = ranked[0][1]
    units: list[int] = []
    total = 0.0
    for rank, (group, score) in enumerate(ranked):
        good = score > rule.tau * best if rule.tau is not None else len(group) == 1 or rank < rule.pairs
        added = [unit for unit in group if unit not in units]
        if not (good or rank == 0) or len(units) + len(added) > rule.max_words:
            break
        units += added
        total += score
    return (sorted(units), total / len(units) if rule.score == "mean" else total) if units else None


def _patterns_of_words(
    model: Classifier, batch: Batch, choose: Callable[[int, int], Chosen | None], rule: PaperRule
) -> list[Pattern]:
    """Give the chosen words of each example their segments and relative positions."""
    segment_of: Int[Tensor, "B T"] = segments(model, batch.tensors, batch.units).cpu()
    relative = relative_positions(segment_of)
    patterns = []
    for b, uid in enumerate(batch.uids):
        row = batch.units[b].tolist()
        first_token = {unit: t for t, unit in reversed(list(enumerate(row))) if unit >= 0}
        chosen = choose(b, max(row) + 1)
        if chosen is None:
            continue
        places = [(unit, first_token[unit]) for unit in chosen[0]]
        words = tuple(
            Placed(rule.exclusion.surface(batch.words[b][unit]), int(segment_of[b, t]), float(relative[b, t]))
            for unit, t in places
        )
        patterns.append(Pattern(words, chosen[1], uid, int(batch.label[b])))
    return patterns


def _ranked(patterns: Sequence[Pattern], count: int, name: str) -> list[Pattern]:
    """The best patterns of a class, each set of words once."""
    best: dict[frozenset[str], Pattern] = {}
    for pattern in sorted(patterns, key=lambda p: (-p.score, p.uid)):
        best.setdefault(frozenset(word.word.casefold() for word in pattern.words), pattern)
    if not best:
        raise NotApplicable(f"no trigger for class {name}: its usable examples have no two words that may be used")
    return list(best.values())[:count]
