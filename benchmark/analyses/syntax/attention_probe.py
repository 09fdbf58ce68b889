"""How much syntax is in all heads together? Probes with control tasks (Clark et al. 2019, section 5; Hewitt & Liang 2019a).

Defined in docs/protocols.md, section 17.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from jaxtyping import Bool
from numpy.typing import NDArray
from torch import Tensor

from benchmark.analyses.base import ModelsAnalysis
from benchmark.analyses.context import Context
from benchmark.analyses.syntax.probe_data import ProbeData, first_word_baseline, probe_data
from benchmark.analyses.syntax.probes import PROBES, predicted, trained
from benchmark.analyses.syntax.syntax_heads import of_all_lengths, share_line, share_of
from benchmark.errors import NoSplit, NotApplicable
from benchmark.results import statistics
from benchmark.results.tables import Drawing, Table
from benchmark.run.workbench import Setting
from benchmark.settings.declared import Count, Natural, configurable
from benchmark.types import Batch

_UAS, _CONTROL, _SELECTIVITY = "UAS", "on the control task", "selectivity"
_OFFSETS = (1, -1, 2, -2, 3, -3)


@configurable
class AttentionProbe(ModelsAnalysis):
    """Probes that are trained to find each word's head among the words of the sentence and the root (`probes`).

        UAS = Σ_sentences [words whose head is found] / Σ_sentences [words],    without punctuation

    The control task gives every word type a random, fixed head (`ProbeData.control`): a probe that does well on it remembers
    types. Selectivity is the UAS less the accuracy on the control task, by the same kind of probe trained on it, on the same
    words. The probe of words and distances has no attention, and the fixed offset no training.

    Attributes:
        limit: how many of the scored sentences, drawn by the comparison's seed; None for all.
        train: sentences that the probes are trained on, of all lengths alike: of the training split, or of the validation
            split where there is none.
        steps: of Adam, on 32 sentences each.
        seed: of the probes' first weights and of the control task.

    Raises:
        NotApplicable: the examples have no parse, or there is neither a training nor a validation split.

    Source: Clark et al. 2019, section 5, whose notebook was read (its output for attention and words: 78.0 UAS, BERT-base on
    the Penn Treebank); Hewitt & Liang 2019a.
    Cost: a forward pass per sentence; memory of 8 · L · H · n · (n + 1) bytes for a sentence of n words.
    """

    version: ClassVar[int] = 1

    limit: Count | None = 300
    train: Count = 400
    steps: Count = 200
    seed: Natural = 0

    def __call__(self, context: Context) -> Sequence[Table]:
        """UAS, accuracy on the control task, and selectivity of every probe."""
        rows: list[dict[str, Any]] = []
        told = []
        for name, setting in self.looked_at(context).items():
            split, batches = training_batches(setting, self.train)
            train, test = probe_data(setting.model, batches), probe_data(setting.model, setting.data.batches)
            rows += self.lines(name, train, test)
            n_train, n_test = (int(data.sentence.max()) + 1 for data in (train, test))
            told.append(f"{name}: trained on {n_train} sentences of the {split} split, measured on {n_test}.")
        return [
            Table(
                name="attention_probe",
                title="How much syntax is in all heads together: probes and their control task",
                labels=("model", "probe"),
                rows=pd.DataFrame(rows),
                sentences=("Punctuation is left out; intervals are over the sentences that are measured on.", *told),
                drawing=Drawing("bars", x="probe", y=(_UAS, _SELECTIVITY), series="model"),
            )
        ]

    def lines(self, name: str, train: ProbeData, test: ProbeData) -> list[dict[str, Any]]:
        """The figures of every probe of a model."""
        control_train, control_test = train.control(self.seed), test.control(self.seed)
        rows = []
        for kind in PROBES:
            real = predicted(trained(kind, train, self.steps, self.seed), test) == test.gold
            control = predicted(trained(kind, control_train, self.steps, self.seed), control_test) == control_test.gold
            rows += _lines({"model": name, "probe": kind}, test, real, control)
        best = max(_OFFSETS, key=lambda o: int((first_word_baseline(train, o) == train.gold)[train.scored].sum()))
        right = first_word_baseline(test, best) == test.gold
        place = {"model": name, "probe": f"fixed offset {best:+d}"}
        rows.append(share_line(place, _UAS, share_of(_by_sentence(test, right))))
        return rows


def training_batches(setting: Setting, count: int) -> tuple[str, list[Batch]]:
    """Sentences of the training split, or of the validation split where there is none, and which it is."""
    for split in ("train", "validation"):
        try:
            return split, of_all_lengths(setting.data.calibration(split, 4 * count), count)
        except (NotApplicable, NoSplit):
            continue
    raise NotApplicable("the task has neither a training nor a validation split for the probes")


def _lines(place: Mapping[str, Any], test: ProbeData, real: Tensor, control: Tensor) -> list[dict[str, Any]]:
    of_real, of_control = _by_sentence(test, real), _by_sentence(test, control)
    less = np.stack([of_real[:, 0] - of_control[:, 0], of_real[:, 1]], axis=1)
    selectivity = statistics.interval(less, statistics.ratio, bounds=(-1.0, 1.0))
    return [
        share_line(place, _UAS, share_of(of_real)),
        share_line(place, _CONTROL, share_of(of_control)),
        share_line(place, _SELECTIVITY, selectivity),
    ]


def _by_sentence(data: ProbeData, right: Bool[Tensor, " W"]) -> NDArray[np.float64]:
    """Right words and words of every sentence that has a word beside punctuation."""
    scored = data.scored.numpy()
    sentences, place = np.unique(data.sentence.numpy()[scored], return_inverse=True)
    counts = np.bincount(place, minlength=len(sentences))
    hits = np.bincount(place, weights=right.numpy()[scored], minlength=len(sentences))
    return np.stack([hits, counts], axis=1).astype(np.float64)
