"""A tiny BERT, and a comparison of methods on it as analyses see it."""

from pathlib import Path

import pytest
from omegaconf import OmegaConf

from benchmark import load_model
from benchmark.analyses.context import Context
from benchmark.checking import small_models
from benchmark.run.cell import Cell
from benchmark.run.data import Data
from benchmark.run.workbench import Setting


class NoTask:
    """A data set that has been read."""

    name = "none"
    version = 1
    labels = ("a", "b", "c")
    fingerprint = ""

    def split(self, name):
        return []


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return small_models.save("bert", tmp_path_factory.mktemp("analyses"))


@pytest.fixture(scope="session")
def model(folder):
    return load_model(folder, dtype="float32", device="cpu")


@pytest.fixture(scope="session")
def batches(model):
    """Two batches of three and two examples; the last one has no label."""
    inputs = small_models.inputs("bert", (9, 5, 12, 7, 4))
    return [model.encode(inputs[:3], labels=[0, 1, 2]), model.encode(inputs[3:], labels=[1, -1])]


@pytest.fixture
def context(model, batches):
    """A context of these methods by name."""

    def make(**methods):
        data = Data(model, batches=batches, calibration=lambda split, n: [], facts={}, labels=NoTask.labels)
        setting = Setting(OmegaConf.create({}), NoTask(), model, data)
        cells = {
            name: Cell(Path("nowhere"), name, method, model, data, {}, {}, 0.0) for name, method in methods.items()
        }
        return Context(setting, cells, {})

    return make


@pytest.fixture
def given():
    """A context of no method: a model and its batches, as analyses of a model see them."""

    def make(model, batches):
        data = Data(model, batches=batches, calibration=lambda split, n: [], facts={}, labels=NoTask.labels)
        return Context(Setting(OmegaConf.create({"limit": None}), NoTask(), model, data), {}, {})

    return make
