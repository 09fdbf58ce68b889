"""The comparison as a whole: run folders, their hashes, reuse, dashes, and what a kill leaves behind."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import hydra
import pandas as pd
import pytest

import benchmark
from benchmark.analyses.base import Analysis
from benchmark.analyses.context import Context
from benchmark.commands.running import prepare, settled_as_typed
from benchmark.comparison import analyse, run_comparison
from benchmark.errors import UserError
from benchmark.evaluations.perturbation import Perturbation
from benchmark.opened import comparison_hash
from benchmark.report import read_leaderboard
from benchmark.report.analysis_tables import read_tables
from benchmark.report.write import curve_files
from benchmark.results import commits, store
from benchmark.results.digests import sealed
from benchmark.results.rows import ROW_COLUMNS
from benchmark.results.tables import KEY, Table, line, not_applicable
from benchmark.run.workbench import open_setting
from benchmark.settings.configuration import compose
from benchmark.settings.making import make
from tests import text_models, tiny_task
from tests.conftest import REPOSITORY
from tests.report.folders import CSV_COLUMNS

LEADERBOARDS = ("leaderboard.csv", "leaderboard.md", "leaderboard.tex", "curves.csv")
DEFAULTS = ("task=tiny_task", "model=hf", "tracking=none", "batch_size=4", "methods=[probe]", "evaluations=[rationale]")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """No pictures: they are tested with the report."""
    monkeypatch.setattr("benchmark.report.write.curve_files", lambda *_: iter(()))
    tiny_task.CALLS.clear()


def composed(place, out, *overrides):
    given = {text.lstrip("+").partition("=")[0] for text in overrides}
    defaults = (*DEFAULTS, f"model.path={place / 'bert'}", f"out={out}")
    chosen = [text for text in defaults if text.partition("=")[0] not in given]
    return compose("config", [*chosen, *overrides], str(place / "conf"))


def run(place, out, *overrides):
    return run_comparison(composed(place, out, *overrides))


def only_cell(comparison):
    (cell,) = comparison.cells
    return cell


def rows_of(cell):
    keys = ["evaluation", "metric", "uid", "x"]
    return store.read_rows(cell).sort_values(keys, kind="stable").reset_index(drop=True)


def test_examples_are_kept_for_the_page_until_their_words_are_many(place, tmp_path, monkeypatch):
    monkeypatch.setattr("benchmark.report.write.curve_files", curve_files)
    monkeypatch.setattr("benchmark.run.views.HEATMAP_WORDS", 20)
    cell = only_cell(run(place, tmp_path, "methods=[probe]", "evaluations=[rationale]"))
    counts = [len(entry["words"]) for entry in json.loads((cell / "heatmap.json").read_text())]
    assert len(counts) < 12
    assert sum(counts[:-1]) < 20 <= sum(counts)


def test_what_a_comparison_leaves(place, tmp_path, monkeypatch):
    monkeypatch.setattr("benchmark.report.write.curve_files", curve_files)
    comparison = run(place, tmp_path, "methods=[probe,raw_attention]", "evaluations=[rationale,perturbation]")
    assert comparison.folder.parent == tmp_path / "comparisons"
    names = {path.name for path in comparison.folder.iterdir()}
    assert {*LEADERBOARDS, "comparison.json", "cost.csv", "index.html"} <= names
    assert any(name.endswith(".png") for name in names)
    assert any(name.endswith(".pdf") for name in names)
    assert store.find_cells(tmp_path) == sorted(comparison.cells)
    for name, cell in zip(("probe", "raw_attention"), comparison.cells, strict=True):
        record = store.read_record(cell)
        assert cell == tmp_path / "tiny" / "bert" / f"{name}-{record.hash[:8]}"
        assert {path.name for path in cell.iterdir()} == {
            "config.yaml", "attributions-predicted.safetensors", "rows.parquet", "heatmap.json", "record.json",
        }  # fmt: skip
        assert record.method.name == name
        assert record.task.n == 12
        assert record.dash is None
        assert set(record.evaluations) == {"rationale", "perturbation"}
        rows = store.read_rows(cell)
        assert list(rows.columns) == list(ROW_COLUMNS)
        assert rows["uid"].nunique() == 12
        assert len(json.loads((cell / "heatmap.json").read_text())) == 12
    table = pd.read_csv(comparison.folder / "leaderboard.csv")
    assert list(table.columns) == CSV_COLUMNS
    assert set(table["method"]) == {"probe", "raw_attention"}
    costs = [store.read_record(cell).cost for cell in comparison.cells]
    assert costs[0].forward_passes == 0  # the probe only counts letters
    assert costs[1].forward_passes == 12


def test_the_python_call_and_the_limit(place, tmp_path, monkeypatch):
    monkeypatch.setattr("benchmark.comparison.compose", lambda name, given: compose(name, given, str(place / "conf")))
    comparison = benchmark.compare(*DEFAULTS, f"model.path={place / 'bert'}", f"out={tmp_path}", "limit=5")
    cell = only_cell(comparison)
    assert store.read_record(cell).task.n == 5
    uids = set(store.read_rows(cell)["uid"])
    assert len(uids) == 5
    other = only_cell(run(place, tmp_path, "limit=5", "seed=1"))
    assert set(store.read_rows(other)["uid"]) != uids  # drawn by the seed


def test_the_hash_covers_what_the_attributions_depend_on_and_nothing_else(place, tmp_path):
    text_models.save_bert(place / "other" / "bert", seed=1)

    def named(*overrides):
        """The name of the run folder; nothing is computed."""
        config = composed(place, tmp_path, *overrides)
        ((name, settings),) = config.methods.items()
        return open_setting(config).cell(name, make(settings)).folder.name

    base = named()
    assert only_cell(run(place, tmp_path)).name == base
    same = {
        "batch_size": named("batch_size=3"),
        "out": named(f"out={tmp_path / 'elsewhere'}"),
        "evaluations": named("evaluations=[perturbation]"),
        "name": named("name=another"),
        "checkpoint_seconds": named("checkpoint_seconds=0"),
        "seed of all": named("seed=1"),
        "limit of all": named("limit=12", "seed=2"),
    }
    assert same == dict.fromkeys(same, base)
    different = {
        "limit": named("limit=6"),
        "seed": named("limit=6", "seed=1"),
        "split": named("split=validation"),
        "task": named("task.size=11"),
        "method": named("methods.probe.how=other"),
        "weights": named(f"model.path={place / 'other' / 'bert'}"),
        "dtype": named("model.dtype=float64"),
    }
    assert len({base, *different.values()}) == 1 + len(different)


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_a_comparison_in_every_precision(place, tmp_path, dtype):
    methods = "methods=[rollout,gradient_x_input,lrp,lime,random]"
    tests = "evaluations=[rationale,perturbation,aopc]"
    comparison = run(place, tmp_path, methods, tests, f"model.dtype={dtype}", "limit=4")
    assert len(comparison.cells) == 5
    for cell in comparison.cells:
        record = store.read_record(cell)
        assert record.model.dtype == dtype
        assert record.dash is None
        assert all(test.dash is None for test in record.evaluations.values())
        scores = store.Ragged.read(cell / "attributions-predicted.safetensors").arrays["tokens"]
        assert scores.dtype.name == ("float64" if dtype == "float64" else "float32")


def test_a_finished_cell_is_reused_and_a_new_evaluation_only_adds_to_it(place, tmp_path):
    first = run(place, tmp_path)
    cell = only_cell(first)
    assert len(tiny_task.CALLS) == 3
    before = {path: path.stat().st_mtime_ns for path in cell.iterdir()}
    assert run(place, tmp_path) == first
    assert len(tiny_task.CALLS) == 3
    assert {path: path.stat().st_mtime_ns for path in cell.iterdir()} == before
    old = rows_of(cell)
    run(place, tmp_path, "evaluations=[rationale,perturbation]")
    assert len(tiny_task.CALLS) == 3
    assert set(store.read_record(cell).evaluations) == {"rationale", "perturbation"}
    both = rows_of(cell)
    kept = both[both["evaluation"] == "rationale"].reset_index(drop=True)
    pd.testing.assert_frame_equal(kept, old)
    run(place, tmp_path, "evaluations=[rationale]", "evaluations.rationale.pool=mean")  # other settings: run again
    assert len(tiny_task.CALLS) == 3
    again = rows_of(cell)
    assert len(again) == len(both) + len(old), "beside those of the first settings"
    assert not (cell / "parts").exists()


def test_a_method_that_is_the_same_for_every_class_is_asked_once(place, tmp_path):
    run(place, tmp_path, "evaluations=[perturbation,perturbation_target]")
    assert len(tiny_task.CALLS) == 3


def test_explanations_of_every_class_are_stored_once_and_marked_where_they_cannot_differ(place, tmp_path):
    tests = ("methods=[probe,gradient_x_input]", "evaluations=[class_specificity]")
    agnostic, specific = run(place, tmp_path, *tests).cells
    assert len(tiny_task.CALLS) == 3, "a batch is explained once, whatever the number of classes"
    figures = {}
    for name, cell in (("probe", agnostic), ("gradient_x_input", specific)):
        assert (cell / "classes.safetensors").exists()
        entry = store.read_record(cell).evaluations["class_specificity"]
        figures[name] = {figure.metric: figure.value for figure in entry.figures}
        assert (entry.remark is None) == (name == "gradient_x_input")
    assert figures["probe"]["tau"] == pytest.approx(1)
    assert figures["probe"]["overlap"] == 1
    assert figures["gradient_x_input"]["tau"] < 1
    stored = store.Ragged.read(specific / "classes.safetensors")
    assert stored.arrays["classes"].shape[1] == 2
    assert stored.cost["backward_passes"] == 12, "the predicted class is known"
    calls = len(tiny_task.CALLS)
    run(place, tmp_path, *tests, "evaluations.class_specificity.share=0.5")
    assert len(tiny_task.CALLS) == calls


@pytest.mark.thorough
def test_methods_that_know_no_class_are_marked_where_the_annotated_class_is_explained(place, tmp_path):
    """In every test of another class than the predicted one, whatever it reads, with their figures; controls are not."""
    tests = (
        "methods=[probe,gradient_x_input,raw_attention,oracle,random]",
        "evaluations=[perturbation,perturbation_target,rationale,head_pruning]",
        "evaluations.rationale.target=label",
    )
    marked = set()
    comparison = run(place, tmp_path, *tests)
    for cell in comparison.cells:
        record = store.read_record(cell)
        for name, test in record.evaluations.items():
            assert test.figures or (record.method.name in ("probe", "gradient_x_input", "oracle") and test.dash)
            if test.remark is not None:
                assert "annotated class" in test.remark
                marked.add((record.method.name, name))
    assert marked == {
        ("probe", "perturbation_target"), ("probe", "rationale"), ("raw_attention", "perturbation_target"),
        ("raw_attention", "rationale"), ("raw_attention", "head_pruning"),
    }  # fmt: skip
    shown = read_leaderboard(comparison.cells).query(
        "evaluation == 'perturbation_target' and metric == 'positive_auc_mean'"
    )
    assert shown["value"].notna().all()
    remarks = shown.set_index("method")["remark"]
    assert {name for name, remark in remarks.items() if remark is not None} == {"probe", "raw_attention"}


def test_a_finished_cell_says_today_what_must_be_known_of_its_figures(place, tmp_path):
    tests = ("methods=[raw_attention]", "evaluations=[perturbation_target]")
    cell = only_cell(run(place, tmp_path, *tests))
    record = store.read_record(cell)
    silent = replace(record.evaluations["perturbation_target"], remark=None)
    commits.write_record(cell, replace(record, evaluations={"perturbation_target": silent}))
    rows = (cell / "rows.parquet").stat().st_mtime_ns
    assert only_cell(run(place, tmp_path, *tests)) == cell
    assert store.read_record(cell).evaluations["perturbation_target"].remark is not None
    assert (cell / "rows.parquet").stat().st_mtime_ns == rows, "nothing is computed again"


@pytest.mark.thorough
def test_rows_are_reduced_some_metrics_at_a_time_to_the_same_figures(place, tmp_path, monkeypatch):
    """As where there are many: parts after every batch, groups of three rows, and each metric by itself."""
    tests = (
        "methods=[attattr]",
        "methods.attattr.edges.steps=2",
        "evaluations=[agreement,perturbation,perturbation_target,aopc,rationale,head_pruning,attribution_graph,kept_edges]",
    )
    whole = run(place, tmp_path / "whole", *tests)
    monkeypatch.setattr("benchmark.results.rows.GROUP", 3)
    for module in ("results.rows", "run.testing"):
        monkeypatch.setattr(f"benchmark.{module}.CHUNK", 1)
    pieces = run(place, tmp_path / "pieces", *tests)
    one, two = (store.read_record(only_cell(comparison)).evaluations for comparison in (whole, pieces))
    assert {name: test.rows for name, test in one.items()} == {name: test.rows for name, test in two.items()}
    for name, test in one.items():
        keys = [[(figure.metric, str(figure.x), figure.n) for figure in side[name].figures] for side in (one, two)]
        assert keys[0] == keys[1] != []
        for figure, other in zip(test.figures, two[name].figures, strict=True):
            assert (figure.value, figure.low, figure.high) == pytest.approx(
                (other.value, other.low, other.high), rel=1e-12, abs=1e-15, nan_ok=True
            ), (name, figure.metric)


def test_the_same_command_twice_gives_the_same_bytes(place, tmp_path):
    methods = "methods=[probe,raw_attention,random]"
    one, two = (run(place, tmp_path / name, methods, "evaluations=[rationale,perturbation]") for name in ("a", "b"))
    assert one.folder.name == two.folder.name
    for name in (*LEADERBOARDS, "comparison.json"):
        assert (one.folder / name).read_bytes() == (two.folder / name).read_bytes(), name
    for a, b in zip(one.cells, two.cells, strict=True):
        for name in ("rows.parquet", "heatmap.json", "config.yaml"):
            assert (a / name).read_bytes() == (b / name).read_bytes(), name


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        (["methods.probe.how=refuse"], "it does not feel like it"),
        (
            ["methods.probe.how=not_finite"],
            "the tokens scores are not finite (NaN or infinity), first in example 'test-06'",
        ),
        (["methods=[oracle]", "task.rationales=false"], "no example has a rationale"),
        (["evaluations=[head_pruning]"], "the method does not score heads"),
        (["methods=[universal_trigger]"], "a search scores no tokens, heads or edges"),
    ],
)
def test_what_cannot_serve_is_a_dash_with_its_reason(place, tmp_path, overrides, reason):
    comparison = run(place, tmp_path, *overrides)
    record = store.read_record(only_cell(comparison))
    assert record.dash == reason
    assert [test.dash for test in record.evaluations.values()] == [reason]
    assert store.read_rows(only_cell(comparison)).empty
    board = (comparison.folder / "leaderboard.md").read_text()
    assert "—" in board or "–" in board
    assert reason in board
    assert run(place, tmp_path, *overrides) == comparison


def test_a_dash_of_one_evaluation_does_not_touch_another(place, tmp_path):
    evaluations = "evaluations=[perturbation,rationale]"
    cell = only_cell(run(place, tmp_path, "task.rationales=false", evaluations))
    tested = store.read_record(cell).evaluations
    assert tested["perturbation"].dash is None
    assert "rationale" in tested["rationale"].dash
    assert set(store.read_rows(cell)["evaluation"]) == {"perturbation"}


def test_tests_of_images_leave_no_trace_among_others_of_texts(place, tmp_path, caplog):
    """Neither columns nor work nor another name of the comparison, and one line; alone they are dashes with a reason."""
    plain = run(place, tmp_path, "evaluations=[rationale]")
    caplog.clear()
    caplog.set_level("INFO")
    mixed = run(place, tmp_path, "evaluations=[rationale,localisation,segmentation,pixel_perturbation]")
    assert mixed.folder == plain.folder
    assert set(store.read_record(only_cell(mixed)).evaluations) == {"rationale"}
    said = [message for message in caplog.messages if "localisation" in message]
    assert said == ["left out, as the examples are no images: localisation, segmentation, pixel_perturbation"]
    assert "localisation" not in (mixed.folder / "leaderboard.md").read_text()
    assert sorted(json.loads((mixed.folder / "comparison.json").read_text())["tests"]) == ["rationale"]
    alone = run(place, tmp_path, "evaluations=[localisation]")
    assert store.read_record(only_cell(alone)).evaluations["localisation"].dash == "the examples are no images"
    assert "the examples are no images" in (alone.folder / "leaderboard.md").read_text()
    assert {"localisation", "segmentation"} < set(compose("config").evaluations)


def test_an_example_is_tested_once_where_its_class_is_the_predicted_one(place, tmp_path, monkeypatch):
    """What the test of annotated classes takes from the test of predicted ones are the same rows, for fewer passes."""
    asked = []
    plain = Perturbation.rows

    def counted(test, model, batch, attribution):
        asked.append((test.target, *batch.uids))
        return plain(test, model, batch, attribution)

    monkeypatch.setattr(Perturbation, "rows", counted)
    both = only_cell(run(place, tmp_path / "both", "evaluations=[perturbation,perturbation_target]"))
    again = {uid for target, *uids in asked for uid in uids if target == "label"}
    asked.clear()
    alone = only_cell(run(place, tmp_path / "alone", "evaluations=[perturbation_target]"))
    every = {uid for _, *uids in asked for uid in uids}
    assert 0 < len(again) < len(every) == 12
    found, expected = (
        rows[rows["evaluation"] == "perturbation_target"].reset_index(drop=True)
        for rows in (rows_of(both), rows_of(alone))
    )
    pd.testing.assert_frame_equal(found, expected, atol=1e-6)


def test_a_bug_is_no_dash_and_leaves_no_record(place, tmp_path):
    with pytest.raises(ZeroDivisionError, match="a bug in a method"):
        run(place, tmp_path, "methods.probe.how=bug")
    assert store.find_cells(tmp_path) == []


def test_calibration_splits_are_kept_apart(place, tmp_path):
    """Two evaluations that calibrate on as many examples of different splits must not share them."""
    evaluations = "evaluations=[head_pruning,head_pruning_layerwise]"
    split = "evaluations.head_pruning_layerwise.calibration.split=train"
    cell = only_cell(run(place, tmp_path, "methods=[raw_attention]", evaluations, split))
    for name in ("train", "validation"):
        stored = store.Ragged.read(cell / f"attributions-calibration-{name}-100.safetensors")
        assert all(uid.startswith(name) for uid in stored.uids)


def command(place, out, *overrides):
    return [
        sys.executable, "-m", "benchmark", "--config-dir", str(place / "conf"), f"out={out}",
        f"model.path={place / 'bert'}", *DEFAULTS, *overrides,
    ]  # fmt: skip


def kill_when(appears, arguments):
    """Start the command, and `kill -9` it as soon as `appears()`."""
    environment = os.environ | {"TINY_SECONDS": "0.15", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        arguments, cwd=REPOSITORY, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + 120
    while not appears():
        assert process.poll() is None, process.stderr.read().decode()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    process.stderr.close()


@pytest.mark.slow
@pytest.mark.thorough
def test_killed_at_several_moments_it_carries_on_to_the_identical_result(place, tmp_path, monkeypatch):
    settings = (
        "methods=[probe,random]",
        "evaluations=[perturbation,rationale]",
        "checkpoint_seconds=0",
        "batch_size=1",
    )
    arguments = [a for a in command(place, tmp_path / "killed") if not a.startswith(("methods", "evaluat", "batch"))]
    cell = "tiny/bert/probe-*"

    def found(pattern):
        return lambda: any((tmp_path / "killed").glob(pattern))

    kill_when(found(f"{cell}/parts/attributions-predicted-*/*-000003.safetensors"), [*arguments, *settings])
    assert store.find_cells(tmp_path / "killed") == []
    kill_when(found(f"{cell}/parts/rows-*/*.parquet"), [*arguments, *settings])
    assert store.find_cells(tmp_path / "killed") == []
    (folder,) = (tmp_path / "killed").glob(cell)
    scratch = folder / ".record.json.left"  # what a kill while the record is being written leaves
    scratch.mkdir()
    (scratch / "record.json").write_text('{"schema": 1, "ha')
    assert store.find_cells(tmp_path / "killed") == []
    resumed = run(place, tmp_path / "killed", *settings)
    assert tiny_task.CALLS == []  # everything was explained before the second kill
    assert not any(path.name.startswith(".") or path.name == "parts" for path in folder.iterdir())
    undisturbed = run(place, tmp_path / "whole", *settings)
    assert len(tiny_task.CALLS) == 12
    for name in LEADERBOARDS:
        assert (resumed.folder / name).read_bytes() == (undisturbed.folder / name).read_bytes(), name
    for a, b in zip(resumed.cells, undisturbed.cells, strict=True):
        assert a.name == b.name
        assert (a / "rows.parquet").read_bytes() == (b / "rows.parquet").read_bytes()
        assert {path.name for path in a.iterdir()} == {path.name for path in b.iterdir()}
        one, other = (store.Ragged.read(cell / "attributions-predicted.safetensors") for cell in (a, b))
        assert one.uids == other.uids
        assert all((one.arrays[name] == other.arrays[name]).all() for name in other.arrays)


@pytest.mark.parametrize("done", ["attributions-predicted.safetensors", "rows.parquet"])
def test_a_kill_between_two_files_of_a_cell(place, tmp_path, done):
    """The record is the last: a cell without it is carried on with, whatever else is there."""
    whole = run(place, tmp_path / "whole", "evaluations=[perturbation]")
    shutil.copytree(tmp_path / "whole", tmp_path / "cut")
    cell = tmp_path / "cut" / only_cell(whole).relative_to(tmp_path / "whole")
    (cell / "record.json").unlink()
    if done != "rows.parquet":
        (cell / "rows.parquet").unlink()
    tiny_task.CALLS.clear()
    resumed = run(place, tmp_path / "cut", "evaluations=[perturbation]")
    assert tiny_task.CALLS == []
    assert only_cell(resumed) == cell
    pd.testing.assert_frame_equal(rows_of(cell), rows_of(only_cell(whole)))
    for name in LEADERBOARDS:
        assert (resumed.folder / name).read_bytes() == (whole.folder / name).read_bytes(), name


def test_parts_survive_in_any_number(tmp_path):
    """Stage by stage, without a process: stop after every batch, and start again."""
    from benchmark.run.resumable import Resumable

    computed = []

    def stage():
        return Resumable[list](
            folder=tmp_path / "parts",
            suffix=".json",
            write=lambda value, path: store.write_json(path, value),
            read=store.read_json,
            merge=lambda parts: [item for part in parts for item in part],
            seconds=0.0,
        )

    def compute(stop):
        def one(index):
            if index == stop:
                raise KeyboardInterrupt
            computed.append(index)
            return [index * index]

        return one

    for stop in range(1, 7):
        with pytest.raises(KeyboardInterrupt):
            stage().run([1] * 7, compute(stop), "test")
    assert stage().run([1] * 7, compute(None), "test") == [i * i for i in range(7)]
    assert computed == list(range(7))
    stage().clear()
    assert not (tmp_path / "parts").exists()


def test_tests_of_another_comparison_do_not_enter_the_leaderboard(place, tmp_path):
    first = run(place, tmp_path, "evaluations=[rationale]")
    before = {name: (first.folder / name).read_bytes() for name in LEADERBOARDS}
    other = run(place, tmp_path, "evaluations=[perturbation]")
    assert only_cell(other) == only_cell(first)
    assert set(store.read_record(only_cell(first)).evaluations) == {"rationale", "perturbation"}
    again = run(place, tmp_path, "evaluations=[rationale]")
    assert again.folder == first.folder
    assert {name: (again.folder / name).read_bytes() for name in LEADERBOARDS} == before
    assert "perturbation" not in before["leaderboard.csv"].decode()


MASK, DELETE = ("evaluations=[perturbation]", "evaluations.perturbation.operator=mask"), (
    "evaluations=[perturbation]", "evaluations.perturbation.operator=delete",
)  # fmt: skip


def boards(comparison):
    return {name: (comparison.folder / name).read_bytes() for name in LEADERBOARDS}


def test_one_name_with_other_settings_keeps_both_figures(place, tmp_path):
    alone = [boards(run(place, tmp_path / name, *settings)) for name, settings in (("mask", MASK), ("delete", DELETE))]
    assert alone[0] != alone[1]
    for order in ((MASK, DELETE), (DELETE, MASK)):
        out = tmp_path / f"shared-{order[0][1][-4:]}"
        found = {settings: run(place, out, *settings) for settings in order}
        assert len({only_cell(comparison) for comparison in found.values()}) == 1
        again = {settings: run(place, out, *settings) for settings in order}
        for each in (found, again):
            assert [boards(each[settings]) for settings in (MASK, DELETE)] == alone
    every = read_leaderboard([only_cell(found[MASK])])
    assert every["evaluation"].nunique() == 2, "a report on the folder shows both, told apart"


def test_a_job_that_gives_a_test_other_settings_meanwhile_changes_nothing(place, tmp_path, monkeypatch):
    """The report of one job was read off the folder after another had replaced the test's figures."""
    alone = boards(run(place, tmp_path / "alone", *MASK))

    def interleaved(*arguments):
        monkeypatch.undo()
        monkeypatch.setattr("benchmark.report.write.curve_files", lambda *_: iter(()))
        run(place, tmp_path / "shared", *DELETE)
        return analyse(*arguments)

    monkeypatch.setattr("benchmark.comparison.analyse", interleaved)
    assert boards(run(place, tmp_path / "shared", *MASK)) == alone


