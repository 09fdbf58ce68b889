"""Do explanations change when the model's weights are drawn anew? (docs/protocols.md, section 14)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np
import scipy
from jaxtyping import Float
from numpy.typing import NDArray

from benchmark import progress
from benchmark.analyses.base import Analysis
from benchmark.analyses.context import Context
from benchmark.analyses.debate.word_scores import word_scores
from benchmark.analyses.measured import figure_line
from benchmark.analyses.resumed import Arrays, explained_of
from benchmark.errors import NotApplicable
from benchmark.evaluations.base import Column, rated_scores, token_scores
from benchmark.models.classifier import Classifier
from benchmark.models.fresh_weights import Stage, freshly, stages_of
from benchmark.progress.spent import Spent
from benchmark.results.control_names import control_order
from benchmark.results.statistics import Interval, crossed_interval
from benchmark.results.tables import NO_INTERVAL, Drawing, Table, frame, line
from benchmark.run.explaining import Checked
from benchmark.run.workbench import Setting
from benchmark.settings.declared import AtLeast, Count, Natural, configurable
from benchmark.targets import Target
from benchmark.types import Attribution, Batch, Method
from benchmark.units import Pool

CASCADE, INDEPENDENT = "cascade", "independent"
RHO, SIZE = "ρ", "ρ of magnitudes"
PASSES, FAILS = "passes", "fails"
_CORRELATION, _SHARE, _GAIN = (-1.0, 1.0), (0.0, 1.0), (-1.0, float("inf"))
_LEAST_UNITS = 3


def correlation(scores: Column, others: Column) -> float:
    """Spearman's ρ of two rows of scores; NaN where either is constant, not finite, or of fewer than three units."""
    if len(scores) < _LEAST_UNITS or not (np.isfinite(scores).all() and np.isfinite(others).all()):
        return float("nan")
    if np.ptp(scores) == 0 or np.ptp(others) == 0:
        return float("nan")
    return float(scipy.stats.spearmanr(scores, others).statistic)


def entropy(scores: Column) -> float:
    """`H = −Σ_u p_u ln p_u` of `p = |s| / Σ |s|`; NaN of scores that are all 0 or not finite."""
    sizes = np.abs(scores)
    total = sizes.sum()
    if not np.isfinite(total) or total <= 0:
        return float("nan")
    shares = sizes[sizes > 0] / total
    return float(-(shares * np.log(shares)).sum())


def explanation(name: str, method: Method, model: Classifier, batch: Batch, target: Target, draw: int) -> Attribution:
    """What a method says of these examples on a model of fresh weights; scores that are random are drawn anew, too."""
    if control_order(name) == control_order("random"):
        method = replace(method, seed=getattr(method, "seed", 0) + 1 + draw)  # type: ignore[type-var]  # a dataclass behind a protocol
    return Checked(name, method)(model, batch, target)


@dataclass(frozen=True)
class Model:
    """A model of fresh weights.

    Attributes:
        mode: `CASCADE` or `INDEPENDENT`.
        stage: the last that was drawn, or the only one.
        stages: all that were.
    """

    mode: str
    stage: str
    stages: tuple[Stage, ...]


def models_of(stages: Sequence[Stage], *, independent: bool) -> list[Model]:
    """Cascades from the output to the input, the last of which has all weights drawn anew, and each stage by itself."""
    cascade = [Model(CASCADE, stage.name, tuple(stages[:count])) for count, stage in enumerate(stages, 1)]
    alone = [Model(INDEPENDENT, stage.name, (stage,)) for stage in stages] if independent else []
    return [*cascade, *alone]


