"""A plan of a comparison, and what the comparison then took beside it."""

import io
import re
from functools import partial
from types import SimpleNamespace

import pandas as pd
import pytest
from rich.console import Console

from benchmark.analyses.trust.between_models import BetweenModels
from benchmark.analyses.trust.randomised import Randomised
from benchmark.analyses.trust.shift import Shift
from benchmark.analyses.trust.stability import Stability
from benchmark.analyses.trust.which_test import WhichTest
from benchmark.comparison import run_comparison
from benchmark.errors import NotApplicable, UserError
from benchmark.models import Classifier, load_model
from benchmark.planning.planner import REUSED, make_plan
from benchmark.planning.printed_plan import printed_plan
from benchmark.progress.spent import Spent
from benchmark.progress.stopwatch import timed
from benchmark.results import store
from benchmark.results.digests import sealed
from benchmark.results.plans import SHARD_SECONDS, Account, Plan, PlannedCell, plan_path
from benchmark.run.explaining import ExplainWithEdges
from benchmark.settings.configuration import compose
from tests import tiny_task
from tests.report.carried import carried
from tests.run.test_history import contents

METHODS = "methods=[raw_attention,rollout,attattr,gradient_x_input,random]"
TESTS = "evaluations=[perturbation,perturbation_target,aopc,rationale]"
SEARCH = ("methods=[random]", "evaluations=[perturbation]")
REPORT = ("leaderboard.csv", "leaderboard.md", "leaderboard.tex", "curves.csv", "differences.csv")

pytestmark = pytest.mark.usefixtures("no_pictures")


@pytest.fixture(autouse=True)
def few_curves(monkeypatch):
    monkeypatch.setattr("benchmark.planning.reporting.curve_files", lambda *_: iter(()))


def composed(place, out, *overrides):
    defaults = ["task=tiny_task", "task.size=40", "model=hf", f"model.path={place / 'bert'}", "tracking=none"]
    chosen = ["batch_size=8", "analyses=[]", f"out={out}", *(overrides or (METHODS, TESTS))]
    return compose("config", [*defaults, *chosen], str(place / "conf"))


@pytest.fixture
def paid_by_pass(monkeypatch):
    """A clock that goes on with the passes alone: a second for each example forward, two backward, a half for a call."""
    now, run, gradients = [0.0], Classifier.run, Classifier.gradients

    def forward(model, inputs, **given):
        trace = run(model, inputs, **given)
        now[0] += 0.5 + len(trace.logits)
        return trace

    def backward(model, outputs, *rest, **given):
        now[0] += 2 * len(outputs)
        return gradients(model, outputs, *rest, **given)

    monkeypatch.setattr(Classifier, "run", forward)
    monkeypatch.setattr(Classifier, "gradients", backward)
    for module in ("measuring", "spending"):
        monkeypatch.setattr(f"benchmark.planning.{module}.timed", partial(timed, lambda: now[0]))


@pytest.mark.thorough
def test_what_was_planned_comes_true(place, tmp_path, paid_by_pass):
    """Where seconds are passes, planned and actual ones agree. How often the label is predicted is not known before."""
    plan = make_plan(composed(place, tmp_path))
    comparison = run_comparison(composed(place, tmp_path))
    table = pd.read_csv(comparison.folder / "plan.csv", index_col="method")
    assert list(table.index) == ["raw_attention", "rollout", "attattr", "gradient_x_input", "random"]
    assert table["seconds"].to_dict() == pytest.approx(table["planned_seconds"].to_dict(), rel=0.25)
    assert table["seconds"].sum() == pytest.approx(sum(cell.seconds for cell in plan.cells), rel=0.1)
    assert table["forward_passes"].to_dict() == pytest.approx(table["planned_forward_passes"].to_dict(), rel=0.15)
    assert table["backward_passes"].to_dict() == pytest.approx(table["planned_backward_passes"].to_dict(), rel=0.15)
    assert table["disk_bytes"].to_dict() == pytest.approx(table["planned_disk_bytes"].to_dict(), rel=0.25)


