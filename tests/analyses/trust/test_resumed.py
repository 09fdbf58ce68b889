"""A killed run of an analysis of trust repeats no finished question, and says in the end what an unbroken one says."""

import pytest

from benchmark.analyses.context import Context
from benchmark.analyses.trust.randomised import Randomised
from benchmark.analyses.trust.stability import Stability
from benchmark.analyses.trust.which_test import WhichTest
from benchmark.comparison import finish_all
from benchmark.run.workbench import open_setting
from benchmark.settings.configuration import compose
from benchmark.settings.making import make
from tests.analyses.killed import assert_goes_on
from tests.covering import one_in


@pytest.fixture(scope="module")
def finished(place, tmp_path_factory):
    out = tmp_path_factory.mktemp("killed")
    words = [
        "task=tiny_task",
        "task.size=6",
        "model=hf",
        f"model.path={place / 'bert'}",
        f"out={out}",
        "methods=[raw_attention,rollout,gradient_x_input,attnlrp,random,oracle,inverted]",
        "evaluations=[aopc,perturbation]",
        "analyses=[]",
        "tracking=none",
        "checkpoint_seconds=0",
    ]
    config = compose("config", words, str(place / "conf"))
    setting = open_setting(config)
    evaluations = {name: make(part) for name, part in config.evaluations.items()}
    cells = {name: setting.cell(name) for name in config.methods}
    list(finish_all(cells, evaluations))
    return Context(setting, cells, evaluations)


ANALYSES = (
    WhichTest(methods=3, ladder=True, winners=True, fresh=2, shift=True, limit=4),
    Randomised(limit=4, draws=2, independent=False),
    Stability(limit=4, draws=2),
)


@pytest.mark.parametrize("analysis", one_in(len(ANALYSES), ANALYSES), ids=lambda one: type(one).__name__)
def test_a_killed_run_goes_on(analysis, finished, tmp_path, monkeypatch):
    assert_goes_on(analysis, finished, tmp_path, monkeypatch)
