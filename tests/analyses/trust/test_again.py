"""Tests of explanations that are known to be good, blind or misled, asked again about explanations made for it."""

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
import pytest
import torch
from scipy import stats

from benchmark.analyses.context import Context
from benchmark.analyses.trust import found as found_module
from benchmark.analyses.trust.again import Again, on_tokens
from benchmark.analyses.trust.columns import Column
from benchmark.analyses.trust.found import Asked
from benchmark.analyses.trust.ladder import RUNGS, degraded, order_of_rungs
from benchmark.analyses.trust.which_test import CONTROLS, FRESH, NOT_HERE, SETTINGS, SHIFT, USE, WINNER, WhichTest
from benchmark.analyses.trust.winners import ORDERED, SEARCHED, searched
from benchmark.comparison import finish_all
from benchmark.errors import NotApplicable
from benchmark.evaluations.base import Averaged, higher, rated_scores, table
from benchmark.evaluations.rationale.documents import average_precision
from benchmark.models.removal import operator_for
from benchmark.results.record import About
from benchmark.run.workbench import open_setting
from benchmark.settings.configuration import compose
from benchmark.types import Attribution, Method
from methods.gradient_x_input import GradientXInput


@dataclass(frozen=True)
class Double(Averaged):
    """A test of explanations that says how true, how early in the text, or nothing in particular the best words are."""

    says: str
    reads: ClassVar[str] = "tokens"
    about: ClassVar[About] = About("faithfulness")
    target: str = "predicted"

    @property
    def metrics(self):
        return {"figure": higher(self.says, "a double", headline=True)}

    def rows(self, model, batch, attribution):
        rows = rated_scores(batch, attribution.tokens.to(batch.units.device), "max")
        return table(batch.uids, "figure", np.array([self._of(batch, b, own) for b, own in enumerate(rows)]))

    def _of(self, batch, b, scores):
        if self.says in ("truth", "untruth"):
            sign = 1 if self.says == "truth" else -1
            return sign * average_precision(np.asarray(batch.rationale[b])[: len(scores)], scores)
        if self.says == "place":
            return float(-stats.spearmanr(scores, np.arange(len(scores))).statistic if np.ptp(scores) else 0.0)
        return float(np.random.default_rng([len(scores), b]).random())


@dataclass(frozen=True)
class Removing(Double):
    """The same of a test that says that it deletes shares of the words."""

    operator: str = "delete"
    fractions: tuple[float, ...] = (0.5,)


@dataclass(frozen=True)
class FromTheLeft(Method):
    """Scores that fall from left to right, whatever the model is, by a method that says that it looks at the class."""

    version: ClassVar[int] = 1
    class_specific: ClassVar[bool] = True

    def explain(self, model, batch, target):
        places = torch.arange(batch.units.shape[1], device=batch.units.device).expand(batch.units.shape)
        return Attribution(target=target, tokens=(-places.float()).masked_fill(batch.units < 0, 0))


@pytest.fixture(scope="module")
def setting(place):
    settings = ["task=tiny_task", "model=hf", f"model.path={place / 'bert'}", "tracking=none", "batch_size=5"]
    config = compose(
        "config", [*settings, f"out={place / 'runs_again'}", "methods=[oracle,random]"], str(place / "conf")
    )
    return open_setting(config)


def made(setting, *says, methods=None):
    """A context with doubles of these kinds, and columns in which the oracle has 1 and random scores ½."""
    cells = {name: setting.cell(name) for name in setting.config.methods}
    for name, method in (methods or {}).items():
        cells[name] = replace(
            cells["random"], folder=cells["random"].folder.with_name(name), name=name, compared=method
        )
    tests = {name: Double(name) for name in says}
    uids = tuple(setting.data.uids)
    controls = {"oracle": np.ones(len(uids)), "random": np.full(len(uids), 0.5)}
    values = np.random.default_rng(0).random((len(uids), 6))
    columns = {
        name: Column(name, "figure", name, "faithfulness", uids, tuple("abcdef"), values, controls) for name in says
    }
    return Context(setting, cells, tests), columns


def run(setting, compute, label):
    parts = [compute(batch) for batch in setting.data.batches]
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}


def found_again(*given):
    """What is found by column, without the base of the ladder."""
    return found_module.found_again(*given)[0]


def asked(**what):
    return Asked(**{"ladder": False, "winners": False, "fresh": 0, "limit": None, "units": 64, "seed": 0} | what)


