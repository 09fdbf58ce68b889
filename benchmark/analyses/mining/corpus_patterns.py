"""Which word pairs do explanations put first again and again? (docs/protocols.md, section 17)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from benchmark.analyses.base import Analysis
from benchmark.analyses.context import Context
from benchmark.analyses.means import SHARE, mean_line
from benchmark.analyses.measured import figure_line
from benchmark.analyses.mining.word_pairs import Marked, Mined, Pattern, marked_texts, mine, plain
from benchmark.annotations import KnowsShortcuts
from benchmark.errors import NotApplicable
from benchmark.results.statistics import ALPHA, Interval, holm, interval
from benchmark.results.tables import P_KEY, PROBABILITY, Drawing, Table, line
from benchmark.run.arrays import padded
from benchmark.run.cell import Cell
from benchmark.settings.declared import Count, configurable
from benchmark.targets import Target, TargetName
from benchmark.types import Attribution, Batch, Method

FIRST, CHANCE, LIFT, LABEL, P = "put first", "by chance", "lift", "texts with this label", "p, Holm"
RECALL, PRECISION, REST = "planted phrases found", "found pairs that are planted", "found pairs"
_NO_PAIRS = "no pair of words stands in enough texts"


@dataclass(frozen=True)
class Judged:
    """A mined pattern, its p-value among all of the explainer's, and the labels of the texts that hold it."""

    mined: Mined
    p: float
    labelled: Interval
    suspicious: bool


@configurable
class CorpusPatterns(Analysis):
    """Word pairs that recur among an explainer's best, by explained class, with lift over chance and corrected tests.

    An explainer with edges scores a pair by both edges between its words, the others by the sum of its words' scores
    (`word_pairs`). Of every text the `best` pairs are taken, without words of a query. A pattern, two words in any order
    and place, is tested in each class in whose texts it stands at least `least` times, whatever its scores: the number of
    texts in which it is among the best against a sum of independent draws with the probability that random pairs would
    have in each of them (Poisson's binomial); Holm-corrected over all patterns and classes of the explainer. Draws are
    independent where no two texts share a passage; `task=distinct_passages` sees to that.

    `corpus_patterns` lists the most significant ones: in what share of the texts that hold the pattern it is put first, what
    chance has, and how many of these texts have the class as their label. A model whose explanations put a pattern first
    that nearly always goes with a label may rely on it, and a person can say whether it should.

    Where the task knows what was planted (`task.shortcuts` of the planted reviews), `corpus_patterns_found` says of every
    explainer how many of the planted phrases it finds; and of the pairs that it finds, that go with their class (the
    interval of the share of labels lies above the class's share of all texts) and that hold no word which rationales mark,
    how many hold a word of a phrase that is planted for the class.

    Attributes:
        best: pairs of each text.
        least: texts of a class that hold a pattern.
        shown: patterns of each class and explainer in the table.
        target: the class that is explained.
        limit: how many of the scored texts; None for all.

    Raises:
        NotApplicable: the examples are no texts.

    Source: Hao et al. 2021, who read triggers off single examples; the tests over a corpus are this project's.
    Cost: the edge scores of every explainer that has some, and the token scores of others; those of the predicted class are
    read from the comparison.
    """

    version: ClassVar[int] = 2

    best: Count = 3
    least: Count = 5
    shown: Count = 10
    target: TargetName = "predicted"
    limit: Count | None = 400

    def __call__(self, context: Context) -> Sequence[Table]:
        """Patterns, and where it is known what was found of the planted ones."""
        texts = list(context.first_examples(self.limit, self.target))
        if not any(any(words) for batch, _ in texts for words in batch.words):
            raise NotApplicable("the examples are no texts")
        labels = {uid: label for batch, _ in texts for uid, label in zip(batch.uids, batch.label.tolist(), strict=True)}
        names = context.setting.model.labels
        rows: list[dict[str, Any]] = []
        found: list[dict[str, Any]] = []
        task, sensible = context.setting.task, rationale_words(texts)
        for name, cell in context.cells.items():
            if not isinstance(cell.method, Method):
                continue
            try:
                if cell.refusal is not None:
                    raise NotApplicable(cell.refusal)
                stored = self._stored(cell, context, texts) if self._is_explained(cell.method) else None
                keeping = self.keeping(context)
                examples = marked_texts(cell.method, context.setting, texts, self.best, keeping, name, stored)
            except NotApplicable as reason:
                rows.append(line({"explainer": name, "class": "", "pattern": ""}, FIRST, note=str(reason)))
                continue
            judged = judge(examples, self.best, self.least, labels)
            rows += self._lines(name, judged, names)
            if isinstance(task, KnowsShortcuts) and task.planted_shortcuts:
                found += found_lines(name, judged, task.planted_shortcuts, names, sensible)
        tables = [self._patterns(rows, len(labels)), *([_found(found)] if found else [])]
        self.forget(context)
        return tables

    def _is_explained(self, method: Method) -> bool:
        """Whether the comparison has what is asked of a method: scores of words for the predicted class."""
        return self.target == "predicted" and not method.scores_edges

    def _stored(self, cell: Cell, context: Context, texts: Sequence[tuple[Batch, Target]]) -> list[Attribution]:
        """What the cell has of the texts."""
        explained, data = cell.explain(self.target), context.setting.data
        return [padded(explained, data.start(index), batch) for index, (batch, _) in enumerate(texts)]

    def _lines(self, explainer: str, judged: Sequence[Judged], names: Sequence[str]) -> Iterator[dict[str, Any]]:
        significant = [one for one in judged if one.p < ALPHA]
        for label, name in enumerate(names):
            of_class = [one for one in significant if one.mined.label == label]
            if not of_class:
                note = "none is put first more often than by chance" if judged else _NO_PAIRS
                yield line({"explainer": explainer, "class": name, "pattern": ""}, FIRST, note=note)
            for one in sorted(of_class, key=lambda one: (one.p, -one.mined.lift, one.mined.pattern))[: self.shown]:
                place = {"explainer": explainer, "class": name, "pattern": " ".join(one.mined.pattern)}
                n = len(one.mined.first)
                yield mean_line(place, FIRST, one.mined.first.astype(float), SHARE, "")
                yield line(
                    place,
                    CHANCE,
                    float(one.mined.chance.mean()),
                    n=n,
                    note="no interval: exact for these texts",
                    bounds=SHARE,
                )
                yield line(place, LIFT, one.mined.lift, n=n, note="no interval: tested beside", bounds=(0.0, np.inf))
                yield figure_line(place, LABEL, one.labelled)
                yield line(place, P, one.p, n=n, note=PROBABILITY, key=P_KEY)

    def _patterns(self, rows: list[dict[str, Any]], n: int) -> Table:
        return Table(
            name="corpus_patterns",
            title="Word pairs that explanations put first",
            labels=("explainer", "class", "pattern"),
            rows=pd.DataFrame(rows),
            sentences=(
                f"Of {n} texts. Put first: the share of the texts with this explained class that hold both words in which "
                f"they are among the {self.best} best pairs; n counts these. By chance: of as many random pairs.",
                f"Significant pairs (Holm over all pairs in at least {self.least} texts of a class), at most {self.shown} "
                "of a class. Texts with this label: whether the class is also the annotated one of the texts that hold both "
                "words, whatever is predicted.",
            ),
        )


