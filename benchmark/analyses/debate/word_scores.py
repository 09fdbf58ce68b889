"""The word scores of every method of a comparison, and of reference methods, example by example."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from benchmark.analyses.context import Context
from benchmark.errors import NotApplicable
from benchmark.evaluations.base import Column, rated_scores, token_scores
from benchmark.results.store import Ragged
from benchmark.run.arrays import padded
from benchmark.run.cell import Cell
from benchmark.targets import TargetName
from benchmark.types import Method
from benchmark.units import Pool


@dataclass(frozen=True)
class WordScores:
    """What is known of one example.

    Attributes:
        uid: of the example.
        predicted: index of the predicted class.
        scores: by method, one number for each word that is rated.
    """

    uid: str
    predicted: int
    scores: Mapping[str, Column]


def explained(cells: Mapping[str, Cell], which: TargetName) -> dict[str, Ragged]:
    """The stored attributions of the methods that score tokens."""
    stored = {}
    for name, cell in cells.items():
        try:
            attributions = cell.explain(which)
        except NotApplicable:
            continue
        if "tokens" in attributions.arrays:
            stored[name] = attributions
    return stored


def word_scores(
    context: Context, references: Mapping[str, Method], which: TargetName, pool: Pool, limit: int | None
) -> Iterator[WordScores]:
    """Scores of the first `limit` examples (None: all), by the methods of the comparison and then by the references.

    A method that is a reference too, under another name, is in both.
    """
    stored = explained(context.cells, which)
    model, data = context.setting.model, context.setting.data
    for index, (batch, target) in enumerate(context.first_examples(limit, which)):
        columns = {}
        for name, attributions in stored.items():
            tokens = padded(attributions, data.start(index), data.batches[index]).tokens
            if tokens is not None:
                columns[name] = rated_scores(batch, tokens[: len(batch)], pool)
        for name, method in references.items():
            columns[name] = rated_scores(batch, token_scores(batch, method(model, batch, target)), pool)
        predicted = data.logits(index).argmax(-1).tolist()
        for b, uid in enumerate(batch.uids):
            yield WordScores(uid, predicted[b], {name: column[b] for name, column in columns.items()})
