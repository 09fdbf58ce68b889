"""Are few words said to matter, or all of them? (Bhatt et al. 2020; docs/protocols.md, section 14).

How much of a mass lies in few places is measured in float64, be it of token scores, of attention or of edge scores.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy.typing import NDArray

from benchmark.evaluations.base import UNBOUNDED, Averaged, Rows, described, rated_scores, token_scores
from benchmark.models.classifier import Classifier
from benchmark.results.record import About, Metric
from benchmark.settings.declared import Shares, configurable
from benchmark.targets import TargetName
from benchmark.types import Attribution, Batch, Reads
from benchmark.units import Pool

_ROUNDING = 1e-9  # 0.1 · 30 is no more than 3


@configurable
class Complexity(Averaged):
    """How an explanation's mass `m_u = |s_u|` is spread over the visible, rated units u of an example.

    - `gini` = `Σ_k (2k − n − 1) m_(k) / (n Σ m)`, m_(1) the smallest: 0 where all n units weigh alike, 1 − 1/n where one
      holds everything.
    - `entropy` = `−Σ_u p_u ln p_u` with `p = m / Σ m`, in nats, in [0, ln n].
    - `top` = the share of the mass in the ⌈share · n⌉ units with the most of it, against the share.

    An explanation of zeros has none of them: `undefined` is the share of such examples.

    A sparse explanation is easier to read, not truer: the figures describe and rank nothing. They depend on the number of
    units, so that methods are comparable within a data set, where the examples are the same.

    Attributes:
        shares: of the units, increasing, within [0, 1]; at least one unit is taken.
        pool: from the scores of a unit's tokens to its own.

    Source: Bhatt et al. 2020 (entropy: "complexity") and Chalasani et al. 2020 (Gini: "sparseness"), both unread, after the
    documentation of Xplique; the shares are this project's.
    """

    version: ClassVar[int] = 1
    reads: ClassVar[Reads] = "tokens"
    about: ClassVar[About] = About("descriptive", 25, "Complexity")
    nothing: ClassVar[str] = "no example has a score other than 0"

    target: TargetName = "predicted"
    shares: Shares = (0.01, 0.05, 0.1)
    pool: Pool = "max"

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """Gini index, entropy, the mass in the best units, and how many explanations have none."""
        return {
            "gini": described(
                "Gini index of the scores",
                "Gini index of the magnitudes of an explanation's scores: 0 where all words weigh alike",
                short="Gini",
                headline=True,
                without="the scores of every example are all 0",
            ),
            "entropy": described(
                "entropy of the scores",
                "entropy, in nats, of the magnitudes of an explanation's scores over their sum",
                short="entropy",
                bounds=UNBOUNDED,
                headline=True,
                without="the scores of every example are all 0",
            ),
            "top": described(
                "mass in the best words",
                "share of the magnitude of all scores that lies in this share of the words, at least one",
                x="share of the words",
            ),
            "undefined": described("explanations of zeros", "share of explanations whose scores are all 0"),
        }

    def rows(self, model: Classifier, batch: Batch, attribution: Attribution) -> pd.DataFrame:
        """Figures of each example; NotApplicable where the method gives no token scores."""
        scores = rated_scores(batch, token_scores(batch, attribution), self.pool)
        masses = [np.abs(values)[None] for values in scores]
        rated = [mass if mass.size else np.zeros((1, 1)) for mass in masses]  # of no words, none has mass
        defined = np.array([mass.sum() > 0 for mass in rated])
        rows = Rows(batch.uids)
        rows.add("gini", np.concatenate([gini(mass) for mass in rated]), defined=defined)
        rows.add("entropy", np.concatenate([entropy(mass) for mass in rated]), defined=defined)
        tops = np.concatenate([top_shares(mass, self.shares) for mass in rated])
        rows.add("top", tops, x=self.shares, defined=defined)
        rows.add("undefined", (~defined).astype(np.float64))
        return rows.frame()


def gini(mass: Float[NDArray, "*n K"]) -> Float[NDArray, "*n"]:
    """The Gini index `Σ_k (2k − K − 1) m_(k) / (K Σ_k m_k)` of masses m ≥ 0, m_(1) the smallest; NaN where all are 0.

    0 where all are equal, `1 − 1/K` where one place holds everything.

    Source: Hurley & Rickard 2009, who compare measures of sparsity (unread; the formula is that of the documentation of
    Xplique's `Sparseness`, after Chalasani et al. 2020, who use it for attributions).
    """
    count = mass.shape[-1]
    weights = 2 * np.arange(1, count + 1) - count - 1
    return _over(np.sort(mass, axis=-1) @ weights.astype(np.float64), count * mass.sum(-1))


def entropy(mass: Float[NDArray, "*n K"]) -> Float[NDArray, "*n"]:
    """`−Σ_k p_k ln p_k` in nats with `p = m / Σ m`, in [0, ln K], 0 ln 0 = 0; NaN where all are 0.

    Source: Bhatt et al. 2020, equation 3 (unread; the documentation of Xplique's `Complexity` gives it).
    """
    total = mass.sum(-1, keepdims=True)
    p = _over(mass, total)
    logarithm = np.log(p, out=np.zeros_like(p), where=p > 0)
    return np.where(total[..., 0] > 0, -(p * logarithm).sum(-1), np.nan) + 0.0


def top_shares(mass: Float[NDArray, "*n K"], shares: Sequence[float]) -> Float[NDArray, "*n S"]:
    """The share of all mass in the ⌈share · K⌉ largest of K places, at least one; NaN where all are 0."""
    cumulated = np.cumsum(-np.sort(-mass, axis=-1), axis=-1)
    counts = [max(1, int(np.ceil(share * mass.shape[-1] - _ROUNDING))) for share in shares]
    return np.minimum(_over(cumulated[..., [count - 1 for count in counts]], mass.sum(-1)[..., None]), 1.0)


def _over(part: NDArray[np.float64], whole: NDArray[np.float64]) -> NDArray[np.float64]:
    whole = np.broadcast_to(whole, part.shape)
    found: NDArray[np.float64] = np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole > 0)
    return found
