"""What all methods share of the examples belongs to the model that it comes from."""

import torch

import benchmark
from benchmark.run.data import Data
from tests import text_models


def test_logits_are_those_of_the_model_that_is_handed_in(tmp_path):
    paths = [text_models.save_bert(tmp_path / str(seed) / "bert", seed=seed) for seed in (0, 1)]
    models = [benchmark.load_model(path, device="cpu") for path in paths]
    batch = models[0].encode(["a good film", "bad"])
    data = Data(batches=[batch], calibration=lambda split, count: [], facts={}, labels=("bad", "good"))
    first = data.logits(models[0], 0)
    assert data.logits(models[0], 0) is first
    other = data.logits(models[1], 0)
    assert not torch.equal(first, other)
    assert torch.equal(other, models[1].run(batch).logits)
    assert torch.equal(data.logits(models[0], 0), first)
    assert data.uids == batch.uids
