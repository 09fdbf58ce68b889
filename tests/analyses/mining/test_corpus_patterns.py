"""Patterns over a corpus: pairs by hand, tests equal to scipy's, and planted phrases that are found."""

import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

from benchmark import load_model
from benchmark.analyses.context import Context
from benchmark.analyses.mining.corpus_patterns import CorpusPatterns, found_lines, judge
from benchmark.analyses.mining.word_pairs import (
    Marked,
    at_least,
    by_chance,
    marked,
    marked_texts,
    mine,
    pair_scores,
    plain,
    ranked,
)
from benchmark.results.statistics import holm
from benchmark.run.cell import Cell
from benchmark.run.workbench import open_setting
from benchmark.settings.configuration import compose
from benchmark.targets import ClassTarget
from benchmark.types import Attribution
from tests import text_models
from tests.analyses.killed import assert_goes_on
from tests.analyses.mining.explainers import Pays, PaysEdges


def test_words_without_case_and_punctuation():
    words = ("Kettle.", "(don't", "...", "\N{RIGHT DOUBLE QUOTATION MARK}É,")
    assert [plain(word) for word in words] == ["kettle", "don't", "", "é"]


def test_the_best_pairs_by_hand():
    words = ["A", "fine", "film", ".", "a"]
    single = np.array([0.1, 0.9, 0.5, 9.0, 0.2])
    found = marked(words, ranked(words, single[:, None] + single[None, :], 2), "x", 1)
    assert found.occurrences == Counter({("a", "fine"): 2, ("a", "film"): 2, ("film", "fine"): 1})
    assert found.pairs == 5  # "." and ("A", "a") are none
    assert found.best == {("film", "fine"), ("a", "fine")}
    assert marked(words, ranked(words, np.full((5, 5), np.nan), 2), "x", 1) is None


def example(best, occurrences, pairs, label=0, uid="x"):
    return Marked(uid, label, Counter(occurrences), pairs, frozenset(best))


P, Q = ("a", "b"), ("c", "d")


def test_chance_is_hypergeometric():
    one = example([], {P: 2, Q: 1}, 10)
    assert by_chance(one, P, 3) == pytest.approx(1 - stats.hypergeom(10, 2, 3).pmf(0))
    assert by_chance(one, Q, 3) == pytest.approx(0.3)
    assert by_chance(one, ("e", "f"), 3) == 0


def test_tests_equal_scipys():
    """Where chance is alike in all texts the count is binomial; where it is not, Poisson's binomial by enumeration."""
    alike = [example([P] if i < 4 else [], {P: 1, Q: 1}, 10) for i in range(9)]
    found = {one.pattern: one for one in mine(alike, 2, 5)}
    assert found[P].p == pytest.approx(stats.binomtest(4, 9, 0.2, alternative="greater").pvalue)
    assert found[P].lift == pytest.approx(4 / 1.8)
    assert found[Q].p == 1
    unlike = [example([P], {P: 1}, 10), example([P], {P: 1}, 20), example([], {P: 3}, 9)]
    (one,) = mine(unlike, 1, 3)
    p = np.array([1 / 10, 1 / 20, 3 / 9])
    at_least_two = sum(np.prod(np.where(np.array(bits), p, 1 - p)) for bits in np.ndindex(2, 2, 2) if sum(bits) >= 2)
    assert one.p == pytest.approx(at_least_two)


def test_small_tails_are_exact():
    chances = np.random.default_rng(0).uniform(0.001, 0.3, 40)
    for count in (0, 1, 5, 12):
        assert at_least(count, chances) == pytest.approx(stats.poisson_binom(chances).sf(count - 1), abs=1e-12)
    assert at_least(30, np.full(40, 0.01)) == pytest.approx(stats.binom(40, 0.01).sf(29), rel=1e-9)
    assert at_least(30, np.full(40, 0.01)) < 1e-50
    assert at_least(3, np.full(2, 0.5)) == 0


