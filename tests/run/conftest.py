"""A checkpoint of images."""

import pytest
import torch
from transformers import ViTConfig, ViTForImageClassification
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

from tests.tasks.image_data import COLOURS


@pytest.fixture
def checkpoint(tmp_path, monkeypatch):
    """A ViT of 4 × 4 patches that knows the four classes."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 8}
    names = dict(enumerate(COLOURS))
    config = ViTConfig(**sizes, image_size=16, patch_size=4, id2label=names, label2id={n: i for i, n in names.items()})
    ViTForImageClassification(config).save_pretrained(tmp_path / "vit")
    ViTImageProcessorPil(size={"height": 16, "width": 16}).save_pretrained(tmp_path / "vit")
    return "vit"
