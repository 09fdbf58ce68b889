"""What a comparison says while it works: a line per cell, analysis and report; a plan that comes true."""

import logging
import threading

import pytest

from benchmark import progress
from benchmark.comparison import finish_all, run_comparison
from benchmark.progress import Advanced, Began, Ended, Planned
from benchmark.progress.estimate import Outlook
from benchmark.results import locks
from benchmark.settings.configuration import compose
from benchmark.settings.making import make
from tests.progress.heard import heard

pytestmark = pytest.mark.usefixtures("no_pictures")
EVERY_READER = "evaluations=[perturbation,perturbation_target,head_pruning,attribution_graph,class_specificity]"


def run(place, out, *overrides):
    defaults = ["task=tiny_task", "model=hf", f"model.path={place / 'bert'}", "tracking=none", "batch_size=4"]
    return run_comparison(compose("config", [*defaults, f"out={out}", *overrides], str(place / "conf")))


@pytest.fixture
def said(caplog):
    """The lines that were logged since it was asked last."""
    caplog.set_level(logging.INFO, "benchmark")

    def lines():
        found = [record.getMessage() for record in caplog.records]
        caplog.clear()
        return found

    return lines


@pytest.fixture(autouse=True)
def a_second_for_everything(monkeypatch):
    monkeypatch.setattr(progress, "duration", lambda seconds: "1.0 s")


def test_a_log_has_a_line_per_cell_analysis_and_report(place, tmp_path, said):
    one = ["methods=[probe,raw_attention]", "evaluations=[rationale]", "analyses=[ranking_agreement]"]
    count = len(list(run(place, tmp_path, *one).folder.iterdir())) - 3  # beside comparison.json, analyses/ and drawn/
    tail = f"tables and figures: {count} files in 1.0 s"
    assert said() == [
        "probe: computed in 1.0 s (1 of 2)",
        "raw_attention: computed in 1.0 s (2 of 2)",
        "ranking_agreement: computed in 1.0 s (analysis 1 of 1)",
        tail,
    ]
    run(place, tmp_path, *one)
    assert said() == [
        "probe: reused (1 of 2)",
        "raw_attention: reused (2 of 2)",
        "ranking_agreement: reused (analysis 1 of 1)",
        tail,
    ]
    comparison = run(place, tmp_path, "methods=[probe]", "evaluations=[rationale,aopc]")
    assert said()[0] == "probe: 1 of 2 tests computed in 1.0 s, the others reused (1 of 1)"
    (comparison.cells[0] / "heatmap.json").unlink()
    run(place, tmp_path, "methods=[probe]", "evaluations=[rationale,aopc]")
    assert said()[1] == "probe: tests reused, files made again in 1.0 s (1 of 1)"


def planned_and_done(events):
    """Examples of each step of each cell: as planned, and as steps went over them."""
    (plan,) = [event.parts for event in events if isinstance(event, Planned)]
    done, open_ = {}, []
    for event in events:
        if isinstance(event, Began):
            open_.append(event)
            if event.total is not None and open_[0].kind == "cell":
                done.setdefault(open_[0].name, {})[event.name] = event.total
        elif isinstance(event, Ended):
            open_.pop()
    return {name: dict(steps) for (kind, name), steps in plan.items() if kind == "cell" and steps}, done


@pytest.mark.thorough
def test_a_plan_comes_true_whatever_a_test_reads(place, tmp_path):
    small = ("task.size=6", "evaluations.head_pruning.calibration.limit=6", "methods.attattr.edges.steps=2")
    with heard() as events:
        run(place, tmp_path, "methods=[attattr,probe,rollout]", EVERY_READER, *small)
    planned, done = planned_and_done(events)
    assert planned["attattr"] == done["attattr"]
    assert any("edges" in name for name in planned["attattr"])
    assert {"attributions-label", "classes"} <= planned["rollout"].keys()
    assert "attributions-predicted" in planned["probe"]
    for name, steps in done.items():  # what a method cannot serve it does not begin
        assert steps.items() <= planned[name].items()
    outlook = Outlook(0.0)
    for now, event in enumerate(events):
        outlook.take(event, float(now))
    view = outlook.view()
    assert (view.left, view.cells_left, view.labels) == (0, 0, ())
    scored = sum(count for steps in done.values() for count in steps.values())
    analyses = sum(isinstance(event, Began) and event.kind == "analysis" for event in events)
    assert analyses == 2
    assert view.done == scored + 6 * (analyses + 1), (
        "analyses and the report count once each, as steps over the examples"
    )


def test_nothing_is_planned_for_what_is_there(place, tmp_path):
    run(place, tmp_path, "methods=[probe]", "evaluations=[rationale]")
    with heard() as events:
        run(place, tmp_path, "methods=[probe,rollout]", "evaluations=[rationale]")
        planned, done = planned_and_done(events)
        assert planned.keys() == done.keys() == {"rollout"}
        events.clear()
        run(place, tmp_path, "methods=[probe]", "evaluations=[rationale,aopc]")
    planned, done = planned_and_done(events)
    assert planned == done
    assert len(planned["probe"]) == 1, "only the new test; explanations are stored"


def test_a_cell_that_another_process_works_on_is_said_and_waited_for_last(place, tmp_path, said):
    from benchmark.run.workbench import open_setting

    overrides = [
        "task=tiny_task",
        "model=hf",
        f"model.path={place / 'bert'}",
        f"out={tmp_path}",
        "methods=[probe,rollout]",
    ]
    setting = open_setting(compose("config", overrides, str(place / "conf")))
    evaluations = {"rationale": make(setting.config.evaluations.rationale)}
    cells = {name: setting.cell(name) for name in ("probe", "rollout")}
    other = locks.beside(cells["probe"].folder, "probe")  # of another process: a file of its own
    other.acquire(wait=True)
    order = []
    with heard() as events:
        for cell in finish_all(cells, evaluations):
            order.append(cell.name)
            if cell.name == "rollout":
                threading.Timer(0.5, other.release).start()
    assert order == ["rollout", "probe"]
    assert said() == [
        "probe: another process works on it; left for later",
        "rollout: computed in 1.0 s (1 of 2)",
        "probe: another process works on it; waiting",
        "probe: computed in 1.0 s (2 of 2)",
    ]
    began = [event.name for event in events if isinstance(event, Began)]
    assert began.index("probe: waiting for another process") > began.index("rollout")
    assert any(isinstance(event, Advanced) for event in events)