def test_the_family_is_chosen_without_looking_at_scores():
    texts = [example([P] if i < 3 else [Q], {P: 1, Q: 1} if i < 3 else {Q: 1}, 10, label=i % 2) for i in range(12)]
    assert {(one.pattern, one.label) for one in mine(texts, 1, 3)} == {(Q, 0), (Q, 1)}
    assert {(one.pattern, one.label) for one in mine(texts, 1, 1)} == {(Q, 0), (Q, 1), (P, 0), (P, 1)}


def test_p_values_are_corrected_over_all():
    texts = [example([P] if i < 5 else [], {P: 1, Q: 1}, 30, uid=str(i)) for i in range(20)]
    labels = {str(i): int(i < 10) for i in range(20)}
    judged = {one.mined.pattern: one for one in judge(texts, 2, 5, labels)}
    raw = {one.pattern: one.p for one in mine(texts, 2, 5)}
    assert {pattern: one.p for pattern, one in judged.items()} == pytest.approx(holm(raw))
    assert judged[P].labelled.value == 0.5
    assert not judged[P].suspicious  # it goes with no class
    assert np.isnan(judged[Q].labelled.value)


def test_random_scores_find_nothing():
    draw = np.random.default_rng(0)
    words = [f"w{i}" for i in range(12)]
    texts = [
        one
        for i in range(300)
        if (one := marked(words, ranked(words, (s := draw.random(12))[:, None] + s[None, :], 3), str(i), 0)) is not None
    ]
    found = mine(texts, 3, 5)
    assert len(found) == 66
    assert min(holm({one.pattern: one.p for one in found}).values()) > 0.05
    assert np.mean([one.first.mean() for one in found]) == pytest.approx(3 / 66)
    assert found[0].chance.mean() == pytest.approx(3 / 66)


def test_recall_and_precision_by_hand():
    kettle, basket = ("copper", "kettle"), ("basket", "wicker")
    bad, neutral = ("dull", "tedious"), ("it", "runs")
    texts = [example([kettle, bad], {kettle: 1, bad: 1, neutral: 1}, 60, 0, str(i)) for i in range(9)]
    texts += [example([], {neutral: 1, basket: 1}, 60, 1, str(i)) for i in range(9, 18)]
    judged = judge(texts, 2, 5, {str(i): int(i >= 9) for i in range(18)})
    planted = {"copper kettle": "bad", "wicker basket": "good"}
    rows = list(found_lines("e", judged, planted, ("bad", "good"), frozenset({"dull", "tedious"})))
    assert [(row["value"], row["n"]) for row in rows[:2]] == [(0.5, 2), (1.0, 1)]
    assert rows[2]["value"] == 1


def test_edges_are_pooled_to_words(tmp_path):
    model = load_model(text_models.save_bert(tmp_path / "bert"))
    batch = model.encode(["a fine film", "dull"])
    (first, second) = pair_scores(
        PaysEdges(frozenset({"fine", "film"})), model, batch, ClassTarget(torch.tensor([0, 0]))
    )
    assert first[1, 2] == first[2, 1] == 8  # 2 layers, 2 heads, both directions
    assert first[0, 1] == 0
    assert second.shape == (1, 1)


@pytest.fixture(scope="module")
def setting(tmp_path_factory):
    tiny = ["model=tiny", "model.steps=2", "model.layers=1", "model.heads=2", "model.hidden=16"]
    task = ["task.shortcuts=4", "task.train=300", "task.validation=2", "task.test=2", "split=train", "limit=200"]
    return open_setting(compose("config", [*tiny, *task, "tracking=none", f"out={tmp_path_factory.mktemp('mined')}"]))


def context(setting, **methods):
    """A comparison of these methods, which have explained all examples."""
    cells = {
        name: Cell(
            Path(tempfile.mkdtemp(dir=setting.config.out)), name, method, setting.model, setting.data, {}, {}, 0.0
        )
        for name, method in methods.items()
    }
    for cell in cells.values():
        cell.explain("predicted")
    return Context(setting, cells, {})


