"""Probes find what states mark, stay at chance on noise, and are trained as the equations say."""

import numpy as np
import pytest
import torch

from benchmark import load_model
from benchmark.analyses.probing.diagnostic_classifiers import (
    MAJORITY,
    VOCABULARY,
    WORDS_ALONE,
    DiagnosticClassifiers,
    _expected_layer,
    _expected_line,
)
from benchmark.analyses.probing.probed_sentences import Probed, probed_sentences, random_model
from benchmark.analyses.probing.word_finders import Sentences, trained_finders, trained_mixes
from benchmark.annotations import KEYS, Marked
from benchmark.errors import NotApplicable
from benchmark.models.words import hidden_states
from benchmark.types import Example
from tests import text_models


def noise(seed, count, words=8, kinds=2, features=6):
    """States and words to find that know nothing of each other."""
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(kinds, count, words, features, generator=generator)
    return Sentences(
        states, torch.ones(count, words, dtype=torch.bool), torch.randint(words, (count,), generator=generator)
    )


def test_a_state_that_marks_the_word_finds_it():
    given = noise(0, 200)
    given.states[1, torch.arange(200), given.target, 0] += 8
    train, test = given.rows(torch.arange(100)), given.rows(torch.arange(100, 200))
    found = trained_finders(train, 200, seed=0).found(test)
    assert (found[1] == test.target).all()
    assert (found[0] == test.target).float().mean() < 0.4


def test_noise_is_at_chance_and_not_selective():
    """The real and the control target are both drawn at random: 1 word of 8."""
    parts, control = ({part: noise(seed + i, n) for i, (part, n) in enumerate(SIZES)} for seed in (0, 10))
    control = {part: Sentences(parts[part].states, parts[part].words, control[part].target) for part in parts}
    known = {part: sentences.target for part, sentences in parts.items()}
    rows = DiagnosticClassifiers(steps=100).lines({"probe": "p"}, Probed(parts, control, known, 0, 0))
    for states in (WORDS_ALONE, "0"):
        own = {row["metric"]: row for row in rows if row["states"] == states}
        for metric in ("test", "generalisation", "control task"):
            assert own[metric]["low"] < 1 / 8 < own[metric]["high"], metric
        assert own["selectivity"]["low"] <= 0 <= own["selectivity"]["high"]
    for states in (MAJORITY, VOCABULARY):
        assert {row["metric"] for row in rows if row["states"] == states} == {"train", "test", "generalisation"}
    (beyond,) = (row for row in rows if row["states"] == "0" and row["metric"] == "generalisation beyond vocabulary")
    assert (beyond["n"], beyond["note"]) == (0, "vocabulary alone finds the word in every sentence")


SIZES = (("train", 400), ("test", 300), ("generalisation", 300))


def test_one_step_is_adam_on_the_cross_entropy():
    """From weights of 0 the first step of Adam is the rate times the sign of the gradient."""
    given = noise(3, 5, words=4, kinds=1, features=3)
    finders = trained_finders(given, 1, seed=0)
    weight = torch.zeros(3, 2, requires_grad=True)
    losses = []
    for sentence in range(5):
        for word in range(4):
            output = given.states[0, sentence, word] @ weight
            losses.append(-output.log_softmax(-1)[int(given.target[sentence] == word)])
    (gradient,) = torch.autograd.grad(torch.stack(losses).mean(), weight)
    assert torch.allclose(finders.weight[0], -0.01 * gradient.sign(), atol=1e-5)


def test_padding_is_never_found():
    given = noise(4, 60)
    words = torch.arange(8)[None] < torch.randint(2, 9, (60, 1), generator=torch.Generator().manual_seed(0))
    padded = Sentences(given.states, words, given.target % words.sum(1))
    found = trained_finders(padded, 30, seed=0).found(padded)
    assert padded.words[torch.arange(60)[None].expand(2, -1), found].all()


def test_a_mix_finds_the_layer_that_knows():
    given = noise(5, 300, kinds=3)
    given.states[2, torch.arange(300), given.target, 0] += 8
    upto = torch.ones(3, 3, dtype=torch.bool).tril()
    mixes = trained_mixes(given, upto, torch.ones(3, 300), 300, seed=0)
    assert mixes.share.sum(1).tolist() == pytest.approx([1, 1, 1])
    assert mixes.share[0].tolist() == [1, 0, 0]
    assert mixes.share[2].argmax() == 2
    accuracy = (mixes.found(given) == given.target).float().mean(1)
    assert accuracy[2] > 0.95 > 0.5 > accuracy[1]


def test_a_sentence_that_is_drawn_twice_weighs_twice():
    """A mix with weights 2 and 0 learns as one that has the first half of the sentences alone."""
    given = noise(6, 32, kinds=2)
    half = torch.cat([torch.full((16,), 2.0), torch.zeros(16)])[None]
    weighted = trained_mixes(given, torch.ones(1, 2, dtype=torch.bool), half, 20, seed=0)
    alone = trained_mixes(
        given.rows(torch.arange(16)), torch.ones(1, 2, dtype=torch.bool), torch.ones(1, 16), 20, seed=0
    )
    assert torch.allclose(weighted.weight, alone.weight, atol=1e-3)


