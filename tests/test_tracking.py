import base64
import hashlib
import json
import logging
import random
import struct
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pandas as pd
import pytest
import wandb
from hydra.utils import instantiate
from omegaconf import OmegaConf
from wandb.proto import wandb_internal_pb2

from benchmark.comparison import run_comparison
from benchmark.errors import UserError
from benchmark.report.analysis_tables import table_files
from benchmark.report.cells import load_cells
from benchmark.results.digests import sealed
from benchmark.results.store import write_json
from benchmark.results.tables import Drawing, Table, line
from benchmark.settings.configuration import compose
from benchmark.settings.making import build
from benchmark.tracking import Wandb, run_id
from benchmark.tracking.logged import plain
from benchmark.tracking.method_run import curve_points, identity_of, summary
from tests.report.carried import carried
from tests.report.folders import FRACTIONS, METRICS, Plan, write_cell

pytestmark = pytest.mark.rendered

CONF = Path(__file__).parents[1] / "conf" / "tracking"
BLOCK = 32768


@pytest.fixture(scope="module", autouse=True)
def own_folders(tmp_path_factory):
    """W&B's copies of tables go where the tests' other files go."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("WANDB_DATA_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR"):
            patch.setenv(name, str(tmp_path_factory.mktemp(name.lower())))
        yield


def loaded(folder):
    """The cell of a run folder, as a comparison hands it over."""
    return load_cells([folder])[0]


def records(path):
    """Records of a `.wandb` file: a header, then LevelDB's log format (blocks of 32 KiB; checksum, length, type)."""
    data = path.read_bytes()
    assert data[:4] in (b"", b":W&B")
    found, pending, place = [], b"", 7
    while place + 7 <= len(data):
        if BLOCK - place % BLOCK < 7:  # a block's tail too short for a header is padding
            place += BLOCK - place % BLOCK
            continue
        _, length, kind = struct.unpack("<IHB", data[place : place + 7])
        if place + 7 + length > len(data):  # W&B's own process is writing it
            break
        pending += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, last
            record = wandb_internal_pb2.Record()
            record.ParseFromString(pending)
            found.append(record)
            pending = b""
    return found


def complete(path):
    """All records, once the one that ends the run is there: W&B's own process writes it just after `finish` returns."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        found = records(path)
        if any(record.WhichOneof("record_type") == "exit" for record in found):
            return found
        time.sleep(0.01)
    raise AssertionError(f"{path} never got the record that ends a run")


def items(entries):
    return {"/".join(entry.nested_key) or entry.key: json.loads(entry.value_json) for entry in entries}


@dataclass(frozen=True)
class ReadBack:
    """What an offline run file holds."""

    run: Any
    config: dict[str, Any]
    summary: dict[str, Any]  # the last value of each key
    history: list[dict[str, Any]]
    metrics: dict[str, Any]  # how each key of the history is shown
    artifacts: dict[str, Any]  # by name
    folder: Path

    @property
    def logged(self):
        """The last value of each key of the history."""
        return {key: value for line in self.history for key, value in line.items()}

    def file(self, key):
        """Content of the file that a key of the history names."""
        return (self.folder / "files" / self.logged[f"{key}/path"]).read_bytes()

    def table(self, key):
        """The table that a key of the history names."""
        content = json.loads(self.file(key))
        return pd.DataFrame(content["data"], columns=content["columns"])

    def digests(self, artifact):
        """MD5 of each file of an artifact, as W&B's server is to check it."""
        return {entry.path: entry.digest for entry in self.artifacts[artifact].manifest.contents}


def read_back(folder):
    """The only run that was logged to a folder."""
    (path,) = folder.glob("wandb/offline-run-*/run-*.wandb")
    return read_run(path)


def read_run(path):
    kinds = {}
    for record in complete(path):
        kind = record.WhichOneof("record_type")
        kinds.setdefault(kind, []).append(getattr(record, kind))
    latest = {}
    for record in kinds["summary"]:
        latest |= items(record.update)
    requests = [request.log_artifact.artifact for request in kinds.get("request", ())]
    artifacts = {artifact.name: artifact for artifact in (*kinds.get("artifact", ()), *requests)}
    return ReadBack(
        kinds["run"][0],
        items(kinds["run"][0].config.update),
        latest,
        [items(record.item) for record in kinds.get("history", ())],
        {metric.name: metric for metric in kinds.get("metric", ())},
        artifacts,
        path.parent,
    )


