"""Mosaics: four classes, one of which is the label, and a mask that is its quadrant."""

import numpy as np
import pytest
import torch
from transformers import ViTConfig, ViTForImageClassification
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

import benchmark
from benchmark.commands.running import settled_as_typed
from benchmark.errors import UserError
from benchmark.settings.making import build, make
from benchmark.types import Task
from tasks.digit_scenes import DigitScenes
from tasks.grid import Grid
from tasks.image_folder import ImageFolder
from tasks.planted import Planted
from tests.tasks.image_data import COLOURS, corners, write_folder


@pytest.fixture
def plain(tmp_path):
    """Images that are one colour each, which tells their class."""
    return Grid(ImageFolder(path=str(write_folder(tmp_path, each=3))), examples=40, side=8)


def test_each_quadrant_shows_another_class_and_the_mask_is_the_labels(plain):
    names = {colour: name for name, colour in COLOURS.items()}
    chosen = []
    for example in plain.split("test"):
        pixels = np.asarray(example.inputs)
        assert pixels.shape == (16, 16, 3)
        shown = [pixels[top : top + 8, left : left + 8] for top in (0, 8) for left in (0, 8)]
        kinds = [names[tuple(cell[0, 0].tolist())] for cell in shown]
        assert all((cell == cell[0, 0]).all() for cell in shown)
        assert sorted(kinds) == sorted(COLOURS)
        left, top, right, lower = corners(example.mask)
        assert (right - left, lower - top) == (8, 8)
        chosen.append(2 * (top // 8) + left // 8)
        assert plain.labels[example.label] == kinds[chosen[-1]]
        assert [plain.labels[place] for place in example.meta["classes"]] == kinds
    assert set(chosen) == {0, 1, 2, 3}


def test_each_mosaic_has_a_stream_of_its_own(plain):
    fewer = Grid(plain.task, examples=5, side=8)
    assert [e.inputs.tobytes() for e in fewer.split("test")] == [e.inputs.tobytes() for e in plain.split("test")[:5]]
    assert plain.split("test")[7].inputs.tobytes() == [*plain.split("test")][7].inputs.tobytes()
    others = [Grid(plain.task, examples=40, side=8, seed=1), Grid(plain.task, examples=39, side=8)]
    exclusive = ImageFolder(path=plain.task.path, box_ends="exclusive")
    others += [Grid(plain.task, examples=40, side=4), Grid(exclusive, examples=40, side=8)]
    assert len({plain.fingerprint, *(other.fingerprint for other in others)}) == 5


def test_quadrants_are_whole_patches():
    """Of a model of 4 × 4 patches, whose processor brings the mosaic to its size: the marks are two rows of two."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    vit = ViTForImageClassification(ViTConfig(**sizes, image_size=56, patch_size=14, num_labels=10)).eval()
    processor = ViTImageProcessorPil(size={"height": 56, "width": 56})
    model = benchmark.load_model(vit, processor=processor, device="cpu")
    examples = list(Grid(DigitScenes(test=40), examples=8).split("test"))
    batch = model.encode_examples(examples, range(10))
    for example, marks in zip(examples, batch.rationale, strict=True):
        assert example.mask.shape == (224, 224)
        left, top, *_ = corners(example.mask)
        assert corners(marks.reshape(4, 4)) == (left // 56, top // 56, left // 56 + 2, top // 56 + 2)


def test_is_nested_in_the_configuration(tmp_path):
    write_folder(tmp_path, size=(16, 8))
    words = ["task=grid", "task@task.task=image_folder", f"task.task.path={tmp_path}", "limit=2", "task.side=8"]
    _, config = settled_as_typed("config", words, None, sweep=False)
    task: Task = make(config.task, Task)
    assert task.learned_from is task.task, "which of four classes is the label is drawn: nothing to learn"
    assert (task.name, task.labels) == ("grid", ("alp", "banana", "bus", "koala"))
    assert len(task.split("test")) == 400
    assert build("task/grid", "task.test=30", "examples=3").split("test")[2].uid == "test-00002"


def test_what_is_refused(tmp_path):
    few = ImageFolder(path=str(write_folder(tmp_path, kinds=("koala", "alp", "bus"))))
    with pytest.raises(
        UserError, match=r"the test split of image_folder has images of 3 classes, and a mosaic needs 4"
    ):
        Grid(few).split("test")
    with pytest.raises(UserError, match=r"has images of 2 classes"):
        Grid(Planted(test=8)).split("test")
    with pytest.raises(UserError, match="did you mean test"):
        Grid(few).split("tset")
