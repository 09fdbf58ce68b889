"""What a run folder holds hangs on what was asked for, and not on the order in which it was."""

import json
from dataclasses import replace

import pytest

from benchmark.report.cells import load_cells
from benchmark.report.page.provenance import provenance
from benchmark.results import commits, store
from benchmark.results.record import ROWS, Origin
from benchmark.results.store import Ragged
from benchmark.run import origins
from tests import tiny_task
from tests.covering import one_in

pytestmark = pytest.mark.usefixtures("no_pictures")

ALL = ("rationale", "perturbation", "perturbation_target", "class_specificity", "head_pruning")
OTHER = "evaluations.perturbation.seed=5"


def run(place, out, tests, *overrides, method="raw_attention"):
    chosen = (f"methods=[{method}]", f"evaluations=[{','.join(tests)}]", *overrides)
    (cell,) = tiny_task.compared(place, out, *chosen).cells
    return cell


def without_times(value):
    """JSON without what is measured: seconds and memory."""
    if isinstance(value, dict):
        return {
            name: without_times(item) for name, item in value.items() if name not in ("seconds", "peak_memory_bytes")
        }
    return [without_times(item) for item in value] if isinstance(value, list) else value


def contents(cell):
    """All bytes of a run folder but those of times, and digests that cover times."""
    record = json.loads((cell / "record.json").read_text())
    del record["seal"]
    timed = [name for name in record["files"] if name.endswith(".safetensors")]
    record["files"] = [name if name in timed else [name, digest] for name, digest in record["files"].items()]
    found = {name: (cell / name).read_bytes() for name in record_files(record) if name not in timed}
    arrays = {name: Ragged.read(cell / name) for name in timed}
    kept = {
        name: (each.uids, {key: array.tobytes() for key, array in each.arrays.items()}, without_times(dict(each.cost)))
        for name, each in arrays.items()
    }
    return found | kept | {"record.json": json.dumps(without_times(record))}


def record_files(record):
    return [entry if isinstance(entry, str) else entry[0] for entry in record["files"]]


@pytest.fixture(scope="module")
def at_once(place, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("benchmark.report.write.curve_files", lambda *_: iter(()))
        return contents(run(place, tmp_path_factory.mktemp("once"), ALL))


@pytest.mark.parametrize("order", one_in(3, [ALL[::-1], ALL, (ALL[2], ALL[4], ALL[0], ALL[3], ALL[1])]))
def test_tests_asked_for_in_any_order_leave_the_same_bytes(place, tmp_path, at_once, order):
    for test in order:
        cell = run(place, tmp_path, [test])
    found = contents(cell)
    assert found["record.json"] == at_once["record.json"]
    assert found == at_once
    assert run(place, tmp_path, order[::-1]) == cell
    assert contents(cell) == at_once


def test_tests_of_one_name_are_named_alike_whichever_came_first(place, tmp_path):
    first = run(place, tmp_path / "a", ["perturbation"])
    assert store.read_record(first).evaluations.keys() == {"perturbation"}
    run(place, tmp_path / "a", ["perturbation"], OTHER)
    second = run(place, tmp_path / "b", ["perturbation"], OTHER)
    run(place, tmp_path / "b", ["perturbation"])
    assert contents(first) == contents(second)
    tests = store.read_record(first).evaluations
    assert tests.keys() == {f"perturbation-{test.digest[:8]}" for test in tests.values()}
    assert len(tests) == 2
    assert set(store.read_rows(first)["evaluation"]) == set(tests)
    assert load_cells([first])
    calls = store.hash_of(first / "rows.parquet")
    run(place, tmp_path / "a", ["perturbation"])
    assert store.hash_of(first / "rows.parquet") == calls


OLD = Origin({"torch": "1.0", "benchmark": "0.1"}, "a" * 40)


def test_a_record_keeps_under_what_each_file_was_computed(place, tmp_path, monkeypatch):
    new = origins.today()
    monkeypatch.setattr(origins, "today", lambda: OLD)
    monkeypatch.setattr("benchmark.run.records.today", lambda: OLD)
    cell = run(place, tmp_path, ["rationale"])
    assert set(map(str, store.read_record(cell).origins.values())) == {str(OLD)}
    monkeypatch.setattr(origins, "today", lambda: new)
    monkeypatch.setattr("benchmark.run.records.today", lambda: new)
    run(place, tmp_path, ["perturbation_target"])
    record = store.read_record(cell)
    assert dict(record.origins) == {
        "attributions-label.safetensors": new,
        "attributions-predicted.safetensors": OLD,
        f"{ROWS}perturbation_target": new,
        f"{ROWS}rationale": OLD,
    }
    assert (record.versions, record.git_commit) == (OLD.versions, OLD.git_commit)
    shown = provenance(load_cells([cell]))
    assert "a" * 40 in shown["facts"]["code"]
    assert "torch 1.0" in shown["facts"]["versions"]
    told = shown["methods"][0]["computed"]
    assert f"attributions-predicted.safetensors, rows of rationale: {OLD}" in told
    assert f"attributions-label.safetensors, rows of perturbation_target: {new}" in told


def test_a_record_of_an_earlier_version_says_the_same_of_all_its_files(place, tmp_path):
    cell = run(place, tmp_path, ["rationale"])
    record = store.read_record(cell)
    commits.write_record(cell, replace(record, origins={}, versions=OLD.versions, git_commit=OLD.git_commit))
    run(place, tmp_path, ["perturbation"])
    known = store.read_record(cell).origins
    assert known["attributions-predicted.safetensors"] == known[f"{ROWS}rationale"] == OLD
    assert known[f"{ROWS}perturbation"] == origins.today()


def test_what_a_killed_command_computed_bears_its_own_versions(place, tmp_path, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    new = origins.today()
    with monkeypatch.context() as patch:
        patch.setattr(origins, "today", lambda: OLD)
        patch.setattr(commits, "commit", killed)
        with pytest.raises(KeyboardInterrupt):
            run(place, tmp_path, ["rationale"])
    known = store.read_record(run(place, tmp_path, ["rationale", "perturbation"])).origins
    assert known["attributions-predicted.safetensors"] == known[f"{ROWS}rationale"] == OLD
    assert known[f"{ROWS}perturbation"] == new


def test_one_origin_is_not_told_file_by_file(place, tmp_path):
    cell = run(place, tmp_path, ["rationale"])
    assert provenance(load_cells([cell]))["methods"][0]["computed"] == ""