def test_what_an_older_version_of_a_test_left_is_replaced(place, tmp_path, monkeypatch):
    cell = only_cell(run(place, tmp_path, *MASK))
    monkeypatch.setattr("benchmark.evaluations.perturbation.Perturbation.version", 99)
    assert only_cell(run(place, tmp_path, *MASK)) == cell
    (entry,) = store.read_record(cell).evaluations.values()
    assert entry.version == 99


def test_a_sweep_over_seeds_keeps_the_figures_of_each(place, tmp_path):
    tests = ("methods=[probe]", "evaluations=[perturbation]", "limit=null")
    alone = [boards(run(place, tmp_path / str(seed), *tests, f"seed={seed}")) for seed in (0, 1)]
    for seed in (0, 1):
        run(place, tmp_path / "shared", *tests, f"seed={seed}")
    assert [boards(run(place, tmp_path / "shared", *tests, f"seed={seed}")) for seed in (0, 1)] == alone


def test_the_seed_of_a_comparison_changes_what_is_drawn_and_nothing_else(place, tmp_path):
    methods = ("methods=[probe,random]", "evaluations=[head_pruning,rationale]")
    zero, one = (run(place, tmp_path, *methods, seed) for seed in ("seed=0", "seed=1"))
    assert zero.cells[0] == one.cells[0], "all examples are scored, and lengths of words are not drawn"
    assert zero.cells[1] != one.cells[1]
    heads = [
        store.Ragged.read(cell.cells[1] / "attributions-predicted.safetensors").arrays["heads"] for cell in (zero, one)
    ]
    assert (heads[0] != heads[1]).any()
    assert store.read_record(zero.cells[1]).task.seed is None
    assert ", seed" not in (zero.folder / "leaderboard.md").read_text()
    drawn = run(place, tmp_path, "limit=5", "seed=4")
    assert "limit 5, seed 4" in (drawn.folder / "leaderboard.md").read_text()


