"""Soft comprehensiveness and sufficiency: embeddings lose dimensions, the more of them the less a word matters.

Defined in docs/protocols.md, section 8.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, ClassVar, Literal

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from scipy.special import expit
from torch import Tensor

from benchmark.errors import NotApplicable
from benchmark.evaluations.base import Averaged, Rows, higher, rated_units, token_scores
from benchmark.evaluations.ranks import UNORDERED
from benchmark.models.classifier import Classifier
from benchmark.randomness import generator
from benchmark.results.record import About, Metric
from benchmark.settings.declared import Above, Count, Natural, Shares, configurable
from benchmark.targets import TargetName
from benchmark.types import Attribution, Batch, Reads
from benchmark.units import Pool, pool, spread

Scores = Float[NDArray[np.float64], " n"]

_STEPS = 60
_REACH = 60.0
_LEAST = 1e-6
"""Least drop of the probability by an input without any word, below which nothing can be normalised by it."""


def published(scores: Scores) -> Scores:
    """Retention by the scores between their least and largest, `(s − min s) / (max s − min s)`; ½ where they are equal."""
    width = np.ptp(scores) if len(scores) else 0.0
    return (scores - scores.min()) / width if width > 0 else np.full(len(scores), 0.5)


def at_mean(scores: Scores, mean: float, temperature: float) -> Scores:
    """Retention `q_j = σ(z_j / τ + b)`, z the standardised scores (0 where they are equal), b such that the mean of q is π.

    b by bisection, to 1e-6 of π and below. The same for c · s + d with c > 0.
    """
    deviation = scores.std()
    z = (scores - scores.mean()) / deviation / temperature if deviation > 0 else np.zeros(len(scores))
    low, high = -_REACH - np.abs(z).max(initial=0), _REACH + np.abs(z).max(initial=0)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if expit(z + middle).mean() < mean else (low, middle)
    found: Scores = expit(z + (low + high) / 2)
    return found


@configurable
class SoftAopc(Averaged):
    """Soft comprehensiveness and sufficiency (Zhao & Aletras 2023), as published or at equal retention.

    The input of the first block, embeddings with positions, is multiplied with b[j, d] ~ Bernoulli(q_j), independently per
    dimension d; all tokens of a unit share its q, and special tokens and those of a query keep everything. Sufficiency keeps
    by importance, q = a; comprehensiveness by what is left, q = 1 − a. With S(q) = 1 − max(0, p(x) − p(x')) and S(0) that of
    an input whose rated units are all 0,

        soft sufficiency       = max(0, (S(a) − S(0)) / (1 − S(0))),
        soft comprehensiveness = max(0, p(x) − p(x' of 1 − a)) / (1 − S(0)),

    both cut to [0, 1], higher is better; p is the probability of the explained class, means over draws and over π. An
    example has no figure where an input without words loses less than 1e-6 of the probability.

    - `retention=published`: a is s between its least and largest score. One outlier then takes all others to 0, or to 1, so
      that the figure changes although the order does not.
    - `retention=equal`: a = σ(z / τ + b), z the standardised scores and b such that all methods keep the same share π of
      the dimensions (Huang & Chan 2026). Scores may be scaled and shifted.

    All methods meet the same uniform numbers, b = [u < q], which the example and the draw seed.

    The authors' program exchanges the two: its class that the README runs keeps with 1 − a where it says sufficiency.

    Attributes:
        target: what is explained, and whose probability is followed.
        retention: `published` or `equal`.
        shares: π; of `published` there is none.
        temperature: τ.
        draws: of the uniform numbers, per π.
        pool: from the scores of a unit's tokens to its own.
        seed: of the draws.

    Source: Zhao & Aletras 2023 and the authors' code; equal retention from the abstract of Huang & Chan 2026, with the
    standardisation and the grid of this project.
    Cost: 2 · draws · shares + 2 forward passes; of `published` 2 · draws + 2.
    """

    version: ClassVar[int] = 1
    reads: ClassVar[Reads] = "tokens"

    target: TargetName = "predicted"
    retention: Literal["published", "equal"] = "equal"
    shares: Shares = (0.1, 0.3, 0.5, 0.7, 0.9)
    temperature: Annotated[float, Above(0)] = 1.0
    draws: Count = 8
    pool: Pool = "max"
    seed: Natural = 0

    @property
    def about(self) -> About:
        """Faithfulness; the title says which of the two it is."""
        told = ", as published" if self.retention == "published" else ", equal retention"
        return About("faithfulness", 24, f"Soft comprehensiveness and sufficiency{told}")

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """Both means, and both by share where there are several."""
        apart = ", as published" if self.retention == "published" else ""
        short = " (publ.)" if apart else ""
        kept = "how much of the explained probability stays when words keep dimensions by their scores"
        lost = "how much of the explained probability goes when words lose dimensions by their scores"
        metrics = {
            "soft_comprehensiveness": higher(
                f"soft comprehensiveness{apart}", lost, short=f"soft compr.{short}", headline=True
            ),
            "soft_sufficiency": higher(f"soft sufficiency{apart}", kept, short=f"soft suff.{short}", headline=True),
        }
        if self.retention == "equal":
            at = partial(higher, x="share kept")
            metrics |= {
                "soft_comprehensiveness_at": at("soft comprehensiveness", f"{lost}, of the others this share"),
                "soft_sufficiency_at": at("soft sufficiency", f"{kept}, in all this share"),
            }
        return metrics

    def alternatives(self, metric: str) -> Mapping[str, tuple[str, bool]]:
        """What else a mean could be of: the first half of the shares (`which_test`)."""
        return {"the first half of the shares": (f"{metric}_at", True)} if self.retention == "equal" else {}

    def rows(self, model: Classifier, batch: Batch, attribution: Attribution) -> pd.DataFrame:
        """Both measures of each example; NotApplicable where the method scores no tokens, or the model has two streams."""
        if model.streams.count > 1:
            raise NotApplicable("an encoder–decoder embeds its words twice, and one of the two would keep what is lost")
        pooled, visible = pool(token_scores(batch, attribution), batch.units, self.pool)
        rated = rated_units(batch, visible)
        places = [marks.nonzero()[:, 0].cpu().numpy() for marks in rated]
        scores = [pooled[b].double().cpu().numpy()[own] for b, own in enumerate(places)]
        if not all(np.isfinite(own).all() for own in scores):
            raise NotApplicable(UNORDERED)
        hidden = model.run(batch, record=("hidden",)).hidden[0]

        def probability(kept: Bool[Tensor, "B T D"] | None) -> NDArray[np.float64]:
            states = hidden if kept is None else hidden * kept.to(hidden.dtype)
            logits = model.run(batch.tensors, start=(0, states)).logits
            values: NDArray[np.float64] = model.probability(logits.double(), attribution.target).cpu().numpy()
            return values

        whole = probability(None)
        empty = probability(self._kept(batch, places, [np.zeros(len(own)) for own in places], hidden, ""))
        drop = np.maximum(0.0, whole - empty)  # 1 − S(0)
        defined = (drop > _LEAST) & np.array([len(own) > 0 for own in places])
        found: dict[str, list[NDArray[np.float64]]] = {"soft_comprehensiveness": [], "soft_sufficiency": []}
        for share in self.shares if self.retention == "equal" else (None,):
            kept = [self._retained(own, share) for own in scores]
            sufficient, comprehensive = np.zeros(len(batch)), np.zeros(len(batch))
            for draw in range(self.draws):
                name = f"{draw} {share}"
                lost = np.maximum(0.0, whole - probability(self._kept(batch, places, kept, hidden, name)))
                sufficient += np.clip((drop - lost) / np.where(defined, drop, 1), 0, 1) / self.draws
                others = [1 - own for own in kept]
                gone = np.maximum(0.0, whole - probability(self._kept(batch, places, others, hidden, name)))
                comprehensive += np.clip(gone / np.where(defined, drop, 1), 0, 1) / self.draws
            found["soft_sufficiency"].append(sufficient)
            found["soft_comprehensiveness"].append(comprehensive)
        rows = Rows(batch.uids)
        for name, values in found.items():
            by_share = np.stack(values, axis=1)
            rows.add(name, by_share.mean(1), defined=defined)
            if self.retention == "equal":
                rows.add(f"{name}_at", by_share, x=self.shares, defined=defined)
        return rows.frame()

    def _retained(self, scores: Scores, share: float | None) -> Scores:
        return published(scores) if share is None else at_mean(scores, share, self.temperature)

    def _kept(
        self,
        batch: Batch,
        places: Sequence[NDArray[np.intp]],
        retained: Sequence[Scores],
        hidden: Float[Tensor, "B T D"],
        name: str,
    ) -> Bool[Tensor, "B T D"]:
        """Which dimensions of each token stay: u < q, with u of the example and the draw."""
        rows = [np.ones(len(words)) for words in batch.words]
        for row, own, kept in zip(rows, places, retained, strict=True):
            row[own] = kept
        q = spread(rows, batch.units).masked_fill(batch.units < 0, 1.0).cpu()
        stays = torch.ones(hidden.shape, dtype=torch.bool)
        for b, uid in enumerate(batch.uids):
            inside = (q[b] < 1).nonzero()[:, 0]
            if len(inside) and not bool((q[b, inside] == 0).all()):
                u = generator(self.seed, "dimensions", uid, name).random((len(batch.units[b]), hidden.shape[2]))
                stays[b] = torch.from_numpy(u) < q[b, :, None]
            else:
                stays[b, inside] = False
        return stays.to(hidden.device)
