"""How near a cheap approximation comes to a reference method: rank correlation per example.

Defined in docs/protocols.md, section 6.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import ClassVar

import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from benchmark.evaluations import ranks
from benchmark.evaluations.base import SIGNED, Averaged, higher, rated_scores, token_scores
from benchmark.models.classifier import Classifier
from benchmark.results.record import About, Metric
from benchmark.settings.declared import configurable
from benchmark.targets import TargetName
from benchmark.types import Attribution, Batch, Method, Reads
from benchmark.units import Pool


@configurable
class Convergence(Averaged):
    """Kendall's τ_b between a method's scores and those of a reference, over units and over heads of each example.

    Meant for ablations of an approximation against its limit (ATTATTR with few steps against 200). A constant row of
    scores is left out.

    The reference's scores do not depend on the method, so the instance keeps those of a comparison's batches.

    Attributes:
        reference: the method to be near to.
        target: class that is explained.
        pool: from the scores of a unit's tokens to its own.
    """

    version: ClassVar[int] = 1
    reads: ClassVar[Reads] = "tokens"
    about: ClassVar[About] = About("descriptive", 30, "Convergence to a reference method")

    reference: Method
    target: TargetName = "predicted"
    pool: Pool = "max"

    @cached_property
    def _memory(self) -> dict[tuple[str, tuple[str, ...]], Attribution]:
        """Not a field: what is remembered is no setting."""
        return {}

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """τ_b over units and over heads."""
        return {
            f"{unit}_tau": higher(
                f"τ of {many} with the reference",
                f"mean Kendall's τ between a method's scores of {many} and the reference method's",
                short=f"τ {many}",
                bounds=SIGNED,
                headline=True,
            )
            for unit, many in (("token", "words"), ("head", "heads"))
        }

    def rows(self, model: Classifier, batch: Batch, attribution: Attribution) -> pd.DataFrame:
        """τ_b of each example; NotApplicable where the method scores neither units nor heads as the reference does."""
        key = (model.fingerprint, batch.uids)
        if key not in self._memory:
            self._memory[key] = self.reference(model, batch, attribution.target.to(batch.units.device)).cpu()
        reference = self._memory[key]
        ours, theirs = (
            rated_scores(batch, token_scores(batch, scored), self.pool) for scored in (attribution, reference)
        )
        records = [(uid, "token_tau", a, b) for uid, a, b in zip(batch.uids, ours, theirs, strict=True)]
        if attribution.heads is not None and reference.heads is not None:
            pairs = zip(batch.uids, _flat(attribution.heads), _flat(reference.heads), strict=True)
            records += [(uid, "head_tau", a, b) for uid, a, b in pairs]
        correlations = [(uid, name, np.nan, ranks.kendall(a, b)) for uid, name, a, b in records]
        rows = [(uid, name, x, tau.tau) for uid, name, x, tau in correlations if not tau.undefined]
        return pd.DataFrame(rows, columns=["uid", "metric", "x", "value"]).astype({"x": float, "value": float})


def _flat(heads: Float[Tensor, "B L H"]) -> list[NDArray]:
    return [row.flatten().double().cpu().numpy() for row in heads]
