"""The same comparison in this process and in workers."""

import pickle

import pandas as pd
import pytest
import torch

from benchmark.checking import small_models
from benchmark.comparison import run_comparison
from benchmark.engines.base import ShardError
from benchmark.engines.local import Here
from benchmark.engines.moving import moved, placed, portable
from benchmark.errors import Corrupt, Missing
from benchmark.models.devices import BYTES
from benchmark.results import store
from benchmark.run.steps import UnfinishedError
from benchmark.settings.configuration import compose
from tests.load.jobs import differences

pytestmark = pytest.mark.usefixtures("no_pictures")
TESTS = "evaluations=[perturbation,perturbation_target,head_pruning,attribution_graph,class_specificity,agreement]"
REFUSES = "+methods.refuses={_target_: tests.tiny_task.Probe, how: refuse}"
FILES = ("leaderboard.csv", "leaderboard.md", "leaderboard.tex", "curves.csv", "comparison.json")


@pytest.fixture(scope="module")
def workers():
    """A small cluster of Ray on this machine, which comparisons find and leave as it is."""
    ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield ["engine=ray", "engine.workers=2", "engine.methods_at_once=3"]
    ray.shutdown()


def run(place, out, *overrides):
    given = ["task=tiny_task", "model=hf", f"model.path={place / 'bert'}", "model.threads=1", "tracking=none"]
    chosen = [*given, "batch_size=4", f"out={out}", *overrides]
    return run_comparison(compose("config", chosen, str(place / "conf")))


def arrays(cell):
    return {path.name: store.Ragged.read(path) for path in cell.glob("*.safetensors")}


@pytest.mark.thorough
def test_workers_give_the_bytes_that_this_process_gives(place, tmp_path, workers):
    chosen = ("methods=[probe,attattr,random]", TESTS, "methods.attattr.edges.steps=2", "task.size=8")
    chosen += ("evaluations.head_pruning.calibration.limit=6", REFUSES)
    here, there = (
        run(place, tmp_path / name / "out", *chosen, *more) for name, more in (("here", ()), ("there", workers))
    )
    assert differences(tmp_path / "here" / "out", tmp_path / "there" / "out", FILES) == []
    for one, other in zip(here.cells, there.cells, strict=True):
        assert (one / "rows.parquet").read_bytes() == (other / "rows.parquet").read_bytes()
        ours, theirs = arrays(one), arrays(other)
        assert ours.keys() == theirs.keys()
        for name, stored in ours.items():
            assert stored.uids == theirs[name].uids
            assert {key: a.tobytes() for key, a in stored.arrays.items()} == {
                key: a.tobytes() for key, a in theirs[name].arrays.items()
            }
            passes = [{k: v for k, v in each.cost.items() if k != "seconds"} for each in (stored, theirs[name])]
            assert passes[0] == passes[1], "passes are counted where they are made"
    tests = [test for cell in there.cells for test in store.read_record(cell).evaluations.values()]
    assert "it does not feel like it" in [test.dash for test in tests], "a dash stays a dash"


@pytest.fixture
def failing(monkeypatch):
    """This process says of a bug what workers say of it after the last attempt."""
    computed = Here.results

    def results(self, series, numbers=None):
        try:
            yield from computed(self, series, numbers)
        except ZeroDivisionError as error:
            raise ShardError(f"it failed in every attempt: {error}") from error

    monkeypatch.setattr(Here, "results", results)


def test_a_method_that_fails_is_given_up_and_the_others_are_reported(place, tmp_path, failing):
    bug = "+methods.bug={_target_: tests.tiny_task.Probe, how: bug}"
    chosen = ("methods=[probe,random]", bug, "evaluations=[rationale]", "analyses=[ranking_agreement]")
    with pytest.raises(UnfinishedError, match="bug: given up") as failed:
        run(place, tmp_path, *chosen)
    assert "a bug in a method" in str(failed.value.exceptions[0])
    (table,) = (tmp_path / "comparisons").glob("*/leaderboard.csv")
    assert {*pd.read_csv(table)["method"]} == {"probe", "random"}
    assert not (table.parent / "analyses").exists()


@pytest.mark.parametrize("family", small_models.FAMILIES)
def test_a_classifier_that_travelled_computes_the_same_bits(family, tmp_path):
    model = small_models.load(family, tmp_path, dtype="float32")
    batch = model.encode(small_models.inputs(family))
    model.run(batch)
    there = placed(pickle.loads(pickle.dumps(portable(model), protocol=5)), "cpu")
    assert there.cost.forward_passes == 0
    for one, other in zip(model.model.parameters(), there.model.parameters(), strict=True):
        assert one.data_ptr() % BYTES == other.data_ptr() % BYTES == 0, "products round by where a weight begins"
    ours, theirs = (each.run(moved(batch, "cpu"), record=("attentions", "hidden")) for each in (model, there))
    assert torch.equal(ours.logits, theirs.logits)
    for one, other in zip((*ours.attentions, *ours.hidden), (*theirs.attentions, *theirs.hidden), strict=True):
        assert torch.equal(one, other)


def test_a_part_of_a_tensor_travels_alone():
    whole = torch.zeros(1000, 4)
    assert len(pickle.dumps(moved(whole[2:4], "cpu"))) < 1000
    assert moved(whole, "cpu") is whole


@pytest.mark.parametrize("kind", [Corrupt, Missing])
def test_errors_travel(kind, tmp_path):
    error = kind(tmp_path, "cut off") if kind is Corrupt else kind(tmp_path)
    there = pickle.loads(pickle.dumps(error))
    assert (type(there), str(there), there.path) == (kind, str(error), tmp_path)