def md5(path):
    """The digest of a file as artifacts have it."""
    return base64.b64encode(hashlib.md5(path.read_bytes(), usedforsecurity=False).digest()).decode()


@pytest.fixture(scope="module")
def mirrored(tmp_path_factory, own_folders):
    out = tmp_path_factory.mktemp("out")
    dashes = {"agreement": "the model has no layers"}
    cell = write_cell(out, Plan("attattr", settings={"edges": {"steps": 5}}, dashes=dashes))
    for name in ("attributions-predicted", "attributions-label", "edges-predicted"):
        (cell / f"{name}.safetensors").write_bytes(name.encode())
    python, numpy_state = random.getstate(), np.random.get_state()[1].copy()
    Wandb().log_cell(loaded(cell), "planted-1234")
    assert random.getstate() == python, "a mirror must not move the generators that a comparison may draw from"
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_state)
    return out, cell, read_back(out)


def test_the_run_is_named_and_grouped(mirrored):
    _, cell, found = mirrored
    assert found.run.project == "attention-explainer-benchmark"
    assert (found.run.run_group, found.run.job_type) == ("planted-1234", "method")
    assert found.run.display_name == "attattr on planted with tiny"
    assert set(found.run.tags) == {"planted", "tiny", "attattr"}
    record = json.loads((cell / "record.json").read_text())
    assert found.config["hash"] == record["hash"]
    assert found.config["config"]["method"]["edges"] == {"steps": 5}
    assert found.config["cost"] == record["cost"]
    assert found.config["model"]["dtype"] == "float32"


def test_the_figures_are_in_the_summary(mirrored):
    _, cell, found = mirrored
    record = json.loads((cell / "record.json").read_text())
    figures = [(name, f) for name, entry in record["evaluations"].items() for f in entry["figures"] if f["x"] is None]
    assert len(figures) == 5
    for name, figure in figures:
        key = f"{name}/{figure['metric']}"
        assert found.summary[key] == pytest.approx(figure["value"])
        assert found.summary[f"{key}/n"] == figure["n"]
        bounds = (found.summary[f"{key}/low"], found.summary[f"{key}/high"])
        assert bounds == pytest.approx((figure["low"], figure["high"]))
    assert found.summary["agreement/dash"] == "the model has no layers"


def test_the_curves_are_in_the_history(mirrored):
    _, cell, found = mirrored
    key = "curve/perturbation/positive_accuracy"
    points = [line for line in found.history if key in line]
    assert [line["curve/perturbation/share_removed"] for line in points] == pytest.approx(FRACTIONS)
    record = json.loads((cell / "record.json").read_text())
    figures = [f for f in record["evaluations"]["perturbation"]["figures"] if f["x"] is not None]
    assert [line[key] for line in points] == pytest.approx([f["value"] for f in figures])
    assert [line[f"{key}/low"] for line in points] == pytest.approx([f["low"] for f in figures])


def test_curves_stand_against_their_own_axis_and_intervals_have_no_panels(mirrored):
    *_, found = mirrored
    axis, curve = "curve/perturbation/share_removed", "curve/perturbation/positive_accuracy"
    assert found.metrics.keys() == {axis, curve, f"{curve}/low", f"{curve}/high"}
    assert {name: metric.step_metric for name, metric in found.metrics.items() if name != axis} == dict.fromkeys(
        (curve, f"{curve}/low", f"{curve}/high"), axis
    )
    assert [name for name, metric in found.metrics.items() if not metric.options.hidden] == [curve]
    assert all(metric.summary.none and not metric.options.step_sync for metric in found.metrics.values())
    assert not [key for key in found.summary if key.startswith("curve/")]


def test_the_page_is_a_file_of_the_run(mirrored):
    *_, found = mirrored
    (examples,) = carried(found.file("page").decode())["example-data"]
    assert "<b>fine</b>" in examples["words"][0]


