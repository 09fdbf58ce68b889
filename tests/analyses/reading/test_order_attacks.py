"""Answers and movements of explanations by hand, and the analysis on a tiny model beside slow computations."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from scipy import stats

from benchmark import load_model
from benchmark.analyses.context import Context
from benchmark.analyses.reading.answers import chosen_right, lengths, mean_by_question, questions_of, read
from benchmark.analyses.reading.moved_scores import moved_scores
from benchmark.analyses.reading.order_attacks import OrderAttacks
from benchmark.annotations import KEYS, Moved, Option
from benchmark.errors import NotApplicable
from benchmark.run.cell import Cell
from benchmark.run.workbench import open_setting
from benchmark.settings.configuration import compose
from benchmark.settings.declared import SettingError
from benchmark.types import Attribution, Example
from tasks.attacked import Attacked
from tests import text_models


def option(question, number, label, words=("w",)):
    told = Option(question, number, 3, 1)
    return Example(f"{question}-{number}", (["p"], ["q", *words]), label, meta={KEYS[Option]: told})


def test_the_option_with_the_largest_score_is_the_answer():
    examples = [option("a", 0, 0), option("a", 1, 1), option("b", 1, 0), option("b", 0, 1), option("b", 2, 0)]
    found = questions_of(examples)
    assert found == {"a": [0, 1], "b": [3, 2, 4]}
    assert chosen_right(examples, found, np.array([0.1, 0.2, 0.9, 0.3, 0.9])).tolist() == [1, 0]
    assert chosen_right(examples, found, np.array([0.1, 0.1, 0.0, 0.3, 0.3])).tolist() == [0.5, 0.5]
    assert chosen_right(examples, found, np.zeros(5)).tolist() == [1 / 2, 1 / 3]


def test_questions_without_a_choice_are_left_out():
    examples = [
        option("none", 0, 0),
        option("none", 1, 0),
        option("all", 0, 1),
        option("two", 0, 1),
        option("two", 1, 0),
    ]
    assert questions_of(examples) == {"two": [3, 4]}
    assert questions_of([Example("x", (["a"], ["b"]), 0)]) == {}
    assert lengths([option("a", 0, 0, ("one", "two")), option("a", 1, 1)]).tolist() == [2, 1]


def test_means_over_the_options_that_have_a_value():
    examples = [option("a", 0, 0), option("b", 0, 1), option("a", 1, 1), Example("x", (["a"], ["b"]), 0)]
    found = mean_by_question(examples, np.array([0.2, np.nan, 0.4, 0.5]))
    assert found == pytest.approx([0.3, np.nan, 0.5], nan_ok=True)


@dataclass(frozen=True)
class ByWord:
    """Scores every token by its identity."""

    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = False
    name: str = "by_word"

    def __call__(self, model, batch, target):
        return Attribution(target, batch.tensors["input_ids"].float())


@dataclass(frozen=True)
class ByPlace:
    """Scores every token by its place."""

    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = False
    name: str = "by_place"

    def __call__(self, model, batch, target):
        scores = torch.arange(batch.units.shape[1]).expand(batch.units.shape).float()
        return Attribution(target, scores * (batch.attention_mask))


@dataclass(frozen=True)
class Silent:
    """Has no token scores."""

    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = False
    name: str = "silent"

    def __call__(self, model, batch, target):
        return Attribution(target)


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return load_model(text_models.save_bert(tmp_path_factory.mktemp("bert")), "float64")


def reading(model, first, second, origin=None):
    """What the model says of one pair; where it is attacked, `origin` numbers its words."""
    moved = {} if origin is None else {KEYS[Moved]: Moved(origin, None)}
    return read(model, ("bad", "good"), [Example("e", (first.split(), second.split()), 0, meta=moved)], 4)


CLEAN_ON_CLEAN = ("learned clean", "clean examples")
CLEAN_ON_ATTACKED = ("learned clean", "attacked examples")
CLEAN = ("the film was dull", "a good plot")


@pytest.mark.parametrize(
    ("first", "second", "origin"),
    [
        ("was dull the film", "plot a good", (2, 3, 0, 1, 6, 4, 5)),  # shuffled
        (".", "a good plot", (-1, 4, 5, 6)),  # the passage removed
        ("the film was dull", "bad a good plot fine", (0, 1, 2, 3, -1, 4, 5, 6, -1)),  # words added
    ],
)
def test_scores_follow_the_words(bert, first, second, origin):
    before, after = reading(bert, *CLEAN), reading(bert, first, second, origin)
    found = moved_scores(ByWord(), before, after, 5)
    assert found.words.tolist() == [1]
    stays = bool(before.predicted == after.predicted)
    assert found.staying == pytest.approx([1 if stays else np.nan], nan_ok=True)
    places = moved_scores(ByPlace(), before, after, 5)
    now = [place for place, number in enumerate(origin) if number >= 0]
    assert places.words[0] == pytest.approx(stats.kendalltau([origin[place] for place in now], now).statistic)
    assert places.places == pytest.approx([1 if len(origin) == 7 else np.nan], nan_ok=True)


def test_words_beyond_the_window_are_left_out(bert):
    long = "film plot story good bad fine dull was"  # 8 + 3 + 16 words, and special tokens, of a window of 24
    after = reading(bert, long, f"a plot good {long} {long}", (*range(8), 8, 10, 9, *range(11, 27)))
    found = moved_scores(ByWord(), reading(bert, long, f"a good plot {long} {long}"), after, 1)
    assert found.words.tolist() == [1]
    assert found.places[0] < 1


def test_what_an_attack_leaves_as_it_was_has_no_value(bert):
    found = moved_scores(ByPlace(), reading(bert, *CLEAN), reading(bert, *CLEAN, tuple(range(7))), 1)
    assert np.isnan([found.words, found.staying, found.places]).all()


def test_the_first_questions_are_explained(setting):
    clean = read(setting.model, setting.task.labels, setting.task.split("test"), 4)
    attacked = read(setting.model, setting.task.labels, Attacked(setting.task, "p_shuffle").split("test"), 4)
    every, some = (moved_scores(ByPlace(), clean, attacked, number) for number in (9, 5))
    assert len(every.words) == 9
    assert some.words.tolist() == every.words[:5].tolist()


def test_methods_without_token_scores_are_refused(bert):
    with pytest.raises(NotApplicable, match="no token scores"):
        moved_scores(Silent(), reading(bert, *CLEAN), reading(bert, *CLEAN, tuple(range(7))), 1)


@pytest.fixture(scope="module")
def setting(tmp_path_factory):
    """A comparison of a model that had thirty steps on thirty questions."""
    tiny = ["model=tiny", "model.steps=30", "model.layers=2", "model.heads=2", "model.hidden=16", "model.seed=3"]
    few = ["task.train=30", "task.validation=2", "task.test=9", "batch_size=4", "tracking=none"]
    folder = tmp_path_factory.mktemp("attacks")
    return open_setting(compose("config", ["task=multiple_choice", *tiny, *few, f"out={folder}"]))


def context(setting, *methods):
    cells = {
        method.name: Cell(Path("nowhere"), method.name, method, setting.model, setting.data, {}, {}, 0.0)
        for method in methods
    }
    return Context(setting, cells, {})


def slow_accuracy(setting, examples):
    """One option after another."""
    right = {}
    for example in examples:
        label_map = setting.model.label_map(setting.task.labels)
        batch = setting.model.encode_examples([example], label_map)
        probability = float(setting.model.run(batch).logits.detach().double().softmax(-1)[0, label_map[1]])
        right.setdefault(example.meta[KEYS[Option]].question, []).append((probability, example.label))
    return np.array([max(pairs)[1] for pairs in right.values()])


def test_tables_equal_a_slow_computation(setting):
    analysis = OrderAttacks(
        attacks=("p_shuffle", "q_remove", "add_ans2opt"), trained=("p_shuffle",), questions=8, explained=6, seed=5
    )
    accuracies, baselines, explanations = analysis(context(setting, ByWord(), ByPlace(), Silent()))
    for table in (accuracies, baselines, explanations):
        table.check()
    rows = accuracies.rows.set_index(["attack", "model", "reads", "metric"])
    examples = setting.task.split("test")
    chosen = {e.uid for e in analysis._drawn(examples)}
    assert len(chosen) == 3 * 8
    clean = slow_accuracy(setting, [e for e in examples if e.uid in chosen])
    assert rows.loc[("none", *CLEAN_ON_CLEAN, "accuracy"), "value"] == pytest.approx(clean.mean())
    for attack in ("p_shuffle", "q_remove", "add_ans2opt"):
        task = Attacked(setting.task, attack, seed=5)
        after = slow_accuracy(setting, [e for e in task.split("test") if e.uid in chosen])
        assert rows.loc[(attack, *CLEAN_ON_ATTACKED, "accuracy"), "value"] == pytest.approx(after.mean())
        change = rows.loc[(attack, *CLEAN_ON_ATTACKED, "change")]
        assert change["value"] == pytest.approx((after - clean).mean())
        assert change["n"] == 8
    assert ("p_shuffle", "learned attacked", "clean examples", "accuracy") in rows.index
    assert rows.loc[("p_shuffle", *CLEAN_ON_ATTACKED, "degree of shuffling"), "value"] >= 0.65
    assert ("q_remove", *CLEAN_ON_ATTACKED, "degree of shuffling") not in rows.index
    assert baselines.rows.set_index("baseline").loc["chance", "value"] == pytest.approx(1 / 3)
    taus = explanations.rows.set_index(["explainer", "attack", "model", "metric"])
    assert taus.loc[("by_word", "p_shuffle", "learned clean", "τ_b of words"), "value"] == pytest.approx(1)
    assert taus.loc[("by_word", "p_shuffle", "learned clean", "τ_b of places"), "value"] < 0.9
    assert taus.loc[("by_place", "p_shuffle", "learned clean", "τ_b of places"), "value"] == pytest.approx(1)
    assert taus.loc[("by_place", "p_shuffle", "learned clean", "τ_b of words"), "n"] == 6
    more = taus.loc[("by_place", "p_shuffle", "learned attacked", "more than of the clean model")]
    assert (more["value"], more["n"]) == (0, 6)  # of whatever model
    assert ("by_word", "add_ans2opt", "learned attacked", "τ_b of words") not in taus.index
    assert "no token scores" in taus.loc[("silent", "p_shuffle", "learned clean", "τ_b of words"), "note"]


def test_where_order_decides_and_where_words_do_are_told_apart(setting):
    (table, *_) = OrderAttacks(attacks=["q_remove"], trained=None, questions=None)(context(setting))
    rows = table.rows[table.rows["attack"] == "none"].set_index("metric")
    n = rows["n"].astype(int)
    assert n["accuracy"] == 9 == n["accuracy where order decides"] + n["accuracy where words decide"]
    parts = [rows.loc[f"accuracy where {kind} decide{s}"] for kind, s in (("order", "s"), ("words", ""))]
    total = sum(float(part["value"]) * int(part["n"]) for part in parts)
    assert total == pytest.approx(9 * rows.loc["accuracy", "value"])


def test_the_model_that_learned_from_attacked_examples_is_another(setting):
    analysis = OrderAttacks(attacks=("pq_remove",), trained=("pq_remove",), explained=2)
    (table, *_) = analysis(context(setting))
    rows = table.rows.set_index(["model", "reads", "metric"])["value"]
    # nothing of the pair is left but the option: what it learned from that, it knows with the passage or without
    opened = analysis._learned(setting, "pq_remove")
    assert opened.model.fingerprint != setting.model.fingerprint
    own = slow_accuracy(opened, opened.task.split("test"))
    assert rows["learned attacked", "attacked examples", "accuracy"] == pytest.approx(own.mean())
    whole = slow_accuracy(opened, setting.task.split("test"))
    assert rows["learned attacked", "clean examples", "accuracy"] == pytest.approx(whole.mean())


def test_a_finished_checkpoint_and_pairs_without_options(tmp_path):
    words = ["good film\tbad plot\tagrees", "dull story\tdull story\tdisagrees"] * 3
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "test.tsv").write_text("\n".join(["first\tsecond\tlabel", *words, ""]), "utf-8")
    checkpoint = text_models.save_bert(tmp_path / "bert", labels=("agrees", "disagrees"))
    task = [
        f"task.root={tmp_path / 'data'}",
        "task.text=first",
        "task.text_pair=second",
        "task.label_names=[agrees,disagrees]",
    ]
    setting = open_setting(
        compose(
            "config", ["task=text_classification", *task, "model=hf", f"model.path={checkpoint}", f"out={tmp_path}"]
        )
    )
    analysis = OrderAttacks(attacks=("q_remove", "add_ans2opt", "p_shuffle"), trained=("p_shuffle",))
    accuracies, baselines, explanations = analysis(context(setting, ByWord()))
    assert set(accuracies.rows["attack"]) == {"none", "q_remove", "p_shuffle"}
    notes = accuracies.rows[accuracies.rows["model"] == "learned attacked"]
    assert notes["note"].tolist() == ["the model is a finished checkpoint"]
    assert baselines.rows["baseline"].tolist() == ["largest class"]
    assert baselines.rows["value"].tolist() == [0.5]
    assert set(explanations.rows["attack"]) == {"q_remove", "p_shuffle"}


def test_models_are_trained_on_attacks_that_are_tried():
    with pytest.raises(SettingError, match=r"trained=.*those of attacks=\['p_shuffle'\]"):
        OrderAttacks(attacks=["p_shuffle"])


def test_what_is_attacked_already_or_no_pair_is_refused(setting):
    config = setting.config.copy()
    OmegaConf.set_struct(config, value=False)
    config.task = compose("config", ["task=attacked", "task.attack=p_shuffle"]).task
    config.task.task = setting.config.task
    again = open_setting(config)
    with pytest.raises(NotApplicable, match="attacked already"):
        OrderAttacks()(context(again))
