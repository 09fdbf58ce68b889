"""What a test is asked for one batch, as values, so that another process can be told to ask it."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import pandas as pd

from benchmark.models import Classifier
from benchmark.models.guard import Look, is_ours, watched
from benchmark.results.rows import NO_ROWS
from benchmark.run.arrays import selected
from benchmark.run.offers import PreparedEvaluation
from benchmark.types import Attribution, Batch, Compared, Evaluation


@dataclass(frozen=True)
class Rows:
    """The rows of a test.

    Attributes:
        evaluation: the test.
    """

    evaluation: Evaluation

    def __call__(self, model: Classifier, batch: Batch, attribution: Attribution) -> pd.DataFrame:
        """The rows of a batch with the number of the draw (0 where nothing is drawn); they are of its examples alone."""
        rows = self.evaluation.rows(model, batch, attribution)
        rows = rows if "draw" in rows else rows.assign(draw=0)
        if strange := set(rows["uid"]) - set(batch.uids):
            raise ValueError(f"rows of {min(strange)!r}, which is not among the examples that were given")
        return rows.astype({"draw": "int64"})


@dataclass(frozen=True)
class RowsOfOthers:
    """The rows of a test for some examples of each batch, where those of the others are known.

    Attributes:
        evaluation: the test.
    """

    evaluation: Evaluation

    def __call__(
        self, model: Classifier, batch: Batch, attribution: Attribution, others: Sequence[int]
    ) -> pd.DataFrame:
        """The rows of the examples of a batch with the numbers `others`."""
        if not others:
            return NO_ROWS.drop(columns="evaluation")
        return Rows(self.evaluation)(model, batch.select(others), selected(attribution, others))


@dataclass(frozen=True)
class RowsApart:
    """The same rows where those of no example are known: to the last bit those that `RowsOfOthers` and a twin give.

    What is computed together changes last digits. So the others are tested by themselves here too, and what the whole batch
    says of them is left out.

    Attributes:
        evaluation: the test.
    """

    evaluation: Evaluation

    def __call__(
        self, model: Classifier, batch: Batch, attribution: Attribution, others: Sequence[int]
    ) -> pd.DataFrame:
        """The rows of a batch, of which the examples with the numbers `others` would not be known."""
        apart = RowsOfOthers(self.evaluation)(model, batch, attribution, others)
        if len(others) == len(batch):
            return apart
        together = Rows(self.evaluation)(model, batch, attribution)
        uids = {batch.uids[number] for number in others}
        return pd.concat([together[~together["uid"].isin(uids)], *([apart] if uids else [])], ignore_index=True)


@dataclass(frozen=True)
class Extract:
    """What a test takes from a method and from examples that are not scored.

    Attributes:
        evaluation: the test.
        method: what is compared.
        name: of what is compared.
    """

    evaluation: PreparedEvaluation
    method: Compared
    name: str

    def __call__(self, model: Classifier, batch: Batch, batches: Sequence[Batch]) -> Mapping[str, Any]:
        """What it takes from all of `batches`, whose first is `batch`."""
        before, who = Look(model), f"methods.{self.name}"
        with nullcontext() if is_ours(self.method) else watched(who, model, batches):
            found = self.evaluation.extract(model, self.method, batches)
        before.check(who)
        return found