def test_the_expected_layer_by_hand():
    assert _expected_layer(np.array([0.2, 0.5, 0.6, 0.8])) == pytest.approx((1 * 0.3 + 2 * 0.1 + 3 * 0.2) / 0.6)
    assert np.isnan(_expected_layer(np.array([0.5, 0.7, 0.4])))


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ([[0, 1, 1]] * 50 + [[0, 0, 1]] * 50, ""),
        ([[1, 1, 1]] * 99 + [[0, 1, 1]], "no figure: in too many resamples"),
        ([[1, 1, 0]] * 50, "gains nothing"),
        ([[1, 0, 1]] * 50 + [[0, 0, 1]] * 10, "no mean of layers"),
    ],
)
def test_an_expected_layer_is_shown_with_its_interval_and_inside_of_the_model(found, said):
    """Of the last, accuracy goes .83, 0, 1: (1 · −.83 + 2 · 1) / .17 = 7, in a model of two blocks."""
    row = _expected_line({"layer": "expected layer"}, np.array(found, dtype=bool))
    assert said in row["note"]
    assert np.isfinite(row["value"]) == np.isfinite(row["low"]) == (not said)
    if not said:
        assert row["value"] == 1.5


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return load_model(text_models.save_bert(tmp_path_factory.mktemp("bert")), "float64")


def sentences(part, count, seed):
    """The word to find is "good", wherever it stands; in the generalisation set it is "bad"."""
    draw = np.random.default_rng(seed)
    for number in range(count):
        words = [str(word) for word in draw.choice(["the", "film", "plot", "story", "was"], size=4 + number % 3)]
        at = int(draw.integers(len(words)))
        words[at] = "bad" if part == "generalisation" else "good"
        yield Example(f"{part}-{number}", words, -1, meta={KEYS[Marked]: Marked("auxiliary", part, at)})


def test_tables_of_a_model(bert, given):
    def batch(part, count, seed):
        return bert.encode_examples(list(sentences(part, count, seed)), ())

    context = given(bert, [batch("test", 30, 1), batch("generalisation", 30, 2)], [batch("train", 60, 0)])
    analysis = DiagnosticClassifiers(train=40, steps=150, resamples=3)
    table, mix = analysis(context)
    rows = table.rows.set_index(["model", "states", "metric"])
    own = rows.loc[bert.name]
    assert own.loc[(WORDS_ALONE, "test"), "value"] == 1
    assert own.loc[(WORDS_ALONE, "train"), "n"] == 40
    assert set(own.index.get_level_values("states")) == {WORDS_ALONE, "0", "1", "2", MAJORITY, VOCABULARY}
    assert own.loc[(VOCABULARY, "test"), "value"] == 1
    assert own.loc[(VOCABULARY, "generalisation"), "value"] == 0, "no training sentence asks for bad"
    assert own.loc[("1", "generalisation beyond vocabulary"), "n"] == 30
    assert (f"{bert.name}, random weights", "2", "selectivity") in rows.index
    weights = mix.rows[mix.rows["metric"] == "weight"]
    assert weights["value"].sum() == pytest.approx(1)
    assert analysis(context)[0].rows.equals(table.rows)
    table.check()
    mix.check()


def test_vocabulary_solves_compounds_and_not_possessors(bert, given):
    """Trained on the first noun: a compound's first part is unknown, and a possessor is a noun as any other."""

    def examples(part, *lines):
        for number, (text, at) in enumerate(lines):
            yield Example(f"{part}-{number}", text.split(), -1, meta={KEYS[Marked]: Marked("subject noun", part, at)})

    training = examples("train", ("the film was good", 1), ("the plot was bad", 1))
    hard = [("the story film was dull", 2), ("the film ' plot was good", 3)]
    rest = [*examples("test", ("the plot was dull", 1)), *examples("generalisation", *hard)]
    batches = [bert.encode_examples(list(part), ()) for part in (training, rest)]
    (probed,) = probed_sentences(bert, batches, 0).values()
    assert {part: known.tolist() for part, known in probed.known.items()} == {
        "train": [1, 1], "test": [1], "generalisation": [2, 1],
    }  # fmt: skip
    rows = DiagnosticClassifiers(steps=5).lines({"probe": "subject noun"}, probed)
    figures = {(row["states"], row["metric"]): row for row in rows}
    assert figures[VOCABULARY, "generalisation"]["value"] == 0.5
    assert figures["1", "generalisation beyond vocabulary"]["n"] == 1


def test_words_alone_have_no_position_and_states_0_have(bert):
    states = hidden_states(bert, bert.encode(["film film"]))[0][0]
    assert not torch.allclose(states[1], states[2])


def test_a_random_model_is_another_one_of_the_same_shape(bert):
    before = torch.random.get_rng_state()
    fresh, again, other = (random_model(bert, seed) for seed in (3, 3, 1))
    assert torch.equal(before, torch.random.get_rng_state())
    batch = bert.encode(["the film was good"])
    states = [hidden_states(model, batch)[-1] for model in (bert, fresh, again, other)]
    assert torch.equal(states[1], states[2])
    assert not torch.allclose(states[0], states[1])
    assert not torch.allclose(states[1], states[3])


def test_examples_without_a_word_to_find_are_refused(bert, given):
    batch = bert.encode(["the film"])
    with pytest.raises(NotApplicable, match="no example has a word to find"):
        DiagnosticClassifiers()(given(bert, [batch], [batch]))
