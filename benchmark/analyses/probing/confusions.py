"""How far attention is from the antecedent to the distractors: the confusion score of sentences, by layer and by head."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from benchmark.analyses.syntax.head_votes import single_sequence, visible_words
from benchmark.annotations import KEYS, Stimulus
from benchmark.errors import NotApplicable
from benchmark.models.classifier import Classifier
from benchmark.models.words import word_attention
from benchmark.types import Batch

TINY = 1e-12
"""Shares below count as this, so that a head which never looks at the antecedent has 40 bits and not infinitely many."""

# By the authors' `corp-proc.py`; the paper's own numbering was not read.
PHRASE, CLAUSE = range(4, 12), range(12, 20)
GROUPS = {
    "A1": ("phrase, same number", ("agr.4", "agr.5", "agr.10", "agr.11")),
    "A2": ("phrase, other number", ("agr.6", "agr.7", "agr.8", "agr.9")),
    "A3": ("clause, same number", ("agr.12", "agr.13", "agr.18", "agr.19")),
    "A4": ("clause, other number", ("agr.14", "agr.15", "agr.16", "agr.17")),
    "R1": ("object, same gender", ("refl.1",)),
    "R2": ("object, other gender", ("refl.2",)),
    "R3": ("clause, same gender", ("refl.3",)),
    "R4": ("clause, other gender", ("refl.4",)),
    "R5": ("object and clause, same gender", ("refl.5",)),
    "R6": ("object same gender, clause other", ("refl.6",)),
    "R7": ("object other gender, clause same", ("refl.7",)),
    "R8": ("object and clause, other gender", ("refl.8",)),
}
"""Conditions with distractors (where they stand, and whether they agree), each with the files that it joins."""


@dataclass(frozen=True)
class Confusions:
    """Stimuli in one model.

    Attributes:
        bits: the confusion score of each sentence and layer, heads averaged first.
        heads: that of each head alone.
        condition: of each sentence, as its file is called.
        split_words: sentences whose target, antecedent or distractor the tokenizer splits.
        lost: sentences that lie beyond the model's window in part, which are left out.
    """

    bits: Float[NDArray[np.float64], "N L"]
    heads: Float[NDArray[np.float64], "N L H"]
    condition: NDArray[np.str_]
    split_words: int
    lost: int


def confusion(
    attention: Float[Tensor, "L H W"], antecedent: Sequence[int], distractors: Sequence[Sequence[int]]
) -> Float[Tensor, "L H"]:
    """−log₂ of the antecedent's share of the attention that goes to antecedent and distractors, in bits.

        confusion = −log₂ (Σ_{w ∈ antecedent} α_w / Σ_{w ∈ antecedent or a distractor} α_w)

    Args:
        attention: from the target to every word.
        antecedent: words.
        distractors: words of each; without any the score is 0.

    Source: Lin et al. 2019, section 4.1; equal to the authors' notebook (`attention_cross_entropy.ipynb`).
    """
    own = attention[..., list(antecedent)].sum(-1)
    others = attention[..., [word for words in distractors for word in words]].sum(-1)
    total = own + others
    if not distractors:  # also where attention to the antecedent underflows
        return torch.zeros_like(own)
    return -(own / torch.where(total > 0, total, 1)).clamp(min=TINY).log2()


def confusions(model: Classifier, batches: Sequence[Batch]) -> Confusions:
    """The stimuli among these examples; others are passed over.

    A split target attends with the mean of its pieces, and a split word is attended to with their sum.

    Raises:
        NotApplicable: no example is a stimulus, or the model has two sequences.
    """
    single_sequence(model)
    bits, heads, conditions = [], [], list[str]()
    split_words = lost = 0
    for batch in batches:
        rows = [row for row, meta in enumerate(batch.meta) if isinstance(meta.get(KEYS[Stimulus]), Stimulus)]
        if not rows:
            continue
        for part, _ in model.parts(batch.select(rows)):
            visible = visible_words(part).sum(1).tolist()
            attentions = model.run(part, record=("attentions",)).attentions
            layers = [word_attention(layer.to(model.scores_dtype), part.units) for layer in attentions]
            for row, meta in enumerate(part.meta):
                stimulus: Stimulus = meta[KEYS[Stimulus]]
                words = [stimulus.target, *stimulus.antecedent, *(w for pair in stimulus.distractors for w in pair)]
                if max(words) >= visible[row]:
                    lost += 1
                    continue
                split_words += any(int((part.units[row] == word).sum()) > 1 for word in words)
                from_target = torch.stack([layer[row, :, stimulus.target] for layer in layers]).double().cpu()
                mean = from_target.mean(1, keepdim=True)
                bits.append(confusion(mean, stimulus.antecedent, stimulus.distractors)[:, 0].numpy())
                heads.append(confusion(from_target, stimulus.antecedent, stimulus.distractors).numpy())
                conditions.append(stimulus.condition)
    if not bits:
        raise NotApplicable("no example is a stimulus (benchmark.annotations.Stimulus) within the model's window")
    return Confusions(np.stack(bits), np.stack(heads), np.array(conditions, dtype=np.str_), split_words, lost)