def test_all_rows_and_the_attributions_are_artifacts(mirrored):
    _, cell, found = mirrored
    ending = f"attattr-{loaded(cell).record.hash[:8]}"
    assert {name: artifact.type for name, artifact in found.artifacts.items()} == {
        f"rows-{ending}": "rows",
        f"attributions-{ending}": "attributions",
    }
    whole = ("rows.parquet", "record.json", "config.yaml")
    assert found.digests(f"rows-{ending}") == {name: md5(cell / name) for name in whole}
    explained = ("attributions-predicted.safetensors", "attributions-label.safetensors")
    assert found.digests(f"attributions-{ending}") == {name: md5(cell / name) for name in explained}


def test_only_the_artifacts_that_are_asked_for_are_kept(tmp_path):
    cell = write_cell(tmp_path, Plan("attattr"))
    (cell / "attributions-predicted.safetensors").write_bytes(b"scores")
    Wandb(artifacts=["attributions"]).log_cell(loaded(cell), "c")
    assert [artifact.type for artifact in read_back(tmp_path).artifacts.values()] == ["attributions"]


def test_what_is_mirrored_already_is_not_logged_again(mirrored, monkeypatch, caplog):
    out, cell, _ = mirrored
    before = sorted(out.glob("wandb/offline-run-*"))
    monkeypatch.setitem(sys.modules, "wandb", None)
    Wandb().log_cell(loaded(cell), "planted-1234")
    assert sorted(out.glob("wandb/offline-run-*")) == before
    assert not warnings_of(caplog), "wandb is not imported, which takes half a second"


def test_a_mirror_is_another_one_where_a_figure_is_another(mirrored):
    cell = loaded(mirrored[1])
    record = cell.record

    def identified(changed):
        return run_id(["c", identity_of(replace(cell, stored=replace(cell.stored, record=changed)))])

    timed = replace(record, cost=replace(record.cost, seconds=1e6), files={"rows.parquet": "0" * 64})
    assert identified(timed) == identified(record)
    tests = dict(record.evaluations)
    (first, *_), *_ = (test.figures for test in tests.values())
    tests["perturbation"] = replace(tests["perturbation"], figures=(replace(first, value=0.5),))
    assert identified(replace(record, evaluations=tests)) != identified(record)


def test_the_run_folder_is_only_read(tmp_path):
    cell = write_cell(tmp_path, Plan("flow", dash="no attention"))
    before = {path: path.read_bytes() for path in cell.iterdir()}
    Wandb(directory=str(tmp_path / "elsewhere")).log_cell(loaded(cell), "c")
    assert {path: path.read_bytes() for path in cell.iterdir()} == before
    assert read_back(tmp_path / "elsewhere").summary["dash"] == "no attention"


def test_figures_that_are_not_finite_are_nan(tmp_path):
    cell = loaded(write_cell(tmp_path, Plan("broken", nan=("positive_auc", "positive_accuracy"))))
    assert np.isnan(summary(cell)["perturbation/positive_auc"])
    assert len(curve_points(cell)) == len(FRACTIONS)
    Wandb().log_cell(cell, "c")
    assert read_back(tmp_path).summary["perturbation/negative_auc"] == pytest.approx(
        summary(cell)["perturbation/negative_auc"]
    )


def warnings_of(caplog):
    return [
        record for record in caplog.records if record.name == "benchmark.tracking" and record.levelno >= logging.WARNING
    ]


def fail(*args, **kwargs):
    raise OSError("no space\nleft")


@pytest.mark.parametrize("broken", ["init", "Artifact.add_file", "Html"])
def test_a_failing_wandb_is_one_warning(tmp_path, monkeypatch, caplog, broken):
    cells = [write_cell(tmp_path, Plan(method)) for method in ("rollout", "attattr")]
    monkeypatch.setattr(f"wandb.{broken}", fail)
    tracker = Wandb()
    for cell in cells:
        tracker.log_cell(loaded(cell), "c")
    (warning,) = warnings_of(caplog)
    assert "OSError: no space left" in warning.getMessage()
    assert "\n" not in warning.getMessage()
    assert not list(tmp_path.glob("wandb/*/mirror-complete"))


def test_an_absent_wandb_is_one_warning(tmp_path, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "wandb", None)
    Wandb().log_cell(loaded(write_cell(tmp_path, Plan("rollout"))), "c")
    (warning,) = warnings_of(caplog)
    assert "wandb" in warning.getMessage()


