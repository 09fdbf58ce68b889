"""Tests asked again about explanations that no method of the comparison gave."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from benchmark.analyses.context import Context
from benchmark.analyses.resumed import explained_of
from benchmark.analyses.trust.columns import Column
from benchmark.errors import NotApplicable
from benchmark.evaluations.base import rated_units
from benchmark.run.workbench import Setting
from benchmark.targets import Target
from benchmark.types import Attribution, Batch, Evaluation
from benchmark.units import Pool, pool

Figures = Mapping[str, Float[NDArray[np.float64], " B"]]
"""By a column's key its figure of each example, turned so that more is better; NaN where there is none."""


@dataclass(frozen=True)
class Again:
    """The tests of a comparison that read scores of words or patches, and give single examples headline figures.

    Attributes:
        setting: the model and the examples.
        tests: by name, with what they need of all scored examples.
        columns: their figures.
        explained: of each test, what is explained of a batch.
        pool: from the scores of a unit's tokens to its own.
    """

    setting: Setting
    tests: Mapping[str, Evaluation]
    columns: Sequence[Column]
    explained: Mapping[str, Callable[[Batch], Target]]
    pool: Pool = "max"

    @staticmethod
    def of(context: Context, columns: Sequence[Column], limit: int | None) -> "Again":
        """For the first `limit` examples of the comparison's draw (None: all)."""
        setting = context.setting.limited(limit)
        tests = {
            name: test
            for name, test in context.evaluations.items()
            if test.reads == "tokens" and getattr(test, "pool", "max") == "max"  # else a word's tokens would add up
        }
        tests = {name: tests[name] for name in dict.fromkeys(column.test for column in columns) if name in tests}
        scoped = {name: test.over(context.setting.data.batches) for name, test in tests.items()}
        explained = {name: explained_of(setting.data, test.target) for name, test in tests.items()}
        return Again(setting, scoped, [column for column in columns if column.test in tests], explained)

    def figures(
        self, batch: Batch, explain: Callable[[Target], Float[Tensor, "B T"]], tests: Collection[str] | None = None
    ) -> Figures:
        """What each test says of explanations of a batch.

        Args:
            batch: the examples.
            explain: gives scores of the tokens for what is explained.
            tests: which of them are asked; None for all.
        """
        found: dict[str, NDArray[np.float64]] = {}
        scores: dict[tuple[tuple[int, ...], ...], Tensor] = {}
        for name, test in self.tests.items():
            if tests is not None and name not in tests:
                continue
            target = self.explained[name](batch)
            if (key := tuple(target.ids)) not in scores:
                scores[key] = explain(target)
            try:
                rows = test.rows(self.setting.model, batch, Attribution(target=target, tokens=scores[key]))
            except NotApplicable:  # a batch without figures has NaN, so that all batches have the same names
                found |= {one.key: np.full(len(batch), np.nan) for one in self.columns if one.test == name}
                continue
            scalars = rows[rows["x"].isna()]
            for column in self.columns:
                if column.test == name:
                    own = scalars[scalars["metric"] == column.metric].groupby("uid")["value"].mean()
                    found[column.key] = column.sign * own.reindex(list(batch.uids)).to_numpy(dtype=np.float64)
        return found

    def units(self, batch: Batch, tokens: Float[Tensor, "B T"]) -> Iterator[tuple[int, NDArray[np.intp], NDArray]]:
        """Of each example its number, the places of its rated units, and their scores."""
        pooled, visible = pool(tokens.to(batch.units.device), batch.units, self.pool)
        rated = rated_units(batch, visible)
        for b in range(len(batch)):
            places = rated[b].nonzero()[:, 0].cpu().numpy()
            yield b, places, pooled[b].double().cpu().numpy()[places]


def on_tokens(batch: Batch, rows: Sequence[tuple[NDArray[np.intp], NDArray]]) -> Float[Tensor, "B T"]:
    """Every token with the score of its unit; 0 where the unit is not rated."""
    n_units = int(batch.units.max()) + 1
    scores = torch.zeros(len(batch), n_units, dtype=torch.float64, device=batch.units.device)
    for b, (places, own) in enumerate(rows):
        scores[b, torch.from_numpy(places).to(scores.device)] = torch.as_tensor(
            own, dtype=torch.float64, device=scores.device
        )
    return scores.gather(1, batch.units.clamp(min=0)).masked_fill(batch.units < 0, 0)
