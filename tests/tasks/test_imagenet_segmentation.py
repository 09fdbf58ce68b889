"""ImageNet-Segmentation, on a file of three images in the form that MATLAB writes."""

import h5py
import numpy as np
import pytest

import benchmark
from benchmark.errors import NoSplit, UserError
from benchmark.settings.making import build
from tasks.imagenet_segmentation import ImagenetSegmentation

KINDS = ("n02084071", "n01443537", "n99999999")
SIZES = ((6, 8), (5, 5), (7, 4))  # height, width


@pytest.fixture
def images():
    """Images [H, W, 3] and masks [H, W], none symmetric."""
    rng = np.random.default_rng(0)
    return [
        (rng.integers(0, 256, (*size, 3)).astype(np.uint8), (rng.random(size) < 0.4).astype(np.uint8)) for size in SIZES
    ]


@pytest.fixture
def path(images, tmp_path):
    """Columns of references, axes from last to first, as MATLAB's version 7.3."""
    place = tmp_path / "gtsegs_ijcv.mat"
    with h5py.File(place, "w") as file:
        columns = {
            name: file.create_dataset(f"value/{name}", (len(images), 1), dtype=h5py.ref_dtype)
            for name in ("img", "gt", "target")
        }
        for number, ((pixels, mask), kind) in enumerate(zip(images, KINDS, strict=True)):
            image = file.create_dataset(f"#refs#/img{number}", data=pixels.transpose(2, 1, 0))
            segmentation = file.create_dataset(f"#refs#/seg{number}", data=mask.T)
            cell = file.create_dataset(f"#refs#/cell{number}", (1, 1), dtype=h5py.ref_dtype)
            cell[0, 0] = segmentation.ref
            text = file.create_dataset(f"#refs#/wnid{number}", data=np.array([[ord(c)] for c in kind], dtype=np.uint16))
            for name, target in (("img", image), ("gt", cell), ("target", text)):
                columns[name][number, 0] = target.ref
    return place


def test_images_and_masks_stand_upright(path, images):
    task = build("task/imagenet_segmentation", f"path={path}")
    for example, (pixels, mask) in zip(task.split("test"), images, strict=True):
        assert np.array_equal(np.asarray(example.inputs), pixels)
        assert np.array_equal(example.mask, mask.astype(bool))
        assert example.label == -1
    assert task.labels == ()
    assert [example.uid for example in task.split("test")] == ["test-00000", "test-00001", "test-00002"]


def test_a_file_of_names_says_which_classes_count(path, tmp_path):
    names = tmp_path / "words.txt"
    names.write_text("n01443537\tgoldfish, Carassius auratus\nn02084071 dog, domestic dog\n", encoding="utf-8")
    task = ImagenetSegmentation(path=str(path), class_names=str(names))
    assert task.labels == ("goldfish, Carassius auratus", "dog, domestic dog")
    assert [example.label for example in task.split("test")] == [1, 0, -1]
    assert task.fingerprint != ImagenetSegmentation(path=str(path)).fingerprint


def test_a_file_without_classes_is_read(path, tmp_path):
    with h5py.File(path, "a") as file:
        del file["value/target"]
    names = tmp_path / "words.txt"
    names.write_text("n01443537\tgoldfish\n", encoding="utf-8")
    task = ImagenetSegmentation(path=str(path), class_names=str(names))
    assert [example.label for example in task.split("test")] == [-1, -1, -1]


def test_what_is_refused(path, tmp_path, monkeypatch):
    task = ImagenetSegmentation(path=str(path))
    with pytest.raises(NoSplit, match="has no train split, only test; use split=test"):
        task.split("train")
    other = tmp_path / "other.mat"
    other.write_bytes(b"MATLAB 5.0")
    with pytest.raises(UserError, match=r"other.mat is not read as gtsegs_ijcv.mat \(.*\); fetch it again"):
        ImagenetSegmentation(path=str(other)).split("test")
    with h5py.File(tmp_path / "bare.mat", "w") as file:
        file.create_dataset("other", data=1)
    with pytest.raises(UserError, match=r"bare.mat is not read as gtsegs_ijcv.mat"):
        ImagenetSegmentation(path=str(tmp_path / "bare.mat")).split("test")
    with h5py.File(path, "a") as file:
        del file["#refs#/seg1"]
        file["#refs#/cell1"][0, 0] = file.create_dataset("#refs#/small", data=np.zeros((2, 3))).ref
    with pytest.raises(UserError, match="test-00001 has a mask of 3 × 2 pixels for 5 × 5"):
        _ = task.split("test")[1]
    monkeypatch.setattr("benchmark.settings.availability.find_spec", lambda package: None)
    with pytest.raises(UserError, match=r"task=imagenet_segmentation needs h5py, .* the extra 'vision'"):
        benchmark.build("task/imagenet_segmentation", f"path={path}")
