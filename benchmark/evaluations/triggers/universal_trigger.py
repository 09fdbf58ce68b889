"""A trigger found by gradients: first-order replacement of its words (HotFlip; Ebrahimi 2018; Wallace et al. 2019)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from benchmark.evaluations.triggers.insertion import Encoded, insert
from benchmark.evaluations.triggers.patterns import Placed, Search, Trigger, TriggerSearch
from benchmark.evaluations.triggers.words import SHIPPED, Exclusion, exclusion, whole_words
from benchmark.models import Classifier
from benchmark.settings.declared import AtLeast, Count, Natural, Share, configurable
from benchmark.settings.early import ExistingFile
from benchmark.types import Batch

WordIds = tuple[int, ...]
"""Token ids of a trigger, one whole word each."""


@configurable
class UniversalTrigger(TriggerSearch):
    """Words that raise the loss of a class most, wherever they are inserted: `argmax_w mean_x L(y, f(x + w))`.

    From random words, the replacement of word k by vocabulary entry v is estimated to first order as
    `(e_v − e_k) · mean_x ∂L/∂e_k` (L the cross-entropy of the gold class y over the source examples of y, e the token
    embeddings). The `candidates` best single replacements that were not tried yet are run; the one with the largest loss
    is kept if it beats the present words, so the loss never falls. The best triggers of all that were run are returned.

    The search for a class ends after as many forward passes as ATTATTR takes for the same examples: 1 + m (L + 1) / 2 each
    with m steps and L layers (it restarts in the middle of the model). One forward pass in 1 + `candidates` has a backward
    pass, fewer than ATTATTR's. Wallace et al. replace all words in turn with a beam; here the estimates decide which word
    is replaced. They put the words before the text (for pairs: before the hypothesis), as the defaults do. The vocabulary
    is that of whole words: no special tokens, word pieces, numbers or punctuation.

    Attributes:
        forward_passes_per_example: the budget; None for that of ATTATTR with `steps`.
        steps: m of ATTATTR.
        candidates: replacements that are run for one gradient.
        position: relative position of all words in their segment.
        segment: of pairs, where the words go: 1 for the second text (a single text has one segment).
        lexicon: words that are not used: None, "sentiment" or the path of a text file; added to the evaluation's.
        seed: of the first words.

    Source: Wallace et al. 2019, section 2.
    Cost: 1 + m (L + 1) / 2 forward passes for each source example of the attacked class.
    """

    forward_passes_per_example: Annotated[float | int, AtLeast(2)] | None = None
    steps: Count = 20
    candidates: Count = 4
    position: Share = 0.0
    segment: Literal[0, 1] = 1
    lexicon: Annotated[str | None, ExistingFile((SHIPPED,))] = None
    seed: Natural = 0
    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self._excluded()

    def search_triggers(self, model: Classifier, batches: Sequence[Batch], search: Search) -> list[Trigger]:
        """The triggers with the largest loss for each class of the examples, each attacking that class.

        Args:
            model: the attacked classifier.
            batches: correctly classified examples with labels.
            search: how many triggers of how many words, and which words are excluded.
        """
        excluded = Exclusion(search.exclusion.lexicon | self._excluded().lexicon, search.exclusion.punctuation)
        vocabulary = whole_words(model, excluded)
        triggers = []
        for label in sorted({label for batch in batches for label in batch.label.tolist()}):
            of_class = [batch.select((batch.label == label).nonzero().flatten().tolist()) for batch in batches]
            climb = _Climb(self, model, [batch for batch in of_class if len(batch)], vocabulary)
            losses = climb.run(search.words, self._budget(model), np.random.default_rng([self.seed, label]))
            for words, loss in sorted(losses.items(), key=lambda item: (-item[1], item[0]))[: search.triggers]:
                triggers.append(self._trigger(model, words, loss, model.labels[label]))
        return triggers

    def _excluded(self) -> Exclusion:
        return exclusion(self.lexicon, "methods.universal_trigger.lexicon")

    def _budget(self, model: Classifier) -> float | int:
        """Forward passes of one example."""
        if self.forward_passes_per_example is not None:
            return self.forward_passes_per_example
        return 1 + self.steps * (model.n_layers + 1) / 2

    def _trigger(self, model: Classifier, words: WordIds, loss: float, label: str) -> Trigger:
        spelled = [text.strip() for text in model.tokenizer.batch_decode([[word] for word in words])]
        placed = tuple(Placed(text, self.segment, float(self.position)) for text in spelled)
        return Trigger(words=placed, source=label, attacks=(label,), score=loss)


@dataclass
class _Climb:
    """The search for one class, whose examples are `batches`; `losses` are of all triggers that were run."""

    settings: UniversalTrigger
    model: Classifier
    batches: Sequence[Batch]
    vocabulary: Int[Tensor, "V"]
    losses: dict[WordIds, float] = field(default_factory=dict)

    def run(self, n_words: int, per_example: float | int, generator: np.random.Generator) -> dict[WordIds, float]:
        """Replace words until the next pass would exceed the budget."""
        n_examples = sum(map(len, self.batches))
        end = self.model.cost.forward_passes + per_example * n_examples
        words = tuple(self.vocabulary[generator.integers(len(self.vocabulary), size=n_words)].tolist())
        self.losses[words], gradient = self._gradient(words)
        while passes_left := int((end - self.model.cost.forward_passes) / n_examples + 1e-6):
            tried = self._replacements(words, gradient, min(self.settings.candidates, passes_left))
            for candidate in tried:
                self.losses[candidate] = self._loss(candidate)
            best = max((words, *tried), key=self.losses.__getitem__)
            if not tried or passes_left < len(tried) + 2:  # a gradient helps only where a replacement can follow it
                break
            if best != words:
                words = best
                self.losses[words], gradient = self._gradient(words)
        return self.losses

    def _replacements(self, words: WordIds, gradient: Float[Tensor, "K D"], count: int) -> list[WordIds]:
        """The `count` replacements of one word, not run yet, that raise the loss most to first order."""
        weight: Tensor = self.model.model.get_input_embeddings().weight  # type: ignore[operator]  # a module's attribute is a tensor or a module to mypy
        current = (weight[list(words)] * gradient).sum(1)
        gains = gradient @ weight[self.vocabulary].T - current[:, None]
        replacements: list[WordIds] = []
        width = gains.shape[1]
        for flat in gains.flatten().argsort(descending=True, stable=True).tolist():
            place, entry = divmod(flat, width)
            candidate = (*words[:place], int(self.vocabulary[entry]), *words[place + 1 :])
            if candidate not in self.losses:
                replacements.append(candidate)
            if len(replacements) == count:
                break
        return replacements

    def _gradient(self, words: WordIds) -> tuple[float, Float[Tensor, "K D"]]:
        """Mean loss over the examples, and its gradient by the embedding of each word."""
        loss, gradient, n = 0.0, torch.zeros((), dtype=self.model.scores_dtype, device=self.model.device), 0
        for part in self._parts(self.model.n_layers):
            inserted = insert(self.model, part.tensors, part.units, self._encoded(words, len(part)))
            trace = self.model.run(inserted.tensors, record=("embeddings",), grad=True)
            if trace.embeddings is None:
                raise RuntimeError("the model recorded no embeddings")
            losses = F.cross_entropy(trace.logits, part.label, reduction="none")
            (gradient_of_part,) = self.model.gradients(losses, [trace.embeddings])
            index = inserted.places[:, :, None].expand(-1, -1, gradient_of_part.shape[2])
            gradient = gradient + gradient_of_part.gather(1, index).sum(0)
            loss, n = loss + float(losses.detach().sum()), n + len(part)
        return loss / n, gradient / n

    def _loss(self, words: WordIds) -> float:
        """Mean loss over the examples."""
        total, n = 0.0, 0
        for part in self._parts(1):
            inserted = insert(self.model, part.tensors, part.units, self._encoded(words, len(part)))
            logits = self.model.run(inserted.tensors).logits
            total, n = total + float(F.cross_entropy(logits, part.label, reduction="sum")), n + len(part)
        return total / n

    def _parts(self, layers: int) -> Iterator[Batch]:
        """Examples of one pass each, within the memory budget for the attention of so many layers."""
        for batch in self.batches:
            yield from (part for part, _ in self.model.parts(batch, layers))

    def _encoded(self, words: WordIds, n: int) -> Encoded:
        ids = torch.tensor(words, device=self.model.device).expand(n, -1)
        position = torch.full(ids.shape, float(self.settings.position), dtype=torch.float64, device=ids.device)
        segment = torch.full_like(ids, self.settings.segment)
        return Encoded(ids, torch.ones_like(ids, dtype=torch.bool), segment, position)
