"""The guide test: weights of words by hand, which class is explained, figures by sklearn, and what a leak looks like."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from sklearn.metrics import accuracy_score, f1_score

from benchmark.analyses.context import Context
from benchmark.analyses.debate.guide import GuideTest
from benchmark.analyses.debate.guide_tables import Results, difference_table, quality_table
from benchmark.analyses.debate.guide_weights import Scores, Texts, training_split
from benchmark.analyses.debate.guides import (
    DRAWN,
    LEARNED,
    MODEL,
    NO_CLASS,
    ORACLE,
    PREDICTED,
    RANDOM,
    UNIFORM,
    Guide,
)
from benchmark.analyses.differences import P_VALUE
from benchmark.errors import NoSplit, NotApplicable, UserError
from benchmark.randomness import generator
from benchmark.run.data import Data, DrawnClass, OneClass
from benchmark.run.stages import Explaining
from benchmark.run.workbench import open_setting
from benchmark.training.guided import GuidedRecipe
from benchmark.types import Attribution, Example, Method
from tests import text_models
from tests.analyses.test_analyses import config

MARKS = ("bad", "good")
RECIPE = GuidedRecipe(hidden=4, steps=40, learning_rate=3e-2, seeds=2)


@dataclass(frozen=True)
class OrderTask:
    """Texts of the same eight words, "bad" and "good" among them, in random orders: the label is which of both is first.

    No word by itself tells the label; the rationale is the first of both.
    """

    name: str = "order"
    version: int = 1
    size: int = 64
    labels: Sequence[str] = MARKS
    fingerprint: str = "order"

    def split(self, name):
        if name == "validation":
            raise NoSplit("the task has no validation split")
        examples = []
        for i in range(self.size):
            words = [str(word) for word in generator(i, name).permutation(text_models.WORDS[:8])]
            first = min(words.index(mark) for mark in MARKS)
            rationale = np.arange(len(words)) == first
            examples.append(Example(f"{name}-{i:03d}", " ".join(words), MARKS.index(words[first]), rationale))
        return examples


@dataclass(frozen=True)
class Leaking(Method):
    """Marks the word that stands for the class, wherever it is: it does not look at what the model reads."""

    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = True

    def explain(self, model, batch, target):
        tokens = torch.full(batch.units.shape, -1.0)
        for row, words, units, of_class in zip(tokens, batch.words, batch.units, target.classes.tolist(), strict=True):
            row[units == words.index(MARKS[of_class])] = 1.0
        return Attribution(target=target, tokens=tokens)


@dataclass(frozen=True)
class Noise(Method):
    """Random scores above and below 0, which do not look at the class."""

    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = False

    def explain(self, model, batch, target):
        drawn = [generator(0, "noise", uid).standard_normal(batch.units.shape[1]) for uid in batch.uids]
        return Attribution(target=target, tokens=torch.as_tensor(np.stack(drawn)) * batch.attention_mask)


@pytest.fixture(scope="module")
def plain(place):
    """Settings of a comparison."""
    return config(place, "methods=[raw_attention,taylor,random]")


def opened(plain, tmp_path, *methods, **settings):
    given = plain.copy()
    OmegaConf.set_struct(given, value=False)
    given.update({"out": str(tmp_path / "runs"), **settings})
    given.task = {"_target_": f"{OrderTask.__module__}.OrderTask"}
    for method in methods:
        given.methods[method.__name__.lower()] = {"_target_": f"{method.__module__}.{method.__name__}"}
    setting = open_setting(given)
    return Context(setting, {name: setting.cell(name) for name in given.methods}, {})


@pytest.fixture
def knowing(monkeypatch):
    """A model that predicts the label of every example."""
    monkeypatch.setattr(Data, "logits", lambda self, index: torch.eye(2)[self.batches[index].label])


def test_weights_by_hand():
    """Positive parts over their sum; where none is positive, the same of every word that counts."""
    mask = torch.tensor([[True, True, False], [True, True, True]])
    given = torch.tensor([[3.0, 1.0, 0.0], [-1.0, 0.0, -2.0]], dtype=torch.float64)
    scores = Scores(given.clamp(min=0), mask)
    assert scores.weights.tolist() == [[0.75, 0.25, 0.0], pytest.approx([1 / 3] * 3)]
    assert scores.none.tolist() == [False, True]


def test_scores_are_those_of_visible_rated_words(plain, tmp_path):
    context = opened(plain, tmp_path, Noise, limit=6)
    texts = Texts.of(context.setting)
    found = texts.explained(context.cells["noise"], "predicted", "max")
    number = 0
    for batch in context.setting.data.batches:
        tokens = Noise().explain(None, batch, None).tokens
        for b, words in enumerate(batch.words):
            for place_, _ in enumerate(words):
                of_word = [float(tokens[b, t]) for t, unit in enumerate(batch.units[b].tolist()) if unit == place_]
                assert float(found.values[number, place_]) == pytest.approx(max(0.0, max(of_word)))
            assert texts.words[number] == words
            assert texts.uids[number] == batch.uids[b]
            number += 1
    assert texts.oracle().values.sum(1).tolist() == [1.0] * 6


def test_permutation_keeps_the_weights_of_each_example(plain, tmp_path):
    texts = Texts.of(opened(plain, tmp_path, limit=9).setting)
    part = replace(texts, mask=texts.mask & (torch.arange(texts.mask.shape[1]) > 0))  # the first word does not count
    weights, order = part.random(0).weights, part.permutation(3)
    moved = weights.gather(1, order)
    assert torch.equal(moved.sort(1).values, weights.sort(1).values)
    assert (moved[~part.mask] == 0).all()
    assert not torch.equal(moved, weights)
    assert torch.equal(order, part.permutation(3))
    assert not torch.equal(order, part.permutation(4))


def test_other_classes_are_explained_for_themselves(plain, tmp_path, monkeypatch):
    """A given and a drawn class, whatever the batches; only what is not the predicted class is computed anew."""
    context = opened(plain, tmp_path, Leaking, limit=10)
    data, cell, other = context.setting.data, context.cells["leaking"], opened(plain, tmp_path, limit=10, batch_size=3)
    predicted = cell.explain("predicted").arrays["target"]
    asked, explain = [], Leaking.explain
    monkeypatch.setattr(Leaking, "explain", lambda *given: asked.append(len(given[2])) or explain(*given))
    for which in (OneClass(1), DrawnClass(2)):
        of_uid = {}
        asked.clear()
        for part in (data, other.setting.data):
            for index, batch in enumerate(part.batches):
                for uid, target in zip(batch.uids, part.target(index, which).classes.tolist(), strict=True):
                    assert of_uid.setdefault(uid, target) == target
        stored = cell.explain(which)
        assert dict(zip(stored.uids, stored.arrays["target"].tolist(), strict=True)) == of_uid
        assert sum(asked) == (stored.arrays["target"] != predicted).sum()
        assert cell.holds(Explaining(which=which))
        first = Leaking().explain(None, data.batches[0], data.target(0, which)).tokens
        lengths = stored.arrays["lengths"]
        assert stored.arrays["tokens"][: lengths[0]].tolist() == first[0, : lengths[0]].tolist()
    assert set(of_uid.values()) == {0, 1}
    assert (
        cell.explain(DrawnClass(2)).arrays["target"].tolist() != cell.explain(DrawnClass(3)).arrays["target"].tolist()
    )


def results():
    rng = np.random.default_rng(0)
    label = rng.integers(0, 3, 40)
    own = {
        Guide(UNIFORM, NO_CLASS): rng.integers(0, 3, (40, 2)), Guide("a", PREDICTED): np.stack([label, label], axis=1),
        Guide("a", DRAWN): rng.integers(0, 3, (40, 2)),
    }  # fmt: skip
    moved = {guide: rng.integers(0, 3, (40, 2)) for guide in list(own)[1:]}
    none = {guide: (np.arange(5) < place, np.arange(40) < 10) for place, guide in zip((0, 2, 5), own, strict=True)}
    return Results(label, 3, own, moved, label, none)


def test_figures_are_those_of_sklearn():
    given = results()
    table = quality_table(given, {Guide("b", NO_CLASS): "cannot, because it is shy"})
    table.check()
    rows = table.rows.set_index(["guide", "explained class", "metric"])
    for guide, classes in given.own.items():
        for metric, measure in (
            ("accuracy", accuracy_score), ("macro-F1", lambda a, b: f1_score(a, b, average="macro")),
        ):  # fmt: skip
            by_seed = [measure(given.label, classes[:, seed]) for seed in range(2)]
            found = rows.loc[(*guide, metric)]
            assert found["value"] == pytest.approx(np.mean(by_seed))
            sure = metric == "macro-F1" and found["value"] == 1  # F1 that varies in no resample has no interval
            assert np.isnan(found["low"]) if sure else found["low"] <= found["value"] <= found["high"]
            assert found["n"] == 40
        by_seed = (classes == given.label[:, None]).mean(0)
        spread = rows.loc[(*guide, "standard deviation of accuracy over seeds"), "value"]
        assert spread == (0 if by_seed[0] == by_seed[1] else pytest.approx(by_seed.std(ddof=1)))
        assert rows.loc[(*guide, "without a positive score, scored"), "value"] == 0.25
    assert "it can itself tell the class (a (predicted))." in table.sentences[1], "some, and neither none nor all"
    assert rows.loc[("b", NO_CLASS, "accuracy"), "note"] == "cannot, because it is shy"
    assert rows.loc[(MODEL, NO_CLASS, "macro-F1"), "value"] == 1


def test_differences_are_paired_by_example_and_seed():
    given = results()
    table = difference_table(given)
    right = {guide: classes == given.label[:, None] for guide, classes in given.own.items()}
    rows = table.rows.set_index(["guide", "explained class", "question", "metric"])["value"]
    perfect, uniform = Guide("a", PREDICTED), Guide(UNIFORM, NO_CLASS)
    expected = (right[perfect].astype(float) - right[uniform]).mean()
    assert rows.loc[(*perfect, "more than uniform weights", "difference")] == pytest.approx(expected)
    moved = given.moved[perfect] == given.label[:, None]
    expected = (right[perfect].astype(float) - moved).mean()
    assert rows.loc[(*perfect, "more than its weights in another order", "difference")] == pytest.approx(expected)
    expected = (right[perfect].astype(float) - right[perfect._replace(explained=DRAWN)]).mean()
    assert rows.loc[(*perfect, "more than for a drawn class", "difference")] == pytest.approx(expected)
    assert len(table.rows) == 2 * 5, "two questions for each of two, one of the leak; each with its p-value"
    unjudged = "Not judged, since more than 10 % of the training or of the scored examples have no positive score: {}."
    whole = {guide: (np.zeros(5, bool), np.arange(40) < 4) for guide in given.own}
    some = {**whole, perfect: (np.zeros(5, bool), np.arange(40) < 5)}
    assert difference_table(replace(given, without=some)).sentences[-1] == unjudged.format("a (predicted) (12 %)")
    assert not any(
        "more than uniform weights do" in told for told in difference_table(replace(given, without=some)).sentences
    )
    table = difference_table(replace(given, without=whole))
    assert "Tell a classifier without context more than uniform weights do: a (predicted)." in table.sentences
    assert not any(told.startswith("Not judged") for told in table.sentences), "a tenth is allowed"
    few = replace(
        given, label=given.label[:3], own={guide: classes[:3] for guide, classes in given.own.items()},
        moved={guide: classes[:3] for guide, classes in given.moved.items()},
    )  # fmt: skip
    assert difference_table(few).sentences[0].startswith("No verdict: n = 3")


def test_a_leak_is_shown_and_noise_adds_nothing(plain, tmp_path, knowing, monkeypatch):
    """Words chosen by the predicted class tell the label; chosen by one or a random class, what uniform weights tell."""
    context = opened(plain, tmp_path, Leaking, Noise)
    quality, differences = GuideTest(limit=None, recipe=RECIPE)(context)
    for table in (quality, differences):
        table.check()
    accuracy = quality.rows[quality.rows["metric"] == "accuracy"].set_index(["guide", "explained class"])["value"]
    assert accuracy["leaking", PREDICTED] == 1, "though no word by itself tells anything"
    assert accuracy[ORACLE, NO_CLASS] == 1, "the oracle knows the label"
    for guide in ((UNIFORM, NO_CLASS), ("leaking", DRAWN), ("leaking", "always bad"), (RANDOM, NO_CLASS)):
        assert accuracy[guide] == pytest.approx(0.5, abs=0.15), guide
    p = differences.rows[differences.rows["metric"] == P_VALUE].set_index(["guide", "explained class", "question"])[
        "value"
    ]
    assert p["leaking", PREDICTED, "more than for a drawn class"] < 0.01
    assert p["leaking", DRAWN, "more than uniform weights"] > 0.05
    for guide in ("noise", RANDOM):
        assert p[guide, NO_CLASS, "more than its weights in another order"] > 0.05
    assert {"raw_attention", "taylor"} - {guide for guide, _ in accuracy.index} == {"taylor"}, "it scores no words"
    assert (LEARNED, NO_CLASS) in accuracy.index
    text = " ".join(differences.sentences)
    assert "Better for the predicted than for a drawn class, and of this gain" in text
    texts = Texts.of(training_split(context, None)), Texts.of(context.setting)
    monkeypatch.setattr(Leaking, "__call__", None)
    _, refused = GuideTest(limit=None)._pairs(context, *texts)
    assert not refused, "explanations are read again"


def test_methods_are_chosen(plain, tmp_path):
    context = opened(plain, tmp_path, Leaking, Noise, limit=4)
    assert GuideTest()._chosen(context) == ["raw_attention", "leaking", "noise"], "no control, and who scores words"
    assert GuideTest(others=0)._chosen(context) == ["raw_attention", "noise"]
    assert GuideTest(methods=["random"])._chosen(context) == ["random"]
    (few, _) = GuideTest(others=0, limit=8, recipe=RECIPE)(context)
    assert few.sentences[-1] == "Left out, to save the price of their training attributions: leaking."
    (table, _) = GuideTest(methods=["taylor", "noise"], limit=8, recipe=RECIPE)(context)
    notes = table.rows.set_index("guide")["note"]
    assert (notes["taylor"] == "cannot, because the method gives no token scores").all()


def test_what_it_cannot_serve(plain, tmp_path):
    context = opened(plain, tmp_path, Noise, limit=4)
    with pytest.raises(UserError, match="fixed_class=2: allowed are classes up to 1"):
        GuideTest(fixed_class=2)(context)
    with pytest.raises(NotApplicable, match="the comparison scores the training split"):
        training_split(opened(plain, tmp_path, split="train", limit=4), 4)
    train = training_split(context, 5)
    assert train.data.facts.split == "train"
    assert train.data.facts.n == 5
    assert train.model is context.setting.model
