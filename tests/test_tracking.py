import json
import logging
import random
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import wandb
from hydra.utils import instantiate
from omegaconf import OmegaConf
from wandb.proto import wandb_internal_pb2

from benchmark.errors import UserError
from benchmark.report.analysis_tables import table_files
from benchmark.report.cells import load_cells
from benchmark.results.store import write_json
from benchmark.results.tables import Drawing, Table, line
from benchmark.tracking import Wandb, curve_points, run_id, summary
from tests.report.carried import carried
from tests.report.folders import FRACTIONS, Plan, write_cell

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


def read_back(folder):
    """What an offline run file holds: the run, its config, the last summary value of each key, the history's lines."""
    (path,) = folder.glob("wandb/offline-run-*/run-*.wandb")
    all_records = complete(path)
    run = next(record.run for record in all_records if record.WhichOneof("record_type") == "run")
    latest = {}
    for record in all_records:
        if record.WhichOneof("record_type") == "summary":
            latest |= items(record.summary.update)
    history = [items(record.history.item) for record in all_records if record.WhichOneof("record_type") == "history"]
    return run, items(run.config.update), latest, history, path.parent


@pytest.fixture(scope="module")
def mirrored(tmp_path_factory, own_folders):
    out = tmp_path_factory.mktemp("out")
    dashes = {"agreement": "the model has no layers"}
    cell = write_cell(out, Plan("attattr", settings={"edges": {"steps": 5}}, dashes=dashes))
    python, numpy_state = random.getstate(), np.random.get_state()[1].copy()
    Wandb(max_rows=100).log_cell(loaded(cell), "planted-1234")
    assert random.getstate() == python, "a mirror must not move the generators that a comparison may draw from"
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_state)
    return out, cell, read_back(out)


def test_the_run_is_named_and_grouped(mirrored):
    _, cell, (run, config, *_) = mirrored
    assert run.project == "attention-explainer-benchmark"
    assert run.run_group == "planted-1234"
    assert run.display_name == cell.name
    assert set(run.tags) == {"planted", "tiny", "attattr"}
    record = json.loads((cell / "record.json").read_text())
    assert config["hash"] == record["hash"]
    assert config["config"]["method"]["edges"] == {"steps": 5}
    assert config["cost"] == record["cost"]
    assert config["model"]["dtype"] == "float32"


def test_the_figures_are_in_the_summary(mirrored):
    _, cell, (*_, latest, _history, _folder) = mirrored
    record = json.loads((cell / "record.json").read_text())
    figures = [(name, f) for name, entry in record["evaluations"].items() for f in entry["figures"] if f["x"] is None]
    assert len(figures) == 5
    for name, figure in figures:
        key = f"{name}/{figure['metric']}"
        assert latest[key] == pytest.approx(figure["value"])
        assert latest[f"{key}/n"] == figure["n"]
        assert (latest[f"{key}/low"], latest[f"{key}/high"]) == pytest.approx((figure["low"], figure["high"]))
    assert latest["agreement/dash"] == "the model has no layers"
    assert latest["rows/logged"] == 100
    assert latest["rows/total"] == len(pd.read_parquet(cell / "rows.parquet")) > 100


def test_the_curves_are_in_the_history(mirrored):
    _, cell, (*_, history, _folder) = mirrored
    key = "curve/perturbation/positive_accuracy"
    points = [line for line in history if key in line]
    assert [line["curve/perturbation/share_removed"] for line in points] == pytest.approx(FRACTIONS)
    record = json.loads((cell / "record.json").read_text())
    figures = [f for f in record["evaluations"]["perturbation"]["figures"] if f["x"] is not None]
    assert [line[key] for line in points] == pytest.approx([f["value"] for f in figures])
    assert [line[f"{key}/low"] for line in points] == pytest.approx([f["low"] for f in figures])


def test_rows_and_heatmaps_are_files_of_the_run(mirrored):
    _, cell, (*_, history, folder) = mirrored
    table = next(line["rows/path"] for line in history if "rows/path" in line)
    content = json.loads((folder / "files" / table).read_text())
    assert content["columns"] == ["evaluation", "metric", "uid", "x", "value"]
    rows = pd.read_parquet(cell / "rows.parquet")
    assert len(content["data"]) == 100
    assert [row[4] for row in content["data"]] == pytest.approx(list(rows["value"][:100]))
    page = next(line["heatmaps/path"] for line in history if "heatmaps/path" in line)
    (examples,) = carried((folder / "files" / page).read_text())["example-data"]
    assert "<b>fine</b>" in examples["words"][0]


