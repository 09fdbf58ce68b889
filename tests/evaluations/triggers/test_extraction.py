"""Triggers read off hand-made edges and scores, the words they may hold, and their controls."""

import json
from collections import Counter
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch

from benchmark.errors import NotApplicable, UserError
from benchmark.evaluations.triggers.extraction import PaperRule, extract, patterns_of_edges, patterns_of_tokens
from benchmark.evaluations.triggers.patterns import Controls, Placed, Trigger, read, written
from benchmark.evaluations.triggers.words import Exclusion, count_words, eligible_tokens, exclusion, whole_words
from benchmark.settings.making import build
from benchmark.types import Attribution, Method
from tests.evaluations.triggers.texts import TEXTS, edges, labelled

TEXT = "the untoldly film was dull, bad"  # [CLS] the un ##told ##ly film was dull , bad [SEP]
THE, UN, TOLD, LY, FILM, WAS, DULL, COMMA, BAD, SEP = range(1, 11)


def words(pattern):
    return [(placed.word, placed.segment, placed.position) for placed in pattern.words]


def test_the_best_heads_two_best_pairs(bert):
    batch = bert.encode([TEXT], labels=[0])
    cells = {
        (0, 0, 1, FILM, BAD): 0.5,  # the best of another head
        (0, 1, 0, DULL, FILM): 0.9,
        (0, 1, 0, THE, WAS): 0.3,
        (0, 1, 0, WAS, BAD): 0.2,
    }
    (pattern,) = patterns_of_edges(bert, batch, edges(batch, cells), PaperRule())
    assert words(pattern) == [("the", 0, 0.0), ("film", 0, 4 / 9), ("was", 0, 5 / 9), ("dull", 0, 6 / 9)]
    assert pattern.score == pytest.approx(1.2)
    assert (pattern.uid, pattern.label) == ("0", 0)
    (one,) = patterns_of_edges(bert, batch, edges(batch, cells), PaperRule(pairs=1))
    assert [word for word, _, _ in words(one)] == ["film", "dull"]


def test_a_pattern_may_score_the_mean_over_its_words(bert):
    """Pairs of .9 and .6: of four words .375, of three, where both pairs share one, .5; and of the best words their mean."""
    batch = bert.encode([TEXT], labels=[0])
    for shared, words_of, mean in ((False, 4, 1.5 / 4), (True, 3, 1.5 / 3)):
        cells = {(0, 1, 0, DULL, FILM): 0.9, (0, 1, 0, FILM if shared else THE, WAS): 0.6}
        (pattern,) = patterns_of_edges(bert, batch, edges(batch, cells), PaperRule(score="mean"))
        assert len(pattern.words) == words_of
        assert pattern.score == pytest.approx(mean)
    scores = torch.zeros(1, batch.units.shape[1], dtype=torch.float64)
    scores[0, [THE, WAS, COMMA, BAD]] = torch.tensor([1.0, 4.0, 8.0, 3.0], dtype=torch.float64)
    (pattern,) = patterns_of_tokens(bert, batch, scores, PaperRule(score="mean", pairs=1))
    assert pattern.score == pytest.approx((4 + 3) / 2), "punctuation does not count"
    built = build("evaluations/triggers", "score=mean")
    assert (built.construction, built.score) == ("paper", "mean")


def test_cells_of_special_tokens_one_word_and_punctuation_do_not_count(bert):
    batch = bert.encode([TEXT], labels=[0])
    cells = {
        (0, 0, 0, 0, DULL): 9.0,
        (0, 0, 0, BAD, SEP): 8.0,
        (0, 0, 0, UN, LY): 7.0,
        (0, 0, 0, BAD, BAD): 6.0,
        (0, 0, 0, COMMA, BAD): 5.0,
        (0, 1, 1, UN, BAD): 0.1,
    }
    (pattern,) = patterns_of_edges(bert, batch, edges(batch, cells), PaperRule(pairs=1))
    assert words(pattern) == [("untoldly", 0, 1 / 9), ("bad", 0, 8 / 9)]
    kept = PaperRule(pairs=1, exclusion=Exclusion(punctuation=False))
    (pattern,) = patterns_of_edges(bert, batch, edges(batch, cells), kept)
    assert [word for word, _, _ in words(pattern)] == ["dull,", "bad"]


