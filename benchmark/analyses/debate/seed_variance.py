"""How much of attention, and of every explanation, is the seed of the training? (Wiegreffe & Pinter 2019, section 3.3)."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Annotated, Any, ClassVar

import numpy as np
import pandas as pd
import scipy
from jaxtyping import Float
from numpy.typing import NDArray

from benchmark.analyses.base import Analysis
from benchmark.analyses.context import Context
from benchmark.analyses.debate.attention_pairs import (
    ROWS,
    head_divergences,
    in_order,
    matched,
    recorded_pairs,
    same_tokens,
)
from benchmark.analyses.debate.trained import check_shapes, models_of
from benchmark.analyses.measured import figure_line
from benchmark.analyses.opening import setting_of, with_model
from benchmark.errors import NotApplicable, UserError
from benchmark.evaluations.base import rated_scores
from benchmark.results.statistics import interval, variance_shares
from benchmark.results.tables import Drawing, Table, line
from benchmark.run.arrays import padded
from benchmark.run.workbench import Setting
from benchmark.settings.declared import Natural, configurable
from benchmark.settings.early import Openings

THIS = "comparison"
SOURCES = ("examples", "pairs of seeds", "residual")
_OF_SEED = "share of the seed"
_LN_2 = float(np.log(2))

_JSDS = ("JSD, heads matched", "JSD, heads in order")


@configurable
class Seeds(Analysis):
    """The comparison's model beside others that differ from it in the seed alone.

    Two tables (docs/protocols.md, section 16). `seeds_attention`: the JSD of attention between every two seeds, heads
    matched layer by layer and in order, for all queries and for the read token's row; and how its variance falls to the
    examples, to the pairs of seeds and to neither. `seeds_explainers`: for every explainer of the comparison the rank
    correlation (Spearman's) of its word scores between two seeds, mean over pairs, and the share of the seed, 1 − that.

    Attributes:
        settings: by name, the seed of another training of the comparison's model, or overrides that open one; None leaves
            out one that another configuration names. The comparison's own model is one more.
        seed: of the resampling.

    Cost: two forward passes for each pair, and the explanations of each model, which are kept in run folders of its own.
    """

    version: ClassVar[int] = 1

    settings: Annotated[Mapping[str, Sequence[str] | Natural | None], Openings()]
    seed: Natural = 0

    def __post_init__(self) -> None:
        if not any(overrides is not None for overrides in self.settings.values()):
            raise UserError("analyses.seeds.settings names no model; give at least one, such as {two: 1}")

    def __call__(self, context: Context) -> Sequence[Table]:
        """Attention and explainers."""
        opened = {THIS: context.setting, **self.opened(context)}
        models: dict[str, str] = {}
        for name, setting in opened.items():
            same_tokens(context.setting.data.batches, setting.data.batches)
            if (other := models.setdefault(setting.model.fingerprint, name)) != name:
                raise UserError(
                    f"analyses.seeds.settings: '{name}' is the same model as '{other}'; give it another seed"
                )
        return [self._attention(opened), _explainers(context, opened)]

    def opened(self, context: Context) -> dict[str, Setting]:
        """All models but the comparison's own, by name."""
        own, settings = context.setting, setting_of(self, "settings")
        models = models_of(own, self.settings, settings)
        check_shapes(own, models)
        return {name: with_model(own, model, f"{settings}.{name}") for name, model in models.items()}

    def _attention(self, opened: Mapping[str, Setting]) -> Table:
        divergences = [_heads(*pair) for pair in combinations(opened.values(), 2)]
        rows: list[dict[str, Any]] = []
        for which in ROWS:
            by_layer = np.stack([matched(pair[which]) for pair in divergences], axis=1)  # [N, P, L]
            unmatched = np.stack([in_order(pair[which]) for pair in divergences], axis=1)
            layers = {str(layer): slice(layer, layer + 1) for layer in range(by_layer.shape[2])} | {"all": slice(None)}
            for layer, at in layers.items():
                labels, values = {"queries": which, "layer": layer}, by_layer[:, :, at].mean(2)
                for metric, found in (
                    ("JSD, heads matched", values),
                    ("JSD, heads in order", unmatched[:, :, at].mean(2)),
                ):
                    rows.append(
                        figure_line(labels, metric, interval(found.mean(1).clip(0, _LN_2), bounds=(0.0, _LN_2)))
                    )
                rows += self._shares(labels, values)
        return Table(
            name="seeds_attention",
            title="Attention of models that differ in their seed",
            labels=("queries", "layer"),
            rows=pd.DataFrame(rows),
            sentences=(f"{len(opened)} seeds, {len(divergences)} pairs; intervals are over examples, of these seeds.",),
            drawing=Drawing("bars", x="layer", y=_JSDS, series="queries", alike=(_JSDS,)),
        )

    def _shares(self, labels: Mapping[str, Any], values: Float[NDArray[np.float64], "N P"]) -> list[dict[str, Any]]:
        n, pairs = values.shape
        if n < 2 or pairs < 2:
            return [line(labels, f"share of {source}", n=n, note="needs three seeds") for source in SOURCES]
        found = zip(SOURCES, variance_shares(values, seed=self.seed), strict=True)
        return [figure_line(labels, f"share of {source}", share) for source, share in found]


def _heads(first: Setting, second: Setting) -> dict[str, NDArray[np.float64]]:
    """JSD between all heads [N L H H], by which queries are read."""
    parts: dict[str, list[NDArray[np.float64]]] = {which: [] for which in ROWS}
    for recorded in recorded_pairs(first.model, second.model, first.data.batches):
        for which in ROWS:
            parts[which].append(head_divergences(recorded, recorded.rows[which]).double().cpu().numpy())
    return {which: np.concatenate(arrays) for which, arrays in parts.items()}


def _explainers(context: Context, opened: Mapping[str, Setting]) -> Table:
    rows: list[dict[str, Any]] = []
    n_examples = len(context.setting.data.uids)
    for name in context.cells:
        labels = {"explainer": name}
        try:
            scores = [_scores(setting, name) for setting in opened.values()]
        except NotApplicable as answer:
            rows.append(line(labels, "rank correlation between seeds", note=f"cannot, because {answer}"))
            continue
        alike = mean_correlations([[words for _, words in of_seed] for of_seed in scores])
        agreed = np.array([len({target for target, _ in example}) == 1 for example in zip(*scores, strict=True)])
        kept = alike[agreed & ~np.isnan(alike)]
        note = "" if len(kept) == n_examples else f"{n_examples - len(kept)} of {n_examples} examples left out"
        rows.append(figure_line(labels, "rank correlation between seeds", interval(kept, bounds=(-1.0, 1.0)), note))
        rows.append(figure_line(labels, _OF_SEED, interval(1 - kept, bounds=(0.0, 2.0)), key=f"{name}.share_of_seed"))
    sentences = (
        f"{len(opened)} seeds; left out are examples that the models classify differently or whose scores are constant.",
        "The share of the seed is 1 less the correlation: 0 where seeds agree, 1 where they agree as chance does.",
    )
    title = "How much of an explanation is the seed of the training"
    drawing = Drawing("bars", x="explainer", y=(_OF_SEED,)) if any(r["n"] > 0 for r in rows) else None
    return Table("seeds_explainers", title, ("explainer",), pd.DataFrame(rows), sentences, drawing)


def _scores(setting: Setting, name: str) -> list[tuple[int, NDArray[np.float64]]]:
    """The explained class and the word scores of every example, in the order of the batches."""
    stored = setting.cell(name).explain("predicted")
    scores: list[tuple[int, NDArray[np.float64]]] = []
    for index, batch in enumerate(setting.data.batches):
        attribution = padded(stored, setting.data.start(index), batch)
        if attribution.tokens is None:
            raise NotApplicable("the method gives no token scores")
        scores += zip(attribution.target.classes.tolist(), rated_scores(batch, attribution.tokens, "max"), strict=True)
    return scores


def mean_correlations(scores: Sequence[Sequence[NDArray[np.float64]]]) -> NDArray[np.float64]:
    """Spearman's ρ of the word scores of each example between two seeds, mean over pairs of seeds.

    NaN where an example has fewer than two words, or constant scores under one seed. With word scores as standardised
    ranks, 1 − ρ is the share of their variance that is not the word's.

    Args:
        scores: of every seed, of every example.
    """
    return np.array([_mean_correlation(np.stack(example)) for example in zip(*scores, strict=True)])


def _mean_correlation(words: Float[NDArray[np.float64], "S U"]) -> float:
    if words.shape[1] < 2 or (np.ptp(words, axis=1) == 0).any():
        return float("nan")
    ranks = scipy.stats.rankdata(words, axis=1)
    if (ranks == ranks[0]).all():  # exactly 1, which a quotient of rounded sums is not
        return 1.0
    correlations = np.corrcoef(ranks)
    return float(correlations[np.triu_indices(len(words), 1)].mean())
