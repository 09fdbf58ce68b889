"""The fingerprint moves with each setting that decides what a model reads."""

import copy
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    ViTConfig,
    ViTForImageClassification,
    ViTImageProcessorPil,
)

import benchmark
from tests.text_models import save_bert

TOKENIZER = {
    "model_max_length": 12, "truncation_side": "left", "mask_token": "film", "pad_token": "film", "sep_token": "film",
    "cls_token": "film", "unk_token": "film", "model_input_names": ["input_ids", "attention_mask"],
    "chat_template": "{{ messages }}",
}  # fmt: skip
PROCESSOR = {
    "image_mean": [0.1, 0.2, 0.3], "image_std": [0.2, 0.2, 0.2], "resample": 0, "rescale_factor": 0.5,
    "do_normalize": False, "do_rescale": False, "size": {"height": 16, "width": 16}, "do_resize": False,
    "do_center_crop": True,
}  # fmt: skip


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_bert(tmp_path_factory.mktemp("bert"))


@pytest.mark.parametrize("name", TOKENIZER)
def test_each_setting_of_a_tokenizer(bert: Path, name: str) -> None:
    model, tokenizer = AutoModelForSequenceClassification.from_pretrained(bert), AutoTokenizer.from_pretrained(bert)
    changed = copy.deepcopy(tokenizer)
    setattr(changed, name, TOKENIZER[name])
    one, other = (benchmark.load_model(model, tokenizer=t, device="cpu").fingerprint for t in (tokenizer, changed))
    assert one != other


def test_folder_and_objects_are_one_model_whatever_was_called_before(bert: Path) -> None:
    model, tokenizer = AutoModelForSequenceClassification.from_pretrained(bert), AutoTokenizer.from_pretrained(bert)
    tokenizer("a film", truncation=True, max_length=5, padding="max_length")
    assert (
        benchmark.load_model(model, tokenizer=tokenizer, device="cpu").fingerprint
        == benchmark.load_model(bert, device="cpu").fingerprint
    )


@pytest.mark.parametrize("name", PROCESSOR)
def test_each_setting_of_a_processor(name: str) -> None:
    config = ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=32, patch_size=8
    )
    model = ViTForImageClassification(config)
    plain = {"size": {"height": 32, "width": 32}, "crop_size": {"height": 32, "width": 32}}
    settings = (plain, {**plain, name: PROCESSOR[name]})
    image = Image.fromarray(np.zeros((32, 32, 3), np.uint8))
    loaded = [benchmark.load_model(model, processor=ViTImageProcessorPil(**s), device="cpu") for s in settings]
    same = [m.encoder.processor(images=[image], return_tensors="pt")["pixel_values"].shape for m in loaded]
    assert loaded[0].fingerprint != loaded[1].fingerprint, same
