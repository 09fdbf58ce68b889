"""Configurations that ask for models of another size altogether: one line, at once."""

import json
import time

import pytest
import torch
from safetensors.torch import load_file

from benchmark.checking import small_models
from benchmark.errors import UserError
from benchmark.models import load_model
from benchmark.models.weights import check_size
from tests import text_models


def with_settings(folder, **settings):
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | settings))
    return folder


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_hidden_layers", 10**6), ("num_hidden_layers", 10**12), ("hidden_size", 10**6), ("intermediate_size", 10**9),
        ("vocab_size", 10**9), ("type_vocab_size", 10**8), ("num_attention_heads", 10**7),
    ],
)  # fmt: skip
@pytest.mark.parametrize("pickled", [False, True], ids=["safetensors", "bin"])
def test_a_configuration_out_of_all_proportion_is_one_line_in_a_second(tmp_path, name, value, pickled):
    folder = with_settings(text_models.save_bert(tmp_path / "bert"), **{name: value})
    if pickled:
        torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()
        if value < 10**7:
            value = 10**8
            with_settings(folder, **{name: value})
    started = time.monotonic()
    with pytest.raises(UserError) as caught:
        load_model(folder)
    assert time.monotonic() - started < 2
    has = "are a file of" if pickled else "have 41 tensors of 2 layers, none with a side above 24"
    message = str(caught.value)
    assert message.startswith(f"model.path={folder}: config.json has {name}={value}, and the weights {has}")
    assert message.endswith("use the config.json that the weights were saved with")


@pytest.mark.parametrize("family", small_models.FAMILIES)
def test_checkpoints_of_every_family_have_the_size_that_they_say(family, tmp_path):
    check_size(small_models.save(family, tmp_path))


def test_nothing_is_said_of_a_folder_without_weights_or_with_broken_ones(tmp_path):
    check_size(tmp_path)
    (tmp_path / "config.json").write_text('{"num_hidden_layers": 1000000}')
    check_size(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"no tensors")
    check_size(tmp_path)
    (tmp_path / "config.json").write_text("[1")
    check_size(tmp_path)
