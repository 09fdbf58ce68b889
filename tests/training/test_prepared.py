"""Fine-tuning image classifiers: frozen blocks stay as they are and read each image once; the rest learns."""

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from transformers import (
    BeitConfig,
    BeitForImageClassification,
    Dinov2Config,
    Dinov2ForImageClassification,
    ViTConfig,
    ViTForImageClassification,
)
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

from benchmark.errors import UserError
from benchmark.models import load_model
from benchmark.training import frozen, prepared
from benchmark.training.finetune import Recipe, finetune
from tasks.digit_scenes import DigitScenes
from tasks.planted import Planted

TASK = DigitScenes(train=40, validation=10, test=10)
RECIPE = Recipe(epochs=8, batch_size=8, learning_rate=3e-3, checks_per_epoch=1, patience=50)
FAMILIES = {
    "vit": (ViTForImageClassification, ViTConfig),
    "dinov2": (Dinov2ForImageClassification, Dinov2Config),
    "beit": (BeitForImageClassification, BeitConfig),
}


def save_base(folder, family="vit"):
    """A classifier of three classes whose blocks drop units out in training."""
    torch.manual_seed(0)
    kind, config = FAMILIES[family]
    sizes = {
        "hidden_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "mlp_ratio": 1,
    }
    drop = {"hidden_dropout_prob": 0.1, "drop_path_rate": 0.0}
    kind(config(**sizes, **drop, image_size=48, patch_size=8, num_labels=3)).save_pretrained(folder)
    ViTImageProcessorPil(size={"height": 48, "width": 48}).save_pretrained(folder)
    return folder


def loss_of(folder, split="train"):
    model = load_model(folder, device="cpu")
    batch = model.encode_examples(list(TASK.split(split)), model.label_map(TASK.labels))
    return float(torch.nn.functional.cross_entropy(model.run(batch).logits, batch.label))


@pytest.mark.parametrize("family", FAMILIES)
def test_frozen_blocks_stay_bit_for_bit_and_the_rest_learns(family, tmp_path):
    base, out = save_base(tmp_path / "base", family), tmp_path / "out"
    record = finetune(TASK, str(base), out, replace(RECIPE, freeze=2))
    before, after = load_file(base / "model.safetensors"), load_file(out / "model.safetensors")
    assert before.keys() == after.keys()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    frozen = ("embeddings", "layer.0.", "layer.1.", "layers.0.", "layers.1.")
    assert [name for name in moved if any(part in name for part in frozen)] == []
    assert {name for name in before if ".2." in name and "key.bias" not in name and "k_proj.bias" not in name} <= moved
    assert any("classifier" in name for name in moved)
    assert load_model(out, device="cpu").labels == TASK.labels
    assert json.loads((out / "training.json").read_text())["recipe"]["freeze"] == 2
    assert record["steps"] == 40


def test_loss_falls_and_the_saved_model_is_as_right_as_reported(tmp_path):
    base = save_base(tmp_path / "base")
    long = finetune(TASK, str(base), tmp_path / "long", replace(RECIPE, epochs=30, freeze=1))
    finetune(TASK, str(base), tmp_path / "short", replace(RECIPE, epochs=1, freeze=1, learning_rate=1e-9))
    assert loss_of(tmp_path / "long") < loss_of(tmp_path / "short") - 0.2
    model = load_model(tmp_path / "long", device="cpu")
    batch = model.encode_examples(list(TASK.split("validation")), model.label_map(TASK.labels))
    right = float((model.run(batch).logits.argmax(1) == batch.label).double().mean())
    assert long["accuracy"]["validation"] == pytest.approx(right)


def test_going_on_from_kept_states_is_the_whole_model(tmp_path):
    """The logits from the states behind the frozen blocks are those of the pixels, for every number of blocks."""
    base = save_base(tmp_path / "base")
    batch = load_model(base, device="cpu")
    pixels = batch.encode([example.inputs for example in TASK.split("test")[:4]]).tensors["pixel_values"]
    for freeze in (1, 2, 3):
        model = ViTForImageClassification.from_pretrained(base).eval()
        with torch.no_grad():
            expected = model(pixel_values=pixels).logits
            last = frozen.last_frozen(model, "base", freeze)
            states = frozen.output_of(model, last, {"pixel_values": pixels})
            frozen.go_on_from(model, last, {"pixel_values": pixels}, pixels.shape[1:])
            assert torch.equal(model(states).logits, expected)


def test_each_image_is_processed_once_where_blocks_are_frozen(tmp_path, monkeypatch):
    base, made = save_base(tmp_path / "base"), []
    keep = prepared.Images.__getitem__
    monkeypatch.setattr(prepared.Images, "__getitem__", lambda self, index: made.append(1) or keep(self, index))
    finetune(TASK, str(base), tmp_path / "out", replace(RECIPE, epochs=3, freeze=3))
    assert len(made) <= 50 + 2  # and the first one twice, for its size


def test_without_frozen_blocks_every_weight_is_trained(tmp_path):
    base, out = save_base(tmp_path / "base"), tmp_path / "out"
    finetune(TASK, str(base), out, replace(RECIPE, epochs=1))
    before, after = load_file(base / "model.safetensors"), load_file(out / "model.safetensors")
    still = [name for name in before if torch.equal(before[name], after[name]) and "mask_token" not in name]
    assert [name for name in still if not name.endswith(("k_proj.bias", "key.bias"))] == []
    assert "freeze" not in json.loads((out / "training.json").read_text())["recipe"]


def test_what_is_refused(tmp_path):
    base = save_base(tmp_path / "base")
    with pytest.raises(UserError, match=r"recipe.freeze=4: the model '.*' has 3 blocks; allowed are 0 to 3"):
        finetune(TASK, str(base), tmp_path / "out", replace(RECIPE, freeze=4))
    with pytest.raises(UserError, match=r"recipe\.mask_share=0\.5 hides words, and the base reads images"):
        finetune(TASK, str(base), tmp_path / "out", replace(RECIPE, mask_share=0.5))
    with pytest.raises(UserError, match=r"recipe\.read_once=true is for texts"):
        finetune(TASK, str(base), tmp_path / "out", replace(RECIPE, freeze=1, read_once=True))
    with pytest.raises(UserError, match=r"recipe\.group_by_length=true sorts texts .* the base reads images"):
        finetune(TASK, str(base), tmp_path / "out", replace(RECIPE, group_by_length=True))
    with pytest.raises(UserError, match="holds no image to train on"):
        finetune(Planted(train=4, validation=2, test=2), str(base), tmp_path / "out", replace(RECIPE, freeze=1))
    (base / "preprocessor_config.json").unlink()
    with pytest.raises(UserError, match="has no image processor"):
        finetune(TASK, str(base), tmp_path / "out", RECIPE)
