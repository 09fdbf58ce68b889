"""Models that learn a mechanism: what is known of the written one holds in them, which brute force shows."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import benchmark
from benchmark.analyses.mechanisms import BRUTE, _found_by_brute_force
from benchmark.errors import UserError
from benchmark.models.written.truth import answer
from benchmark.training.softened import Softened
from benchmark.training.written import Written
from tasks.mechanism import MechanismTask
from tasks.planted import Planted

pytestmark = pytest.mark.thorough  # each test trains a model

STEPS = 250


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATTENTION_BENCHMARK_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def opened(source, task, count=6):
    folder = Path(source.resolve(task))
    model = benchmark.load_model(folder, dtype=source.dtype, device="cpu")
    return folder, model, model.encode_examples(task.split("test")[:count], model.label_map(task.labels))


@pytest.mark.parametrize(("family", "name"), [("bert", "decoy"), ("gpt2", "either")])
def test_it_learns_the_answers_and_what_causes_them(family, name):
    """With a sixth of the steps: every set of words has the written model's answer, and brute force finds what counts."""
    task = MechanismTask(mechanism=name)
    folder, model, batch = opened(Softened(family=family, steps=STEPS), task)
    record = json.loads((folder / "training.json").read_text())
    assert record["accuracy"]["test"] == 1
    assert record["variance explained under interventions"] > 0.98
    _, written, same = opened(Written(family=family), task)
    given, wanted = (answer(m.run(b).logits, b).double() for m, b in ((model, batch), (written, same)))
    assert torch.allclose(given, wanted, rtol=0.1, atol=0.5)
    for part, figures in _found_by_brute_force(model, batch).items():
        assert figures[:, 0] == pytest.approx(1), part


def test_one_that_did_not_learn_is_told_from_one_that_did():
    """By what it explains, and by brute force."""
    folder, model, batch = opened(Softened(family="bert", steps=1), MechanismTask(mechanism="decoy"))
    assert json.loads((folder / "training.json").read_text())["variance explained under interventions"] < 0.5
    found = _found_by_brute_force(model, batch)
    assert np.mean(found[f"{BRUTE} words"][:, 0]) < 0.95
    assert np.mean(found[f"{BRUTE} edges"][:, 0]) < 0.95


def test_weights_are_ordinary_and_the_same_for_the_same_seed():
    """No constant of 10⁴ lies in them; another seed gives others, and settings of running are no part of the name."""
    task = MechanismTask(mechanism="copy")
    source = Softened(family="bert", steps=3)
    folder, model, _ = opened(source, task)
    assert max(float(weight.abs().max()) for weight in model.model.state_dict().values()) < 100
    assert replace(source, threads=2).resolve(task) == str(folder)
    other = Path(replace(source, seed=1).resolve(task))
    assert other != folder
    assert (other / "model.safetensors").read_bytes() != (folder / "model.safetensors").read_bytes()


def test_a_task_without_a_program_is_refused():
    with pytest.raises(UserError, match="says nothing of weights"):
        Softened().resolve(Planted())