@configurable
class Randomised(Analysis):
    """Do explanations depend on what the model has learned?

    The weights of the model are drawn anew (`benchmark.models.fresh_weights`): from the output to the input, module after
    module (cascade), and of each module alone (independent). For the first examples and for every method that scores words
    or patches: Spearman's ρ of an example's scores with those on the trained model, signed and of their magnitudes, for the
    class that the trained model predicts; mean over draws and examples, with an interval that holds for other draws. Beside
    it, ρ over examples of the output itself: where that has not changed, an explanation need not.

    The verdict is of the last stage, when all weights are drawn: *passes* where the upper ends of both correlations are at
    most `most`, *fails* where a lower end is above it. A high ρ after the head alone is no fault, since the states below are
    still those that were learned; a high ρ after everything is: such scores show the input, and not the model.
    `complexity`: (H' − H) / H of the entropy of |s| / Σ |s| (Hedström et al. 2024), how much less structured an explanation
    has become; it ranks nothing.

    Attributes:
        limit: how many of the scored examples are used, the first ones.
        draws: of weights.
        independent: whether each module is drawn by itself, too.
        most: the correlation between a pass and a failure.
        pool: from the scores of a unit's tokens to its own.
        seed: of the weights.

    Source: Adebayo et al. 2018; the entropy from Hedström et al. 2024.
    Cost: (stages + 1) · draws times each method, twice with `independent`.
    Memory: one more copy of the model.
    """

    version: ClassVar[int] = 1

    limit: Count | None = 50
    draws: Annotated[int, AtLeast(2)] = 5
    independent: bool = True
    most: Annotated[float, AtLeast(-1)] = 0.1
    pool: Pool = "max"
    seed: Natural = 0

    def __call__(self, context: Context) -> Sequence[Table]:
        """The verdicts, and correlations by stage; NotApplicable where no method scores words or patches."""
        setting = context.setting.limited(self.limit)
        own = {known.uid: known.scores for known in word_scores(context, {}, "predicted", self.pool, None)}
        methods = {name: cell.method for name, cell in context.cells.items() if isinstance(cell.method, Method)}
        methods = {name: method for name, method in methods.items() if any(name in scores for scores in own.values())}
        if not methods:
            raise NotApplicable("no method scores words or patches")
        models = models_of(stages_of(setting.model), independent=self.independent)
        explained, parts = explained_of(setting.data, "predicted"), []
        with progress.step("models of fresh weights", self.draws * len(models), unit="models") as advance:
            for draw in range(self.draws):
                for model in models:
                    parts.append(self._of_draw(context, setting, model.stages, methods, own, explained, draw))
                    advance(1)
        told = {key: np.stack([part[key] for part in parts]) for key in parts[0]}
        told = {key: values.reshape(self.draws, len(models), -1) for key, values in told.items()}
        output = self._asked(context, setting, {}, own, explained, 0)["output"]
        self.forget(context)
        changed = [_of_outputs(output, told["output"][:, place]) for place in range(len(models))]
        return [
            self._verdicts(list(methods), told, models, changed),
            self._by_stage(list(methods), told, models, changed),
        ]

    def _of_draw(
        self,
        context: Context,
        setting: Setting,
        stages: Sequence[Stage],
        methods: Mapping[str, Method],
        own: Mapping[str, Mapping[str, Column]],
        explained: Callable[[Batch], Target],
        draw: int,
    ) -> Arrays:
        """Of one model of fresh weights, which is gone before the next is drawn."""
        fresh = replace(setting, model=freshly(setting.model, stages, drawn_seed(self.seed, draw)))
        return self._asked(context, fresh, methods, own, explained, draw)

    def foretold(self, spent: Spent, context: Context) -> float:
        """Every explanation once more on each model of fresh weights."""
        models = len(models_of(stages_of(context.setting.model), independent=self.independent))
        return spent.used(self.limit) * self.draws * models * (spent.explained() + spent.forward)

    def _asked(
        self,
        context: Context,
        setting: Setting,
        methods: Mapping[str, Method],
        own: Mapping[str, Mapping[str, Column]],
        explained: Callable[[Batch], Target],
        draw: int,
    ) -> Arrays:
        """What becomes of the explanations of each example on a model of fresh weights, and its output."""

        def compute(batch: Batch) -> Arrays:
            target = explained(batch)
            found = {"output": target.among(setting.model.run(batch).logits.double()).cpu().numpy()}
            for name, method in methods.items():
                attribution = explanation(name, method, setting.model, batch, target, draw)
                others = rated_scores(batch, token_scores(batch, attribution), self.pool)
                rows = [_change(own[uid].get(name), other) for uid, other in zip(batch.uids, others, strict=True)]
                found |= {f"{name} {key}": np.array([row[key] for row in rows]) for key in _CHANGES}
            return found

        return self.by_example(context, setting, compute, "explanations of fresh weights", keep="each").arrays

    def _verdicts(self, names: Sequence[str], told: Arrays, models: Sequence[Model], changed: Sequence[float]) -> Table:
        last = max(place for place, model in enumerate(models) if model.mode == CASCADE)
        lines: list[dict[str, Any]] = []
        said: dict[str, str] = {}
        for name in names:
            figures = {
                RHO: _over(told[f"{name} rho"][:, last], _CORRELATION),
                SIZE: _over(told[f"{name} size"][:, last], _CORRELATION),
                "undefined": _over(told[f"{name} undefined"][:, last], _SHARE),
                "complexity": _over(told[f"{name} entropy"][:, last], _GAIN),
            }
            said[name] = self._verdict([figures[metric] for metric in (RHO, SIZE)])
            lines.append(line({"explainer": name}, "verdict", note=said[name], key=f"{name}.verdict"))
            lines += [figure_line({"explainer": name}, metric, figure) for metric, figure in figures.items()]
        failed = [name for name, verdict in said.items() if verdict == FAILS]
        return Table(
            name="randomised",
            title="Explanations when all weights are drawn anew",
            labels=("explainer",),
            rows=frame(lines, ("explainer",)),
            sentences=(
                *([f"Show the input rather than the model: {', '.join(failed)}."] if failed else []),
                f"An explainer {PASSES} where the upper ends of both correlations are at most {self.most}, and {FAILS} "
                f"where a lower end is above it. Intervals are over examples and {self.draws} draws of weights. Random "
                "scores are drawn anew with every model.",
                f"Spearman's ρ over examples of the output with that of the trained model is {changed[last]:.2f} there.",
            ),
        )

    def _verdict(self, correlations: Sequence[Interval]) -> str:
        if any(one.low > self.most for one in correlations):
            return FAILS
        if not all(np.isfinite(one.high) for one in correlations):
            return "no verdict: constant scores"
        return PASSES if all(one.high <= self.most for one in correlations) else "undecided"

    def _by_stage(self, names: Sequence[str], told: Arrays, models: Sequence[Model], changed: Sequence[float]) -> Table:
        lines, labels = [], ("explainer", "drawn", "stage", "place")
        for place, (model, output) in enumerate(zip(models, changed, strict=True)):
            where = {"drawn": model.mode, "stage": model.stage, "place": place}
            lines.append(
                line({"explainer": "the output", **where}, RHO, output, note=f"{NO_INTERVAL}one figure of all")
            )
            for name in names:
                rho, size = (_over(told[f"{name} {key}"][:, place], _CORRELATION) for key in ("rho", "size"))
                lines += [
                    figure_line({"explainer": name, **where}, metric, one) for metric, one in ((RHO, rho), (SIZE, size))
                ]
        return Table(
            name="randomised_stages",
            title="Explanations while weights are drawn anew, from the output to the input",
            labels=labels,
            rows=frame(lines, labels),
            drawing=Drawing("curves", x="place", y=(RHO,), series="explainer", panels=("drawn",)),
            printed=False,
        )


