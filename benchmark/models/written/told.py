"""A mechanism in words: what is written, layer by layer, and an input with what decides it."""

from collections.abc import Iterator

from benchmark.models.written.mechanism import READER, Drawn, Mechanism, Place, share_of
from benchmark.models.written.program import READ, Features, Head, Program

_READER = "where the answer is read"


def told(mechanism: Mechanism) -> str:
    """What `attention-benchmark show mechanism=NAME` prints.

    Behind what a head looks for stands the share of its attention that one such key gets beside the token on which it rests.
    """
    (drawn,) = mechanism.inputs(1, 0)
    return "\n".join([*_written(mechanism), "", *_input(mechanism.program, drawn), "", f"Lesson: {mechanism.lesson}."])


def _written(mechanism: Mechanism) -> Iterator[str]:
    program = mechanism.program
    yield f"{mechanism.name}: {mechanism.what}."
    yield ""
    yield "Words"
    for word, features in program.words.items():
        if features:
            yield f"  {word:10} {_sum(features)}"
    yield f"  all others have no feature: {', '.join(word for word, own in program.words.items() if not own)}"
    for number, layer in enumerate(program.layers):
        yield f"Layer {number}"
        for place, head in enumerate(layer.heads):
            part = "  (takes part)" if (number, place) in mechanism.heads else ""
            yield f"  head {number}.{place}   {_head(head)}{part}"
        for neuron in layer.neurons:
            yield f"  neuron     max(0, {_sum(neuron.reads)}) → {_sum(neuron.writes)}"
    no, yes = program.labels
    yield f"Answer: logit of {yes} less that of {no} = {_sum(program.answer)}, {_READER}"


def _head(head: Head) -> str:
    moved = ", ".join(f"{source} × {gain:g} → {to}" for source, to, gain in head.moves) or "nothing"
    if head.back is not None:
        places = "place" if head.back == 1 else "places"
        return f"looks {head.back} {places} back; moves {moved}"
    sought = ", ".join(
        f"{'the answer' if query == READ else query} → {key} ({share_of(weight):.0%})"
        for query, key, weight in head.looks
    )
    return f"looks {sought or 'nowhere'}; moves {moved}"


def _sum(features: Features) -> str:
    return " ".join(f"{'−' if weight < 0 else '+'} {abs(weight):g} {name}" for name, weight in features.items()).lstrip(
        "+ "
    )


def _input(program: Program, drawn: Drawn) -> Iterator[str]:
    yield f"An input: {' '.join(drawn.words)} ?"
    yield f"  the model answers {program.labels[drawn.label]}"
    yield f"  for it:     {', '.join(drawn.words[place] for place in sorted(drawn.speaks_for))}"
    if drawn.speaks_against:
        yield f"  against it: {', '.join(drawn.words[place] for place in sorted(drawn.speaks_against))}"
    for layer, query, key in sorted(drawn.edges, key=str):
        yield f"  layer {layer}: {_word(drawn, query)} looks at {_word(drawn, key)}"


def _word(drawn: Drawn, place: Place) -> str:
    if place == READER:
        return _READER
    if isinstance(place, tuple):
        return f"piece {place[1] + 1} of '{drawn.words[place[0]]}'"
    return f"'{drawn.words[int(place)]}'"
