"""The edge scores of examples, summed over heads, as attribution graphs are made of."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jaxtyping import Float
from numpy.typing import NDArray

from benchmark.errors import NotApplicable
from benchmark.evaluations.edges import terminals
from benchmark.models import Classifier
from benchmark.targets import Target
from benchmark.types import Batch, Method


@dataclass(frozen=True)
class SummedEdges:
    """Edge scores of one example.

    Attributes:
        uid: the example's.
        scores: summed over heads, of its n tokens [L n n].
        terminal: the token that the classifier reads, or None.
        units: of each token, -1 for special tokens.
    """

    uid: str
    scores: Float[NDArray, "L n n"]
    terminal: int | None
    units: Sequence[int]


def summed_edges(model: Classifier, batch: Batch, explainer: Method, target: Target) -> Iterator[SummedEdges]:
    """The edge scores of each example of the batch for its target.

    Raises:
        NotApplicable: the explainer scores no edges, or the model has an encoder and a decoder.
    """
    if not explainer.scores_edges:
        raise NotApplicable("the explainer scores no edges")
    for part, rows in model.parts(batch, 2 * model.n_layers):
        ends = terminals(model, part)
        scores = explainer.edge_scores(model, part, target[rows]).sum(2).detach().double().cpu()
        for b, n in enumerate(part.attention_mask.sum(1).tolist()):
            yield SummedEdges(part.uids[b], scores[b, :, :n, :n].numpy(), ends[b], part.units[b, :n].tolist())
