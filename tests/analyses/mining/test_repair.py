"""Which pairs miners insert, by hand; and on a tiny model what is measured, beside slow computations."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmark.analyses.context import Context
from benchmark.analyses.mining.miners import Corpus
from benchmark.analyses.mining.readings import Answers, HeldOut, probabilities, repaired
from benchmark.analyses.mining.repair import Repair
from benchmark.analyses.mining.repair_tables import BEFORE, CLEAN, EFFECT, FREQUENT, NOTHING, PLANTED, SHIFTED, Repairs
from benchmark.analyses.mining.word_pairs import Marked
from benchmark.errors import NoSplit, NotApplicable
from benchmark.results.statistics import crossed_interval, interval
from benchmark.run.cell import Cell
from benchmark.run.workbench import open_setting
from benchmark.settings.configuration import compose
from benchmark.settings.making import make
from tests.analyses.killed import assert_goes_on
from tests.analyses.mining.explainers import Pays, Refuses

pytestmark = pytest.mark.thorough  # each test trains models

TEXTS = (
    [("red cup here", "yes")] * 12
    + [("green door here", "no")] * 12
    + [("old lamp here", "yes"), ("old lamp here", "no")] * 6
)


def corpus(**settings):
    words = [text.split() for text, _ in TEXTS]
    given = {"least": 5, "sensible": frozenset(), "budget": 2} | settings
    return Corpus(words, [label for _, label in TEXTS], ("no", "yes"), **given)


def marked(text, label, best):
    words = sorted(text.split())
    pairs = {(a, b): 1 for i, a in enumerate(words) for b in words[i + 1 :]}
    return Marked("x", label, Counter(pairs), len(pairs), frozenset(best))


def test_pairs_that_go_with_a_label():
    given = corpus()
    assert given.goes_with(("cup", "red"), "yes")
    assert not given.goes_with(("cup", "red"), "no")
    assert not given.goes_with(("lamp", "old"), "yes")
    red, old = {("cup", "red"), ("cup", "here"), ("here", "red")}, {("lamp", "old"), ("here", "lamp"), ("here", "old")}
    assert set(given.family("yes")) == red | old


def test_words_stand_as_most_texts_have_them_and_sensible_ones_are_left_out():
    assert corpus().phrase(("cup", "red")) == "red cup"
    assert corpus().phrase(("door", "green")) == "green door"
    assert all("here" not in pair for pair in corpus(sensible=frozenset({"here"})).holding)


def test_an_explainers_pairs_go_with_the_explained_label_most_significant_first():
    paid = {"red cup here": ("cup", "red"), "green door here": ("door", "green"), "old lamp here": ("lamp", "old")}
    examples = [marked(text, int(label == "yes"), [paid[text]]) for text, label in TEXTS]
    found = corpus().explained(examples, 1, {0: "no", 1: "yes"})
    assert {label: phrases[0] for label, phrases in found.items()} == {"no": "green door", "yes": "red cup"}
    assert [len(phrases) for phrases in found.values()] == [2, 2], (
        "an explainer has as many as the budget, significant or not"
    )
    assert not any("lamp" in phrase for phrases in found.values() for phrase in phrases)


def test_controls_have_as_many_pairs_and_avoid_what_they_are_controls_of():
    given = corpus(budget=1)
    rng = np.random.default_rng(0)
    assert given.associated() == {"no": ["green door"], "yes": ["cup here"]}
    drawn = corpus(budget=5).random(rng, [{"yes": ["red cup"], "no": ["green door"]}])
    assert {word for phrases in drawn.values() for phrase in phrases for word in phrase.split()} == {
        "old",
        "lamp",
        "here",
    }
    frequent = given.as_frequent(rng, [{"yes": ["red cup"], "no": ["green door"]}])
    assert all(set(phrase.split()) <= {"old", "lamp", "here"} for phrases in frequent.values() for phrase in phrases)
    assert [len(phrases) for phrases in frequent.values()] == [1, 1]
    one_planted = corpus(budget=2).as_frequent(rng, [{"yes": ["red cup"], "no": ["green door"]}])
    assert [len(phrases) for phrases in one_planted.values()] == [2, 2], "as many as the budget, of however few"


def test_association_is_by_the_intervals_end_and_not_by_the_share():
    often = [("red cup here", "yes")] * 31 + [("red cup here", "no")] * 2
    rare = [(f"odd{i} thing{i}", "yes") for i in range(200) for _ in range(5)]
    texts = [*often, *rare, *[("green door", "no")] * 400]
    given = Corpus([text.split() for text, _ in texts], [label for _, label in texts], ("no", "yes"), 5, frozenset(), 3)
    low = interval(np.repeat([1.0, 0.0], [31, 2]), bounds=(0.0, 1.0)).low
    assert given.low(("cup", "red"), "yes") == pytest.approx(low)
    assert low > interval(np.ones(5), bounds=(0.0, 1.0)).low
    found = given.associated()["yes"]
    assert found[0] == "cup here"
    assert len(found) == 3
    words = [word for phrase in found for word in phrase.split()]
    assert len(set(words)) == len(words), "no two share a word"


TINY = ["model=tiny", "model.steps=250", "model.layers=1", "model.heads=2", "model.hidden=16"]
TASK = [
    "task.shortcuts=4",
    "task.shortcut_strength=1",
    "task.shortcut_rate=1",
    "task.train=300",
    "task.validation=20",
    "task.test=40",
]
SMALL = {"trainings": 2, "train": 64, "tested": 30, "patterns": 2, "target": "label"}


@pytest.fixture(scope="module")
def setting(tmp_path_factory):
    folder = tmp_path_factory.mktemp("repair")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield open_setting(
            compose("config", [*TINY, *TASK, "split=train", "limit=120", "tracking=none", f"out={folder}"])
        )


def context(setting, **methods):
    cells = {
        name: Cell(Path("nowhere"), name, method, setting.model, setting.data, {}, {}, 0.0)
        for name, method in methods.items()
    }
    return Context(setting, cells, {})


@pytest.fixture(scope="module")
def tables(setting):
    words = frozenset(word for phrase in setting.task.planted_shortcuts for word in phrase.split())
    found = Repair(**SMALL)(context(setting, pays=Pays(words), refuses=Refuses()))
    for table in found:
        table.check()
    return {table.name: table for table in found}


def test_what_the_model_answers_before_equals_a_slow_computation(setting, tables):
    rows = tables["repair"].rows.set_index(["inserted", "metric"])["value"]
    tested = HeldOut.of(setting.config.task, "test", Repair().clean, Repair().shifted, 30, int(setting.config.seed))
    config = setting.config.copy()
    right = {"clean": [], "shifted": []}
    for seed in (0, 1):
        config.model = {**config.model, "seed": seed}
        model = open_setting(config).model
        for kind, values in right.items():
            values.append([])
            for example in getattr(tested, kind):
                batch = model.encode_examples([example], model.label_map(setting.task.labels))
                values[-1].append(float(model.run(batch).logits.argmax(-1) == batch.label))
    assert rows[BEFORE, CLEAN] == pytest.approx(np.mean(right["clean"]))
    assert rows[BEFORE, SHIFTED] == pytest.approx(np.mean(right["shifted"]))
    spread = tables["repair_spread"].rows.set_index(["inserted", "figure", "metric"])["value"]
    expected = crossed_interval(np.array(right["shifted"]), bounds=(0.0, 1.0)).seeds
    assert spread[BEFORE, SHIFTED, "SD between seeds"] == pytest.approx(expected)


def test_shifted_texts_hold_phrases_of_the_other_label_and_clean_ones_none(setting):
    tested = HeldOut.of(setting.config.task, "test", Repair().clean, Repair().shifted, 30, 0)
    planted = setting.task.planted_shortcuts
    assert len(tested.clean) == len(tested.shifted) == 30
    for clean, shifted in zip(tested.clean, tested.shifted, strict=True):
        assert clean.uid == shifted.uid
        assert not any(phrase in " ".join(clean.inputs) for phrase in planted)
        (held,) = [label for phrase, label in planted.items() if phrase in " ".join(shifted.inputs)]
        assert held != setting.task.labels[shifted.label]
    triggered = tested.triggered({"positive": ["blue lamp"]}, 0)
    for example, clean in zip(triggered, tested.clean, strict=True):
        assert ("blue lamp" in " ".join(example.inputs)) == (clean.label == 0)


def test_a_repair_by_the_phrases_themselves_takes_their_effect(tables):
    rows = tables["repair"].rows.set_index(["inserted", "metric"])["value"]
    assert rows["pays", EFFECT] == pytest.approx(rows[PLANTED, EFFECT], abs=1e-9), "it found them all"
    assert rows[PLANTED, EFFECT] < rows[BEFORE, EFFECT]
    gains = tables["repair_gains"].rows.set_index(["inserted", "metric"])["value"]
    assert gains["pays", f"gain of {SHIFTED}"] == pytest.approx(rows["pays", SHIFTED] - rows[BEFORE, SHIFTED])
    beyond = rows["pays", SHIFTED] - rows[FREQUENT, SHIFTED]
    assert gains["pays", "shifted, beyond words as frequent"] == pytest.approx(beyond)
    assert gains["pays", "cut of the planted phrases' effect"] == pytest.approx(
        rows[BEFORE, EFFECT] - rows["pays", EFFECT]
    )


def test_a_model_of_other_classes_and_an_explainer_that_refuses_one_seed(setting):
    turned = replace(setting, model=SimpleNamespace(label_map=lambda labels: [1, 0]))
    with pytest.raises(NotApplicable, match="in another order"):
        Repair(**SMALL)(context(turned))
    found = Repairs(planted=False)
    nothing = Answers(np.ones(3), np.ones(3), None, None)
    for seed in (0, 1):
        found.add(BEFORE, seed, nothing, {})
        found.add("always", seed, nothing, {"yes": ["red cup"]})
    found.add("once", 0, nothing, {"yes": ["red cup"]})
    found.refuse("once", "it cannot")
    assert found.miners == ["always"]


def test_what_was_inserted_is_told(tables):
    rows = tables["repair_patterns"].rows
    assert (rows[rows["inserted"] == PLANTED]["value"] == 1).all()
    assert (rows[rows["inserted"] == "pays"]["value"] == 1).all()
    assert (rows[rows["inserted"] == FREQUENT]["value"] == 0).all()
    assert rows.groupby(["inserted", "seed", "for"]).size().eq(2).all()
    assert NOTHING not in set(rows["inserted"])


def test_the_report_says_it_in_a_sentence_and_who_refused(tables):
    verdict = tables["repair_gains"].sentences[0]
    gains = tables["repair_gains"].rows.set_index(["inserted", "metric"])
    it = gains.loc[("pays", "shifted, beyond training on")]
    told = f"{100 * it['value']:+.1f} [{100 * it['low']:+.1f}, {100 * it['high']:+.1f}] %"
    assert told in verdict
    assert f"(mean of 1 explainers, from pays, {100 * it['value']:+.1f}, to pays" in verdict
    assert "2 seeds, 30 texts)" in verdict
    assert "0 of them help more" in verdict or "1 of them help more" in verdict
    assert "it has nothing" in tables["repair"].rows["note"].tolist()
    assert set(tables["repair"].rows["inserted"]) >= {BEFORE, NOTHING, FREQUENT, PLANTED, "pays", "refuses"}


def test_a_second_run_trains_nothing_and_says_the_same(setting, tables, monkeypatch):
    def trains(*_: object) -> None:
        raise AssertionError("a model that is there is trained again")

    monkeypatch.setattr("benchmark.training.finetune.finetune", trains)
    words = frozenset(word for phrase in setting.task.planted_shortcuts for word in phrase.split())
    again = Repair(**SMALL)(context(setting, pays=Pays(words), refuses=Refuses()))
    for table in again:
        assert table.rows.equals(tables[table.name].rows)


def test_probabilities_do_not_depend_on_the_batch(setting):
    examples = list(setting.task.split("test")[:7])
    both = probabilities(setting.model, setting.task.labels, examples)
    single = [probabilities(setting.model, setting.task.labels, [example]) for example in examples]
    assert both == pytest.approx(np.concatenate(single, axis=1), abs=1e-6)


def test_a_repaired_task_is_made_of_its_settings(setting):
    task = make(repaired(setting.config.task, {"positive": ["blue lamp"]}, share=1.0, train=20, seed=1))
    assert len(task.split("train")) == 20
    assert sum("blue lamp" in " ".join(e.inputs) for e in task.split("train")) == sum(
        e.label == 0 for e in task.split("train")
    )


def test_without_a_training_split_it_does_not_apply(setting):
    class NoTraining:
        labels = ("negative", "positive")

        def split(self, name):
            raise NoSplit("none")

    with pytest.raises(NotApplicable, match="does not have"):
        Repair()(context(replace(setting, task=NoTraining())))


def test_a_killed_run_goes_on(setting, tmp_path, monkeypatch):
    """Models of two seeds are told apart under equal labels."""
    words = frozenset(word for phrase in setting.task.planted_shortcuts for word in phrase.split())
    explainers = {"pays": Pays(words), "elsewhere": Pays(frozenset({"the", "a"}))}
    assert_goes_on(Repair(**SMALL), context(setting, **explainers), tmp_path, monkeypatch, within=True)
