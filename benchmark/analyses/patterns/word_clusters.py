"""Do the states of a word lie together? Embeddings of chosen words by layer, with a score of how well they cluster.

Defined in docs/protocols.md, section 17.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from sklearn.metrics import silhouette_samples
from sklearn.metrics.cluster import contingency_matrix

from benchmark.analyses.base import ModelsAnalysis
from benchmark.analyses.context import Context
from benchmark.analyses.measured import figure_line
from benchmark.errors import NotApplicable
from benchmark.models.words import hidden_states, word_states
from benchmark.randomness import generator
from benchmark.results import statistics
from benchmark.results.tables import Drawing, Table, line
from benchmark.run.workbench import Setting
from benchmark.settings.declared import AtLeast, Count, Natural, configurable

_STARTS = 5
_SILHOUETTE, _FOUND = "silhouette", "in the cluster of its group"


@dataclass(frozen=True)
class Occurrences:
    """Occurrences of the chosen words in one model.

    Attributes:
        states: of every occurrence after every block, the embeddings first.
        group: what each occurrence is told apart by: its word, or the label of its example.
        example: the number of its example.
        names: of the groups.
    """

    states: Float[NDArray[np.float64], "D n F"]
    group: Int[NDArray[np.int64], " n"]
    example: Int[NDArray[np.int64], " n"]
    names: tuple[str, ...]


@configurable
class WordClusters(ModelsAnalysis):
    """States of chosen words after every block, as two tables.

    `word_clusters`, by layer (0: the embeddings):

    - silhouette: with a(i) the mean cosine distance of occurrence i to the others of its group, and b(i) that to the nearest
      other group, mean of (b − a) / max(a, b), in [−1, 1]; the mean over the occurrences of an example, then over examples;
    - in the cluster of its group: the share of occurrences that k-means (k groups, on states of length 1) puts into the
      cluster of their group, each group having one cluster, matched so that the share is largest; 1 where clusters are the
      groups, and at least 1/k for groups of one size. Means as of the silhouette; the clusters stay as found.

    `word_map`: the occurrences in the plane of the two first principal components, at the first, middle and last layer.

    Attributes:
        words: whose states, in lower case; None for the `count` most frequent words of at least three letters.
        count: see `words`.
        by: groups are the words; or, of the occurrences of all words together, the labels of their examples.
        occurrences: of a word at most, drawn by the seed.
        seed: of the draws and of k-means.

    Raises:
        NotApplicable: fewer than two groups occur at least twice, or the examples have no words.

    Source: this project; the silhouettes of Rousseeuw 1987, as scikit-learn has them.
    Cost: one forward pass.
    """

    version: ClassVar[int] = 1

    words: Sequence[str] | None = None
    count: Annotated[int, AtLeast(2)] = 8
    by: Literal["word", "label"] = "word"
    occurrences: Annotated[int, AtLeast(2)] = 60
    limit: Count | None = 300
    seed: Natural = 0

    def __call__(self, context: Context) -> Sequence[Table]:
        """Scores by layer, and maps."""
        found = {name: self.occurring(setting) for name, setting in self.looked_at(context).items()}
        return [self._scores(found), self._maps(found)]

    def occurring(self, setting: Setting) -> Occurrences:
        """The states of the chosen words in the examples of a setting."""
        places = self._places(setting)
        if self.by == "label":
            groups = [int(setting.data.batches[b].label[row]) for b, row, _, _ in places]
            names = setting.model.labels
        else:
            names = tuple(sorted({word for *_, word in places}))
            groups = [names.index(word) for *_, word in places]
        counts = Counter(group for group in groups if group >= 0)
        kept = [i for i, group in enumerate(groups) if counts[group] >= 2]
        present = sorted({groups[i] for i in kept})
        if len(present) < 2:
            raise NotApplicable("fewer than two groups of words occur at least twice in the examples")
        states = self._states(setting, [places[i] for i in kept])
        start = np.cumsum([0, *(len(batch) for batch in setting.data.batches)])
        return Occurrences(
            states=states,
            group=np.array([present.index(groups[i]) for i in kept]),
            example=np.array([start[places[i][0]] + places[i][1] for i in kept]),
            names=tuple(names[group] for group in present),
        )

    def _places(self, setting: Setting) -> list[tuple[int, int, int, str]]:
        """Batch, row and number of every chosen occurrence that the model sees, with its word."""
        batches = setting.data.batches
        if batches[0].patch is not None:
            raise NotApplicable("the examples are images, which have no words")
        visible = [
            (b, row, int(unit), batch.words[row][int(unit)].lower())
            for b, batch in enumerate(batches)
            for row in range(len(batch))
            for unit in torch.unique(batch.units[row]).tolist()
            if unit >= 0
        ]
        if self.words is None:
            frequent = Counter(word for *_, word in visible if len(word) >= 3 and word.isalpha())
            chosen = {word for word, _ in sorted(frequent.items(), key=lambda item: (-item[1], item[0]))[: self.count]}
        else:
            chosen = {str(word).lower() for word in self.words}
        by_word: dict[str, list[tuple[int, int, int, str]]] = {}
        for place in visible:
            if place[3] in chosen:
                by_word.setdefault(place[3], []).append(place)
        drawn = []
        for word, found in by_word.items():
            order = generator(self.seed, "occurrences of a word", word).permutation(len(found))[: self.occurrences]
            drawn += [found[int(i)] for i in np.sort(order)]
        return sorted(drawn)

    def _states(self, setting: Setting, places: Sequence[tuple[int, int, int, str]]) -> NDArray[np.float64]:
        by_batch: dict[int, list[tuple[int, int]]] = {}
        for b, row, unit, _ in places:
            by_batch.setdefault(b, []).append((row, unit))
        parts = []
        for b, chosen in by_batch.items():
            batch = setting.data.batches[b]
            rows, units = map(list, zip(*chosen, strict=True))
            states = [word_states(state, batch.units)[rows, units] for state in hidden_states(setting.model, batch)]
            parts.append(np.stack([state.double().cpu().numpy() for state in states]))
        return np.concatenate(parts, axis=1)

    def _scores(self, found: Mapping[str, Occurrences]) -> Table:
        rows: list[dict[str, Any]] = []
        told = []
        for name, occurrences in found.items():
            counts = np.bincount(occurrences.group)
            told.append(
                f"{name}: {', '.join(f'{g} ({n})' for g, n in zip(occurrences.names, counts, strict=True))} occurrences."
            )
            for layer, states in enumerate(occurrences.states):
                place = {"model": name, "layer": layer}
                rows.append(figure_line(place, _SILHOUETTE, silhouette(states, occurrences)))
                rows.append(figure_line(place, _FOUND, self._clustered(states, occurrences)))
        return Table(
            name="word_clusters",
            title=f"Do the states of a word lie together? Scores of the groups ({self.by}s) by layer",
            labels=("model", "layer"),
            rows=pd.DataFrame(rows),
            sentences=("Layer 0 is what the first block reads. n counts examples; intervals are over examples.", *told),
            drawing=Drawing("curves", x="layer", y=(_SILHOUETTE, _FOUND), series="model"),
        )

    def _clustered(self, states: Float[NDArray[np.float64], "n F"], occurrences: Occurrences) -> statistics.Interval:
        unit = states / np.maximum(np.linalg.norm(states, axis=1, keepdims=True), 1e-12)
        clusters = KMeans(len(occurrences.names), n_init=_STARTS, random_state=self.seed).fit_predict(unit)
        together = contingency_matrix(occurrences.group, clusters)
        of_group = np.empty(len(together), dtype=np.int64)
        groups, matched = linear_sum_assignment(together, maximize=True)
        of_group[groups] = matched
        return _over_examples((clusters == of_group[occurrences.group]).astype(float), occurrences, (0.0, 1.0))

    def _maps(self, found: Mapping[str, Occurrences]) -> Table:
        rows: list[dict[str, Any]] = []
        for name, occurrences in found.items():
            last = len(occurrences.states) - 1
            for layer in sorted({0, (last + 1) // 2, last}):
                centred = occurrences.states[layer] - occurrences.states[layer].mean(0)
                axes = np.linalg.svd(centred, full_matrices=False)[2][:2]
                axes *= np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(1)])[:, None]
                for number, point in enumerate(centred @ axes.T):
                    group = occurrences.names[occurrences.group[number]]
                    place = {"model": name, "layer": layer, "group": group, "occurrence": number}
                    rows += [line(place, "x", float(point[0])), line(place, "y", float(point[-1]))]
        return Table(
            name="word_map",
            title="Occurrences of words in the plane of the two first principal components",
            labels=("model", "layer", "group", "occurrence"),
            rows=pd.DataFrame(rows),
            drawing=Drawing("scatter", x="x", y=("y",), series="group", panels=("model", "layer")),
            printed=False,
        )


def silhouette(states: Float[NDArray[np.float64], "n F"], occurrences: Occurrences) -> statistics.Interval:
    """Mean silhouette of the occurrences, by cosine distance."""
    samples = silhouette_samples(states, occurrences.group, metric="cosine")
    return _over_examples(samples, occurrences, (-1.0, 1.0))


def _over_examples(
    values: Float[NDArray[np.float64], " n"], occurrences: Occurrences, bounds: tuple[float, float]
) -> statistics.Interval:
    """The mean over examples of the mean over the occurrences of an example."""
    place = np.unique(occurrences.example, return_inverse=True)[1]
    return statistics.interval(np.bincount(place, weights=values) / np.bincount(place), bounds=bounds)
