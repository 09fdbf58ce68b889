"""Does attention find what a word depends on, among what could be mistaken for it? (Lin et al. 2019).

Defined in docs/protocols.md, section 17.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import scipy
from jaxtyping import Bool
from numpy.typing import NDArray

from benchmark.analyses.base import ModelsAnalysis
from benchmark.analyses.context import Context
from benchmark.analyses.measured import figure_line
from benchmark.analyses.probing.confusions import CLAUSE, GROUPS, PHRASE, Confusions, confusions
from benchmark.results import statistics
from benchmark.results.statistics.proportions import Array
from benchmark.results.tables import Drawing, Table, frame, line
from benchmark.settings.declared import Count, configurable

_BITS, _RIGHT = "confusion", "antecedent before distractors"
_PHENOMENA = {"agreement": "A", "reflexives": "R"}
_WORST = (0.0, 40.0)


@configurable
class ConfusionScore(ModelsAnalysis):
    """The confusion score in bits (`confusions.confusion`) of agreement and of reflexives, as five tables.

    - `confusion_score`: means over the sentences of a condition with distractors, layer by layer, heads averaged as in the
      paper. 1 bit is what attention that cannot tell antecedent and one distractor has.
    - `confusion_by_file`: the same for the finer conditions of the authors' files, those without distractors (0 by
      construction) included.
    - `confusion_effects`: the slope over layers, a sentence's least-squares slope being the value; and the coefficients of a
      least-squares regression of the mean over layers on the factors of the files: distractors that agree or not, clauses or
      phrases, inflected auxiliaries or modals (of reflexives also whether object and clause hold a distractor). Where every
      file has as many sentences, they are the differences of the means; under a limit they need not be.
    - `confusion_heads`: how often the antecedent gets more attention than all distractors, by the head that is best on the
      validation split, and by the mean of the heads of the last layer.
    - `confusion_and_position`, where `diagnostic_classifiers` is asked for too: correlation over layers of the mean
      confusion and of the share of n-th tokens that a probe misses. It is over as many points as there are layers.

    Attributes:
        validation: stimuli that heads are chosen on.

    Raises:
        NotApplicable: no example is a stimulus, or the model has two sequences.

    Source: Lin et al. 2019, section 4, whose notebook and scripts were read; A1 to A4 and R1 to R8 follow the conditions of
    the scripts, the paper's own numbering was not read.
    Cost: one forward pass.
    """

    version: ClassVar[int] = 1
    reads_tables: ClassVar[bool] = True

    validation: Count = 2000

    def __call__(self, context: Context) -> Sequence[Table]:
        """Conditions, files, effects, heads, and position."""
        found, chosen = {}, {}
        for name, setting in self.opened(context).items():
            found[name] = confusions(setting.model, setting.data.batches)
            chosen[name] = confusions(setting.model, setting.data.calibration("validation", self.validation))
        tables = [_by_condition(found), _by_file(found), _effects(found), _heads(found, chosen)]
        position = _position(found, context.tables.get("diagnostic_classifiers", ()))
        return tables if position is None else [*tables, position]


def _of_group(found: Confusions, files: Sequence[str]) -> Bool[NDArray[np.bool_], " N"]:
    return np.isin(found.condition, files)


def _layers(place: Mapping[str, Any], bits: NDArray[np.float64]) -> list[dict[str, Any]]:
    intervals = statistics.intervals(bits, bounds=_WORST) if len(bits) else []
    return [figure_line({**place, "layer": layer}, _BITS, interval) for layer, interval in enumerate(intervals)]


def _by_condition(found: Mapping[str, Confusions]) -> Table:
    rows: list[dict[str, Any]] = []
    told = []
    for name, of_model in found.items():
        for condition, (what, files) in GROUPS.items():
            phenomenon = next(key for key, letter in _PHENOMENA.items() if condition.startswith(letter))
            place = {"model": name, "phenomenon": phenomenon, "condition": f"{condition}: {what}"}
            rows += _layers(place, of_model.bits[_of_group(of_model, files)])
        split = f"; {of_model.split_words} have a split word" if of_model.split_words else ""
        lost = f"; {of_model.lost} beyond the window are left out" if of_model.lost else ""
        told.append(f"{name}: {len(of_model.condition)} stimuli{split}{lost}.")
    return Table(
        name="confusion_score",
        title="Confusion score in bits: how far attention is from the antecedent to the distractors, by layer",
        labels=("model", "phenomenon", "condition", "layer"),
        rows=pd.DataFrame(rows),
        sentences=(
            "Heads are averaged first; intervals are over sentences; 1 bit is a coin's toss between two.",
            *told,
        ),
        drawing=Drawing("curves", x="layer", y=(_BITS,), series="condition", panels=("model", "phenomenon")),
    )


def _by_file(found: Mapping[str, Confusions]) -> Table:
    rows: list[dict[str, Any]] = []
    for name, of_model in found.items():
        for condition in sorted(
            set(of_model.condition.tolist()), key=lambda file: (file[0], int(file.partition(".")[2]))
        ):
            rows += _layers({"model": name, "file": condition}, of_model.bits[of_model.condition == condition])
    return Table(
        name="confusion_by_file",
        title="Confusion score in bits by the condition's file and layer",
        labels=("model", "file", "layer"),
        rows=pd.DataFrame(rows),
        printed=False,
    )


def _coefficients(
    place: Mapping[str, Any], effects: Mapping[str, NDArray[np.bool_]], beside: Sequence[NDArray[np.bool_]], bits: Array
) -> list[dict[str, Any]]:
    """Least squares of the mean over layers on the effects, an intercept and what stands `beside`; resampled by sentence."""
    x = np.stack([np.ones(len(bits)), *effects.values(), *beside], axis=1).astype(float)
    k, y = x.shape[1], bits.mean(1)
    if np.linalg.matrix_rank(x) < k:
        note = "these sentences do not tell the factors apart"
        return [line({**place, "effect": effect}, "bits", note=note) for effect in effects]
    moments = np.concatenate([(x[:, :, None] * x[:, None]).reshape(len(x), -1), x * y[:, None]], axis=1)

    def coefficient(number: int) -> Callable[[Array], Array]:
        def of_means(means: Array) -> Array:
            square = means[..., : k * k].reshape(*means.shape[:-1], k, k)
            found: Array = (np.linalg.pinv(square, hermitian=True) @ means[..., k * k :, None])[..., number, 0]
            return found

        return of_means

    return [
        figure_line({**place, "effect": effect}, "bits", statistics.interval(moments, coefficient(number)))
        for number, effect in enumerate(effects, start=1)
    ]


def _effects(found: Mapping[str, Confusions]) -> Table:
    rows: list[dict[str, Any]] = []
    for name, of_model in found.items():
        numbers = np.array([int(c.partition(".")[2]) for c in of_model.condition])
        agreement = np.char.startswith(of_model.condition, "agr.") & (numbers >= PHRASE.start)
        reflexives = np.char.startswith(of_model.condition, "refl.") & (numbers > 0)
        layer = np.arange(of_model.bits.shape[1]) - (of_model.bits.shape[1] - 1) / 2
        slopes = of_model.bits @ layer / max((layer**2).sum(), 1e-12)
        same = np.isin(of_model.condition, [*GROUPS["A1"][1], *GROUPS["A3"][1]])
        clause, inflected = np.isin(numbers, list(CLAUSE)), numbers % 2 == 1
        for phenomenon, which in (("agreement", agreement), ("reflexives", reflexives)):
            if not which.any():
                continue
            place = {"model": name, "phenomenon": phenomenon, "effect": "of a layer (slope)"}
            rows.append(figure_line(place, "bits", statistics.interval(slopes[which])))
        bits = of_model.bits
        if agreement.any():
            at = {"model": name, "phenomenon": "agreement"}
            factors = {
                "distractor of the same number": same[agreement],
                "relative clause rather than phrase": clause[agreement],
                "inflected auxiliary rather than modal": inflected[agreement],
            }
            rows += _coefficients(at, factors, (), bits[agreement])
        if reflexives.any():
            at = {"model": name, "phenomenon": "reflexives"}
            file = numbers[reflexives]
            factors = {
                "object of the same gender": np.isin(file, (1, 5, 6)),
                "clause of the same gender": np.isin(file, (3, 5, 7)),
            }
            objects, clauses = np.isin(file, (1, 2, 5, 6, 7, 8)), file >= 3
            rows += _coefficients(at, factors, (objects, clauses), bits[reflexives])
    return Table(
        name="confusion_effects",
        title="What confuses attention: effects on the confusion score in bits",
        labels=("model", "phenomenon", "effect"),
        rows=frame(rows, ("model", "phenomenon", "effect")),
        sentences=("Above 0 is more confusion; of a layer: below 0 where confusion falls with depth.",),
        drawing=Drawing("bars", x="effect", y=("bits",), series="model", panels=("phenomenon",)) if rows else None,
    )


def _heads(found: Mapping[str, Confusions], chosen: Mapping[str, Confusions]) -> Table:
    rows: list[dict[str, Any]] = []
    for name, of_model in found.items():
        for phenomenon, letter in _PHENOMENA.items():
            files = [file for key, (_, group) in GROUPS.items() if key.startswith(letter) for file in group]
            before, which = _of_group(chosen[name], files), _of_group(of_model, files)
            place = {"model": name, "phenomenon": phenomenon}
            if not before.any() or not which.any():
                rows.append(line(place | {"by": ""}, _RIGHT, note="no such sentences"))
                continue
            right = (chosen[name].heads[before] < 1).mean(0)
            layer, head = np.unravel_index(int(right.argmax()), right.shape)
            for by, bits in (
                (f"best head, {layer}-{head}", of_model.heads[which][:, layer, head]),
                ("mean of the heads of the last layer", of_model.bits[which][:, -1]),
            ):
                at = place | {"by": by}
                rows.append(figure_line(at, _RIGHT, statistics.interval((bits < 1).astype(float), bounds=(0.0, 1.0))))
                rows.append(figure_line(at, _BITS, statistics.interval(bits, bounds=_WORST)))
    return Table(
        name="confusion_heads",
        title="How often the antecedent gets more attention than the distractors",
        labels=("model", "phenomenon", "by"),
        rows=pd.DataFrame(rows),
        sentences=("The head is chosen on the validation split and measured on the test split, over all conditions.",),
    )


def _position(found: Mapping[str, Confusions], tables: Sequence[Table]) -> Table | None:
    """Correlation over layers of mean confusion and of the loss of position."""
    probes = next((table for table in tables if table.name == "diagnostic_classifiers"), None)
    if probes is None:
        return None
    rows: list[dict[str, Any]] = []
    for name, of_model in found.items():
        of_layers = [probes.keyed(f"{name}.by_place.{layer}")["value"] for layer in range(of_model.bits.shape[1])]
        layers = [layer for layer, accuracies in enumerate(of_layers) if len(accuracies)]
        loss = [1 - of_layers[layer].mean() for layer in layers]  # over n, where there are several
        for phenomenon, letter in _PHENOMENA.items():
            files = [file for key, (_, group) in GROUPS.items() if key.startswith(letter) for file in group]
            which = _of_group(of_model, files)
            place = {"model": name, "phenomenon": phenomenon}
            if len(layers) < 3 or not which.any() or np.ptp(loss) == 0:
                rows.append(line(place, "Pearson r", note="fewer than three layers, or no loss that varies"))
                continue
            r = float(scipy.stats.pearsonr(of_model.bits[which].mean(0)[layers], loss).statistic)
            rows.append(line(place, "Pearson r", r, n=len(layers), note="no interval: layers are no sample"))
    return Table(
        name="confusion_and_position",
        title="Does confusion fall where position is lost? Correlation over layers",
        labels=("model", "phenomenon"),
        rows=pd.DataFrame(rows),
        sentences=(
            "n counts layers; loss of position: the share of n-th tokens that the probes of a layer's input miss.",
        ),
    )
