"""Answers and movements of explanations by hand, and the analysis on a tiny model beside slow computations."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from scipy import stats

from benchmark import load_model
from benchmark.analyses.context import Context
from benchmark.analyses.reading.answers import Asked, lengths, read
from benchmark.analyses.reading.moved_scores import moved_scores, word_scores
from benchmark.analyses.reading.order_attacks import OrderAttacks
from benchmark.analyses.reading.subject import GIVEN
from benchmark.annotations import KEYS, Moved, Option
from benchmark.errors import NotApplicable
from benchmark.run.cell import Cell
from benchmark.run.workbench import open_setting
from benchmark.settings.configuration import compose
from benchmark.settings.declared import SettingError
from benchmark.types import Attribution, Example, Method
from tasks.attacked import Attacked
from tests import text_models
from tests.analyses.killed import assert_goes_on


def option(question, number, label, words="w"):
    told = Option(question, number, 3, 1)
    return Example(f"{question}-{number}", (["p"], ["q", *words]), label, meta={KEYS[Option]: told})


def test_the_option_with_the_largest_score_is_the_answer():
    examples = [
        option("a", 0, 0),
        option("a", 1, 1, "v"),
        option("b", 1, 0),
        option("b", 0, 1, "v"),
        option("b", 2, 0, "u"),
    ]
    asked = Asked(examples)
    assert asked.places == {"a": [0, 1], "b": [3, 2, 4]}
    assert asked.right(np.array([0.1, 0.2, 0.9, 0.3, 0.9])).tolist() == [1, 0]
    assert asked.right(np.array([0.1, 0.1, 0.0, 0.3, 0.3])).tolist() == [0.5, 0.5]
    assert asked.right(np.zeros(5)).tolist() == [1 / 2, 1 / 3]


def test_options_that_read_alike_are_equal_whatever_rounding_says():
    asked = Asked([option("a", 0, 0), option("a", 1, 1), option("a", 2, 0, "v")])
    assert asked.right(np.array([0.5 + 1e-12, 0.5, 0.1])).tolist() == [0.5]
    assert asked.alike(asked.examples).tolist() == [1]
    read = [option("a", 0, 0, "u"), *asked.examples[1:]]
    assert asked.right(np.array([0.5 + 1e-12, 0.5, 0.1]), read).tolist() == [0]
    assert asked.alike(read).tolist() == [0]


def test_questions_without_a_choice_are_left_out():
    examples = [
        option("none", 0, 0),
        option("none", 1, 0),
        option("all", 0, 1),
        option("two", 0, 1),
        option("two", 1, 0),
    ]
    assert [example.uid for example in Asked(examples).with_a_choice().examples] == ["two-0", "two-1"]
    pairs = Asked([Example("x", (["a"], ["b"]), 0)])
    assert not pairs.has_options
    assert pairs.with_a_choice() is pairs
    assert pairs.places == {"x": [0]}
    assert lengths([option("a", 0, 0, ("one", "two")), option("a", 1, 1)]).tolist() == [2, 1]


def test_means_over_the_options_that_have_a_value():
    examples = [option("a", 0, 0), option("b", 0, 1), option("a", 1, 1), Example("x", (["a"], ["b"]), 0)]
    found = Asked(examples).mean(np.array([0.2, np.nan, 0.4, 0.5]))
    assert found == pytest.approx([0.3, np.nan, 0.5], nan_ok=True)


def test_passages_are_known_by_their_words():
    pairs = [("one two", "a"), ("three", "b"), ("one two", "c")]
    asked = Asked([Example(second, (first.split(), [second]), 0) for first, second in pairs])
    assert asked.passages.tolist() == [0, 1, 0]
    queries = Asked([Example(str(i), (["q"], [word]), 0, query_units=1) for i, word in enumerate("xyx")])
    assert queries.passages.tolist() == [0, 1, 0]


@dataclass(frozen=True)
class ByWord(Method):
    """Scores every token by its identity."""

    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = False
    name: str = "by_word"

    def explain(self, model, batch, target):
        return Attribution(target, batch.tensors["input_ids"].float())


@dataclass(frozen=True)
class ByPlace(Method):
    """Scores every token by its place."""

    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = False
    name: str = "by_place"

    def explain(self, model, batch, target):
        scores = torch.arange(batch.units.shape[1]).expand(batch.units.shape).float()
        return Attribution(target, scores * (batch.attention_mask))


@dataclass(frozen=True)
class Silent(Method):
    """Has no token scores."""

    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = False
    name: str = "silent"

    def explain(self, model, batch, target):
        return Attribution(target)


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return load_model(text_models.save_bert(tmp_path_factory.mktemp("bert")), "float64")


def reading(model, first, second, origin=None, shuffled=None):
    """What the model says of one pair; where it is attacked, `origin` numbers its words."""
    moved = {} if origin is None else {KEYS[Moved]: Moved(origin, None, shuffled or (False,) * len(origin))}
    examples = [Example("e", (first.split(), second.split()), 0, meta=moved)]
    return read(model, ("bad", "good"), Asked(examples), examples, 4)


def moved(method, model, before, after):
    """How the scores of the class move that is predicted before."""
    batches = [model.encode_examples(one.examples, (0, 1)) for one in (before, after)]
    scores = [word_scores(method, model, batch, before.predicted) for batch in batches]
    return moved_scores(before, after, *scores)


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
    found = moved(ByWord(), bert, before, after)
    assert found.words.tolist() == [1]
    stays = bool(before.predicted == after.predicted)
    assert found.staying == pytest.approx([1 if stays else np.nan], nan_ok=True)
    places = moved(ByPlace(), bert, before, after)
    now = [place for place, number in enumerate(origin) if number >= 0]
    assert places.words[0] == pytest.approx(stats.kendalltau([origin[place] for place in now], now).statistic)
    assert places.places == pytest.approx([1 if len(origin) == 7 else np.nan], nan_ok=True)


def test_words_that_are_not_shuffled_say_nothing(bert):
    """Places 0 to 3 are shuffled, 2, 3, 0, 1: two pairs of six keep their order; the second segment would add fifteen."""
    before = reading(bert, *CLEAN)
    after = reading(bert, "was dull the film", "a good plot", (2, 3, 0, 1, 4, 5, 6), (True,) * 4 + (False,) * 3)
    found = moved(ByPlace(), bert, before, after)
    assert found.words[0] == pytest.approx((2 - 4) / 6)
    assert found.places.tolist() == [1]
    words = moved(ByWord(), bert, before, after)
    ids = bert.encode_examples(before.examples, (0, 1)).tensors["input_ids"][0, 1:5].tolist()
    assert words.places[0] == pytest.approx(stats.kendalltau(ids, [ids[i] for i in (2, 3, 0, 1)]).statistic)


def test_words_beyond_the_window_are_left_out(bert):
    long = "film plot story good bad fine dull was"  # 8 + 3 + 16 words, and special tokens, of a window of 24
    after = reading(bert, long, f"a plot good {long} {long}", (*range(8), 8, 10, 9, *range(11, 27)))
    found = moved(ByWord(), bert, reading(bert, long, f"a good plot {long} {long}"), after)
    assert found.words.tolist() == [1]
    assert found.places[0] < 1


def test_what_an_attack_leaves_as_it_was_has_no_value(bert):
    found = moved(ByPlace(), bert, reading(bert, *CLEAN), reading(bert, *CLEAN, tuple(range(7))))
    assert np.isnan([found.words, found.staying, found.places]).all()


def test_methods_without_token_scores_are_refused(bert):
    with pytest.raises(NotApplicable, match="no token scores"):
        moved(Silent(), bert, reading(bert, *CLEAN), reading(bert, *CLEAN, tuple(range(7))))


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
    asked, explained = analysis._drawn(examples)
    chosen = {e.uid for e in asked.examples}
    assert len(chosen) == 3 * 8
    assert set(explained.places) < set(asked.places)
    assert set(explained.places) != set(list(asked.places)[:6])  # drawn, not the first
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
    assert baselines.rows["baseline"].tolist() == ["largest class of these examples"]
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


@dataclass(frozen=True)
class Given(ByPlace):
    """Scores that a file would give for the examples of a comparison."""

    name: str = "given"
    explains_others: ClassVar[bool] = False

    def check(self, batches):
        raise AssertionError("it is not asked for others")


def test_given_scores_say_nothing_of_attacked_examples(setting):
    """Found by an identifier, which an attack leaves, they would look like scores that go by places."""
    (*_, table) = OrderAttacks(attacks=["p_shuffle"], trained=None, questions=2)(context(setting, Given()))
    assert table.rows[["explainer", "note"]].to_numpy().tolist() == [["given", GIVEN]]


def test_random_scores_do_not_follow_words(setting):
    """Words that are not shuffled keep their place, and their scores: they must not count."""

    @dataclass(frozen=True)
    class Drawn(ByPlace):
        name: str = "drawn"

        def explain(self, model, batch, target):
            drawn = [np.random.default_rng(list(map(ord, uid))).random(batch.units.shape[1]) for uid in batch.uids]
            return Attribution(target, torch.from_numpy(np.array(drawn)))

    (*_, table) = OrderAttacks(attacks=["p_shuffle", "pq_shuffle"], trained=None)(context(setting, Drawn()))
    rows = table.rows[table.rows["metric"] == "τ_b of words"]
    assert (rows["value"].astype(float).abs() < 0.1).all()


def test_every_pair_of_models_has_its_lines(setting):
    analysis = OrderAttacks(attacks=("p_shuffle",), trained=("p_shuffle",), trainings=2, explained=3)
    *_, answers, more = analysis(context(setting, ByWord(), ByPlace()))
    for table in (answers, more):
        table.check()
    rows = answers.rows.set_index(["seed", "metric"])["value"]
    other = analysis._learned(setting, None, 4)
    assert other.model.fingerprint != setting.model.fingerprint
    examples = setting.task.split("test")
    assert rows["3", "accuracy, learned clean, reads clean"] == pytest.approx(slow_accuracy(setting, examples).mean())
    assert rows["4", "accuracy, learned clean, reads clean"] == pytest.approx(slow_accuracy(other, examples).mean())
    attacked = analysis._learned(setting, "p_shuffle", 4)
    own = slow_accuracy(attacked, attacked.task.split("test"))
    assert rows["4", "accuracy, learned attacked, reads attacked"] == pytest.approx(own.mean())
    assert more.rows[["explainer", "seed", "value"]].to_numpy().tolist() == [
        [name, seed, 0.0] for seed in ("3", "4") for name in ("by_word", "by_place")
    ]


@dataclass(frozen=True)
class Tires(ByPlace):
    """Has scores of the first batches alone."""

    name: str = "tires"

    def explain(self, model, batch, target):
        if not batch.uids[0].endswith("-0"):  # of nine options in batches of four the first begins with one
            raise NotApplicable("it is tired")
        return super().explain(model, batch, target)


def test_a_killed_run_goes_on(setting, tmp_path, monkeypatch):
    """Names that read like another explainer's under an attack are told apart."""
    like = ByPlace(name="by_word, p_shuffle")
    analysis = OrderAttacks(attacks=["p_shuffle", "pq_shuffle"], trained=["p_shuffle"], explained=3)
    assert_goes_on(analysis, context(setting, ByWord(), Tires(), like, Silent()), tmp_path, monkeypatch, within=True)
    assert not (tmp_path / "nowhere").exists()
    (*_, kept), (*_, computed) = (
        analysis(replace(context(setting, ByWord(), like), folder=folder)) for folder in (tmp_path / "again", None)
    )
    assert kept.rows.equals(computed.rows)


def test_questions_that_words_decide_are_set_against_those_that_order_does(setting):
    analysis = OrderAttacks(attacks=["p_shuffle"], trained=None, explained=9)
    (*_, table) = analysis(context(setting, ByPlace()))
    rows = table.rows.set_index("metric")
    order, words = (rows.loc[f"τ_b of words where {kind}"] for kind in ("order decides", "words decide"))
    assert int(order["n"]) + int(words["n"]) == 9
    assert rows.loc["more where words decide", "value"] == pytest.approx(words["value"] - order["value"])


def test_a_task_without_choices_is_refused(setting):
    wrong = [e for e in setting.task.split("test") if e.label == 0]
    with pytest.raises(NotApplicable, match="no question has right and wrong options"):
        OrderAttacks()._drawn(wrong)
