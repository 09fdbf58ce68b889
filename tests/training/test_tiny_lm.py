"""The small language model: it learns answers, is kept, and is a causal language model like any other."""

import json
from pathlib import Path

import pytest
import torch

import benchmark
from benchmark.errors import UserError
from benchmark.settings.making import build
from tasks.generated_prompts import GeneratedPrompts
from tasks.planted import Planted

SMALL = ("hidden=32", "intermediate=64", "layers=2")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTENTION_BENCHMARK_CACHE", str(tmp_path))


def learned(steps):
    task = GeneratedPrompts(("ioi",), train=2000, validation=40, test=60)
    return task, build("model/tiny_lm", *SMALL, f"steps={steps}").resolve(task)


@pytest.mark.usefixtures("cache")
def test_it_learns_from_answers_and_is_kept():
    task, folder = learned(120)
    record = json.loads((Path(folder) / "training.json").read_text())
    assert record["accuracy"]["test"] > 0.8, "two names stand in each prompt, of twenty"
    assert learned(120)[1] == folder
    assert learned(121)[1] != folder
    model = benchmark.load_model(folder, device="cpu", task="next_token")
    batch = model.encode_examples(task.split("test"), [0, 1])
    trace = model.run(batch)
    right = (trace.logits.argmax(-1) == 0).double().mean()
    assert float(right) == pytest.approx(record["accuracy"]["test"]), "read as in training"
    assert torch.equal(batch.units[:, 0], torch.full((60,), -1)), "a token for the beginning stands first"
    found = benchmark.explain(model, task.split("test")[0].inputs, answer="Mary", foil="John", methods=["attnlrp"])
    assert found.table()["attnlrp"].notna().all()


@pytest.mark.usefixtures("cache")
def test_what_has_no_candidates_is_refused():
    with pytest.raises(UserError, match="learns from prompts with candidates for the next token"):
        build("model/tiny_lm", *SMALL, "steps=1").resolve(Planted(train=4, validation=2, test=2))