@pytest.mark.thorough
def test_a_plan_leaves_parts_of_the_comparison_and_the_report_a_link_to_what_came_of_it(place, tmp_path):
    make_plan(composed(place, tmp_path / "planned"))
    left = [path.relative_to(tmp_path / "planned") for path in (tmp_path / "planned").rglob("*") if path.is_file()]
    (kept,) = [path for path in left if path.parts[0] == "plans"]
    assert all("parts" in path.parts or path.suffix == ".lock" for path in left if path != kept), left
    planned = run_comparison(composed(place, tmp_path / "planned"))
    assert planned.folder.name.endswith(kept.stem)
    plain = run_comparison(composed(place, tmp_path / "plain"))
    for name in REPORT:
        assert (planned.folder / name).read_bytes() == (plain.folder / name).read_bytes()
    added = {"plan.md", "plan.csv", "spent.json"}
    assert {path.name for path in planned.folder.iterdir()} - {path.name for path in plain.folder.iterdir()} == added
    links = [carried((each.folder / "index.html").read_text())["overview-data"]["links"] for each in (planned, plain)]
    assert [sorted({*files} & {"plan.md", "plan.csv"}) for files in links] == [["plan.csv", "plan.md"], []]


def test_finished_methods_cost_nothing_and_what_was_spent_is_kept(place, tmp_path):
    run_comparison(composed(place, tmp_path, "methods=[random]", TESTS))
    plan = make_plan(composed(place, tmp_path, "methods=[random,rollout]", TESTS))
    assert [(cell.method, cell.note, cell.seconds > 0) for cell in plan.cells] == [
        ("random", REUSED, False),
        ("rollout", "", True),
    ]
    comparison = run_comparison(composed(place, tmp_path, "methods=[random,rollout]", TESTS))
    spent = Account.read(comparison.folder / "spent.json")
    assert set(spent.cells) == {"rollout"}
    everything = make_plan(composed(place, tmp_path, "methods=[random,rollout]", TESTS))
    assert {cell.note for cell in everything.cells} == {REUSED}
    run_comparison(composed(place, tmp_path, "methods=[random,rollout]", TESTS))
    assert Account.read(comparison.folder / "spent.json") == spent
    assert "rollout" in (comparison.folder / "plan.md").read_text()


def test_a_method_that_cannot_serve_has_its_dash(place, tmp_path):
    plan = make_plan(composed(place, tmp_path, "methods=[probe,random]", "methods.probe.how=refuse", TESTS))
    assert plan.cells[0].note == "it does not feel like it"
    assert "it does not feel like it" in shown(plan)


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_a_plan_of_very_few_examples(place, tmp_path, limit):
    plan = make_plan(composed(place, tmp_path, *SEARCH, f"limit={limit}"))
    assert plan.examples == limit
    assert 0 < plan.cells[0].seconds < 60


@pytest.mark.parametrize(
    ("method", "test"),
    [
        ("attattr", "attribution_graph"),
        ("lrp", "class_specificity"),
        ("attattr", "head_pruning"),
        ("attattr", "triggers"),
        ("universal_trigger", "triggers"),
    ],
)
def test_every_kind_of_test_can_be_planned(place, tmp_path, method, test):
    plan = make_plan(composed(place, tmp_path, f"methods=[{method}]", f"evaluations=[{test}]", "limit=10"))
    assert plan.cells[0].seconds > 0


def test_workers_share_batches_and_nothing_else():
    cell = PlannedCell("rollout", seconds=10, shared_seconds=8, chain_seconds=3, shards=100)
    plan = Plan(60, 0.01, 1.0, 4.0, 0, (cell, PlannedCell("random", seconds=2, shared_seconds=2, chain_seconds=1)))
    assert plan.seconds == 17
    assert plan.with_workers(2) == pytest.approx(1 + 4 + 2 + 100 * SHARD_SECONDS + 10 / 2)
    assert plan.with_workers(1000) == pytest.approx(1 + 4 + 3)  # no method is faster than its longest batches


