"""Programs that are written into models, so that what changes an answer is known, for checks that ask for a cause."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from benchmark.checking.subject import Place
from benchmark.errors import NotApplicable
from benchmark.models.checkpoints import quiet_transformers
from benchmark.models.classifier import Classifier
from benchmark.models.loading import load_model
from benchmark.models.written.families import FAMILIES, GRID, FamilyName, picture, write
from benchmark.models.written.mechanism import QUESTION, Mechanism
from benchmark.models.written.program import MARK, Features, Program
from benchmark.models.written.truth import HEADS
from benchmark.settings.identity import digest_of
from benchmark.types import Attribution, Batch, Example
from benchmark.units import pool

WORDS = ("red", "ink", "oak", "sun", "ice", "map")
"""The words of every input, in an order of its own."""


def family_like(model: Classifier) -> FamilyName:
    """The family that programs are written into for a method that is checked on this model.

    It reads the same token. Of decoders it is GPT-2: in a Llama the constant of `families` is part of every embedding of a
    word, and a path that begins at an embedding of 0 leaves it.
    """
    if model.tokenizer is None and model.encoder.patch is not None:
        return "vit"
    return "gpt2" if model.family.read == "last" else "bert"


def place_of(program: Program, family: FamilyName, texts: Sequence[Sequence[str]], name: str) -> Place:
    """The program in a model of the family, with these words as inputs, each closed by "?"."""
    whole = [(*text, QUESTION) for text in texts]
    given: list[Any] = (
        [picture(program, text) for text in whole]
        if FAMILIES[family].form == "image"
        else [" ".join(text) for text in whole]
    )

    def encoded(model: Classifier, chosen: Sequence[Any]) -> Batch:
        examples = [Example(str(place), text, -1) for place, text in enumerate(chosen)]
        return model.encode_examples(examples, model.label_map(program.labels))

    return Place(f"{name}, written into {family}", _written(program, family), tuple(given), encoded, family)


_MADE: dict[tuple[str, str], Classifier] = {}


def _written(program: Program, family: FamilyName) -> Classifier:
    """The model, made once in a process."""
    key = digest_of(program), family
    if key not in _MADE:
        with tempfile.TemporaryDirectory() as folder, quiet_transformers():
            write(program, family, Path(folder))
            _MADE[key] = load_model(folder, dtype="float64", device="cpu")
    return _MADE[key]


def vocabulary(own: Mapping[str, Features], without: Sequence[str] = ()) -> dict[str, Features]:
    """These words, those of `WORDS` that are not among them (but some), and the last one of every input."""
    return {**{word: {} for word in WORDS if word not in without}, **own, QUESTION: {MARK: 1.0}}


TEXTS = tuple(
    tuple(WORDS[(first + step * stride) % len(WORDS)] for step in range(len(WORDS)))
    for first, stride in ((0, 1), (3, 1), (1, 5), (4, 5))
)
"""Four inputs: the words forwards and backwards, from another one on each."""


def word_scores(batch: Batch, attribution: Attribution) -> Float[NDArray, "B U"]:
    """The scores of the words of each input of a program, without the last one, "?".

    Raises:
        NotApplicable: the method does not score tokens.
    """
    if attribution.tokens is None:
        raise NotApplicable("the method does not score tokens")
    scores, _ = pool(attribution.tokens.to(batch.units.device), batch.units, "max")
    return scores[:, : len(WORDS)].detach().double().cpu().numpy()


def mechanism_place(known: Mechanism, family: FamilyName, count: int) -> Place:
    """A mechanism in a model of the family, with inputs of which it is known what decides them."""
    drawn = list(known.inputs(count, 0))
    form, program = FAMILIES[family].form, known.program
    examples = {}
    for number, one in enumerate(drawn):
        words = (*one.words, QUESTION)
        units = np.arange(GRID**2 if form == "image" else len(words))
        examples[str(number)] = Example(
            uid=str(number),
            inputs=picture(program, words) if form == "image" else " ".join(words),
            label=one.label,
            rationale=np.isin(units, sorted(one.speaks_for)),
            rated=units < len(one.words),
            meta={HEADS: sorted(known.heads if one.heads is None else one.heads)},
        )

    def encoded(model: Classifier, chosen: Sequence[Any]) -> Batch:
        return model.encode_examples(list(chosen), model.label_map(program.labels))

    return Place(known.name, _written(program, family), tuple(examples.values()), encoded, family)