def test_online_without_a_key_does_not_ask(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(wandb, "run", None)
    monkeypatch.setattr(wandb, "login", lambda *, prompt: prompt)
    Wandb(mode="online").log_cell(loaded(write_cell(tmp_path, Plan("rollout"))), "c")
    assert "wandb login" in warnings_of(caplog)[0].getMessage()
    assert not (tmp_path / "wandb").exists()


def test_an_interrupt_is_not_swallowed(tmp_path, monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(wandb, "Html", interrupt)
    with pytest.raises(KeyboardInterrupt):
        Wandb().log_cell(loaded(write_cell(tmp_path, Plan("rollout"))), "c")


def test_disabled_does_nothing_and_imports_nothing(tmp_path):
    cell = write_cell(tmp_path, Plan("rollout"))
    code = (
        "import sys, pathlib; from benchmark.report import load_cells; from benchmark.tracking import Wandb; "
        "Wandb(mode='disabled').log_cell(*load_cells([pathlib.Path(sys.argv[1])]), 'c'); assert 'wandb' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(cell)], check=True)
    assert not (tmp_path / "wandb").exists()


@pytest.mark.parametrize(
    ("setting", "answer"),
    [
        ("mode=onlin", "tracking.mode=onlin: allowed are online, offline, disabled"),
        ("timeout=0", "tracking.timeout=0: allowed are numbers above 0"),
        ("timeout=soon", "tracking.timeout=soon: allowed are numbers above 0"),
        ("project=7", "tracking.project=7: allowed are texts"),
        ("artifacts=[row]", "tracking.artifacts=['row']: allowed are lists of rows, attributions, report"),
    ],
)
def test_a_wrong_setting_is_named(setting, answer):
    with pytest.raises(UserError) as caught:
        build("tracking/wandb", setting)
    assert str(caught.value) == answer


@pytest.mark.parametrize(("name", "mode"), [("wandb", "offline"), ("none", "disabled")])
def test_the_options_can_be_built_and_take_every_mode(name, mode):
    config = OmegaConf.load(CONF / f"{name}.yaml")
    assert instantiate(config).mode == mode
    for other in ("online", "offline", "disabled"):
        assert instantiate(config, mode=other).mode == other


SUMMARY = ("attattr", "rollout", "random")


@pytest.fixture(scope="module")
def compared(tmp_path_factory, own_folders):
    """A comparison of three methods with an analysis, mirrored; its folder, cells and what was read back."""
    out = tmp_path_factory.mktemp("compared")
    cells = load_cells([write_cell(out, Plan(method, dashes=DASHES.get(method, {}))) for method in SUMMARY])
    folder = out / "comparisons" / "planted-1234"
    rows = pd.DataFrame(
        [line({"method": name}, "gap", value, value - 1, value + 1, 7) for name, value in (("a", 1.0), ("b", 2.0))]
    )
    table = Table("gaps", "Gaps", ("method",), rows, ("a is smaller.",), Drawing("bars", x="method", y=("gap",)))
    write_json(folder / "analyses" / "gaps.json", sealed({"tables": [table.to_json()]}))
    for name, content in (*table_files([table]), ("index.html", b"<p>"), ("leaderboard.csv", b"a,b")):
        (folder / name).write_bytes(content)
    Wandb().log_comparison(folder, cells, "planted-1234")
    return folder, cells, read_back(out)


DASHES = {"random": {"rationale": "no example has a rationale"}}


def test_a_comparison_has_one_summary_run(compared):
    folder, cells, found = compared
    assert found.run.display_name == "leaderboard of 3 methods on planted with tiny"
    assert (found.run.run_group, found.run.job_type) == ("planted-1234", "summary")
    assert found.config["methods"] == {cell.method: cell.record.hash for cell in cells}
    assert found.config["tests"].keys() == METRICS.keys()
    assert found.config["task"]["name"] == "planted"
    before = sorted(folder.parents[1].glob("wandb/*"))
    Wandb().log_comparison(folder, cells, "planted-1234")
    assert sorted(folder.parents[1].glob("wandb/*")) == before


def test_a_column_of_numbers_and_words_is_one_of_words():
    """A layer beside "all": W&B's table takes one type, and ended the tracking of the comparison."""
    table = pd.DataFrame({"layer": [0, "all", np.nan], "n": [3, 4, 5], "value": [0.5, np.nan, 1.0]})
    rows = plain(table)
    assert rows == [["0", 3, 0.5], ["all", 4, None], [None, 5, 1.0]]
    assert wandb.Table(columns=list(table.columns), data=rows).data == rows


def test_the_leaderboard_is_a_table_of_numbers_best_first(compared):
    _, cells, found = compared
    board = found.table("leaderboard")
    assert list(board["method"]) == ["attattr", "rollout", "random"]
    assert list(board["kind"]) == ["method", "method", "control"]
    names = ["perturbation: positive_auc ↓", "perturbation: negative_auc ↑", "rationale: auprc ↑"]
    assert list(board.columns[2:]) == [name + end for name in names for end in ("", " low", " high")]
    for cell in cells:
        figure = cell.record.evaluations["perturbation"].scalar("positive_auc")
        shown = board[board["method"] == cell.method][[names[0] + end for end in ("", " low", " high")]]
        assert shown.to_numpy()[0] == pytest.approx([figure.value, figure.low, figure.high])
    assert board["rationale: auprc ↑"].isna().tolist() == [False, False, True]
    figures = found.table("figures").set_index(["method", "evaluation", "metric"])
    scalars = {
        (name, metric) for name, metrics in METRICS.items() for metric, about in metrics.items() if about.x is None
    }
    assert set(figures.index) == {(method, *key) for method in SUMMARY for key in scalars}
    assert figures.loc[("random", "rationale", "auprc"), "dash"] == "no example has a rationale"


def test_each_test_has_a_picture_of_bars(compared):
    *_, found = compared
    pictures = {key.removesuffix("/path") for key in found.logged if key.startswith("leaderboard bars/")}
    assert {key.rpartition("/")[0] for key in pictures if key.endswith("/_type")} == {
        "leaderboard bars/perturbation",
        "leaderboard bars/rationale",
    }
    assert (
        found.logged["leaderboard bars/rationale/caption"]
        == "rationale on planted with tiny: values with 95 % intervals"
    )
    assert found.file("leaderboard bars/rationale").startswith(b"\x89PNG")


def test_analyses_page_and_report_are_with_the_summary(compared):
    folder, _, found = compared
    assert found.summary["sentences/gaps"] == "a is smaller."
    assert found.table("table/gaps")["value"].tolist() == [1.0, 2.0]
    assert found.file("figure/gaps") == (folder / "table-gaps.png").read_bytes()
    assert found.file("page") == b"<p>"
    assert found.digests("report-planted-1234") == {path.name: md5(path) for path in folder.iterdir() if path.is_file()}


def test_bars_show_intervals(tmp_path):
    from benchmark.report.leaderboard import frame, headline_columns
    from benchmark.tracking.summary_run import bar_tables

    cells = load_cells([write_cell(tmp_path, Plan(method)) for method in SUMMARY])
    figures = frame(cells)
    tables = {table.name: table for table in bar_tables(figures, headline_columns(figures))}
    rows = tables["rationale"].rows
    assert list(rows["method"]) == ["attattr", "rollout", "random"]
    assert set(rows["metric"]) == {"auprc ↑"}
    figure = next(cell for cell in cells if cell.method == "rollout").record.evaluations["rationale"].scalar("auprc")
    assert tuple(rows.loc[1, ["value", "low", "high"]]) == pytest.approx((figure.value, figure.low, figure.high))


def test_a_comparison_is_mirrored_once_also_by_jobs_at_once(place, tmp_path, no_pictures):
    overrides = ["task=tiny_task", "task.size=4", "model=hf", f"model.path={place / 'bert'}", "methods=[probe,random]"]
    overrides += ["evaluations=[rationale]", "tracking.mode=offline", f"out={tmp_path}"]
    config = compose("config", overrides, str(place / "conf"))
    jobs = [Thread(target=run_comparison, args=(config.copy(),)) for _ in range(2)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    first = sorted(tmp_path.glob("wandb/offline-run-*"))
    names = {read_run(next(path.glob("run-*.wandb"))).run.display_name for path in first}
    assert names == {
        f"{name} with bert" for name in ("probe on tiny", "random on tiny", "leaderboard of 2 methods on tiny")
    }
    assert len(first) == 3
    run_comparison(config)
    assert sorted(tmp_path.glob("wandb/offline-run-*")) == first
