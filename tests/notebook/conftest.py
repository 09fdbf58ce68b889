"""A tiny BERT, loaded once."""

import pytest

import benchmark
from tests import text_models


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory):
    return text_models.save_bert(tmp_path_factory.mktemp("checkpoint") / "bert")


@pytest.fixture(scope="session")
def model(checkpoint):
    return benchmark.load_model(checkpoint, device="cpu")
