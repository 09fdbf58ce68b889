"""What all methods share of the examples belongs to the model that it comes from."""

from dataclasses import replace

import torch

import benchmark
from benchmark.run.data import Data
from tests import text_models


def test_logits_are_those_of_the_model_and_computed_once(tmp_path):
    paths = [text_models.save_bert(tmp_path / str(seed) / "bert", seed=seed) for seed in (0, 1)]
    models = [benchmark.load_model(path, device="cpu") for path in paths]
    batch = models[0].encode(["a good film", "bad"])
    data = Data(models[0], batches=[batch], calibration=lambda split, count: [], facts={}, labels=("bad", "good"))
    first = data.logits(0)
    assert data.logits(0) is first
    other = replace(data, model=models[1]).logits(0)
    assert not torch.equal(first, other)
    assert torch.equal(other, models[1].run(batch).logits)
    assert torch.equal(data.logits(0), first)
    assert data.uids == batch.uids