def test_a_share_of_the_scores_change_places():
    scores = np.arange(20, dtype=float)
    lost = [degraded(scores, share, 1, "a") for share in RUNGS]
    moved = [int((one != scores).sum()) for one in lost]
    assert moved[0] == 0
    assert moved == sorted(moved)
    assert all(count <= 20 * share for count, share in zip(moved, RUNGS, strict=True))
    assert all(sorted(one) == list(scores) for one in lost)
    assert moved[-1] >= 15
    changed = [{i for i in range(20) if one[i] != scores[i]} for one in lost]
    assert changed[1] & changed[-1]
    assert np.array_equal(lost[2], degraded(scores, RUNGS[2], 1, "a"))
    assert not np.array_equal(lost[-1], degraded(scores, 1.0, 1, "b"))


def test_order_of_rungs_is_spearmans():
    figures = np.array(
        [[5, 4, 3, 2, 1], [1, 2, 3, 4, 5], [1, 1, 1, 1, 1], [3, 3, 1, 2, 0], [1, np.nan, 1, 1, 1]], float
    )
    expected = [1, -1, 0, -stats.spearmanr(RUNGS, figures[3]).statistic]
    found = order_of_rungs(figures)
    assert (found.value, found.n) == (pytest.approx(np.mean(expected)), 4)


def test_scores_of_units_stand_on_their_tokens(setting):
    context, columns = made(setting, "truth")
    again = Again.of(context, list(columns.values()), None)
    batch = setting.data.batches[0]
    tokens = torch.rand(batch.units.shape)
    units = list(again.units(batch, tokens))
    spread = on_tokens(batch, [(places, own) for _, places, own in units])
    for b, places, own in units:
        assert np.array_equal(places, np.flatnonzero(batch.rated_units(b)))
        assert rated_scores(batch, spread, "max")[b] == pytest.approx(own)


def test_the_ladder_of_the_oracle_is_seen_by_the_truth_alone(setting):
    context, columns = made(setting, "truth", "noise")
    found = found_again(asked(ladder=True), context, [columns["noise"]], columns["truth"], run)
    assert found["truth.figure"].ladder.value > 0.5
    assert found["truth.figure"].ends.value > 0.75
    assert found["noise.figure"].ladder.value == 0
    assert found["noise.figure"].ends.value == 0.5
    assert found["truth.figure"].fresh is None


def test_the_base_is_the_oracle_of_a_truth_else_the_method_that_most_tests_put_first(setting):
    """Of the methods whose words are scored: an oracle of what people marked is no truth."""
    context, columns = made(setting, "truth", "noise", methods={"from_the_left": FromTheLeft()})
    values = np.random.default_rng(0).random((12, 2)) * 0.1
    values[:, 1] += 1
    own = [replace(columns["noise"], values=values, methods=("nowhere", "from_the_left"))]

    def base(truth):
        return found_module.found_again(asked(ladder=True), context, own, truth, run)[1]

    assert base(columns["truth"]) == "oracle"
    assert base(None) == "from_the_left"


def test_without_a_truth_the_ends_of_the_ladder_decide(setting):
    context, columns = made(setting, "place", "noise", methods={"from_the_left": FromTheLeft()})
    values = np.ones((12, 1))
    bare = [replace(column, values=values, methods=("from_the_left",)) for column in columns.values()]
    found = found_again(asked(ladder=True), context, bare, None, run)
    more = {column.test: found[column.key] for column in bare}
    wide = {name: replace(columns[name], controls={}) for name in columns}
    told = {name: WhichTest().ask(wide[name], None, more[name]) for name in columns}
    assert told["noise"].verdict == NOT_HERE
    assert told["place"].passed[CONTROLS] is True
    rows = WhichTest(ladder=True)._verdicts([told["place"]], None, "from_the_left").rows
    decides = rows[rows["metric"] == "above its permuted copy"]
    assert decides["value"].item() == more["place"].ends.value
    assert decides["low"].item() > 0.5


def test_a_question_that_cannot_be_asked_spoils_no_other(setting):
    """Weights that cannot be drawn, a batch that a test refuses: the ladder is told all the same."""
    context, columns = made(setting, "truth", "noise")

    def refused(where, compute, label):
        if "fresh" in label:
            raise NotApplicable("weights that are quantised cannot be drawn anew")
        return run(where, compute, label)

    methods = {"from_the_left": replace(context.cells["random"], name="from_the_left", compared=FromTheLeft())}
    context = replace(context, cells={**context.cells, **methods})
    found = found_again(asked(ladder=True, fresh=2), context, [columns["noise"]], columns["truth"], refused)
    assert found["noise.figure"].ladder is not None
    assert found["noise.figure"].fresh is None


