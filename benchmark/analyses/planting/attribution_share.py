"""Do explainers put as much on a planted feature as theory asks for? (Zhou et al. 2022; docs/protocols.md, section 17)."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from omegaconf import DictConfig

from benchmark import progress
from benchmark.analyses.base import Analysis
from benchmark.analyses.context import Context
from benchmark.analyses.means import SHARE
from benchmark.analyses.opening import has_seed, opened, seeds_from
from benchmark.analyses.planting.attributed import Measured, measure
from benchmark.analyses.planting.theory import best_accuracy, feature_share
from benchmark.analyses.seeds_and_examples import SeedValues, crossed_lines, of_seeds, spread_lines
from benchmark.errors import NotApplicable
from benchmark.results.tables import Drawing, Table, line
from benchmark.run.workbench import Setting
from benchmark.settings.declared import Count, Distinct, Share, configurable
from benchmark.settings.defaults import parameters
from benchmark.settings.early import SPLITS

ATTR, DISTANCE = "Attr%", "distance from theory"
ACCURACY, BEST, WITHOUT = "accuracy", "best accuracy there can be", "best accuracy without the feature"
THEORY, CHANCE = "theory", "share of planted units"
_EXACT = "no interval: exact for these rules"


@dataclass(frozen=True)
class _Place:
    """A setting of the rules."""

    kept: float
    strength: float

    @property
    def labels(self) -> dict[str, float]:
        """Columns of the tables."""
        return {"kept": self.kept, "strength": self.strength}


@configurable
class AttributionShare(Analysis):
    """Attr%, the share of an explanation that falls on a planted feature, over how strongly the feature goes with the label.

    For each share `kept` of labels that stay, each `strengths` and each of `trainings` seeds a model is trained on the
    comparison's task (`task=planted_feature`, or `planted_patch` for images) under these rules, and every explainer of the
    comparison explains the classes that it predicts for the scored examples. Of an example with a planted feature

        Attr% = Σ_{i planted} |s_i| / Σ_i |s_i|,

    s_i the score of a word, or of a patch, which is planted where the square touches it. Theory asks for the share of the
    feature in the log-odds by which an observer decides who knows the rules (`theory.feature_share`): 1 where the text says
    nothing of the label, and no less than the share given where a model knows the text's first label less surely than the
    observer.

    Three tables: `attribution_share`, with theory and the share of planted units, which scores without regard to the input
    would have, beside; `attribution_share_distance`: the mean over all settings of |Attr% − theory|; and
    `attribution_share_models`: accuracies, without which theory asks for nothing: a model that is better than the best
    accuracy without the feature goes by the feature.

    Intervals hold for other seeds and other examples at once (`statistics.crossed_interval`), of these rules and features.

    Attributes:
        kept: shares of labels that stay.
        strengths: shares of features that are the label's.
        trainings: seeds, from the model's own on.
        limit: examples that are explained; None for all of the comparison's.

    Raises:
        NotApplicable: the task plants no feature, or none or flipped ones in the scored split; or the model does not learn
            from it.

    Source: Zhou et al. 2022 (arXiv:2104.14403), whose published program (`dataset_modification.py`) was read, and of whose
    paper the abstract; theory between 0 and 1 is this project's.
    Cost: for every setting and seed a training, which is cached, and every explainer once for each example.
    """

    version: ClassVar[int] = 1

    kept: Annotated[Sequence[Share], Distinct()] = (0.5, 0.9)
    strengths: Annotated[Sequence[Share], Distinct()] = (0.6, 0.75, 0.9, 0.99)
    trainings: Count = 1
    limit: Count | None = 200

    def __call__(self, context: Context) -> Sequence[Table]:
        """Train, explain, compare with theory."""
        target = str(context.setting.config.task.get("_target_", ""))
        if not {"kept", "shortcut_strength"} <= parameters(target).keys():
            raise NotApplicable("the task plants no feature (task=planted_feature)")
        _check_learned(context.setting.config)
        if getattr(context.setting.task, "feature", "") == "case" and not _tells_capitals(context.setting):
            raise NotApplicable("the model's tokenizer does not tell capitals from small letters")
        classes = len(context.setting.task.labels)
        shares: list[dict[str, Any]] = []
        models: list[dict[str, Any]] = []
        distances: dict[str, list[dict[str, NDArray[np.float64]]]] = {}
        places = [_Place(kept, strength) for kept in self.kept for strength in self.strengths]
        refused: dict[str, str] = {}
        with progress.step("models and explanations", len(places) * self.trainings, unit="models") as advance:
            for place in places:
                measured: list[Measured] = []
                for seed in seeds_from(context.setting, self.trainings):
                    measured.append(measure(context, _learned(context.setting, place, seed, self.limit), refused))
                    advance(1)
                theory = feature_share(place.kept, place.strength, classes)
                shares += _share_lines(place, measured, theory)
                rate = float(context.setting.config.task.get("shortcut_rate", 1.0))
                models += _model_lines(place, measured, classes, rate)
                for name in measured[0].shares if not math.isnan(theory) else ():
                    if name in refused:
                        continue
                    columns = zip(measured[0].uids, np.stack([one.shares[name] for one in measured]).T, strict=True)
                    distances.setdefault(name, []).append({uid: abs(values - theory) for uid, values in columns})
        shares = [row for row in shares if row["explainer"] not in refused]
        distances = {name: found for name, found in distances.items() if name not in refused}
        shares += [line({"kept": self.kept[0], "strength": self.strengths[0], "explainer": name}, ATTR, note=reason)
                   for name, reason in refused.items()]  # fmt: skip
        about = f"{of_seeds(self.trainings)} Attr% is of examples with a planted feature and a score that is not 0."
        return [_distances(distances, about), _shares(shares, about), _models(models, about)]


def _learned(own: Setting, place: _Place, seed: int, limit: int | None) -> Setting:
    """The comparison's task under these rules, and a model that learned it."""
    rules = {"task.kept": place.kept, "task.shortcut_strength": place.strength}
    least = min((n for n in (own.config.limit, limit) if n is not None), default=None)
    return opened(own, {**rules, "model.seed": seed, "limit": least})