def judge(examples: Sequence[Marked], best: int, least: int, labels: Mapping[str, int]) -> list[Judged]:
    """All patterns with their corrected p-values; suspicious is one that is significant and goes with its class.

    Args:
        examples: what an explainer puts first.
        best, least: as of `mine`.
        labels: annotated class of each example.
    """
    mined = mine(examples, best, least)
    adjusted = holm({(one.label, *one.pattern): one.p for one in mined})
    annotated = np.array([labels[example.uid] for example in examples])
    held = _texts_of(examples, {one.pattern for one in mined if adjusted[one.label, *one.pattern] < ALPHA})
    found = []
    for one in mined:
        p = adjusted[one.label, *one.pattern]
        labelled = Interval(float("nan"), float("nan"), float("nan"), 0)
        if p < ALPHA:
            labelled = interval((annotated[held[one.pattern]] == one.label).astype(float), bounds=SHARE)
        goes_with = bool(labelled.low > (annotated == one.label).mean())
        found.append(Judged(one, p, labelled, p < ALPHA and goes_with))
    return found


def _texts_of(examples: Sequence[Marked], patterns: set[Pattern]) -> dict[Pattern, list[int]]:
    """The texts that hold each of the patterns, whatever class is explained."""
    found: dict[Pattern, list[int]] = {pattern: [] for pattern in patterns}
    for number, example in enumerate(examples):
        for pattern in patterns & example.occurrences.keys():
            found[pattern].append(number)
    return found


def found_lines(
    explainer: str,
    judged: Sequence[Judged],
    planted: Mapping[str, str],
    names: Sequence[str],
    sensible: frozenset[str],
) -> Iterator[dict[str, Any]]:
    """Recall of the planted phrases and precision of the suspicious pairs.

    Args:
        planted: phrases, each with the label that it goes with.
        names: of the classes.
        sensible: words that rationales mark, by which a model should go; pairs with such a word are left aside.
    """
    place = {"explainer": explainer}
    significant = {(one.mined.pattern, names[one.mined.label]) for one in judged if one.p < ALPHA}
    phrases = {(_as_pattern(phrase), label) for phrase, label in planted.items()}
    recalled = np.array([float(phrase in significant) for phrase in sorted(phrases)])
    words = {label: {word for pattern, other in phrases if other == label for word in pattern} for label in names}
    strange = [one.mined for one in judged if one.suspicious and sensible.isdisjoint(one.mined.pattern)]
    right = np.array([float(bool(words[names[one.label]].intersection(one.pattern))) for one in strange])
    yield mean_line(place, RECALL, recalled, SHARE, "")
    yield mean_line(place, PRECISION, right, SHARE, "none is found")
    yield line(place, REST, float(len(strange)), note="a count", bounds=(0.0, np.inf))


def _as_pattern(phrase: str) -> Pattern:
    first, second = sorted(map(plain, phrase.split()))
    return first, second


def rationale_words(texts: Sequence[Any]) -> frozenset[str]:
    """Words that any rationale marks."""
    found = set()
    for batch, _ in texts:
        for words, rationale in zip(batch.words, batch.rationale, strict=True):
            if rationale is not None:
                found |= {plain(word) for word, is_marked in zip(words, rationale, strict=True) if is_marked}
    return frozenset(found)


def _found(rows: list[dict[str, Any]]) -> Table:
    return Table(
        name="corpus_patterns_found",
        title="Planted phrases among the word pairs that explanations put first",
        labels=("explainer",),
        rows=pd.DataFrame(rows),
        sentences=(
            "Found phrases: n counts the planted ones. Found pairs: significant, going with their class, and without a word "
            "that rationales mark; planted is one that holds a word of a phrase for its class.",
        ),
        drawing=Drawing("bars", x="explainer", y=(RECALL, PRECISION), alike=((RECALL, PRECISION),)),
    )