def test_a_plan_is_read_back_or_refused(tmp_path):
    plan, path = Plan(60, 0.01, 1.0, 4.0, 12, (PlannedCell("rollout", seconds=10),)), plan_path(tmp_path, "12345678")
    plan.write(path)
    assert Plan.read(path) == plan
    store.write_json(path, sealed({"examples": "many"}))
    with pytest.raises(UserError, match=r"12345678\.json is corrupt \(examples is no int\)"):
        Plan.read(path)


def shown(plan):
    console = Console(width=140, file=io.StringIO())
    console.print(printed_plan(plan))
    return console.file.getvalue()


def test_the_table_tells_methods_totals_and_workers():
    cells = (PlannedCell("rollout", 600, 0, 10.0, 8.0, 3.0, 4, 700_000_000, 5_000), PlannedCell("random", note=REUSED))
    text = shown(
        Plan(60, 0.01, 1.0, 4.0, 7_000, cells, ("analyses (axioms), whose cost shows when they run",), 3.0, 12)
    )
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "rollout 600 0 10.0 1,000 700.0 MB 5.0 kB" in lines
    assert f"random – – – – – – {REUSED}" in lines
    assert "total, one process 600 0 15.0 1,500 700.0 MB 12.0 kB" in lines
    assert "workers 2 4 8 16" in lines
    assert any(line.startswith("Not planned: analyses (axioms)") for line in lines)


def test_analyses_are_part_of_the_plan_where_they_know_what_they_take(place, tmp_path, paid_by_pass):
    chosen = ("methods=[raw_attention,gradient_x_input,random]", "evaluations=[aopc]")
    asked = "analyses=[axioms,stability,randomised]"
    settings = ("analyses.stability.limit=10", "analyses.stability.draws=3", "analyses.randomised.draws=2")
    plan = make_plan(composed(place, tmp_path, *chosen, asked, *settings))
    foretold = dict(plan.analyses)
    assert set(foretold) == {"stability", "randomised"}
    assert plan.not_planned == ("analyses (axioms), whose cost shows when they run",)
    assert plan.seconds == pytest.approx(
        plan.opening_seconds + sum(cell.seconds for cell in plan.cells) + sum(foretold.values()) + plan.report_seconds
    )
    without = make_plan(composed(place, tmp_path / "without", *chosen, "analyses=[]"))
    assert plan.with_workers(2) - without.with_workers(2) == pytest.approx(plan.analyses_seconds, rel=0.1)
    assert "analysis stability" in shown(plan)
    assert Plan.read(next((tmp_path / "plans").glob("*.json"))) == plan


def test_what_an_analysis_foretells_by_hand():
    spent = Spent(100, 0.3, {"a": 2.0, "b": 4.0}, {"aopc": 1.0, "racu": 0.5})
    assert (spent.used(None), spent.used(30), spent.used(300)) == (100, 30, 100)
    assert spent.forward == pytest.approx(0.1)
    assert spent.explained() == 6.0
    assert spent.explained(["a", "unknown"]) == 2.0 + 3.0
    assert (spent.tested(), spent.tested(["racu", "unknown"])) == (1.5, 0.5)
    context = SimpleNamespace(cells={"a": None, "b": None, "random": None})
    assert Stability(limit=10, draws=3).foretold(spent, context) == pytest.approx(10 * 4 * (6.0 + 2 * 0.1))
    models = BetweenModels(models={"one": "x", "none": None})
    assert models.foretold(spent, context) == pytest.approx(100 * (6.0 + 3.0 + 3 * 1.5))
    assert Shift(limit=20, fractions=(0.5,), reference=10).foretold(spent, context) == pytest.approx(
        0.1 * (20 + 20 * 4)
    )


