"""The small image model: an ordinary checkpoint, the same every time, whose first heads look at the patches around."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoImageProcessor

from benchmark.errors import UserError
from benchmark.models import load_model
from benchmark.training.tiny import TinyModel
from benchmark.training.tiny_vit import TinyVit
from tasks.digit_scenes import DigitScenes
from tasks.planted import Planted

TASK = DigitScenes(train=30, validation=10, test=70)
SMALL = TinyVit(layers=2, hidden=16, intermediate=16, steps=6, batch_size=8)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTENTION_BENCHMARK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATTENTION_BENCHMARK_CACHE", str(tmp_path_factory.mktemp("cache")))
        return Path(SMALL.resolve(TASK))


def test_is_an_ordinary_checkpoint_with_its_processor(folder):
    model = load_model(folder, device="cpu")
    assert (model.labels, model.n_layers, model.n_heads) == (TASK.labels, 2, 4)
    assert model.window == 37
    assert AutoImageProcessor.from_pretrained(folder, backend="pil").size.height == 48
    examples = TASK.split("test")[:3]
    batch = model.encode_examples(examples, model.label_map(TASK.labels))
    assert batch.tensors["pixel_values"].shape == (3, 3, 48, 48)
    for example, marks in zip(examples, batch.rationale, strict=True):
        corners = [(row, column) for row in range(0, 48, 8) for column in range(0, 48, 8)]
        patches = [example.mask[row : row + 8, column : column + 8].any() for row, column in corners]
        assert marks.tolist() == patches
        assert 2 < sum(patches) <= 9


def test_training_sees_what_the_loaded_model_sees(folder):
    """Accuracy is computed on pixels that are scaled here; the checkpoint's own processor scales them alike."""
    record = json.loads((folder / "training.json").read_text())
    model = load_model(folder, device="cpu")
    examples = list(TASK.split("test"))
    predicted = model.run(model.encode_examples(examples, range(10))).logits.argmax(1)
    right = float(np.mean([int(p) == e.label for p, e in zip(predicted, examples, strict=True)]))
    assert record["accuracy"]["test"] == pytest.approx(right)
    assert record["settings"]["steps"] == 6
    assert record["examples"] == 30


def test_is_trained_once_and_the_same_every_time(folder, cache):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    again = Path(SMALL.resolve(TASK))
    assert torch.equal(torch.rand(3), expected)
    assert again.name == folder.name
    one, other = (load_file(place / "model.safetensors") for place in (folder, again))
    assert all(torch.equal(one[name], other[name]) for name in one)
    stamp = (again / "model.safetensors").stat().st_mtime_ns
    assert Path(replace(SMALL, dtype="float64").resolve(TASK)) == again
    assert (again / "model.safetensors").stat().st_mtime_ns == stamp
    shutil.rmtree(again)


def test_steps_lower_the_loss_and_every_weight_moves(cache):
    long, short = (Path(replace(SMALL, steps=steps).resolve(TASK)) for steps in (30, 1))
    one, other = (load_file(place / "model.safetensors") for place in (long, short))
    assert [name for name in one if torch.equal(one[name], other[name])] == []

    def loss(place):
        model = load_model(place, device="cpu")
        batch = model.encode_examples(TASK.split("train"), range(10))
        return torch.nn.functional.cross_entropy(model.run(batch).logits, batch.label)

    assert loss(long) < loss(short) - 0.05


def test_heads_begin_as_windows_on_the_patches_around():
    """In each head of the first layers the key that scores highest is the neighbour, wherever there is one."""
    torch.manual_seed(0)
    vit = TinyVit()._new_model(TASK.labels).vit
    position = vit.embeddings.position_embeddings[0, 1:]
    expected = [[(0, 1), (1, 0), (0, -1), (-1, 0)], [(1, 1), (1, -1), (-1, 1), (-1, -1)]]
    for layer, offsets in enumerate(expected):
        attention = vit.layers[layer].attention
        query, key = (weight.weight.reshape(4, 16, 64) @ position.T for weight in (attention.q_proj, attention.k_proj))
        best = (query.transpose(1, 2) @ key).argmax(-1)
        for head, (down, right) in enumerate(offsets):
            for row in range(1, 5):
                for column in range(1, 5):
                    assert best[head, 6 * row + column] == 6 * (row + down) + column + right


def test_black_patches_are_whole_and_as_many_as_asked_for():
    torch.manual_seed(0)
    images = replace(SMALL, mask_share=0.5)._blackened(torch.ones(200, 3, 48, 48))
    patches = images.reshape(200, 3, 6, 8, 6, 8).transpose(3, 4).flatten(4)
    assert torch.equal(patches.amin(-1), patches.amax(-1))
    black = (patches[:, 0, ..., 0] == -1).float().mean((1, 2))
    assert 0.4 < (black == 0).float().mean() < 0.65
    assert 0.3 < black.max() <= 0.75
    assert bool((TinyVit(mask_share=0)._blackened(images) == images).all())


def test_mistakes_are_named(cache):
    with pytest.raises(UserError, match="hidden=20: allowed are multiples of 4 × heads=4"):
        TinyVit(hidden=20)
    with pytest.raises(UserError, match="image_size=50: allowed are multiples of patch_size=8"):
        TinyVit(image_size=50)
    with pytest.raises(UserError, match="'train-00000' holds no image to train on; use model=tiny for texts"):
        SMALL.resolve(Planted(train=4, validation=2, test=2))
    with pytest.raises(UserError, match="'train-00000' holds no text to train on"):
        TinyModel().resolve(TASK)
    assert not list(cache.glob("tiny*"))


@pytest.mark.slow
@pytest.mark.thorough
def test_learns_the_scenes():
    """The default model on the default scenes: that of the user's cache, where a command left it there."""
    task = DigitScenes()
    place = Path(TinyVit().resolve(task))
    assert json.loads((place / "training.json").read_text())["accuracy"]["test"] >= 0.95