def test_both_directions_and_all_pieces_are_one_pair_of_words(bert):
    batch = bert.encode([TEXT], labels=[0])
    cells = {
        (0, 0, 0, UN, BAD): 0.9,
        (0, 0, 0, BAD, LY): 0.8,
        (0, 0, 0, TOLD, BAD): 0.7,
        (0, 0, 0, FILM, WAS): 0.1,
    }
    (pattern,) = patterns_of_edges(bert, batch, edges(batch, cells), PaperRule())
    assert [word for word, _, _ in words(pattern)] == ["untoldly", "film", "was", "bad"]
    assert pattern.score == pytest.approx(1.0)


def test_tau_takes_all_high_cells_up_to_max_words(bert):
    batch = bert.encode([TEXT], labels=[0])
    cells = {
        (0, 0, 0, FILM, BAD): 1.0,
        (0, 0, 0, FILM, WAS): 0.8,
        (0, 0, 0, FILM, THE): 0.6,
        (0, 0, 0, FILM, DULL): 0.4,
    }
    for rule, expected in (
        (PaperRule(tau=0.9), {"film", "bad"}),
        (PaperRule(tau=0.5), {"film", "bad", "was", "the"}),
        (PaperRule(tau=0.1), {"film", "bad", "was", "the", "dull"}),
        (PaperRule(tau=0.1, max_words=3), {"film", "bad", "was"}),
    ):
        (pattern,) = patterns_of_edges(bert, batch, edges(batch, cells), rule)
        assert {word for word, _, _ in words(pattern)} == expected


def test_words_of_a_pair_of_texts_remember_their_segment(bert):
    batch = bert.encode([("a dull film", "the plot was good")], labels=[0])
    (pattern,) = patterns_of_edges(bert, batch, edges(batch, {(0, 0, 0, 2, 8): 1.0}), PaperRule(pairs=1))
    assert words(pattern) == [("dull", 0, 1 / 3), ("good", 1, 3 / 4)]


def test_tokens_give_as_many_words(bert):
    batch = bert.encode([TEXT], labels=[0])
    scores = torch.zeros(1, batch.units.shape[1], dtype=torch.float64)
    scores[0, [0, THE, LY, WAS, COMMA, BAD]] = torch.tensor([9.0, 1.0, 4.0, 3.0, 8.0, 2.0], dtype=torch.float64)
    (pattern,) = patterns_of_tokens(bert, batch, scores, PaperRule())
    assert words(pattern) == [("the", 0, 0.0), ("untoldly", 0, 1 / 9), ("was", 0, 5 / 9), ("bad", 0, 8 / 9)]
    assert pattern.score == pytest.approx(10.0)
    (pattern,) = patterns_of_tokens(bert, batch, scores, PaperRule(pairs=1))
    assert [word for word, _, _ in words(pattern)] == ["untoldly", "was"]
    (pattern,) = patterns_of_tokens(bert, batch, scores, PaperRule(tau=0.6))
    assert [word for word, _, _ in words(pattern)] == ["untoldly", "was"]


def test_ties_do_not_depend_on_padding_or_company(bert):
    texts = [TEXT, "a film", "the story was a bad plot , the film was dull"]
    batch = bert.encode(texts, labels=[0, 0, 0])
    together = patterns_of_edges(bert, batch, edges(batch, {}), PaperRule())
    scores = torch.zeros(batch.units.shape, dtype=torch.float64)
    tokens = patterns_of_tokens(bert, batch, scores, PaperRule())
    for row in range(3):
        alone = replace(bert.encode([texts[row]], labels=[0]), uids=(batch.uids[row],))
        assert patterns_of_edges(bert, alone, edges(alone, {}), PaperRule()) == [together[row]]
        assert patterns_of_tokens(bert, alone, scores[row : row + 1, : alone.units.shape[1]], PaperRule()) == [
            tokens[row]
        ]
    other = patterns_of_tokens(bert, batch, scores, PaperRule(seed=1))
    assert [p.words for p in other] != [p.words for p in tokens]


@pytest.mark.parametrize("seed", range(4))
def test_equals_a_slow_transcription(bert, seed):
    generator = torch.Generator().manual_seed(seed)
    batch = bert.encode([TEXT, "the untold plot was bad"], labels=[0, 1])
    width = batch.units.shape[1]
    random = torch.rand(2, 2, 2, width, width, generator=generator, dtype=torch.float64)
    allowed = eligible_tokens(bert, batch, Exclusion())
    for b, pattern in enumerate(patterns_of_edges(bert, batch, random, PaperRule())):
        best, place = -1.0, None
        pairs = {}
        for layer in range(2):
            for head in range(2):
                own, top = {}, -1.0
                for i in range(width):
                    for j in range(width):
                        u, v = int(batch.units[b, i]), int(batch.units[b, j])
                        if allowed[b, i] and allowed[b, j] and u != v:
                            score = float(random[b, layer, head, i, j])
                            key = (min(u, v), max(u, v))
                            own[key] = max(own.get(key, -1.0), score)
                            top = max(top, score)
                if top > best:
                    best, place, pairs = top, (layer, head), own
        assert place is not None
        chosen = sorted(pairs, key=pairs.get, reverse=True)[:2]
        units = sorted({unit for pair in chosen for unit in pair})
        assert [placed.word for placed in pattern.words] == [batch.words[b][unit].strip(",") for unit in units]
        assert pattern.score == pytest.approx(sum(pairs[pair] for pair in chosen))


