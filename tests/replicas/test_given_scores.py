"""Scores of a file, against a transcription: find the line of an example, and give each token what its word has there."""

import json

import pytest
import torch

from benchmark import load_model
from methods.given_scores import Scores
from tests import text_models
from tests.replicas.registry import replicates


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return load_model(text_models.save_bert(tmp_path_factory.mktemp("bert")), device="cpu")


@replicates(Scores)
def test_scores(model, tmp_path):
    texts = ["the untoldly film", "a good , untold story", "bad"]
    lines = [
        {"uid": "1", "scores": [0.1, -0.2, 0.3, 1e-9, 5]},
        {"text": "the  untoldly film ", "scores": [-1, 1 / 3, 0]},
        {"uid": 2, "text": "bad", "scores": [7]},
    ]
    (tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    batch = model.encode(texts)
    found = Scores(str(tmp_path / "mine.jsonl"))(model, batch, [0, 1, 0]).tokens
    expected = torch.zeros(batch.units.shape, dtype=torch.float64)
    for b, line in enumerate((lines[1], lines[0], lines[2])):
        for t, unit in enumerate(batch.units[b].tolist()):
            if unit >= 0:
                expected[b, t] = line["scores"][unit]
    assert torch.equal(found, expected)
