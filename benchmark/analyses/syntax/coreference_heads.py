"""Heads as coreference resolvers: which head finds an antecedent (Clark et al. 2019, section 4.3).

Defined in docs/protocols.md, section 17.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from jaxtyping import Bool
from numpy.typing import NDArray

from benchmark.analyses.base import ModelsAnalysis
from benchmark.analyses.context import Context
from benchmark.analyses.syntax.antecedents import Chosen, chosen_antecedents
from benchmark.analyses.syntax.syntax_heads import share_line, share_of
from benchmark.errors import NotApplicable
from benchmark.results.tables import Drawing, Table
from benchmark.run.workbench import Setting
from benchmark.settings.declared import Count, configurable

ALL = "all"
_DIRECTIONS = ("mention → antecedent", "antecedent → mention")
"""What `head_votes.DIRECTIONS` are called here, in their order."""
_ACCURACY, _CLAIMED = "accuracy", "accuracy where it was chosen"


@configurable
class CoreferenceHeads(ModelsAnalysis):
    """Antecedent selection by single heads, mention by mention (`antecedents.chosen_antecedents`).

        accuracy = Σ_documents [mentions whose choice is of the same entity] / Σ_documents [mentions with an antecedent]

    for all mentions and by kind, beside the nearest mention and the nearest one with the same head word. The head and its
    direction are chosen on the validation split over all mentions, and measured on the scored examples.

    Attributes:
        validation: examples that the head is chosen on.

    Raises:
        NotApplicable: the examples have no coreference, no mention has an antecedent, or there is no validation split.

    Source: Clark et al. 2019, section 4.3; the paper's own list of candidates and its rule-based baseline are unread.
    Cost: one forward pass for either split.
    """

    version: ClassVar[int] = 1

    limit: Count | None = 1000
    validation: Count = 500

    def __call__(self, context: Context) -> Sequence[Table]:
        """Accuracy by kind of mention."""
        rows: list[dict[str, Any]] = []
        told = []
        for name, setting in self.looked_at(context).items():
            chosen, measured = self._of(setting)
            rows += _of_model(name, chosen, measured)
            lost = f"; {measured.lost} mentions are left out, as they or their antecedents lie beyond its window"
            told.append(f"{name}: {len(measured.kind)} mentions with an antecedent{lost if measured.lost else ''}.")
        return [
            Table(
                name="coreference_heads",
                title="Heads as coreference resolvers: how often a mention's antecedent is found",
                labels=("model", "mentions", "by"),
                rows=pd.DataFrame(rows),
                sentences=(
                    "The head (layer-head) is chosen on the validation split and measured on the scored examples; n counts "
                    "the examples that hold such mentions, and intervals are over examples.",
                    *told,
                ),
                drawing=Drawing("bars", x="mentions", y=(_ACCURACY,), series="by", panels=("model",)),
            )
        ]

    def _of(self, setting: Setting) -> tuple[Chosen, Chosen]:
        validation = setting.data.calibration("validation", self.validation)
        chosen, measured = (chosen_antecedents(setting.model, each) for each in (validation, setting.data.batches))
        if not len(chosen.kind) or not len(measured.kind):
            raise NotApplicable("no mention of the examples has an antecedent")
        return chosen, measured


def _of_model(name: str, chosen: Chosen, measured: Chosen) -> list[dict[str, Any]]:
    right = chosen.heads.sum(0)
    way, layer, head = np.unravel_index(int(right.argmax()), right.shape)
    rows = []
    for kind in (ALL, *np.unique(measured.kind).tolist()):
        which, before = (np.ones(len(each.kind), dtype=bool) if kind == ALL else each.kind == kind
                         for each in (measured, chosen))  # fmt: skip
        best = f"best head, {layer}-{head}, {_DIRECTIONS[way]}"
        found = {
            best: measured.heads[:, way, layer, head],
            "nearest mention": measured.nearest,
            "same head word": measured.string,
        }
        for by, hits in found.items():
            place = {"model": name, "mentions": kind, "by": by}
            rows.append(share_line(place, _ACCURACY, share_of(_by_document(measured, which, hits))))
            if by == best:
                claimed = _by_document(chosen, before, chosen.heads[:, way, layer, head])
                rows.append(share_line(place, _CLAIMED, share_of(claimed)))
    return rows


def _by_document(
    chosen: Chosen, which: Bool[NDArray[np.bool_], " M"], hits: Bool[NDArray[np.bool_], " M"]
) -> NDArray[np.float64]:
    """Hits and mentions of every example that has such mentions."""
    documents, place = np.unique(chosen.document[which], return_inverse=True)
    counts = np.bincount(place, minlength=len(documents))
    return np.stack([np.bincount(place, weights=hits[which], minlength=len(documents)), counts], axis=1)
