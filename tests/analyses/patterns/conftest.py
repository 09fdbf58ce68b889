"""A comparison of no method, as analyses of a model see it."""

import pytest
from omegaconf import OmegaConf

from benchmark.analyses.context import Context
from benchmark.run.data import Data
from benchmark.run.workbench import Setting
from tests.analyses.conftest import NoTask


@pytest.fixture
def given():
    """A context of a model and its batches."""

    def make(model, batches):
        data = Data(model, batches=batches, calibration=lambda split, n: [], facts={}, labels=NoTask.labels)
        return Context(Setting(OmegaConf.create({"limit": None}), NoTask(), model, data), {}, {})

    return make