def test_no_interval_is_no_pass():
    from benchmark.analyses.trust.which_test import passes
    from benchmark.results.statistics import Interval

    nothing = Interval(1.0, float("nan"), float("nan"), 20)
    assert passes(nothing, lambda _: True) is None
    assert passes(None, lambda _: True) is None
    assert passes(Interval(0.1, 0.0, 0.2, 20), lambda found: found.low <= 0) is True


def test_a_test_that_rewards_the_place_is_blind_to_the_model(setting):
    """The explanation is the same whatever the weights are, and the test likes it: not here."""
    context, columns = made(setting, "place", "noise", methods={"from_the_left": FromTheLeft()})
    random = {"oracle": np.ones(12), "random": np.zeros(12)}
    own = [replace(column, controls=random) for column in columns.values()]
    found = found_again(asked(fresh=3), context, own, None, run)
    assert found["place.figure"].fresh.low > 0.9
    told = WhichTest().ask(own[0], None, found["place.figure"])
    assert told.passed[FRESH] is False
    assert told.verdict == NOT_HERE


def test_methods_that_do_not_look_at_the_class_are_not_asked_of_fresh_weights(setting):
    context, columns = made(setting, "place")
    assert found_again(asked(fresh=2), context, list(columns.values()), None, run)["place.figure"].fresh is None


def test_greedy_orders_equal_a_loop(setting):
    """Units that go one after the other, each the one that lowers (or raises) the probability of the class most."""
    context, columns = made(setting, "truth")
    again, batch = Again.of(context, list(columns.values()), None), setting.data.batches[1]
    target, operator = setting.data.target(1, "predicted"), operator_for("auto", setting.model, batch, "operator")
    found = searched(again, batch, target, operator)

    def probability(b, gone):
        removed = torch.zeros(1, len(batch), int(batch.units.max()) + 1, dtype=torch.bool)
        removed[0, b, gone] = True
        from benchmark.models.removal import logits_without

        logits = logits_without(setting.model, batch, removed, operator)
        return float(setting.model.probability(logits, target)[0, b])

    for b, places, _ in list(again.units(batch, found[ORDERED]))[:3]:
        for name, better in zip(SEARCHED[:2], (min, max), strict=True):
            gone, left = [], list(places)
            while left:
                chosen = better(left, key=lambda unit, b=b, gone=tuple(gone): probability(b, [*gone, unit]))
                gone.append(chosen)
                left.remove(chosen)
            scores = rated_scores(batch, found[name], "max")[b]
            order = places[np.argsort(-scores)]
            assert list(order) == (gone if better is min else gone[::-1])
        alone = [probability(b, [unit]) for unit in places]
        assert rated_scores(batch, found[SEARCHED[2]], "max")[b] == pytest.approx([-p for p in alone], abs=1e-6)
        ordered = rated_scores(batch, found[ORDERED], "max")[b]
        marks = np.asarray(batch.rationale[b])[places]
        assert ordered[marks].min() > ordered[~marks].max()


def test_nothing_wins_over_the_truth_in_the_test_that_is_the_truth(setting):
    context, columns = made(setting, "truth")
    (truth,) = columns.values()
    other = replace(truth, test="truth", metric="figure")
    found = found_again(asked(winners=True), context, [replace(other, title="again")], truth, run)["truth.figure"]
    assert found.beaten.high <= 0


def test_average_precision_with_the_known_words_passes_all_that_it_can_be_asked(setting):
    """Of methods that are the oracle with ever more lost (means over twenty draws), and a gradient's on fresh weights."""
    context, columns = made(setting, "truth", methods={"gradient_x_input": GradientXInput()})
    (truth,) = columns.values()
    marks = {
        uid: np.asarray(batch.rationale[b], dtype=float)[batch.rated_units(b)]
        for batch in setting.data.batches
        for b, uid in enumerate(batch.uids)
    }

    def lost(own, share):
        return np.mean([average_precision(own > 0, degraded(own, share, seed, "a")) for seed in range(20)])

    values = np.array([[lost(own, share) for share in np.linspace(0, 1, 6)] for own in marks.values()])
    inverted = np.array([average_precision(own > 0, -own) for own in marks.values()])
    controls = {"oracle": values[:, 0], "random": values[:, -1], "inverted": inverted}
    own = replace(truth, values=values, controls=controls)
    assert tuple(marks) == own.uids
    (found,) = found_again(asked(ladder=True, winners=True, fresh=3, shift=True), context, [own], truth, run).values()
    told = WhichTest().ask(own, own, found)
    assert told.verdict == USE
    assert {name for name, passed in told.passed.items() if passed is None} == {SETTINGS, SHIFT}, "it removes nothing"


