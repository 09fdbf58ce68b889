"""The small language model: it learns answers, is kept, and is a causal language model like any other."""

import json
from pathlib import Path

import pytest
import torch

import benchmark
from benchmark.errors import UserError
from benchmark.settings.making import build
from benchmark.training.tiny_lm import _hidden
from tasks.generated_prompts import GeneratedPrompts
from tasks.planted import Planted

SMALL = ("hidden=32", "intermediate=64", "layers=2")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTENTION_BENCHMARK_CACHE", str(tmp_path))


def learned(steps, kind="ioi", mask_share=0):
    task = GeneratedPrompts((kind,), train=2000, validation=40, test=60)
    return task, build("model/tiny_lm", *SMALL, f"steps={steps}", f"mask_share={mask_share}").resolve(task)


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


@pytest.mark.thorough
@pytest.mark.usefixtures("cache")
def test_hidden_words_are_nothing_new_to_it():
    """Every test that hides words tells what decides from random words, and these from words that do not decide."""
    task, folder = learned(240, "agreement", 1)
    assert folder != learned(240, "agreement", 0)[1]
    model = benchmark.load_model(folder, device="cpu", task="next_token")
    batch = model.encode_examples(task.split("test"), [0, 1])
    target = torch.zeros(60, dtype=torch.long)
    found = {}
    for control in ("oracle", "random", "inverted"):
        attribution = build(f"methods/{control}")(model, batch, target)
        rows = build("evaluations/aopc", "operator=attention").rows(model, batch, attribution)
        found[control] = rows.groupby("metric")["value"].mean()
    for metric, sign in (("comprehensiveness", 1), ("sufficiency", -1)):
        values = [sign * found[control][metric] for control in ("oracle", "random", "inverted")]
        assert values[0] > values[1] + 0.05 > values[1] > values[2] + 0.05, (metric, values)


def test_neither_end_of_a_prompt_is_hidden():
    torch.manual_seed(0)
    prompts = [[2, *range(5, 5 + length)] for length in (3, 9, 20)] * 200
    hidden = _hidden(prompts, 1.0)
    assert not hidden[:, 0].any()
    assert not any(bool(row[len(prompt) - 1]) for row, prompt in zip(hidden, prompts, strict=True))
    some = hidden[2::3, 1:20].double().mean(1)
    assert 0.4 < float((some == 0).double().mean()) < 0.65, "half of the prompts stay whole"
    assert float(some.max()) > 0.9


@pytest.mark.usefixtures("cache")
def test_what_has_no_candidates_is_refused():
    with pytest.raises(UserError, match="learns from prompts with candidates for the next token"):
        build("model/tiny_lm", *SMALL, "steps=1").resolve(Planted(train=4, validation=2, test=2))
