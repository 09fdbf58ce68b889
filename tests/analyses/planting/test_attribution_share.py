"""The share that theory asks for is that of a fitted observer; Attr% is the share of marked scores."""

from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from sklearn.linear_model import LogisticRegression

from benchmark.analyses.context import Context
from benchmark.analyses.planting.attributed import planted_units
from benchmark.analyses.planting.attribution_share import AttributionShare
from benchmark.analyses.planting.theory import best_accuracy, feature_share
from benchmark.annotations import KEYS, PlantedWords
from benchmark.errors import NotApplicable
from benchmark.run.cell import Cell
from benchmark.run.workbench import open_setting
from benchmark.settings.configuration import compose
from benchmark.types import Attribution, Method
from tasks.planting_rules import Rules


def enumerated(kept, strength, classes):
    """The best accuracy by its definition."""

    def joint(label, text, feature):
        of_text = kept if text == label else (1 - kept) / (classes - 1)
        return of_text * (strength if feature == label else (1 - strength) / (classes - 1)) / classes

    pairs = product(range(classes), repeat=2)
    return sum(max(joint(label, *pair) for label in range(classes)) for pair in pairs)


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("kept", [0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("strength", [0.0, 0.3, 0.75, 1.0])
def test_the_best_accuracy_is_that_of_the_likeliest_class(classes, kept, strength):
    assert best_accuracy(kept, strength, classes) == pytest.approx(enumerated(kept, strength, classes), abs=1e-12)


@pytest.mark.parametrize(("kept", "strength"), [(0.9, 0.75), (0.7, 0.9), (0.5, 0.8)])
def test_theory_is_the_share_of_a_fitted_observers_weights(kept, strength):
    """Drawn by the rules that the tasks go by, and fitted without knowing them."""
    rules, rows, labels = Rules(2, kept, strength, 1.0, 0), [], []
    for i in range(20_000):
        label, of, _ = rules.draw(f"e-{i}", i % 2, flipped=False)
        rows.append([2 * (i % 2) - 1, 2 * of - 1])
        labels.append(label)
    fitted = LogisticRegression(C=1e6).fit(np.array(rows), labels)
    text, feature = np.abs(fitted.coef_[0])
    assert feature / (text + feature) == pytest.approx(feature_share(kept, strength, 2), abs=0.03)


def test_where_one_side_says_everything_or_neither_anything():
    assert feature_share(0.5, 0.9, 2) == pytest.approx(1)
    assert feature_share(0.9, 0.5, 2) == pytest.approx(0)
    assert feature_share(0.9, 1.0, 2) == 1
    assert feature_share(1.0, 0.9, 2) == 0
    assert np.isnan(feature_share(0.5, 0.5, 2))
    assert np.isnan(feature_share(1.0, 1.0, 2))
    assert feature_share(1 / 3, 0.9, 3) == pytest.approx(1)


@dataclass(frozen=True)
class Marks(Method):
    """Scores 3 for planted words and 1 for others."""

    version: int = 1
    class_specific: bool = False

    def explain(self, model, batch, target):
        scores = torch.ones(batch.units.shape)
        for row, planted in enumerate(planted_units(batch)):
            for token, unit in enumerate(batch.units[row].tolist()):
                scores[row, token] = 0.0 if unit < 0 else 1.0 + 2.0 * float(planted[unit])
        return Attribution(tokens=scores, target=target)


@dataclass(frozen=True)
class NoTokens(Method):
    """Scores nothing."""

    version: int = 1
    class_specific: bool = False

    def explain(self, model, batch, target):
        raise NotApplicable("it scores nothing")


SMALL = [
    "task=planted_feature", "task.task.train=200", "task.task.validation=20", "task.task.test=30", "model.steps=3",
    "limit=20",
]  # fmt: skip


@pytest.fixture
def context(tmp_path, monkeypatch):
    """A small comparison, with a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def make(*overrides, **methods):
        setting = open_setting(compose("config", [*overrides, "tracking=none", f"out={tmp_path}"]))
        cells = {
            name: Cell(Path("nowhere"), name, method, setting.model, setting.data, {}, {}, 0.0)
            for name, method in methods.items()
        }
        return Context(setting, cells, {})

    return make


@pytest.mark.thorough
def test_the_share_of_a_known_explainer(context):
    analysis = AttributionShare(kept=[0.5, 0.9], strengths=[0.6, 0.9], trainings=2)
    given = context(*SMALL, marks=Marks(), none=NoTokens())
    distance, shares, models = analysis(given)
    rows = shares.rows[(shares.rows["explainer"] == "marks") & (shares.rows["metric"] == "Attr%")]
    assert len(rows) == 4
    assert (rows["n"] == 20).all()
    setting = given.setting
    lengths = [len(example.inputs) for example in setting.task.split("test") if example.uid in set(setting.data.uids)]
    assert rows["value"].tolist() == pytest.approx([np.mean([6 / (n + 4) for n in lengths])] * 4)
    chance = shares.rows[shares.rows["explainer"] == "share of planted units"].value.iloc[0]
    assert chance == pytest.approx(np.mean([2 / n for n in lengths]))
    theory = shares.rows[shares.rows["explainer"] == "theory"].value.tolist()
    assert theory == pytest.approx([1, 1, feature_share(0.9, 0.6, 2), 0.5])
    assert "it scores nothing" in shares.rows["note"].tolist()
    expected = np.mean([abs(a - b) for a, b in zip(rows["value"], theory, strict=True)])
    assert distance.rows["value"].iloc[0] == pytest.approx(expected, abs=0.02)
    assert models.rows["metric"].value_counts()["accuracy"] == 4
    assert {"SD between seeds", "SD between examples"} <= set(shares.rows["metric"])


def test_every_setting_of_the_rules_is_a_model_of_its_own(context, tmp_path):
    AttributionShare(kept=[0.5], strengths=[0.6, 0.8])(context(*SMALL, marks=Marks()))
    assert len([*tmp_path.rglob("models/tiny-*/config.json")]) == 3  # and the comparison's own


def test_what_plants_nothing_and_what_cannot_tell_capitals(context):
    with pytest.raises(NotApplicable, match="task=planted_feature"):
        AttributionShare()(context("task.train=50", "task.test=5", "model.steps=1", marks=Marks()))
    with pytest.raises(NotApplicable, match="does not tell capitals"):
        AttributionShare()(context(*SMALL, "task.feature=case", marks=Marks()))


def test_models_that_do_not_learn_the_rules_and_splits_that_do_not_hold_them(context):
    given = context(*SMALL, marks=Marks())
    for name, value, why in (
        ("model._target_", "benchmark.training.sources.HubOrDirectory", "does not learn"),
        ("task.shortcut_splits", ["train"], "or there are none"),
        ("task.flipped_splits", ["test"], "are flipped"),
    ):
        config = given.setting.config.copy()
        OmegaConf.set_struct(config, value=False)
        OmegaConf.update(config, name, value)
        with pytest.raises(NotApplicable, match=why):
            AttributionShare()(replace(given, setting=replace(given.setting, config=config)))


def test_the_best_accuracy_of_a_split_of_which_a_part_holds_features(context):
    *_, models = AttributionShare(kept=[0.5], strengths=[0.9])(context(*SMALL, "task.shortcut_rate=0.5", marks=Marks()))
    told = models.rows.set_index("metric")["value"]
    assert told["best accuracy there can be"] == pytest.approx(0.7)
    assert told["best accuracy without the feature"] == pytest.approx(0.5)


def test_patches_that_the_square_touches_are_planted(context):
    setting = context(
        *["task=planted_patch", "task.task.train=30", "task.task.validation=20", "task.task.test=10", "model=tiny_vit",
         "model.steps=2", "limit=4"],
    ).setting  # fmt: skip
    for batch in setting.data.batches:
        for row, marks in enumerate(planted_units(batch)):
            height, width = batch.patch
            rows, columns = np.nonzero(batch.masks[row])
            touched = {(y // height, x // width) for y, x in zip(rows, columns, strict=True)}
            across = batch.masks[row].shape[1] // width
            assert set(np.flatnonzero(marks)) == {y * across + x for y, x in touched}
            assert set(marks) == {0.0, 1.0}
            assert isinstance(batch.meta[row][KEYS[PlantedWords]], PlantedWords)
