"""What a forward pass gives, and what passes cost."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from jaxtyping import Float
from torch import Tensor

from benchmark.targets import probabilities_of


@dataclass
class Cost:
    """Passes through the model, counted in examples: a batch of 8 is 8; a pass restarted half way up, or over the
    second half of a text, counts one half.

    A result that is remembered instead of computed again counts its passes again, and its time in `remembered_seconds`.
    """

    forward_passes: float = 0.0
    backward_passes: float = 0.0
    remembered_seconds: float = 0.0

    def restore(self, before: "Cost") -> None:
        """What was counted since is not counted."""
        for count in fields(self):
            setattr(self, count.name, getattr(before, count.name))


def share_of_tokens(tensors: Mapping[str, Tensor]) -> float:
    """The share of a text's tokens that a pass computes: less than 1 where keys and values of earlier ones are known."""
    ids, mask = tensors.get("input_ids"), tensors.get("attention_mask")
    return 1.0 if ids is None or mask is None else ids.shape[1] / mask.shape[1]


@dataclass(frozen=True)
class Trace:
    """What one forward pass gave.

    Attributes:
        logits: one per class, in `Classifier.scores_dtype`.
        attentions: per attention call the probabilities [B H T T] after edits, if recorded; of the last call with
            rows="read" the rows that are read alone, [B H R T].
        permitted: per attention call the keys that its mask leaves to each query [B 1 T T], if recorded.
        embeddings: output of the token (or patch) embedding module [B T D], before positions are added, if recorded. An
            encoder and its decoder both read this one tensor: a gradient with respect to it is the sum over both uses.
        hidden: per attention call the input of its block [B T D], if recorded.
        multilabel: whether each label has a probability of its own, see `probabilities_of`.
        vocabulary: of a causal language model the logits [B V] of all tokens that may come next.
    """

    logits: Float[Tensor, "B C"]
    attentions: tuple[Tensor, ...] = ()
    permitted: tuple[Tensor, ...] = ()
    embeddings: Tensor | None = None
    hidden: tuple[Tensor, ...] = ()
    multilabel: bool = False
    vocabulary: Float[Tensor, "B V"] | None = None

    @property
    def normaliser(self) -> Float[Tensor, "B"]:
        """`ln Σ exp y` over the vocabulary, outside the graph: a candidate's log-probability is its logit less this."""
        assert self.vocabulary is not None
        return self.vocabulary.detach().logsumexp(-1)

    @property
    def probabilities(self) -> Float[Tensor, "B C"]:
        """Of the classes, or of each label; see `probabilities_of`."""
        return probabilities_of(self.logits, multilabel=self.multilabel)
