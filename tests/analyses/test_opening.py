"""What of a comparison stays as it is in a setting that an analysis opens, what changes, and what a mistake is told as."""

import pytest

from benchmark.analyses import opening
from benchmark.analyses.opening import beside, opened, own_seed, seeds_from, trained_with, with_model
from benchmark.errors import UserError
from benchmark.run.workbench import open_setting
from benchmark.settings.configuration import compose
from tests import text_models
from tests.analyses.test_analyses import config


@pytest.fixture(scope="module")
def own(place):
    return open_setting(config(place, "methods=[probe]", "limit=6", "seed=3", "model.window=24", "model.max_tokens=99"))


@pytest.fixture
def other(place, monkeypatch):
    """Overrides of a model with a window of its own, composed with the test's folder of YAMLs."""
    monkeypatch.setattr(opening, "compose", lambda name, given: compose(name, given, str(place / "conf")))
    path = text_models.save_bert(place / "other", seed=1)
    return ["task=tiny_task", "model=hf", f"model.path={path}", "model.window=16", "model.dtype=float64"]


def kept(setting):
    """What every setting has of the comparison but its task and model."""
    names = ("split", "limit", "seed", "batch_size", "out", "methods")
    return {name: setting.config[name] for name in names}


def test_what_is_not_changed_stays(own):
    found = opened(own, {"limit": 4, "task.size": 9})
    assert kept(found) == kept(own) | {"limit": 4}
    assert found.config.model == own.config.model
    assert {**found.config.task, "size": 9} == {**own.config.task, "size": 9}
    assert len(found.data.uids) == 4
    assert (own.config.limit, own.config.task.size) == (6, 12), "the comparison's own is as it was"
    assert found.model.fingerprint == own.model.fingerprint


def test_a_model_is_loaded_as_the_comparisons_or_as_its_overrides_say(own, other):
    """`with_model` compares values, so that both are loaded alike; `beside` takes what the overrides say, and no more."""
    alike = with_model(own, opening.composed(other, "settings").model)
    assert (alike.config.model.window, alike.config.model.max_tokens) == (24, 99)
    assert alike.config.model.dtype == "float64", "what the comparison does not set"
    path = other[2].partition("=")[2]
    plain = with_model(own, path)
    assert {name: plain.config.model[name] for name in ("path", "window", "max_tokens")} == {
        "path": path, "window": 24, "max_tokens": 99
    }  # fmt: skip
    found = beside(own, {"second": other, "left out": None, "third": path}, "analyses.mine.models")
    assert list(found) == [own.model.name, "second", "third"]
    assert found[own.model.name] is own
    assert (found["second"].config.model.window, found["second"].config.model.get("max_tokens")) == (16, None)
    assert found["third"].config.model.get("window") is None
    for one in (alike, plain, *found.values()):
        assert kept(one) == kept(own)
        assert one.config.task == own.config.task
        assert one.data.uids == own.data.uids


def test_another_task_keeps_the_draw_alone(own, other):
    found = opening.of_task(own, [*other, "split=validation", "batch_size=2", "seed=8"], 5, "analyses.mine.settings.a")
    assert kept(found) == kept(own) | {"split": "validation", "batch_size": 2, "limit": 5}
    assert found.config.model.window == 16


def test_seeds(own, tmp_path, monkeypatch):
    assert trained_with(own, 5) is own, "a finished checkpoint has no seed"
    assert (own_seed(own), seeds_from(own, 2)) == (0, range(2))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    small = ["task.train=40", "task.validation=5", "task.test=5", "model.steps=2", "tracking=none", f"out={tmp_path}"]
    tiny = open_setting(compose("config", [*small, "model.seed=4"]))
    assert seeds_from(tiny, 3) == range(4, 7)
    assert trained_with(tiny, 4) is tiny
    another = trained_with(tiny, 5)
    assert another.config.model == {**tiny.config.model, "seed": 5}
    assert another.model.fingerprint != tiny.model.fingerprint


def test_mistakes_are_one_line_that_names_the_setting(own, other):
    cases = {
        "analyses.mine.models.bert is the name of the comparison's own model; give it another one": {"bert": other},
        "analyses.mine.models.a: model.path is not set; add it to the list of overrides": {"a": ["model=hf"]},
        "analyses.mine.models.b: model=nope does not exist": {"b": ["model=nope"]},
    }
    for message, models in cases.items():
        with pytest.raises(UserError) as refused:
            beside(own, models, "analyses.mine.models")
        assert str(refused.value).startswith(message)
        assert "\n" not in str(refused.value)
    with pytest.raises(UserError, match=r"^analyses\.mine\.settings\.a: model\.path is not set"):
        opening.of_task(own, ["task=tiny_task", "model=hf"], None, "analyses.mine.settings.a")
    with pytest.raises(UserError, match=r"^analyses\.mine\.settings\.b: model\.path is not set"):
        with_model(own, opening.composed(["model=hf"], "nowhere").model, "analyses.mine.settings.b")