@pytest.mark.parametrize("kind", [Pays, PaysEdges])
def test_planted_phrases_are_found(setting, kind):
    planted = setting.task.planted_shortcuts
    words = frozenset(word for phrase in planted for word in phrase.split())
    patterns, found = CorpusPatterns(target="label")(context(setting, pays=kind(words)))
    for table in (patterns, found):
        table.check()
    assert found.rows.set_index("metric").loc["planted phrases found", "value"] == 1
    assert found.rows.set_index("metric").loc["found pairs that are planted", "value"] == 1
    wide = patterns.rows.set_index(["class", "pattern", "metric"])["value"]
    for phrase, label in planted.items():
        pattern = " ".join(sorted(phrase.split()))
        assert wide[label, pattern, "put first"] > 0.9
        assert wide[label, pattern, "texts with this label"] > 0.8


def test_who_looks_elsewhere_finds_none(setting):
    patterns, found = CorpusPatterns(target="label")(context(setting, pays=Pays(frozenset({"the", "a"}))))
    patterns.check()
    assert found.rows.set_index("metric").loc["planted phrases found", "value"] == 0


def test_pairs_that_count_and_the_best_of_equal_ones():
    words = ["a", "Fine", "film", ".", "a", "plot", "fine", "story"]
    single = np.array([1.0, 0, 1, 5, 1, 0, np.nan, 0])
    found = ranked(words, single[:, None] + single[None, :], 3)
    assert found.known.sum() == 14  # of six words with a letter and a score, two of which are "a"
    assert found.best.tolist() == [[0, 2], [2, 4], [0, 1]]
    assert ranked(words, np.full((8, 8), np.nan), 3).best.tolist() == []


def test_a_killed_run_goes_on(setting, tmp_path, monkeypatch):
    words = {"pays": frozenset({"the", "a"}), "elsewhere": frozenset({"plot"})}
    explainers = {name: Pays(own) for name, own in words.items()} | {"edges": PaysEdges(frozenset({"film", "the"}))}
    assert_goes_on(CorpusPatterns(limit=40), context(setting, **explainers), tmp_path, monkeypatch, within=True)


def test_what_the_comparison_has_explained_is_read_and_not_explained_again(setting, monkeypatch):
    given = context(setting, pays=Pays(frozenset({"the", "a"})))
    explained = []
    monkeypatch.setattr(Pays, "explain", lambda self, model, batch, target: explained.append(batch.uids))
    patterns, _ = CorpusPatterns(limit=40)(given)
    patterns.check()
    assert not explained


def test_of_another_class_no_more_is_explained_than_is_asked(setting, monkeypatch):
    given, explain, explained = context(setting, pays=Pays(frozenset({"the", "a"}))), Pays.explain, []

    def counted(self, model, batch, target):
        explained.extend(batch.uids)
        return explain(self, model, batch, target)

    monkeypatch.setattr(Pays, "explain", counted)
    CorpusPatterns(limit=10, target="label")(given)
    assert len(explained) == 10


@pytest.mark.parametrize("limit", [None, 37])
def test_stored_scores_rank_pairs_as_scores_that_are_explained_anew(setting, limit):
    class Lengths(Pays):
        """Scores a word by its letters and its place."""

        def explain(self, model, batch, target):
            scores = torch.zeros(batch.units.shape)
            for b, words in enumerate(batch.words):
                for t, unit in enumerate(batch.units[b].tolist()):
                    scores[b, t] = len(words[unit]) + 0.01 * unit if unit >= 0 else 0.0
            return Attribution(target, scores)

    given, analysis = context(setting, lengths=Lengths(frozenset())), CorpusPatterns(limit=limit)
    texts = list(given.first_examples(limit, "predicted"))
    cell = given.cells["lengths"]
    keeping = analysis.keeping(given)
    anew = marked_texts(cell.method, setting, texts, 3, keeping, "lengths")
    stored = marked_texts(cell.method, setting, texts, 3, keeping, "lengths", analysis._stored(cell, given, texts))
    assert anew == stored
    assert len(anew) == (limit or 200)
