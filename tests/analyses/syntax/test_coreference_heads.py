"""Antecedents that heads choose: by hand, and on heads that are set by hand."""

import pytest

from benchmark import load_model
from benchmark.analyses.syntax.antecedents import chosen_antecedents
from benchmark.analyses.syntax.coreference_heads import CoreferenceHeads
from benchmark.annotations import KEYS, Coreference, Mention
from benchmark.errors import NotApplicable
from benchmark.types import Example
from tests.planted_heads import WORD_KIND, Nowhere, Offset, ToKind, save_planted_heads

NOUN, PRONOUN = WORD_KIND + 1, WORD_KIND + 2
WORDS = {"the": WORD_KIND, "king": NOUN, "dog": WORD_KIND + 3, "saw": WORD_KIND + 4, "himself": PRONOUN}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Head 0-0 looks from the pronoun to the king, 0-1 at the previous word."""
    rules = [[ToKind(NOUN, of=[PRONOUN]), Offset(-1)], [Nowhere(), Nowhere()]]
    return load_model(save_planted_heads(tmp_path_factory.mktemp("planted"), WORDS, rules), "float64")


def encoded(model, *texts):
    """The king is the entity of the pronoun; every other noun is its own."""
    examples = []
    for number, text in enumerate(texts):
        words, mentions = text.split(), []
        for place, word in enumerate(words):
            if word in ("king", "dog", "himself"):
                entity = "king" if word != "dog" else f"dog {place}"
                kind = "pronoun" if word == "himself" else "nominal"
                mentions.append(Mention(place, place + 1, place, entity, kind))
        examples.append(Example(f"d{number}", words, -1, meta={KEYS[Coreference]: Coreference(tuple(mentions))}))
    return model.encode_examples(examples, ())


def test_a_planted_head_finds_every_antecedent(model, given):
    test = encoded(model, "the king saw the dog saw himself", "the dog saw the king saw himself", "the dog saw the dog")
    chosen = chosen_antecedents(model, [test])
    assert chosen.kind.tolist() == ["pronoun", "pronoun"]
    assert chosen.document.tolist() == [0, 1]
    assert chosen.heads[:, 0, 0, 0].all()
    assert chosen.nearest.tolist() == [False, True]
    assert chosen.string.tolist() == [False, True]
    (table,) = CoreferenceHeads(limit=None)(given(model, [test], [test]))
    rows = table.rows[table.rows["metric"] == "accuracy"].set_index(["mentions", "by"])
    assert rows.loc[("all", "best head, 0-0, mention → antecedent"), "value"] == 1
    assert rows.loc[("all", "nearest mention"), "value"] == 0.5
    assert rows.loc[("pronoun", "nearest mention"), "n"] == 2
    table.check()


def test_the_same_head_word_finds_the_earlier_one(model):
    test = encoded(model, "the king saw the dog saw the king")
    chosen = chosen_antecedents(model, [test])
    assert chosen.string.tolist() == [True]
    assert chosen.nearest.tolist() == [False]


def test_without_mentions_or_antecedents_it_is_refused(model, given):
    lone = encoded(model, "the king saw the dog")
    with pytest.raises(NotApplicable, match="no mention"):
        CoreferenceHeads(limit=None)(given(model, [lone], [lone]))
    with pytest.raises(NotApplicable, match="no coreference"):
        chosen_antecedents(model, [model.encode(["the king"])])