@pytest.mark.parametrize("limit", ["null", "4"])
def test_examples_that_an_analysis_draws_belong_to_the_comparison(place, tmp_path, limit):
    """With a limit of the comparison's own, its facts hold the seed; without, the analysis draws by it all the same."""

    def hashed(*overrides):
        config = composed(place, tmp_path, f"limit={limit}", *overrides)
        analyses = {name: make(part) for name, part in config.analyses.items()}
        return comparison_hash(open_setting(config), {}, {}, analyses)

    drawing = "analyses=[uniform_attention]"
    assert hashed(drawing, "seed=1") != hashed(drawing, "seed=2")
    assert (hashed("analyses=[]", "seed=1") == hashed("analyses=[]", "seed=2")) == (limit == "null")


def test_each_part_is_made_once_and_each_run_folder_is_read_once(place, tmp_path, monkeypatch):
    made, folders = [], []
    for module in ("comparison", "opened"):
        monkeypatch.setattr(f"benchmark.{module}.make", lambda *given: made.append(given) or make(*given))
    monkeypatch.setattr(
        "benchmark.report.run_folders.read_cell", lambda folder: folders.append(folder) or store.read_cell(folder)
    )
    comparison = run(place, tmp_path, "methods=[probe,raw_attention]", "analyses=[ranking_agreement]")
    assert len(made) == 6, "two methods, a test, an analysis, the tracker and the engine"
    assert sorted(folders) == sorted(comparison.cells)


