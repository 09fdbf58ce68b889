"""Read triggers off edge scores as the published script does (Hao 2021, `run_adver_connection.py`).

Defined in docs/protocols.md, section 12.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from benchmark.errors import NotApplicable
from benchmark.evaluations.triggers.extraction import Pattern
from benchmark.evaluations.triggers.insertion import layout, segments
from benchmark.evaluations.triggers.patterns import Placed, Trigger
from benchmark.evaluations.triggers.words import Exclusion, eligible_tokens, require_words
from benchmark.models import Classifier
from benchmark.types import Batch, Compared, Method, Target


@dataclass(frozen=True)
class ScriptRule:
    """How the published script reads a pattern off one example: off the head with the largest cell of all.

    Attributes:
        triggers: patterns kept for each explained class; the script keeps all.
        cells: of that head that are summed and inserted.
        cell_share: a further cell below this share of the best one is summed, but its tokens are not inserted.
        score: `sum` of the cells, or `mean`, the sum divided by how many tokens the cells have.
        least_score: patterns whose cells sum to less are left out.
        least_tokens: examples with fewer tokens, special ones included, are left out.
        skip_special: cells of [CLS] and [SEP] do not count.
        exclusion: cells of these words do not count.
        target: the class that is explained.
    """

    triggers: int = 3
    cells: int = 2
    cell_share: float | int = 0.2
    score: str = "sum"
    least_score: float | int = 0.02
    least_tokens: int = 0
    skip_special: bool = False
    exclusion: Exclusion = field(default_factory=lambda: Exclusion(punctuation=False))
    target: Target = "predicted"


def extract_as_script(
    model: Classifier, method: Compared, batches: Sequence[Batch], *rules: ScriptRule
) -> list[list[Trigger]]:
    """For each rule the best triggers of each explained class, in one ranking; every class is attacked.

    The examples are explained once for all rules. These may differ in `cells`, `score` and the like, but not in `target` and
    `least_tokens`. Whether the model classifies them correctly does not matter. Patterns with the same words are all kept.

    Raises:
        NotApplicable: the examples hold no words, the method scores no edges, or no pattern is good enough for the
            first rule. (Where none is good enough for another rule, that rule has no trigger.)
    """
    for batch in batches:
        require_words(model, batch)
    if not (isinstance(method, Method) and method.scores_edges):
        raise NotApplicable(
            "the method scores no edges, which construction=script reads; construction=paper takes tokens as well"
        )
    patterns_of_rules: list[list[Pattern]] = [[] for _ in rules]
    usable_batches = [_usable(batch, rules[0]) for batch in batches]
    for batch in [batch for batch in usable_batches if len(batch)]:
        for part, _ in model.parts(batch):
            target = part.label if rules[0].target == "label" else model.predict(part)
            edges = method.edge_scores(model, part, target)
            for patterns, rule in zip(patterns_of_rules, rules, strict=True):
                patterns += patterns_of_cells(model, part, edges, target, rule)
    if not patterns_of_rules[0]:
        raise NotApplicable(
            f"no trigger: no source example with {rules[0].least_tokens} tokens or more has cells that sum to "
            f"{rules[0].least_score}; raise calibration.limit or lower least_score"
        )
    return [_best(model, patterns, rule) for patterns, rule in zip(patterns_of_rules, rules, strict=True)]


def _usable(batch: Batch, rule: ScriptRule) -> Batch:
    """Examples with `least_tokens` tokens, and with a label where it is explained."""
    usable = batch.attention_mask.sum(1) >= rule.least_tokens
    if rule.target == "label":
        usable &= batch.label >= 0
    return batch.select(usable.nonzero().flatten().tolist())


def _best(model: Classifier, patterns: Sequence[Pattern], rule: ScriptRule) -> list[Trigger]:
    """The best patterns of each class in one ranking; equal ones in the order of the examples."""
    counts: Counter[int] = Counter()
    triggers = []
    for pattern in sorted(patterns, key=lambda pattern: -pattern.score):
        if counts[pattern.label] < rule.triggers:
            counts[pattern.label] += 1
            triggers.append(pattern.trigger(model.labels, range(len(model.labels))))
    return triggers


def patterns_of_cells(
    model: Classifier, batch: Batch, edges: Float[Tensor, "B L H T T"], target: Int[Tensor, "B"], rule: ScriptRule
) -> list[Pattern]:
    """The word pieces of the best cells of each example's best head, the head with `max_{l,h} max_{i,j} E[l,h,i,j]`.

    Of equal heads the first counts, of equal cells the last (the script leaves these to an unstable sort). [CLS] and [SEP]
    are dropped from the chosen cells. A pattern of these alone has no piece left: it inserts nothing and costs nothing, as
    in the script. A piece is the k-th of the n tokens of its segment, counted from 1, and stands at r = k / n.
    """
    segment_of = segments(model, batch.tensors, batch.units)
    where = layout(segment_of)
    relative = (where.rank + 1).double() / where.length.gather(1, segment_of.clamp(min=0)).clamp(min=1)
    allowed = _allowed(model, batch, segment_of, rule)
    patterns = []
    for b, uid in enumerate(batch.uids):
        n = int(batch.attention_mask[b].sum())
        pair = allowed[b, :n, None] & allowed[b, None, :n]
        cells = edges[b, :, :, :n, :n].detach().flatten(0, 1).masked_fill(~pair, -torch.inf)
        chosen = _chosen(cells.double().cpu().numpy(), rule)
        if chosen is None:
            continue
        inserted = [t for t in chosen[0] if segment_of[b, t] >= 0]
        names = model.tokenizer.convert_ids_to_tokens(batch.tensors["input_ids"][b, inserted].tolist())
        words = tuple(
            Placed(name, int(segment_of[b, t]), float(relative[b, t])) for name, t in zip(names, inserted, strict=True)
        )
        patterns.append(Pattern(words, chosen[1], uid, int(target[b])))
    return patterns


def _allowed(model: Classifier, batch: Batch, segment_of: Int[Tensor, "B T"], rule: ScriptRule) -> Bool[Tensor, "B T"]:
    """Tokens whose cells count."""
    eligible = eligible_tokens(model, batch, rule.exclusion) | (batch.units < 0)
    return batch.attention_mask & eligible & ~((segment_of < 0) & rule.skip_special)


def _chosen(cells: NDArray[np.float64], rule: ScriptRule) -> tuple[list[int], float] | None:
    """Tokens of the best head's best cells that are inserted, in the order of the text, and the score of these cells."""
    ranked = np.where(np.isnan(cells), -np.inf, cells)
    flat = ranked[np.argmax(ranked.max((1, 2)))].ravel()
    order = np.argsort(flat, kind="stable")[::-1][: rule.cells]
    order = order[np.isfinite(flat[order])]
    best = flat[order]
    if not len(order) or best[0] <= 0 or best.sum() < rule.least_score:
        return None
    tokens = np.stack(np.divmod(order, cells.shape[1]), axis=1)
    score = best.sum() / (len(np.unique(tokens)) if rule.score == "mean" else 1)
    return np.unique(tokens[best / best[0] >= rule.cell_share]).tolist(), float(score)
