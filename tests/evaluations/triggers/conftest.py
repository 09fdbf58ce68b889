"""Two tiny models of one task with different tokenizers, and a roomy one for long texts."""

import pytest
import torch

from benchmark.models import load_model
from tests import text_models
from tests.evaluations.triggers.texts import TEXTS


@pytest.fixture(scope="session")
def bert(tmp_path_factory):
    """Window of 24 tokens; "untoldly" is three of them."""
    model = load_model(text_models.save_bert(tmp_path_factory.mktemp("bert")), dtype="float64", device="cpu")
    with torch.no_grad():  # random weights give all texts one class
        logits = model.run(model.encode(TEXTS)).logits
        model.model.classifier.bias[1] -= (logits[:, 1] - logits[:, 0]).sort().values[2:4].mean()
    return model


@pytest.fixture(scope="session")
def gpt2(tmp_path_factory):
    """Pieces of bytes, spaces included; labels are LABEL_0 and LABEL_1."""
    return load_model(text_models.save_gpt2(tmp_path_factory.mktemp("gpt2")), dtype="float64", device="cpu")