def test_a_command_line_is_composed_once(monkeypatch):
    composed, compose_with_hydra = [], hydra.compose
    monkeypatch.setattr("hydra.compose", lambda *given: composed.append(given) or compose_with_hydra(*given))
    overrides, config = settled_as_typed("config", ["limit=3"], None, sweep=False)
    assert (overrides, config.limit, len(composed)) == (["limit=3"], 3, 1)


def test_a_flag_of_hydra_keeps_its_value():
    assert prepare(["--cfg", "job", "limit=3", "-p", "model"], "config") == (
        ["--cfg", "job", "-p", "model", "limit=3"],
        None,
    )


class Counted(Analysis):
    """One that counts its calls, of what lies elsewhere."""

    def __init__(self):
        self.elsewhere, self.calls = "one", 0

    def reads(self, context):
        return {"elsewhere": self.elsewhere}

    def __call__(self, context):
        self.calls += 1
        return [not_applicable("counted", self.elsewhere)]


def context_of(place, folder):
    config = composed(place, folder)
    return Context(open_setting(config), {}, {}, folder)


def test_an_analysis_is_reused_only_while_what_it_reads_is_the_same(place, tmp_path):
    analysis, context = Counted(), context_of(place, tmp_path)
    for elsewhere, calls in (("one", 1), ("one", 1), ("two", 2), ("two", 2), ("one", 3)):
        analysis.elsewhere = elsewhere
        analyse({"counted": analysis}, context, tmp_path)
        assert analysis.calls == calls
        (table,) = read_tables(tmp_path)
        assert elsewhere in str(table.to_json())


