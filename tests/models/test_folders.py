"""What else a checkpoint's folder may hold: adapters, names of wrappers, settings that transformers no longer obeys."""

import json
import logging
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSequenceClassification

import benchmark
from benchmark.errors import UserError
from tests.text_models import save_bert, save_gpt2

IDS = {"input_ids": [2, 7, 8, 9, 3]}
LORA = {"peft_type": "LORA", "task_type": "SEQ_CLS", "base_model_name_or_path": "org/base", "r": 2, "lora_alpha": 4,
        "target_modules": ["query"], "modules_to_save": None}  # fmt: skip


def write_adapter(folder):
    (folder / "adapter_config.json").write_text(json.dumps(LORA))
    tensors, generator = {}, torch.Generator().manual_seed(5)
    for layer in range(2):
        name = f"base_model.model.bert.encoder.layer.{layer}.attention.self.query"
        tensors[f"{name}.lora_A.weight"] = torch.randn(2, 16, generator=generator)
        tensors[f"{name}.lora_B.weight"] = torch.randn(16, 2, generator=generator)
    for part in ("weight", "bias"):  # an adapter of a classifier holds the classifier as well
        tensors[f"base_model.model.classifier.{part}"] = (
            load_file(folder / "model.safetensors")[f"classifier.{part}"] * 2
        )
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    return tensors


def direct(folder):
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        return model(input_ids=torch.tensor([IDS["input_ids"]])).logits


def loaded_logits(folder):
    model = benchmark.load_model(folder, device="cpu")
    return model.run(model.encode([IDS])).logits


def test_an_adapter_without_its_base_is_named(tmp_path):
    folder = save_bert(tmp_path / "m")
    write_adapter(folder)
    for name in ("config.json", "model.safetensors"):
        (folder / name).unlink()
    with pytest.raises(UserError, match=r"adapter \(LORA.* and no model; merge it into its base 'org/base'"):
        benchmark.load_model(folder, device="cpu")


def test_an_adapter_beside_weights_is_refused_without_peft(tmp_path, monkeypatch):
    folder = save_bert(tmp_path / "m")
    write_adapter(folder)
    monkeypatch.setattr("benchmark.models.checkpoints.find_spec", lambda _: None)
    with pytest.raises(UserError, match=r"beside the weights.* install peft"):
        benchmark.load_model(folder, device="cpu")


def test_an_adapter_beside_weights_is_merged_with_peft(tmp_path):
    pytest.importorskip("peft")
    plain = save_bert(tmp_path / "plain")
    shutil.copytree(plain, tmp_path / "m")
    tensors = write_adapter(tmp_path / "m")
    model = AutoModelForSequenceClassification.from_pretrained(plain).eval()
    with torch.no_grad():
        for layer in range(2):
            name = f"base_model.model.bert.encoder.layer.{layer}.attention.self.query"
            update = tensors[f"{name}.lora_B.weight"] @ tensors[f"{name}.lora_A.weight"]
            model.bert.encoder.layer[layer].attention.self.query.weight += LORA["lora_alpha"] / LORA["r"] * update
        for parameter in model.classifier.parameters():
            parameter *= 2
        expected = model(input_ids=torch.tensor([IDS["input_ids"]])).logits
    assert (expected - direct(plain)).abs().max() > 1e-3
    torch.testing.assert_close(loaded_logits(tmp_path / "m"), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("prefix", ["module.", "model.", "_orig_mod.", "module._orig_mod."])
@pytest.mark.parametrize("save", [save_bert, save_gpt2])
def test_names_of_wrappers_are_taken_off_and_said(tmp_path, caplog, save, prefix):
    folder = save(tmp_path / "m")
    expected = direct(folder)
    tensors = load_file(folder / "model.safetensors")
    save_file({f"{prefix}{name}": t for name, t in tensors.items()}, folder / "model.safetensors", {"format": "pt"})
    with caplog.at_level(logging.WARNING):
        torch.testing.assert_close(loaded_logits(folder), expected, atol=1e-5, rtol=1e-5)
    assert f"'{prefix}' is taken off" in caplog.text


def change_config(folder, **settings):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))
    return folder


@pytest.mark.parametrize("kind", ["relative_key", "relative_key_query"])
def test_positions_that_transformers_no_longer_computes_are_refused(tmp_path, kind):
    folder = change_config(save_bert(tmp_path / "m"), position_embedding_type=kind)
    with pytest.raises(UserError, match=f"position_embedding_type={kind}.*another model would run"):
        benchmark.load_model(folder, device="cpu")


def test_a_tokenizer_with_more_segments_than_the_model_is_one_line(tmp_path):
    folder = change_config(save_bert(tmp_path / "m"), type_vocab_size=1)
    tensors = load_file(folder / "model.safetensors")
    name = "bert.embeddings.token_type_embeddings.weight"
    save_file(tensors | {name: tensors[name][:1].contiguous()}, folder / "model.safetensors", {"format": "pt"})
    model = benchmark.load_model(folder, device="cpu")
    assert model.run(model.encode(["good film"])).logits.isfinite().all()
    with pytest.raises(UserError, match=r"segment 1 .*type_vocab_size"):
        model.encode([("good film", "dull plot")])


def test_pruned_heads_are_refused_with_the_reason(tmp_path):
    folder = change_config(save_bert(tmp_path / "m"), pruned_heads={"0": [1]})
    tensors = load_file(folder / "model.safetensors")
    for part in ("query", "key", "value"):
        for kind in ("weight", "bias"):
            name = f"bert.encoder.layer.0.attention.self.{part}.{kind}"
            tensors[name] = tensors[name][:8].contiguous()
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(UserError, match="heads were pruned"):
        benchmark.load_model(folder, device="cpu")


def test_settings_that_change_nothing_are_read(tmp_path):
    folder = change_config(save_bert(tmp_path / "m"), pruned_heads={}, position_embedding_type="absolute")
    torch.testing.assert_close(loaded_logits(folder), direct(folder), atol=1e-5, rtol=1e-5)


def test_weights_inside_layers_that_have_no_place_are_refused(tmp_path):
    folder = save_bert(tmp_path / "m")
    tensors = load_file(folder / "model.safetensors")
    extra = {"bert.encoder.layer.1.attention.self.distance_embedding.weight": torch.zeros(3, 8)}
    harmless = {"bert.embeddings.position_ids": torch.arange(24), "cls.predictions.bias": torch.zeros(21)}
    save_file(tensors | harmless, folder / "model.safetensors", {"format": "pt"})
    torch.testing.assert_close(loaded_logits(folder), direct(folder), atol=1e-5, rtol=1e-5)
    save_file(tensors | extra, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(UserError, match=r"distance_embedding.*another model would run"):
        benchmark.load_model(folder, device="cpu")
