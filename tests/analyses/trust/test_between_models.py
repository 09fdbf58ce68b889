"""Which pairs turn, by hand and in a simulation; and what is read of two models."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from omegaconf import OmegaConf

from benchmark.analyses.trust.between_models import (
    APART,
    APART_THERE,
    SAME,
    TURNED,
    BetweenModels,
    pairs_told_apart,
)
from benchmark.comparison import run_comparison
from benchmark.errors import NotApplicable
from benchmark.settings.configuration import compose

METHODS = ("a", "b", "c", "d")


def test_pairs_that_turn_by_hand():
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 0.01, (30, 4))
    found = pairs_told_apart(METHODS, noise + np.array([3, 2, 1, 1]), noise[::-1] + np.array([1, 2, 3, 3]))
    assert ("a", "b") in found.own
    assert ("b", "a") in found.other
    assert not any({"c", "d"} == set(pair) for pair in found.own | found.other)
    assert found.turned == [("a", "b"), ("a", "c"), ("a", "d"), ("b", "c"), ("b", "d")]
    assert found.told == "a falls behind b, c, d; b falls behind c, d"
    assert pairs_told_apart(METHODS, noise, noise).told == "none"


def test_methods_that_are_alike_turn_in_few_comparisons():
    rng, wrong, apart = np.random.default_rng(1), [], []
    for _ in range(300):
        example = rng.normal(0, 1, (40, 1))
        own, other = (example + rng.normal(0, 1, (40, 4)) for _ in range(2))
        found = pairs_told_apart(METHODS, own, other)
        wrong.append(bool(found.turned))
        apart.append(bool(found.own | found.other))
    assert np.mean(apart) <= 0.08, "family-wise, over the pairs of both models"
    assert np.mean(wrong) <= 0.01


@pytest.mark.thorough
def test_the_same_model_under_another_name_moves_nothing(place, tmp_path):
    same = f"{{same:['model=hf','model.path={place / 'bert'}']}}"
    tables = compared(place, tmp_path, f"analyses.between_models.models={same}")
    rows = tables["between_models"].set_index(["test", "metric"])
    assert (rows.xs(SAME, level="metric")["value"].dropna() == 1).all()
    assert (rows.xs(TURNED, level="metric")["note"] == "none").all()
    own, there = (rows.xs(name, level="metric")["note"] for name in (APART, APART_THERE))
    assert (own == there).all()
    assert own.str.endswith(" of 6").all()
    told = tables["between_models_models"]
    assert told[told["metric"] == "accuracy"]["value"].nunique() == 1


def compared(place, out, *more):
    words = [
        "task=tiny_task",
        "task.size=8",
        "model=hf",
        f"model.path={place / 'bert'}",
        f"out={out}",
        "methods=[raw_attention,rollout,gradient_x_input,integrated_gradients,random]",
        "evaluations=[aopc,rationale]",
        "analyses=[between_models]",
        "tracking=none",
        *more,
    ]
    run_comparison(compose("config", words, str(place / "conf")))
    (folder,) = (out / "comparisons").iterdir()
    return {path.stem.removeprefix("table-"): pd.read_csv(path) for path in folder.glob("table-between*.csv")}


def test_without_another_model_there_is_nothing_to_say(context):
    given = context()
    given = replace(given, setting=replace(given.setting, config=OmegaConf.create({"limit": None})))
    with pytest.raises(NotApplicable, match="no other model is given"):
        BetweenModels()(given)
