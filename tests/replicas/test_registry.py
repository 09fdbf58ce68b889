"""Every option of `conf/methods` has a transcription of its equation, or says why it has none."""

import importlib
import re
from dataclasses import replace
from pathlib import Path

import pytest

import benchmark
from benchmark.settings.configuration import options
from methods.attention_explainer import AttentionExplainer
from methods.edges.product import FactorProduct
from methods.gradient_x_input import GradientXInput
from methods.lrp import Lrp
from methods.propagation.rule_sets import alpha_beta
from methods.readouts.rollout import Rollout
from tests.conftest import GIVEN
from tests.replicas.registry import REPLICAS, without_replica

REASONS = {
    **dict.fromkeys(
        (
            "constant",
            "first_word",
            "frequency",
            "inverted",
            "last_word",
            "oracle",
            "position",
            "random",
            "random_components",
            "recency",
        ),
        "a control, whose definition `tests/methods/test_controls.py` checks word by word",
    ),
    "captum": "a wrapper of other classes, which `test_captum.py` compares with ours",
    "importances": "gives what a file says, which `tests/methods/test_circuits.py` compares",
    "deeplift": "each operation's multipliers are transcribed (`propagation/test_multipliers.py`), and their sum is known",
}
"""Why an option has no transcription, and what holds it instead."""


@pytest.fixture(scope="module", autouse=True)
def _every_replica_is_registered():
    folder = Path(__file__).parent
    for path in folder.rglob("test_*.py"):
        importlib.import_module(".".join((__package__, *path.relative_to(folder).with_suffix("").parts)))


@pytest.mark.parametrize("name", options("methods"))
def test_every_method_has_a_replica_or_a_reason(name):
    missing = without_replica(benchmark.build(f"methods/{name}", *GIVEN.get(f"methods/{name}", ())))
    if name in REASONS:
        assert missing, f"'{name}' has a replica: take it out of REASONS"
    else:
        assert not missing, f"transcribe {missing} in a test with @replicates, or give a reason in REASONS"


def test_reasons_are_those_of_options():
    assert set(REASONS) <= set(options("methods"))


def file_of(module):
    """`methods.edges.alti` -> `tests.replicas.edges.test_alti`."""
    _, *folders, name = module.split(".")
    return ".".join(["tests", "replicas", *folders, f"test_{name}"])


def test_a_replica_stands_in_the_file_that_is_named_after_the_methods():
    """Rules of propagation aside: one test may transcribe rules of two files."""
    misplaced = {
        replica.test: replica.target.__module__
        for replica in REPLICAS
        if re.match(r"methods\.(?!propagation)", replica.target.__module__)
        and replica.test.rpartition(".")[0] != file_of(replica.target.__module__)
    }
    assert misplaced == {}


def test_settings_without_a_transcription_are_seen():
    assert without_replica(GradientXInput()) == []
    assert without_replica(GradientXInput(attention="constant")) == [GradientXInput(attention="constant")]


def test_parts_without_a_transcription_are_seen(monkeypatch):
    """Those of an attention explainer, and the rules of a rule set, given or named."""
    edges = FactorProduct(("relevance",))
    explainer = AttentionExplainer(edges, Rollout())
    assert without_replica(explainer) == without_replica(Lrp(alpha_beta(3.0, 2.0))) == []
    others = [replica for replica in REPLICAS if replica.target not in (Rollout, type(alpha_beta().linear))]
    monkeypatch.setattr("tests.replicas.registry.REPLICAS", others)
    assert without_replica(explainer) == [Rollout()]
    assert without_replica(Lrp("alpha_beta")) == [alpha_beta().linear]
    assert without_replica(replace(explainer, edges=replace(edges, rules="alpha_beta"))) == [
        alpha_beta().linear,
        Rollout(),
    ]