def test_what_explanations_of_fresh_weights_take_by_hand(place):
    """Five modules (head, pooler, two blocks, embeddings), drawn one after the other and each alone."""
    spent = Spent(100, 0.3, {"a": 2.0, "b": 4.0}, {"aopc": 1.0})
    context = SimpleNamespace(setting=SimpleNamespace(model=load_model(place / "bert", device="cpu")))
    asked = Randomised(limit=20, draws=3)
    assert asked.foretold(spent, context) == pytest.approx(20 * 3 * 10 * (6.0 + 0.1))
    cascade = Randomised(limit=None, draws=2, independent=False)
    assert cascade.foretold(spent, context) == pytest.approx(100 * 2 * 5 * (6.0 + 0.1))


def comparison_to_ask_again():
    """Two tests of words that remove the same, one that removes otherwise, one of heads, and two methods."""
    same = {"reads": "tokens", "operator": "auto", "fractions": (0.2, 0.5)}
    evaluations = {"aopc": same, "racu": same, "other": {**same, "operator": "delete"}, "heads": {"reads": "heads"}}
    return SimpleNamespace(
        cells={"a": None, "b": None, "random": None},
        evaluations={name: SimpleNamespace(**test) for name, test in evaluations.items()},
        setting=SimpleNamespace(data=SimpleNamespace(facts=SimpleNamespace(units=800, n=100))),
    )


ASKED_AGAIN = {"aopc": 1.0, "racu": 0.5, "other": 0.25, "heads": 50.0}


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [
        ({}, 0.0),
        ({"ladder": True}, 20 * 5 * 1.75),
        ({"fresh": 3}, 20 * 3 * (6.0 + 2 * 1.75)),
        ({"winners": True}, 20 * ((8 * 8 + 2 * 8) * 0.1 + 4 * 1.75)),
        ({"winners": True, "units": 4}, 20 * ((4 * 4 + 2 * 4) * 0.1 + 4 * 1.75)),
        ({"operator": "pad"}, 20 * 2 * 1.75),
        ({"ladder": True, "fresh": 1, "limit": None}, 100 * (5 * 1.75 + 6.0 + 2 * 1.75)),
    ],
)
def test_what_asking_tests_again_takes_by_hand(asked, seconds):
    """Five rungs; each draw an explanation and a test of each method; all orders of eight words, and four explanations."""
    spent = Spent(100, 0.3, {"a": 2.0, "b": 4.0, "random": 9.0}, ASKED_AGAIN)
    analysis = WhichTest(**{"limit": 20, **asked})
    assert analysis.foretold(spent, comparison_to_ask_again()) == pytest.approx(seconds)


def test_what_the_strangeness_of_removals_takes_by_hand():
    """600 references, natural and masked; each example whole, and without two shares by each of two operators."""
    spent = Spent(100, 0.3, {"a": 2.0}, ASKED_AGAIN)
    found = WhichTest(shift=True, limit=20).foretold(spent, comparison_to_ask_again())
    assert found == pytest.approx(0.1 * (2 * 600 + 20 * 5))
    with_ladder = WhichTest(shift=True, ladder=True, limit=20).foretold(spent, comparison_to_ask_again())
    assert with_ladder - found == pytest.approx(20 * 5 * 1.75)


WITH_ALL_READERS = (
    "evaluations=[perturbation,perturbation_target,class_specificity,head_pruning,attribution_graph,triggers]"
)


