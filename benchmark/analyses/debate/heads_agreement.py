"""Which heads' attention agrees with gradient and leave-one-out importance? A map over layers and heads.

Defined in docs/protocols.md, section 16.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmark.analyses.base import Analysis
from benchmark.analyses.context import Context
from benchmark.analyses.debate.read_attention import read_attention
from benchmark.analyses.means import CORRELATION, SHARE, correlation_lines, mean_line, share_undefined
from benchmark.analyses.measured import figure_line
from benchmark.evaluations import ranks
from benchmark.evaluations.base import rated_scores, token_scores
from benchmark.results.tables import Drawing, Table
from benchmark.settings.declared import Count, configurable
from benchmark.targets import TargetName
from benchmark.types import Method
from benchmark.units import Pool

Values = NDArray[np.float64]

_TAU, _UNDEFINED, _CONICITY = "Kendall τ_b", "share undefined", "conicity"


@configurable
class HeadsAgreement(Analysis):
    """Kendall's τ_b between the attention of each head, from the token read, and reference importance of the words.

    Beside it, by layer: the same for the mean over heads, and the conicity `mean_i |cos(h_i, mean_j h_j)|` of the hidden
    states of words that the layer's attention reads, special tokens left out. Where states lie in a narrow cone, weights
    over them say little about what is used. Mohankumar et al. 2020 find that attention agrees more with gradients where
    conicity is low.

    An example in which the attention or the reference gives all words the same score has no τ_b; it is counted and is in no
    mean.

    Attributes:
        gradient: a method, gradient importance.
        leave_one_out: a method, leave-one-out importance.
        target: class that is explained.
        pool: from the scores of a word's tokens to its own.
        limit: how many of the scored examples; None for all.

    Source: Jain & Wallace 2019, section 4.1, for one layer; Mohankumar et al. 2020 for conicity.
    """

    gradient: Method
    leave_one_out: Method
    target: TargetName = "predicted"
    pool: Pool = "max"
    limit: Count | None = None
    version: ClassVar[int] = 2

    @property
    def references(self) -> Mapping[str, Method]:
        """By the name that tables show."""
        return {"gradient": self.gradient, "leave-one-out": self.leave_one_out}

    def __call__(self, context: Context) -> Sequence[Table]:
        """The map over layers and heads, and the layers with their conicity.

        Raises:
            NotApplicable: the model has an encoder and a decoder.
        """
        model = context.setting.model
        heads: list[Values] = []  # per example [R L H]
        layers: list[Values] = []  # per example [R L]
        cones: list[Values] = []
        for batch, target in context.first_examples(self.limit, self.target):
            read = read_attention(model, batch, self.pool)
            columns = [
                rated_scores(batch, token_scores(batch, method(model, batch, target)), self.pool)
                for method in self.references.values()
            ]
            for b, words in enumerate(read.words):
                of_example = [column[b] for column in columns]
                heads.append(np.stack([_taus(words, reference) for reference in of_example]))
                layers.append(np.stack([_taus(words.mean(axis=1), reference) for reference in of_example]))
            cones += list(read.conicity.double().cpu().numpy())
        names = model.attention_names
        return [self._map(np.stack(heads), names), self._layers(np.stack(layers), np.stack(cones), names)]

    def _map(self, taus: Values, names: Sequence[str]) -> Table:
        rows: list[dict[str, Any]] = []
        for r, reference in enumerate(self.references):
            for layer, head in np.ndindex(*taus.shape[2:]):
                labels = {"reference": reference, "layer": names[layer], "head": int(head)}
                values = taus[:, r, layer, head]
                rows.append(mean_line(labels, _TAU, values, CORRELATION, "undefined in every example"))
                rows.append(figure_line(labels, _UNDEFINED, share_undefined(values)))
        return Table(
            name="heads_agreement",
            title="Agreement of each head's attention with importance (Kendall's τ_b, from the token read)",
            labels=("reference", "layer", "head"),
            rows=pd.DataFrame(rows),
            drawing=Drawing("heat", x="head", y=("layer",), panels=("reference",), value=_TAU),
            printed=False,
        )

    def _layers(self, taus: Values, cones: Values, names: Sequence[str]) -> Table:
        rows: list[dict[str, Any]] = []
        for layer, name in enumerate(names):
            key = "last_layer.conicity" if layer == len(names) - 1 else ""
            rows.append(mean_line({"layer": name}, _CONICITY, cones[:, layer], SHARE, "no text has words", key=key))
            for r, reference in enumerate(self.references):
                rows += correlation_lines({"layer": name}, reference, taus[:, r, layer])
        return Table(
            name="layers_agreement",
            title="Agreement of each layer's attention with importance, and the conicity of the states that it reads",
            labels=("layer",),
            rows=pd.DataFrame(rows),
            drawing=Drawing(
                "bars", x="layer", y=(_CONICITY, *(f"τ_b with {reference}" for reference in self.references))
            ),
        )


def _taus(scores: Values, reference: Values) -> Values:
    """τ_b of each row [..., n] with the reference [n]."""
    flat = scores.reshape(-1, scores.shape[-1])
    taus: Values = ranks.tau_b(flat, reference).reshape(scores.shape[:-1])
    return taus
