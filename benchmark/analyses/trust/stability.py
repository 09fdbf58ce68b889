"""Do explanations stay as they are when the input hardly changes? (docs/protocols.md, section 14)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

from benchmark.analyses.base import Analysis
from benchmark.analyses.context import Context
from benchmark.analyses.measured import figure_line
from benchmark.analyses.resumed import Arrays, explained_of
from benchmark.errors import NotApplicable
from benchmark.evaluations.base import rated_scores, token_scores
from benchmark.models.noise import noisy
from benchmark.progress.spent import Spent
from benchmark.randomness import generator
from benchmark.results.control_names import control_order
from benchmark.results.statistics import interval
from benchmark.results.tables import Table, frame, line
from benchmark.run.explaining import Checked
from benchmark.settings.declared import Above, Count, Natural, configurable
from benchmark.targets import Target
from benchmark.types import Batch, Method
from benchmark.units import Pool

SENSITIVITY = "max-sensitivity"
_DISTANCE = (0.0, 2.0)


def unit_length(scores: Float[NDArray[np.float64], " n"]) -> Float[NDArray[np.float64], " n"] | None:
    """`s / ‖s‖₂`; None of scores that are all 0, or not finite."""
    size = float(np.linalg.norm(scores))
    return scores / size if np.isfinite(size) and size > 0 else None


@configurable
class Stability(Analysis):
    """Max-sensitivity: how far an explanation moves at most when the embeddings of an example get a small noise.

    `max_k ‖ŝ(e + δ_k) − ŝ(e)‖₂` over K draws of δ ~ U(−ρ, ρ) in each dimension of each token, ρ = radius · rms(e); ŝ are the
    scores of words or patches at unit length, for the class that the model predicts of e. Draws under which the model
    predicts another class do not count. Between 0 and 2; less is better. All methods meet the same noise, which the
    example seeds.

    A map that says nothing is perfectly stable: read it beside a test of faithfulness, never alone. Controls, which do not
    look at the model, are not asked.

    Attributes:
        limit: how many of the scored examples are used, the first ones.
        draws: K.
        radius: ρ as a share of the root mean square of the example's embeddings.
        pool: from the scores of a unit's tokens to its own.
        seed: of the noise.

    Raises:
        NotApplicable: no method scores words or patches, or the model embeds its input twice.

    Source: Yeh et al. 2019; unit length, the relative radius, and that the class must stay are this project's.
    Cost: draws + 1 times each method, one example at a time.
    """

    version: ClassVar[int] = 1

    limit: Count | None = 50
    draws: Count = 10
    radius: Annotated[float, Above(0)] = 0.02
    pool: Pool = "max"
    seed: Natural = 0

    def __call__(self, context: Context) -> Sequence[Table]:
        """One line per method."""
        setting = context.setting.limited(self.limit)
        explained = explained_of(setting.data, "predicted")
        lines: list[dict[str, Any]] = []
        measured = 0
        for name, cell in context.cells.items():
            if control_order(name) or not isinstance(cell.method, Method):
                continue
            labels = {"explainer": name}
            try:
                if cell.refusal is not None or not cell.method.explains_others:
                    raise NotApplicable(cell.refusal or "its scores are given for one input")
                if getattr(cell.method, "operator", None) == "delete":
                    raise NotApplicable(
                        "it deletes words, so that others stand in their places, with the noise of these"
                    )
                compute = self._moved(Checked(name, cell.method), setting.model, explained)
                label = f"explaining noisy inputs by {name}"
                found = self.by_example(context, setting, compute, label, keep="each", part=name).arrays
            except NotApplicable as reason:
                lines.append(line(labels, SENSITIVITY, note=str(reason)))
                continue
            measured += 1
            moved, kept = found["moved"], found["kept"]
            lines.append(figure_line(labels, SENSITIVITY, interval(moved[~np.isnan(moved)], bounds=_DISTANCE)))
            lines.append(figure_line(labels, "draws that keep the class", interval(kept, bounds=(0.0, 1.0))))
            lines.append(figure_line(labels, "undefined", interval(np.isnan(moved).astype(float), bounds=(0.0, 1.0))))
        self.forget(context)
        if not measured:
            raise NotApplicable(
                "; ".join(sorted({str(one["note"]) for one in lines})) or "no method scores words or patches"
            )
        return [
            Table(
                name="stability",
                title="How far explanations move under a small noise",
                labels=("explainer",),
                rows=frame(lines, ("explainer",)),
                sentences=(
                    "Max-sensitivity: the largest distance, between 0 and 2, of explanations at unit length over "
                    f"{self.draws} draws of noise within ±{self.radius} of the embeddings' root mean square, of those that "
                    "keep the predicted class. Undefined: of how many examples all scores are 0 or not finite, or no draw "
                    "kept the class.",
                    "A map that says nothing is perfectly stable: no explainer is better for this figure alone.",
                ),
            )
        ]

    def foretold(self, spent: Spent, context: Context) -> float:
        """Every explanation once more for each draw of noise, and once without."""
        methods = [name for name in context.cells if control_order(name) == 0]
        one = spent.explained(methods) + len(methods) * spent.forward
        return spent.used(self.limit) * (self.draws + 1) * one

    def _moved(self, method: Checked, model: Any, explained: Callable[[Batch], Target]) -> Callable[[Batch], Arrays]:
        def compute(batch: Batch) -> Arrays:
            targets = explained(batch)
            rows = [self._of_example(method, model, batch.select([b]), targets[b : b + 1]) for b in range(len(batch))]
            return {key: np.array([row[key] for row in rows]) for key in ("moved", "kept")}

        return compute

    def _of_example(self, method: Checked, model: Any, one: Batch, target: Target) -> Mapping[str, float]:
        run = model.run(one, record=("embeddings",))
        own = unit_length(_scores(method, model, one, target, self.pool))
        embedded = run.embeddings[0]
        read = one.attention_mask[0] if "attention_mask" in one.tensors else torch.ones(len(embedded), dtype=torch.bool)
        noise = self._noise(one.uids[0], embedded, read.to(embedded.device))
        moved = []
        for drawn in noise:
            with noisy(model, drawn[None]) as other:
                if not torch.equal(other.run(one).logits.argmax(-1), run.logits.argmax(-1)):
                    continue
                scores = unit_length(_scores(method, other, one, target, self.pool))
            moved.append(np.nan if own is None or scores is None else float(np.linalg.norm(scores - own)))
        return {"moved": float(np.max(moved)) if moved else np.nan, "kept": len(moved) / self.draws}

    def _noise(self, uid: str, embedded: Float[Tensor, "T D"], read: Bool[Tensor, " T"]) -> Float[Tensor, "K T D"]:
        """Of the tokens that are read; padding has none, so that it does not matter how far an example is padded."""
        of_tokens = embedded[read]
        size = self.radius * float(of_tokens.double().square().mean().sqrt())
        drawn = generator(self.seed, "noise of embeddings", uid).uniform(-size, size, (self.draws, *of_tokens.shape))
        noise = torch.zeros(self.draws, *embedded.shape, dtype=torch.float64)
        noise[:, read.cpu()] = torch.from_numpy(drawn)
        return noise


def _scores(method: Checked, model: Any, one: Batch, target: Target, how: Pool) -> Float[NDArray[np.float64], " n"]:
    return rated_scores(one, token_scores(one, method(model, one, target)), how)[0]
