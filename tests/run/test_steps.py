"""Explain, test, reduce: each step can be taken alone, by a command of its own, and all leave what one command leaves."""

import json
from dataclasses import dataclass
from typing import ClassVar

import pytest

import benchmark
from benchmark.errors import NotApplicable, UserError
from benchmark.evaluations.triggers.triggers import Triggers
from benchmark.opened import open_comparison
from benchmark.progress import scope
from benchmark.progress.stopwatch import timed
from benchmark.run import stages
from benchmark.run.stages import CLASSES, PREDICTED, PREDICTED_EDGES, WITH_EDGES, Explaining, Sample, Searching, asked
from benchmark.run.steps import pending
from benchmark.run.testing import taken_from_method
from benchmark.settings.making import build
from benchmark.types import Attribution, Method, as_compared
from tests import tiny_task
from tests.run.test_history import contents

pytestmark = pytest.mark.usefixtures("no_pictures")

CHOSEN = (
    "methods=[raw_attention,random,probe]",
    "evaluations=[rationale,perturbation,perturbation_target,class_specificity,head_pruning,attribution_graph]",
    "analyses=[]",
)


def test_three_commands_leave_what_one_does(place, tmp_path):
    at_once = tiny_task.compared(place, tmp_path / "one", *CHOSEN)
    for step in ("explain", "test"):
        comparison = tiny_task.compared(place, tmp_path / "three", *CHOSEN, f"stage={step}")
        assert (comparison.loaded, comparison.step) == ((), step)
        for cell in comparison.cells:
            assert not (cell / "record.json").exists()
            rows = {path.stem for path in (cell / "parts").glob("rows-*.parquet")}
            assert bool(rows) == (step == "test")
    last = tiny_task.compared(place, tmp_path / "three", *CHOSEN, "stage=reduce")
    assert [cell.name for cell in last.cells] == [cell.name for cell in at_once.cells]
    for one, three in zip(at_once.cells, last.cells, strict=True):
        assert contents(one) == contents(three)
        assert not (three / "parts").exists()
    assert benchmark.leaderboard(last.folder).equals(benchmark.leaderboard(at_once.folder))


@pytest.mark.parametrize(
    ("steps", "missing"),
    [
        (["test"], "explaining the predicted class is not done yet, which is stage=explain; run that first"),
        (["reduce"], "testing is not done yet, which is stage=test; run that first"),
        (["explain", "reduce"], "testing is not done yet, which is stage=test; run that first"),
    ],
)
def test_a_step_before_its_turn_is_one_line(place, tmp_path, steps, missing):
    *before, step = steps
    for each in before:
        tiny_task.compared(place, tmp_path, *CHOSEN, f"stage={each}")
    with pytest.raises(UserError) as found:
        tiny_task.compared(place, tmp_path, *CHOSEN, f"stage={step}")
    assert str(found.value) == f"raw_attention: {missing}"


def test_stages_are_named_by_what_they_are():
    names = {
        "attributions-predicted": PREDICTED,
        "attributions-label": Explaining(which="label"),
        "attributions-calibration-train-5": Explaining(which="label", sample=Sample("train", 5)),
        "edges-predicted": PREDICTED_EDGES,
        "classes": CLASSES,
        "explained-with-edges": WITH_EDGES,
    }
    assert {stage.name: stage for stage in names.values()} == names
    assert len({stage.label for stage in names.values()}) == len(names)
    assert stages.Testing(build("evaluations/rationale")).name.startswith("rows-")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rationale", [PREDICTED]),
        ("perturbation_target", [PREDICTED, Explaining(which="label")]),
        ("class_specificity", [PREDICTED, CLASSES]),
        ("attribution_graph", [PREDICTED_EDGES]),
        ("head_pruning", [Explaining(which="label", sample=Sample("validation", 100))]),
        ("triggers", []),
    ],
)
def test_a_test_asks_for_what_it_reads(name, expected):
    assert list(asked(build(f"evaluations/{name}"))) == expected


class FitsOtherwise:
    """A callable with a `fit` that is not that of a method here."""

    version = 3
    class_specific = False

    def fit(self, features, labels):
        raise AssertionError("nobody asked")

    def check(self):
        raise AssertionError("nobody asked")

    def __call__(self, model, batch, target):
        return Attribution(target=target, tokens=batch.units.double())


def test_a_callable_is_a_method_whatever_else_it_can():
    method = as_compared(FitsOtherwise())
    assert (method.version, method.class_specific, method.fitted, method.scores_edges) == (3, False, False, False)
    assert method.fit([]) is method
    with pytest.raises(NotApplicable, match="does not score edges"):
        method.edge_scores(None, None, None)


def function(model, batch):
    """One argument too few."""


@dataclass(frozen=True)
class TakesOther(Method):
    """A method whose `fit` takes something else."""

    fitted: ClassVar[bool] = True

    def explain(self, model, batch, target):
        raise NotImplementedError

    def fit(self, features, labels):
        raise NotImplementedError


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (function, "function(model, batch) is called as function(model, batch, target)"),
        (TakesOther(), "TakesOther.fit(features, labels) is called as TakesOther.fit(examples)"),
        (3, "int is no method: subclass benchmark.types.Method, or give what can be called as f(model, batch, target)"),
    ],
)
def test_what_cannot_be_called_is_one_line(given, line):
    with pytest.raises(UserError) as found:
        as_compared(given)
    assert str(found.value) == line


def test_what_cannot_be_explained_is_not_asked_twice(place, tmp_path):
    """What a first command found out, a second one reads."""
    chosen = ("methods=[random]", "evaluations=[attribution_graph]", "analyses=[]")
    (cell,) = tiny_task.compared(place, tmp_path, *chosen, "stage=explain").cells
    (refusal,) = (cell / "parts").glob("*.refused.json")
    assert json.loads(refusal.read_text())["reason"] == "the method does not score edges"
    tiny_task.compared(place, tmp_path, *chosen, "stage=test")
    (cell,) = tiny_task.compared(place, tmp_path, *chosen, "stage=reduce").cells
    record = json.loads((cell / "record.json").read_text())
    assert record["evaluations"]["attribution_graph"]["dash"] == "the method does not score edges"


def test_a_search_is_told_until_it_is_done(place, tmp_path, monkeypatch):
    """What a test takes from a method is a step with a total, which a plan measures and a bar shows."""
    monkeypatch.setattr(Triggers, "extract", lambda *_: {"found": 1})
    opened = open_comparison(
        tiny_task.settings(place, tmp_path, "methods=[universal_trigger]", "evaluations=[triggers]")
    )
    cell, test = opened.cells()["universal_trigger"], opened.evaluations["triggers"]
    search = Searching(test)
    assert pending(cell, opened.evaluations)[search] == test.calibration.limit > 0
    with timed() as watch, scope("cell", cell.name):
        assert taken_from_method(cell, test) == {"found": 1}
    assert len(watch.parts["cell", cell.name].laps[search.name]) == 1
    assert search not in pending(cell, opened.evaluations)