class Keyed(Counted):
    """One whose figure has a key."""

    def __call__(self, context):
        self.calls += 1
        rows = [line({"of": "all"}, "a figure", 0.5, 0.4, 0.6, 9, key="all.figure")]
        return [Table("figures", "Figures", ("of",), pd.DataFrame(rows))]


class Reader(Counted):
    """One that finds figures of others by their keys."""

    reads_tables = True

    def reads(self, context):
        return {}

    def __call__(self, context):
        self.calls += 1
        found = [len(table.keyed("all.figure")) for table in context.tables["keyed"]]
        return [not_applicable("reader", f"figures found: {sum(found)}")]


def test_tables_of_another_form_are_computed_again(place, tmp_path):
    """Such as those that were stored before figures had keys, by which others find them."""
    analyses, context = {"keyed": Keyed(), "reader": Reader()}, context_of(place, tmp_path)
    analyse(analyses, context, tmp_path)
    analyse(analyses, context, tmp_path)
    assert [one.calls for one in analyses.values()] == [1, 1]
    path = tmp_path / "analyses" / "keyed.json"
    content = store.read_sealed(path)
    (table,) = (Table.from_json(facts) for facts in content["tables"])
    old = [replace(table, rows=table.rows.drop(columns=KEY)).to_json()]
    store.write_json(path, sealed({"tables": old, "reads": content["reads"]}))
    analyse(analyses, context, tmp_path)
    assert [one.calls for one in analyses.values()] == [2, 1]
    assert "figures found: 1" in str(read_tables(tmp_path)[-1].rows["note"].iloc[0])


