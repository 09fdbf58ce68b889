"""Checkpoints whose weights are quantised: computed with as plain ones, or one line."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig

import benchmark
from benchmark.errors import UserError
from tests.language_models import SMALL


def _in_eight_bits(folder: Path, **settings: object) -> None:
    """Stores the projections of a checkpoint as numbers of 8 bits, a scale each; config.json says so by the settings."""
    weights = load_file(folder / "model.safetensors")
    stored = {}
    for name, weight in weights.items():
        if "_proj" in name:
            scale = weight.abs().max() / torch.finfo(torch.float8_e4m3fn).max
            stored[name] = (weight / scale).to(torch.float8_e4m3fn)
            stored[f"{name}_scale_inv"] = scale.reshape(1, 1)
        else:
            stored[name] = weight
    save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = settings
    (folder / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize("task", ["class", "next_token"])
def test_quantised_weights_are_computed_with_as_plain_ones(tmp_path, caplog, task):
    """Logits are near those of the weights that were quantised, and are exactly those of what was stored; it is said."""
    kind = {"class": "LlamaForSequenceClassification", "next_token": "LlamaForCausalLM"}[task]
    config = LlamaConfig(vocab_size=21, pad_token_id=0, **SMALL)
    torch.manual_seed(0)
    plain = getattr(transformers, kind)(config)
    plain.save_pretrained(tmp_path / "eight")
    _in_eight_bits(tmp_path / "eight", quant_method="fp8", weight_block_size=[128, 128])
    model = benchmark.load_model(tmp_path / "eight", device="cpu", task=task)
    assert "quantised (fp8); they are computed with as float32" in caplog.text
    stored = load_file(tmp_path / "eight" / "model.safetensors")
    for name, weight in model.model.state_dict().items():
        scale = stored.get(f"{name}_scale_inv")
        expected = stored[name] if scale is None else stored[name].float() * scale
        assert torch.equal(weight, expected), name
    ids = {"input_ids": [3, 5, 7]}
    both = [
        each.run(each.encode([ids], candidates=[(1, 2)])).logits
        for each in (model, benchmark.load_model(plain, task=task))
    ]
    assert torch.allclose(*both, atol=0.05)
    assert benchmark.explain(model, [ids], methods=["attnlrp"]).table().notna().all().all()


def test_quantised_weights_that_cannot_be_read_are_one_line(tmp_path):
    """The package that reads them is named where it is missing."""
    transformers.LlamaForCausalLM(LlamaConfig(vocab_size=21, pad_token_id=0, **SMALL)).save_pretrained(
        tmp_path / "eight"
    )
    _in_eight_bits(tmp_path / "eight", quant_method="bitsandbytes", load_in_8bit=True)
    if find_spec("bitsandbytes") is not None:
        pytest.skip("bitsandbytes is installed")
    with pytest.raises(UserError, match=r"cannot be loaded: .*bitsandbytes"):
        benchmark.load_model(tmp_path / "eight", device="cpu", task="next_token")
