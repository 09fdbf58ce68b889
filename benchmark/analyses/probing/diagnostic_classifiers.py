"""What do the states of a layer know? Diagnostic classifiers that find a word (Lin et al. 2019; Tenney et al. 2019).

Defined in docs/protocols.md, section 17.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool
from numpy.typing import NDArray

from benchmark.analyses.base import ModelsAnalysis
from benchmark.analyses.context import Context
from benchmark.analyses.measured import figure_line
from benchmark.analyses.probing.probed_sentences import Probed, drawn_sentences, probed_sentences, random_model
from benchmark.analyses.probing.word_finders import Sentences, trained_finders, trained_mixes
from benchmark.models.classifier import Classifier
from benchmark.randomness import generator
from benchmark.results import statistics
from benchmark.results.statistics.proportions import Array
from benchmark.results.tables import Drawing, Table, line
from benchmark.run.workbench import Setting
from benchmark.settings.declared import AtLeast, Count, Natural, configurable

WORDS_ALONE, MAJORITY, VOCABULARY = "words alone", "majority", "vocabulary"
_BEYOND = "generalisation beyond vocabulary"
_CONTROL, _SELECTIVITY = "control task", "selectivity"
_SHARE = (0.0, 1.0)
_ALL = 10**9
_NOTHING_BEYOND = "vocabulary alone finds the word in every sentence"
_NO_GAIN = "the mix of all states gains nothing over the embeddings"
_NO_GAIN_SOMEWHERE = "no figure: in too many resamples the mix gains nothing over the embeddings"
_OUTSIDE = "with some layers accuracy falls so far that the formula is no mean of layers"


@configurable
class DiagnosticClassifiers(ModelsAnalysis):
    """Linear classifiers that find a word (main auxiliary, subject's noun, n-th token) from the states of each layer.

    A word's state is the mean over its pieces; special tokens are no words, as in the authors' inputs. Three tables:

    - `diagnostic_classifiers`, for the embeddings of words without positions, for the states before the first block (0) and
      after each, and for the same states of a model of the same shape with new random weights: accuracy = share of sentences
      whose word is found, on the training, the test and the generalisation set; that on a control task; and selectivity, the
      accuracy on the test set less that on the control task. `majority` is the most frequent place of the training set.
      `vocabulary` knows words and nothing of structure: the first word whose type some training sentence asks for (in small
      letters; without one it finds none). Where it is right in a generalisation set, as in the authors' compounds, whose
      first parts no training sentence has, a probe that generalises need not know structure. `generalisation beyond
      vocabulary` is the accuracy on the sentences of that set in which `vocabulary` is wrong.
    - `scalar_mix`: the weights of a scalar mix of states 0 to L, their centre of gravity Σ_l l · s_l, and the expected layer
      Σ_l l · Δ_l / Σ_l Δ_l, l = 1, ..., L, with Δ_l what the accuracy on the test set gains from the mix of states 0 to
      l − 1 to that of 0 to l.

    The control task gives every word type a fixed random rank; the word to find is that of the highest rank in the sentence,
    the first of equal ones. Who remembers types does well on it, whatever the sentence says.

    Intervals are over the sentences that are measured on. Those of the mix's weights and of their centre resample the
    training sentences and train again; the expected layer's is over test sentences. The expected layer is no figure where it
    has no interval, or where accuracy falls with some layers so far that it lies outside of 1 to L.

    Attributes:
        train: sentences that a probe is trained on.
        steps: of Adam, on 32 sentences each.
        resamples: of the training sentences, for the mix.
        seed: of the order of the sentences, the control task, the resamples, and the random model.

    Raises:
        NotApplicable: no example has a word to find, there is no training split, or the model has two sequences.

    Source: Lin et al. 2019, section 3, whose code was read; Hewitt & Liang 2019a (control tasks; the analogue for finding a
    word is ours); Tenney et al. 2019, section 3, of which the beginning was read.
    Cost: two forward passes per sentence, and memory of 8 · (L + 2) · D bytes per word.
    """

    version: ClassVar[int] = 3

    train: Count = 1000
    steps: Count = 300
    resamples: Annotated[int, AtLeast(2)] = 20
    seed: Natural = 0

    def __call__(self, context: Context) -> Sequence[Table]:
        """Accuracy by layer, and scalar mixes."""
        rows: list[dict[str, Any]] = []
        mixes: list[dict[str, Any]] = []
        told = []
        for name, setting in self.opened(context).items():
            for probe, own in self.probed(setting, setting.model).items():
                place = {"model": name, "probe": probe}
                rows += self.lines(place, own, key=f"{name}.by_place" if own.by_place else "")
                mixes += self._mix(place, own)
                split = f", {own.split_words} of which have their word split" if own.split_words else ""
                lost = f"; {own.lost} beyond the window are left out" if own.lost else ""
                counts = ", ".join(f"{part} {len(sentences.target)}" for part, sentences in own.parts.items())
                told.append(f"{name}, {probe}: {counts} sentences{split}{lost}.")
            for probe, other in self.probed(setting, random_model(setting.model, self.seed)).items():
                rows += self.lines({"model": f"{name}, random weights", "probe": probe}, other, majority=False)
        return [_table(rows, told), _mix_table(mixes)]

    def probed(self, setting: Setting, model: Classifier) -> dict[str, Probed]:
        """The sentences of each probe, with the states of a model that reads what the setting's reads."""
        training = drawn_sentences(setting.data.calibration("train", _ALL), self.train, self.seed)
        return probed_sentences(model, (*training, *setting.data.batches), self.seed)

    def lines(
        self, place: Mapping[str, Any], probed: Probed, *, majority: bool = True, key: str = ""
    ) -> list[dict[str, Any]]:
        """The accuracies of every kind of states; with a `key`, that of layer l on the test set has the key `key.l`."""
        finders = trained_finders(probed.parts["train"], self.steps, self.seed)
        control = trained_finders(probed.control["train"], self.steps, self.seed)
        right = {part: (finders.found(s) == s.target).numpy() for part, s in probed.parts.items()}
        remembered = (control.found(probed.control["test"]) == probed.control["test"].target).numpy()
        hard = probed.parts["generalisation"]
        beyond = (probed.known["generalisation"] != hard.target).numpy()
        names = [WORDS_ALONE, *map(str, range(len(finders.weight) - 1))]
        rows = []
        for number, states in enumerate(names):
            at = {**place, "states": states}
            keys = {"test": f"{key}.{states}"} if key and states != WORDS_ALONE else {}
            rows += [_share(at, part, hits[number], key=keys.get(part, "")) for part, hits in right.items()]
            rows.append(_share(at, _BEYOND, right["generalisation"][number][beyond], _NOTHING_BEYOND))
            rows.append(_share(at, _CONTROL, remembered[number]))
            less = right["test"][number].astype(float) - remembered[number].astype(float)
            rows.append(figure_line(at, _SELECTIVITY, statistics.interval(less, bounds=(-1.0, 1.0))))
        if majority:
            at = {**place, "states": MAJORITY}
            place_of = int(torch.bincount(probed.parts["train"].target).argmax())
            rows += [_share(at, part, (s.target == place_of).numpy()) for part, s in probed.parts.items()]
            at = {**place, "states": VOCABULARY}
            rows += [_share(at, part, (s.target == probed.known[part]).numpy()) for part, s in probed.parts.items()]
        return rows

    def _mix(self, place: Mapping[str, Any], probed: Probed) -> list[dict[str, Any]]:
        train = _without_words_alone(probed.parts["train"])
        test = _without_words_alone(probed.parts["test"])
        kinds, n = len(train.states), len(train.target)
        upto = torch.ones(kinds, kinds, dtype=torch.bool).tril()
        random = generator(self.seed, "resampled training sentences")
        counts = np.stack([np.bincount(random.integers(0, n, n), minlength=n) for _ in range(self.resamples)])
        weights = torch.cat([torch.ones(kinds, n), torch.from_numpy(counts).float()])
        allowed = torch.cat([upto, torch.ones(self.resamples, kinds, dtype=torch.bool)])
        mixes = trained_mixes(train, allowed, weights, self.steps, self.seed)
        cumulative, drawn = mixes.first(kinds), mixes.share[kinds:].double().numpy()
        share = cumulative.share[-1].double().numpy()
        layers = np.arange(kinds)
        rows = []
        for layer in layers:
            interval = statistics.spread_interval(float(share[layer]), drawn[:, layer], n, _SHARE)
            rows.append(figure_line({**place, "layer": str(layer)}, "weight", interval))
        centre = statistics.spread_interval(float(share @ layers), drawn @ layers, n, (0.0, float(kinds - 1)))
        rows.append(figure_line({**place, "layer": "centre of gravity"}, "layers", centre))
        right = (cumulative.found(test) == test.target).numpy().T
        return [*rows, _expected_line({**place, "layer": "expected layer"}, right)]


def _expected_line(place: Mapping[str, Any], right: Bool[NDArray[np.bool_], "N kinds"]) -> dict[str, Any]:
    """The expected layer of cumulative mixes, with an interval over sentences; or why there is none."""
    expected = statistics.interval(right.astype(float), _expected_layer) if right.any() else None
    if expected is None or not np.isfinite(expected.value):
        return line(place, "layers", note=_NO_GAIN)
    if not 1 <= expected.value <= right.shape[1] - 1:
        return line(place, "layers", note=_OUTSIDE)
    if not np.isfinite(expected.low):
        return line(place, "layers", note=_NO_GAIN_SOMEWHERE)
    return figure_line(place, "layers", expected)


def _without_words_alone(sentences: Sentences) -> Sentences:
    return replace(sentences, states=sentences.states[1:])


def _expected_layer(means: Array) -> Array:
    """Σ_l l · Δ_l / Σ_l Δ_l of cumulative accuracies [..., L + 1]; NaN where nothing is gained."""
    gains = np.diff(means, axis=-1)
    total = means[..., -1] - means[..., 0]
    layers = np.arange(1, means.shape[-1])
    found: Array = np.where(total > 0, (gains * layers).sum(-1) / np.where(total > 0, total, 1.0), np.nan)
    return found


def _share(
    place: Mapping[str, Any], metric: str, hits: Bool[NDArray[np.bool_], " N"], nothing: str = "", key: str = ""
) -> dict[str, Any]:
    """The share of hits; without sentences an empty line that says why."""
    if not len(hits):
        return line(place, metric, note=nothing, key=key)
    return figure_line(place, metric, statistics.interval(hits.astype(float), bounds=_SHARE), key=key)


def _table(rows: list[dict[str, Any]], told: Sequence[str]) -> Table:
    frame = pd.DataFrame(rows)
    return Table(
        name="diagnostic_classifiers",
        title="What the states of a layer know: share of sentences in which a linear classifier finds the word",
        labels=("model", "probe", "states"),
        rows=frame,
        sentences=(
            "States 0 are those before the first block, with positions; words alone are their embeddings without.",
            "vocabulary: the first word that training sentences ask for. Where it is right, no structure is needed.",
            *told,
        ),
        drawing=Drawing("heat", x="states", y=("probe",), panels=("model",), value="generalisation"),
    )


def _mix_table(rows: list[dict[str, Any]]) -> Table:
    return Table(
        name="scalar_mix",
        title="Which layers a probe reads: scalar mix, its centre of gravity, and the expected layer",
        labels=("model", "probe", "layer"),
        rows=pd.DataFrame(rows),
        sentences=(
            "Weights sum to 1 over layers; n counts training sentences, and test sentences of the expected layer.",
        ),
        drawing=Drawing("bars", x="layer", y=("weight",), series="probe", panels=("model",)),
    )