@dataclass(frozen=True)
class ByLength(Method):
    """Scores each token by the length of its word."""

    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = False

    def explain(self, model, batch, target):
        rows = [[len(batch.words[b][u]) if u >= 0 else 0.0 for u in row] for b, row in enumerate(batch.units.tolist())]
        return Attribution(target=target, tokens=torch.tensor(rows, dtype=model.dtype))


@dataclass(frozen=True)
class ByHeads(ByLength):
    """Scores heads only."""

    def __call__(self, model, batch, target):
        return Attribution(target=target, heads=torch.zeros(len(batch), model.n_layers, model.n_heads))


@dataclass(frozen=True)
class AsEdges(ByLength):
    """Edge scores: the product of the lengths of the words."""

    def edge_scores(self, model, batch, target):
        tokens = super().__call__(model, batch, target).tokens
        return (tokens[:, :, None] * tokens[:, None, :])[:, None, None].expand(-1, 2, 1, -1, -1)


@pytest.mark.parametrize("method", [ByLength(), AsEdges()])
def test_triggers_come_from_correct_and_long_enough_examples_and_attack_the_others(bert, method):
    batch = labelled(bert)
    (found,) = extract(bert, method, [batch], PaperRule(triggers=10))
    assert {trigger.uid for trigger in found} <= {"0", "1", "2", "4", "5"}
    for trigger in found:
        row = batch.uids.index(trigger.uid)
        assert trigger.source == bert.labels[int(batch.label[row])]
        assert trigger.attacks == (bert.labels[1 - int(batch.label[row])],)
    for name in bert.labels:
        scores = [trigger.score for trigger in found if trigger.source == name]
        assert scores == sorted(scores, reverse=True)
        assert scores
    # one trigger per set of words, and only the best ones
    sets = [(trigger.source, frozenset(word.word for word in trigger.words)) for trigger in found]
    assert len(set(sets)) == len(sets)
    assert extract(bert, method, [batch], PaperRule(triggers=1))[0] == [
        next(trigger for trigger in found if trigger.source == name) for name in bert.labels
    ]
    parts = [batch.select([0, 1]), batch.select([2, 3, 4, 5])]
    assert extract(bert, method, parts, PaperRule(triggers=10)) == [found]
    rows = [row for row, label in enumerate(batch.label.tolist()) if label == 0]
    dropped = labelled(bert, wrong=rows[:1])
    assert batch.uids[rows[0]] not in {t.uid for t in extract(bert, method, [dropped], PaperRule(triggers=10))[0]}


def test_a_split_that_is_too_small_is_an_answer(bert):
    batch = labelled(bert)
    with pytest.raises(NotApplicable, match=r"two classes; the 1 examples have (bad|good); raise calibration"):
        extract(bert, ByLength(), [batch.select([0])], PaperRule())
    with pytest.raises(NotApplicable, match=r"no trigger for class \w+: none of its examples among the 6 .* 99 words"):
        extract(bert, ByLength(), [batch], PaperRule(min_words=99))
    wrong = replace(batch, label=torch.where(batch.label == 0, 1, 0))
    with pytest.raises(NotApplicable, match="classified correctly"):
        extract(bert, ByLength(), [wrong], PaperRule())
    with pytest.raises(NotApplicable, match="neither edges nor tokens"):
        extract(bert, ByHeads(), [batch], PaperRule())
    everything = Exclusion(frozenset(word for text in TEXTS for word in text.split()))
    with pytest.raises(NotApplicable, match="no two words that may be used"):
        extract(bert, AsEdges(), [batch], PaperRule(exclusion=everything))


def test_ready_ids_have_no_words(bert):
    batch = bert.encode([{"input_ids": [2, 5, 6, 7, 8, 9, 3]}, {"input_ids": [2, 6, 6, 7, 12, 9, 3]}], labels=[0, 1])
    batch = replace(batch, label=torch.tensor([0, 1]))
    with pytest.raises(NotApplicable):
        extract(bert, ByLength(), [batch], PaperRule())