def _check_learned(config: DictConfig) -> None:
    """NotApplicable where models do not learn the rules, or are not scored on them."""
    if not has_seed(config.model) or config.model.get("task") is not None:
        raise NotApplicable("the model does not learn from the planted task (model=tiny, tiny_vit or finetuned)")
    if config.split not in config.task.get("shortcut_splits", SPLITS) or config.split in (
        config.task.get("flipped_splits") or ()
    ):
        raise NotApplicable(f"features of the {config.split} split are flipped, or there are none")


def _tells_capitals(setting: Setting) -> bool:
    """Whether the model reads a word in capitals as something else."""
    tensors = setting.model.encode([["river"], ["RIVER"]]).tensors["input_ids"]
    return not bool((tensors[0] == tensors[1]).all())


def _table(measured: Sequence[Measured], name: str) -> SeedValues:
    """Attr% of every seed; examples without a value in one are left out."""
    values = np.stack([one.shares[name] for one in measured if name in one.shares])
    return values[:, ~np.isnan(values).any(0)]


def _crossed(labels: dict[str, Any], metric: str, values: SeedValues) -> list[dict[str, Any]]:
    return crossed_lines(labels, metric, values, SHARE, "undefined in every example") + spread_lines(
        labels, values, SHARE
    )


def _share_lines(place: _Place, measured: Sequence[Measured], theory: float) -> Iterator[dict[str, Any]]:
    for name in measured[0].shares:
        yield from _crossed({**place.labels, "explainer": name}, ATTR, _table(measured, name))
    note = "neither the text nor the feature says anything" if math.isnan(theory) else _EXACT
    yield line({**place.labels, "explainer": THEORY}, ATTR, theory, note=note)
    chance = measured[0].chance
    yield line(
        {**place.labels, "explainer": CHANCE},
        ATTR,
        float(chance.mean()),
        n=len(chance),
        note="no interval: exact for these texts",
    )


def _model_lines(place: _Place, measured: Sequence[Measured], classes: int, rate: float) -> Iterator[dict[str, Any]]:
    yield from _crossed(dict(place.labels), ACCURACY, np.stack([one.right for one in measured]))
    best, without = (best_accuracy(place.kept, strength, classes) for strength in (place.strength, 1 / classes))
    yield line(place.labels, BEST, rate * best + (1 - rate) * without, note=_EXACT)
    yield line(place.labels, WITHOUT, without, note=_EXACT)


def _shares(rows: list[dict[str, Any]], about: str) -> Table:
    return Table(
        name="attribution_share",
        title="How much of an explanation falls on a planted feature",
        labels=("kept", "strength", "explainer"),
        rows=pd.DataFrame(rows),
        sentences=(
            about,
            "Kept: the share of labels that stay what they were; strength: the share of features that are the label's. "
            "Theory: the feature's share in the log-odds of an observer who knows the rules; a model that reads the text "
            "less surely has a larger one.",
        ),
        drawing=Drawing("curves", x="strength", y=(ATTR,), series="explainer", panels=("kept",)),
    )


def _distances(found: dict[str, list[dict[str, NDArray[np.float64]]]], about: str) -> Table:
    """The mean over settings of the examples that have a value in all of them."""
    rows: list[dict[str, Any]] = []
    for name, settings in found.items():
        common = [uid for uid in settings[0] if all(uid in one and not np.isnan(one[uid]).any() for one in settings)]
        values = [np.mean([one[uid] for one in settings], axis=0) for uid in common]
        seeds = len(next(iter(settings[0].values()), ()))
        rows += _crossed({"explainer": name}, DISTANCE, np.array(values).reshape(len(values), seeds).T)
    return Table(
        name="attribution_share_distance",
        title="How far explanations are from what theory asks for",
        labels=("explainer",),
        rows=pd.DataFrame(rows),
        sentences=(about, "The mean over all settings of |Attr% − theory| of an example; 0 is best."),
        drawing=Drawing("bars", x="explainer", y=(DISTANCE,)),
        first=True,
    )


def _models(rows: list[dict[str, Any]], about: str) -> Table:
    return Table(
        name="attribution_share_models",
        title="Models that learned the planted features",
        labels=("kept", "strength"),
        rows=pd.DataFrame(rows),
        sentences=(about,),
        drawing=Drawing("curves", x="strength", y=(ACCURACY, BEST, WITHOUT), panels=("kept",)),
    )