@pytest.mark.parametrize("damage", ["flip", "cut", "other", "empty"])
def test_a_damaged_analysis_is_computed_again_with_a_line(place, tmp_path, caplog, damage):
    analysis, context = Counted(), context_of(place, tmp_path)
    analyse({"counted": analysis}, context, tmp_path)
    path = tmp_path / "analyses" / "counted.json"
    content = path.read_bytes()
    changed = {
        "flip": content.replace(b"one", b"onf", 1), "cut": content[:-9], "other": b'{"x": 1}', "empty": b"",
    }[damage]  # fmt: skip
    path.write_bytes(changed)
    caplog.clear()
    analyse({"counted": analysis}, context, tmp_path)
    assert analysis.calls == 2
    assert path.read_bytes() == content
    assert len([line for line in caplog.messages if line.startswith(f"{path} is computed again: ")]) == 1


def test_a_metric_of_the_latex_tables_that_no_test_has_is_told_before_work(place, tmp_path, monkeypatch):
    def explained(*_):
        raise AssertionError("something was computed")

    monkeypatch.setattr("benchmark.comparison.finish_all", explained)
    chosen = ("evaluations=[perturbation]", "report.latex.metrics=[perturbation.positive_auk]")
    with pytest.raises(UserError, match=r"report\.latex\.metrics=perturbation\.positive_auk is unknown; did you mean"):
        run(place, tmp_path, *chosen)
    for name in ("perturbation", "positive_auc_mean", "perturbation.positive_auc_mean"):
        with pytest.raises(AssertionError, match="something was computed"):
            run(place, tmp_path, "evaluations=[perturbation]", f"report.latex.metrics=[{name}]")
