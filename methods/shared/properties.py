"""Why methods do not pass some checks of `benchmark.check` by their definition; each class names what holds of it."""

from collections.abc import Mapping

_BIAS, _WORDS = "twins: bias of values moved to the output", "twins: word embeddings + c, position embeddings − c"
_VALUES, _LOGITS = "twins: values rescaled", "twins: queries and keys rescaled"

MOVES_BIAS: Mapping[str, str] = {
    _BIAS: "a value is moved with its bias, which no edge, head or token moves where the output layer has it"
}
"""What holds of scores from value vectors, from gradients of attention, or by rules that leave biases out."""

MULTIPLIES_EMBEDDINGS: Mapping[str, str] = {
    _WORDS: "embeddings of words are multiplied, or compared with 0, and where 0 lies is a matter of the weights"
}
"""What holds of a method that multiplies by an embedding, or starts a path at 0."""

SIGNS_OF_WEIGHTS: Mapping[str, str] = dict.fromkeys(
    (_VALUES, _LOGITS),
    "a rule that tells signs apart, or stabilises a denominator, sees by which factor a layer is scaled",
)
"""What holds of relevance rules."""

LOOKS_AT_NO_MODEL: Mapping[str, str] = dict.fromkeys(
    ("read", "randomised", "twins: heads permuted"), "it is a control, and does not look at the model"
)
"""What holds of controls."""

REMOVES_NEIGHBOURS: Mapping[str, str] = dict.fromkeys(
    ("sign", "read"), "words are removed together with their neighbours, and share what the removal changes"
)
"""What holds of a method that removes windows of words."""

FOLLOWS_PLACES: Mapping[str, str] = {
    "randomised": "products of attention through all layers are led by the places of tokens, in a decoder above all: the "
    "rows that stand first are passed on by all that follow"
}
"""What holds of readouts that compose layers (docs/which-test.md)."""