def test_a_test_that_likes_what_is_untrue_is_misled(setting):
    """It rewards the reverse of the truth: whatever a search finds is less true, and liked better than the oracle."""
    context, columns = made(setting, "truth", "untruth")
    low = {"oracle": np.full(12, -1.0), "random": np.full(12, -0.5)}
    misled = replace(columns["untruth"], controls=low)
    found = found_again(asked(winners=True), context, [misled], columns["truth"], run)["untruth.figure"]
    told = WhichTest().ask(misled, None, found)
    assert found.beaten.low > 0
    assert found.winner.high < 1
    assert told.passed[WINNER] is False


def test_a_search_asks_as_the_tests_do(setting, monkeypatch):
    """Tests that explain something else, or remove in another way, have searches of their own."""
    context, columns = made(setting, "place")
    column = columns["place"]
    tests = {
        "one": Double("place"),
        "label": Double("place", target="label"),
        "deletes": Removing("place"),
        "other": Double("noise"),
    }
    columns = [replace(column, test=name) for name in tests]
    context = replace(context, evaluations=tests)
    again = Again.of(context, columns, None)
    searches = found_module._searches(again, columns)
    assert searches == {
        ("predicted", "auto"): ["one", "other"],
        ("label", "auto"): ["label"],
        ("predicted", "delete"): ["deletes"],
    }
    asked_of, search = [], found_module.searched

    def noted(again, batch, target, operator):
        asked_of.append((type(operator).__name__, target))
        return search(again, batch, target, operator)

    monkeypatch.setattr(found_module, "searched", noted)
    found = found_again(asked(winners=True, limit=4), context, columns, None, run)
    assert set(found) == {column.key for column in columns}
    assert {name for name, _ in asked_of} == {"Mask", "Delete"}


def test_long_examples_are_not_searched(setting):
    context, columns = made(setting, "truth", "place")
    found = found_again(asked(winners=True, units=4), context, list(columns.values()), columns["truth"], run)
    short = sum(len(example.inputs.split()) <= 4 for example in setting.task.split("test"))
    assert found["place.figure"].beaten.n == short


def test_a_test_that_likes_what_is_true_of_fresh_weights_is_right(setting):
    """The first word is the rationale here, so that scores from the left are true whatever the weights are."""
    context, columns = made(setting, "place", "truth", methods={"from_the_left": FromTheLeft()})
    low = {"oracle": np.ones(12), "random": np.zeros(12)}
    place, truth = (replace(columns[name], controls=low) for name in ("place", "truth"))
    found = found_again(asked(fresh=3), context, [place], truth, run)["place.figure"]
    assert found.fresh.low > 0.9
    assert found.fresh_truth.low > 0
    assert WhichTest(fresh=3).ask(place, truth, found).passed[FRESH] is None


@dataclass(frozen=True)
class Operated(Removing):
    """It says how true the scores are by its own way to remove, and the reverse by another."""

    operator: str = "auto"

    def _of(self, batch, b, scores):
        return super()._of(batch, b, scores) * (-1 if self.operator == "delete" else 1)


def test_the_order_under_another_way_to_remove(setting):
    """A test that turns round under deletion orders methods the other way; one that does not, alike."""
    context, columns = made(setting, "place")
    list(finish_all(context.cells, {}))
    names = sorted(context.cells)
    tests = {"turns": Operated("place"), "stays": Removing("place", operator="mask"), "deletes": Removing("place")}
    again = Again.of(
        replace(context, evaluations=tests), [replace(columns["place"], test=name) for name in tests], None
    )
    values = {}
    for name in tests:
        stored = found_module.explained(context.cells, "predicted")
        values[name] = np.stack(
            [
                np.concatenate(
                    [
                        again.figures(batch, partial(found_module.given, found_module._of(tokens, batch)), (name,))[
                            f"{name}.figure"
                        ]
                        for batch in setting.data.batches
                    ]
                )
                for tokens in (found_module._by_uid(context, stored[method]) for method in names)
            ],
            axis=1,
        )
    own = [
        replace(columns["place"], test=name, methods=tuple(names), uids=tuple(setting.data.uids), values=values[name])
        for name in tests
    ]
    found = found_again(asked(operator="delete"), replace(context, evaluations=tests), own, None, run)
    assert found["turns.figure"].under.value == pytest.approx(-1)
    assert found["stays.figure"].under.value == pytest.approx(1)
    assert found["deletes.figure"].under is None, "it is its own way"
    told = WhichTest(operator="delete").ask(own[0], None, found["turns.figure"])
    assert told.settings[0] == "removal by delete"
    assert told.passed[SETTINGS] is False
