"""Which earlier mention does each head attend to most? What heads choose as the antecedent of a mention."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

from benchmark.analyses.syntax.head_votes import single_sequence, visible_words
from benchmark.annotations import Coreference, annotated
from benchmark.models.classifier import Classifier
from benchmark.models.words import word_attention
from benchmark.types import Batch


@dataclass(frozen=True)
class Chosen:
    """The mentions that have an antecedent, and who finds one.

    Attributes:
        heads: whether each head, in each direction, finds a mention of the same entity.
        nearest: whether the nearest earlier mention is one.
        string: whether the nearest earlier mention with the same head word is one, or the nearest where none has it.
        kind: of the mention.
        document: the number of its example.
        lost: mentions beyond the model's window, or without a visible antecedent, which are left out.
    """

    heads: Bool[NDArray[np.bool_], "M 2 L H"]
    nearest: Bool[NDArray[np.bool_], " M"]
    string: Bool[NDArray[np.bool_], " M"]
    kind: NDArray[np.str_]
    document: Int[NDArray[np.int64], " M"]
    lost: int


def chosen_antecedents(model: Classifier, batches: Sequence[Batch]) -> Chosen:
    """Antecedent selection by every head, in documents that know their mentions.

    A mention stands for itself by its head word; its candidates are the head words of all earlier mentions, and the one with
    the largest attention (from the mention to the candidate, or from the candidate to the mention) is chosen.

    Raises:
        NotApplicable: the examples have no coreference, or the model has two sequences.
    """
    single_sequence(model)
    heads, nearest, string, kinds, documents = [], list[bool](), list[bool](), list[str](), list[int]()
    lost, number = 0, 0
    for batch in batches:
        annotations = iter(annotated(batch.meta, Coreference))
        for part, _ in model.parts(batch):
            visible = visible_words(part).cpu().numpy()
            attentions = model.run(part, record=("attentions",)).attentions
            layers = [word_attention(layer.to(model.scores_dtype), part.units).cpu().numpy() for layer in attentions]
            for row in range(len(part)):
                attention = np.stack([layer[row] for layer in layers])
                mentions = sorted(next(annotations).mentions, key=lambda mention: mention.head)
                seen = [m for m in mentions if m.head < visible.shape[1] and visible[row, m.head]]
                with_antecedent = [
                    m for i, m in enumerate(mentions) if any(other.entity == m.entity for other in mentions[:i])
                ]
                for place, mention in enumerate(seen):
                    earlier = [other for other in seen[:place] if other.head < mention.head]
                    right = np.array([other.entity == mention.entity for other in earlier], dtype=bool)
                    if not right.any():
                        continue
                    at = [other.head for other in earlier]
                    heads.append(right[_choices(attention, mention.head, at)])
                    nearest.append(bool(right[-1]))
                    word = part.words[row][mention.head].lower()
                    same = [i for i, other in enumerate(at) if part.words[row][other].lower() == word]
                    string.append(bool(right[same[-1] if same else -1]))
                    kinds.append(mention.kind)
                    documents.append(number)
                lost += len(with_antecedent) - documents.count(number)
                number += 1
    shape = (0, 2, model.n_layers, model.n_heads)
    return Chosen(
        np.stack(heads) if heads else np.zeros(shape, dtype=bool),
        np.array(nearest, dtype=bool),
        np.array(string, dtype=bool),
        np.array(kinds, dtype=np.str_),
        np.array(documents, dtype=np.int64),
        lost,
    )


def _choices(
    attention: Float[NDArray[np.float64], "L H W W"], mention: int, candidates: Sequence[int]
) -> Int[NDArray[np.int64], "2 L H"]:
    """The place among the candidates of the one with the largest attention, in either direction."""
    towards, from_them = attention[:, :, mention, candidates], attention[:, :, candidates, mention]
    return np.stack([towards.argmax(-1), from_them.argmax(-1)])