def test_what_is_mirrored_already_is_not_logged_again(mirrored, monkeypatch):
    out, cell, _ = mirrored
    before = sorted(out.glob("wandb/offline-run-*"))
    Wandb().log_cell(loaded(cell), "planted-1234")
    assert sorted(out.glob("wandb/offline-run-*")) == before
    record = loaded(cell).record.to_json()
    assert run_id(["planted-1234", record]) != run_id(["planted-5678", record])


def test_the_run_folder_is_only_read(tmp_path):
    cell = write_cell(tmp_path, Plan("flow", dash="no attention"))
    before = {path: path.read_bytes() for path in cell.iterdir()}
    Wandb(directory=str(tmp_path / "elsewhere")).log_cell(loaded(cell), "c")
    assert {path: path.read_bytes() for path in cell.iterdir()} == before
    *_, latest, _history, _folder = read_back(tmp_path / "elsewhere")
    assert latest["dash"] == "no attention"


def test_figures_that_are_not_finite_are_nan(tmp_path):
    cell = loaded(write_cell(tmp_path, Plan("broken", nan=("positive_auc", "positive_accuracy"))))
    assert np.isnan(summary(cell)["perturbation/positive_auc"])
    assert len(curve_points(cell)) == len(FRACTIONS)
    Wandb().log_cell(cell, "c")
    *_, latest, _history, _folder = read_back(tmp_path)
    assert latest["perturbation/negative_auc"] == pytest.approx(summary(cell)["perturbation/negative_auc"])


def warnings_of(caplog):
    return [
        record for record in caplog.records if record.name == "benchmark.tracking" and record.levelno >= logging.WARNING
    ]


def fail(*args, **kwargs):
    raise OSError("no space\nleft")


@pytest.mark.parametrize("broken", ["init", "Table", "Html"])
def test_a_failing_wandb_is_one_warning(tmp_path, monkeypatch, caplog, broken):
    cells = [write_cell(tmp_path, Plan(method)) for method in ("rollout", "attattr")]
    monkeypatch.setattr(wandb, broken, fail)
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

    monkeypatch.setattr(wandb, "Table", interrupt)
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
    ("settings", "named"),
    [({"mode": "onlin"}, "tracking.mode"), ({"max_rows": -1}, "max_rows"), ({"timeout": 0}, "timeout")],
)
def test_a_wrong_setting_is_named(settings, named):
    with pytest.raises(UserError, match=named):
        Wandb(**settings)


@pytest.mark.parametrize(("name", "mode"), [("wandb", "offline"), ("none", "disabled")])
def test_the_options_can_be_built_and_take_every_mode(name, mode):
    config = OmegaConf.load(CONF / f"{name}.yaml")
    assert instantiate(config).mode == mode
    for other in ("online", "offline", "disabled"):
        assert instantiate(config, mode=other).mode == other


def test_analyses_are_one_run_with_tables_sentences_and_pictures(tmp_path):
    folder = tmp_path / "comparisons" / "planted-1234"
    rows = pd.DataFrame(
        [line({"method": name}, "gap", value, value - 1, value + 1, 7) for name, value in (("a", 1.0), ("b", 2.0))]
    )
    table = Table("gaps", "Gaps", ("method",), rows, ("a is smaller.",), Drawing("bars", x="method", y=("gap",)))
    write_json(folder / "analyses" / "gaps.json", [table.to_json()])
    for name, content in table_files([table]):
        (folder / name).write_bytes(content)
    tracker = Wandb()
    tracker.log_analyses(folder, "planted-1234")
    run, _, latest, history, place = read_back(tmp_path)
    logged = {key: value for entry in history for key, value in entry.items()}
    assert (run.display_name, run.run_group) == ("analyses", "planted-1234")
    assert latest["sentences/gaps"] == "a is smaller."
    assert logged["table/gaps/_type"] == "table-file"
    assert logged["table/gaps/nrows"] == 2
    assert logged["figure/gaps/_type"] == "image-file"
    assert (place / "files" / logged["figure/gaps/path"]).read_bytes() == (folder / "table-gaps.png").read_bytes()
    before = sorted(tmp_path.glob("wandb/*"))
    tracker.log_analyses(folder, "planted-1234")
    assert sorted(tmp_path.glob("wandb/*")) == before


def test_a_comparison_without_analyses_makes_no_run(tmp_path):
    Wandb().log_analyses(tmp_path / "comparisons" / "planted-1234", "planted-1234")
    assert list(tmp_path.iterdir()) == []