def test_lexicon(bert, tmp_path):
    shipped = exclusion("sentiment", "lexicon")
    assert not shipped.allows("Wonderful,")
    assert not shipped.allows("dull")
    assert shipped.allows("film")
    assert all(word == word.casefold().strip() and word for word in shipped.lexicon)
    own = tmp_path / "words.txt"
    own.write_text("# ours\nFilm  # a comment\n\n")
    excluded = exclusion(str(own), "lexicon")
    assert excluded.lexicon == {"film"}
    batch = bert.encode(["a Film was bad, film."])
    assert eligible_tokens(bert, batch, excluded)[0].tolist() == [
        word not in ("[CLS]", "[SEP]", "film", ",", ".")
        for word in bert.tokenizer.convert_ids_to_tokens(batch.tensors["input_ids"][0].tolist())
    ]
    assert exclusion(None, "lexicon") == Exclusion()
    with pytest.raises(UserError, match=r"a\.lexicon=nowhere\.txt cannot be read .*sentiment"):
        exclusion("nowhere.txt", "a.lexicon")


def test_whole_words_of_the_vocabulary(bert):
    ids = whole_words(bert, Exclusion(frozenset({"good"})))
    found = set(bert.tokenizer.convert_ids_to_tokens(ids.tolist()))
    assert found == {"the", "film", "was", "plot", "bad", "fine", "dull", "un", "story"}


def test_counts_strip_punctuation(bert):
    batch = bert.encode(["a film, a plot .", "Film"])
    assert count_words([batch], Exclusion()) == Counter({"a": 2, "film": 1, "plot": 1, "Film": 1})


def trigger(*names):
    placed = tuple(Placed(name, 0, k / 4) for k, name in enumerate(names))
    return Trigger(placed, source="good", attacks=("bad",), score=1.0, uid="7")


def test_controls_stand_in_for_every_word_and_come_from_the_source():
    counts = Counter({f"w{k:02d}": 100 - k for k in range(60)})
    (drawn,) = Controls(counts, draws=20, reach=3).added([trigger("w10", "w50", "elsewhere")])
    assert len(drawn.random) == len(drawn.matched) == 20
    own = {"w10", "w50", "elsewhere"}
    for words_ in (*drawn.random, *drawn.matched):
        assert len(words_) == 3
        assert not own & set(words_)
        assert set(words_) <= set(counts)
    for first, second, last in drawn.matched:
        assert abs(int(first[1:]) - 10) <= 3
        assert abs(int(second[1:]) - 50) <= 3
        assert int(last[1:]) >= 54
    assert len({word for words_ in drawn.random for word in words_}) > 25
    assert Controls(counts, draws=20, reach=3).added([trigger("w10", "w50", "elsewhere")]) == [drawn]
    assert Controls(counts, draws=20, reach=3, seed=1).added([trigger("w10", "w50", "elsewhere")]) != [drawn]
    with pytest.raises(NotApplicable, match="no words but those"):
        Controls(Counter({"w10": 1})).added([trigger("w10")])


def test_the_artifact_comes_back_as_it_was(bert):
    (drawn,) = Controls(Counter(f"w{k}" for k in range(30))).added([trigger("a", "b")])
    artifact = json.loads(json.dumps(written([drawn, trigger("c", "d")], bert)))
    assert read(artifact, "file") == (drawn, trigger("c", "d"))
    assert artifact["model"] == bert.name
    assert artifact["fingerprint"] == bert.fingerprint


@pytest.mark.parametrize(
    "change",
    [
        {"schema": 99},
        {"triggers": []},
        {"triggers": [{"words": []}]},
        {"triggers": ["text"]},
        {
            "triggers": [
                {"words": [{"word": "a", "segment": 0, "position": 1.5}], "source": "x", "attacks": [], "score": 0}
            ]
        },
        {
            "triggers": [
                {
                    "words": [{"word": "a", "segment": 0, "position": 1}],
                    "source": "x",
                    "attacks": ["y"],
                    "score": 0,
                    "random": [["a", "b"]],
                }
            ]
        },
    ],
)
def test_what_is_no_artifact_is_refused(bert, change):
    with pytest.raises(UserError, match="file=x"):
        read(written([trigger("a")], bert) | change, "file=x")


def test_said_in_other_words_and_at_another_place():
    original = trigger("a", "b")
    said = original.saying(["c", "d"])
    assert [(w.word, w.position) for w in said.words] == [("c", 0.0), ("d", 0.25)]
    assert [w.position for w in original.at(1.0).words] == [1.0, 1.0]
    assert np.isclose(original.words[1].position, 0.25)