@pytest.mark.thorough
def test_a_comparison_goes_on_from_what_was_planned(place, tmp_path, monkeypatch):
    """The batch that a plan ran is not run again, and the folder holds in the end what it holds without a plan."""
    chosen = ("methods=[attattr,universal_trigger]", WITH_ALL_READERS)
    plain = run_comparison(composed(place, tmp_path / "plain", *chosen))
    plan = make_plan(composed(place, tmp_path / "planned", *chosen))
    seen = []
    explain = ExplainWithEdges.__call__

    def noted(work, model, batch, *inputs):
        seen.extend(batch.uids)
        return explain(work, model, batch, *inputs)

    monkeypatch.setattr(ExplainWithEdges, "__call__", noted)
    planned = run_comparison(composed(place, tmp_path / "planned", *chosen))
    assert len(seen) == len({*seen}) == plan.examples - plan.measured_examples
    for one, other in zip(plain.cells, planned.cells, strict=True):
        assert contents(one) == contents(other)


def test_what_is_left_is_what_a_run_would_take(place, tmp_path, paid_by_pass):
    """Where a test of the predicted classes is finished, that of the labels has no rows to share, and is planned whole."""
    methods = "methods=[rollout,gradient_x_input]"
    run_comparison(composed(place, tmp_path, methods, "evaluations=[perturbation]"))
    both = (methods, "evaluations=[perturbation,perturbation_target]")
    make_plan(composed(place, tmp_path, *both))
    comparison = run_comparison(composed(place, tmp_path, *both))
    table = pd.read_csv(comparison.folder / "plan.csv", index_col="method")
    planned, passes = (table[name].to_dict() for name in ("planned_forward_passes", "forward_passes"))
    assert passes == pytest.approx(planned, rel=0.3)  # what the others cost twice hangs on how many a batch has


def test_a_test_of_labels_alone_is_planned(place, tmp_path, paid_by_pass):
    chosen = ("methods=[gradient_x_input]", "evaluations=[perturbation_target,perturbation]")
    (cell,) = make_plan(composed(place, tmp_path, *chosen)).cells
    comparison = run_comparison(composed(place, tmp_path, *chosen))
    table = pd.read_csv(comparison.folder / "plan.csv", index_col="method")
    assert table["forward_passes"]["gradient_x_input"] == pytest.approx(cell.forward_passes, rel=0.2)


@pytest.mark.parametrize("stage", ["explain", "test"])
def test_a_step_alone_can_be_planned(place, tmp_path, stage):
    chosen = ("methods=[attattr]", "evaluations=[perturbation,attribution_graph]")
    if stage == "test":
        run_comparison(composed(place, tmp_path, *chosen, "stage=explain"))
    whole = make_plan(composed(place, tmp_path / "whole", *chosen)).cells[0]
    (step,) = make_plan(composed(place, tmp_path, *chosen, f"stage={stage}")).cells
    assert 0 < step.forward_passes < whole.forward_passes


def test_a_split_that_is_not_there_is_a_dash_and_no_traceback(place, tmp_path, monkeypatch):
    """What is planned of a search does not ask for the examples that it would go over."""

    def lacking(self, split, limit):
        raise NotApplicable(f"the task has no {split} split")

    monkeypatch.setattr("benchmark.run.stages.Searching.batches", lambda stage, data: lacking(None, "train", 1))
    chosen = ("methods=[universal_trigger]", "evaluations=[triggers]")
    assert make_plan(composed(place, tmp_path, *chosen)).cells[0].note == "the task has no train split"
    run_comparison(composed(place, tmp_path, *chosen))


def test_a_plan_says_at_once_what_a_pass_takes(place, tmp_path, caplog):
    """Before any method is run, so that whoever asks for too much need not wait for the plan."""
    with caplog.at_level("INFO"):
        make_plan(tiny_task.settings(place, tmp_path, "methods=[random]", "evaluations=[aopc]", "analyses=[]"))
    said = [record.getMessage() for record in caplog.records]
    first = next(
        index for index, line in enumerate(said) if re.fullmatch(r"one forward and backward pass over all \d+ .*", line)
    )
    assert said[first + 1] == "one batch of each method (1) is run now, and kept; the plan follows"