def drawn_seed(seed: int, draw: int) -> int:
    """The seed of one of several draws of weights."""
    return int(np.random.SeedSequence([seed, draw]).generate_state(1)[0])


_CHANGES = ("rho", "size", "entropy", "undefined")


def _change(own: Column | None, other: Column) -> Mapping[str, float]:
    """What becomes of one explanation: ρ, ρ of magnitudes, relative change of entropy, and whether ρ is undefined."""
    if own is None:
        return dict.fromkeys(_CHANGES, float("nan"))
    rho, before = correlation(own, other), entropy(own)
    gained = entropy(other) / before - 1 if before > 0 else float("nan")
    size = correlation(np.abs(own), np.abs(other))
    return {"rho": rho, "size": size, "entropy": gained, "undefined": float(np.isnan(rho))}


def _of_outputs(trained: Float[NDArray[np.float64], " B"], fresh: Float[NDArray[np.float64], "D B"]) -> float:
    """Mean over draws of Spearman's ρ over examples of the outputs; NaN where an output is the same for all."""
    found = [correlation(trained, own) for own in fresh]
    return float(np.nanmean(found)) if np.isfinite(found).any() else float("nan")


def _over(values: Float[NDArray[np.float64], "D B"], bounds: tuple[float, float]) -> Interval:
    """The mean over draws and examples, of those examples that have a value in every draw; it holds for other draws, too."""
    return crossed_interval(values[:, ~np.isnan(values).any(0)], bounds=bounds).mean
