"""Scenes of digits: the mask is exactly what decides, by an independent look at the pixels."""

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from benchmark.errors import UserError
from benchmark.randomness import generator
from benchmark.settings.making import build
from benchmark.types import KnowsTruth, Task
from tasks import digit_scenes
from tasks.digit_scenes import DigitScenes
from tasks.scene_drawing import CANVAS, DIGIT, LATTICE, draw_canvas, draw_digits

SIZES = {"train": 60, "validation": 20, "test": 40}


def pixels(example):
    return np.asarray(example.inputs)


def drawn(task, split="test"):
    return list(task.split(split))


@pytest.mark.parametrize("digits", [1, 2])
@pytest.mark.parametrize("label", ["larger", "left"])
def test_the_mask_holds_the_pixels_that_the_labels_digit_changes_and_no_other(digits, label, monkeypatch):
    """Each scene is drawn again with the label's digit in no ink: just the mask differs."""
    task = DigitScenes(digits=digits, label=label, **SIZES)
    kept = []

    def each_left_out(canvas, chosen):
        seen, masks = draw_digits(canvas, chosen)
        others = [draw_digits(canvas, [d * (i != j) for j, d in enumerate(chosen)])[0] for i in range(len(chosen))]
        kept.append(list(zip(masks, others, strict=True)))
        return seen, masks

    monkeypatch.setattr(digit_scenes, "draw_digits", each_left_out)
    for example in task.split("test")[:20]:
        [(mask, other)] = [pair for pair in kept.pop(0) if np.array_equal(pair[0], example.mask)]
        changed = (pixels(example) != other).any(-1)
        assert not (changed & ~mask).any()
        assert changed[mask].mean() > 0.97  # ink that rounds to what lies below it changes nothing


def test_two_digits_are_different_and_the_rule_names_the_label(monkeypatch):
    seen = []

    def spy(canvas, chosen):
        seen.append((canvas.places, [int(classes[np.all(shapes == digit, axis=(1, 2))][0]) for digit in chosen]))
        return draw_digits(canvas, chosen)

    shapes, classes = digit_scenes._written("test")
    monkeypatch.setattr(digit_scenes, "draw_digits", spy)
    for label in ("larger", "left"):
        for example in DigitScenes(digits=2, label=label, **SIZES).split("test"):
            (first, second), values = seen.pop()
            assert values[0] != values[1]
            assert first[1] != second[1]
            assert max(abs(first[0] - second[0]), abs(first[1] - second[1])) >= DIGIT
            decisive = int(values[1] > values[0]) if label == "larger" else int(second[1] < first[1])
            assert example.label == values[decisive]
            row, column = (first, second)[decisive]
            assert example.mask[row : row + DIGIT, column : column + DIGIT].sum() == example.mask.sum() > 0
            assert row % LATTICE == column % LATTICE == 0


def test_both_rules_show_the_same_scenes():
    larger, left = (drawn(DigitScenes(digits=2, label=label, **SIZES)) for label in ("larger", "left"))
    assert all(a.inputs.tobytes() == b.inputs.tobytes() for a, b in zip(larger, left, strict=True))
    assert 0.2 < np.mean([a.label == b.label for a, b in zip(larger, left, strict=True)]) < 0.8


def test_strokes_keep_clear_of_digits_and_do_not_depend_on_them():
    for index in range(30):
        with_strokes = draw_canvas(generator(0, "a test", str(index)), 2, 6)
        for row, column in with_strokes.places:
            inside = with_strokes.pixels[row : row + DIGIT, column : column + DIGIT]
            assert inside.max() < 0.75  # strokes are at least so bright in every channel; texture and grain are not
    bright = [(draw_canvas(generator(0, "a test", str(i)), 1, 6).pixels.min(-1) > 0.7).any() for i in range(30)]
    assert np.mean(bright) > 0.5


def test_splits_share_no_written_digit():
    written = {name: {digit.tobytes() for digit in digit_scenes._written(name)[0]} for name in SIZES}
    assert sum(map(len, written.values())) == len(load_digits().target)
    assert len(set.union(*written.values())) == len(load_digits().target)
    for name in SIZES:
        assert np.bincount(digit_scenes._written(name)[1], minlength=10).min() >= 10


def test_each_scene_has_its_own_stream():
    task, smaller = DigitScenes(**SIZES), DigitScenes(train=5, validation=20, test=10)
    assert [e.inputs.tobytes() for e in drawn(smaller)] == [e.inputs.tobytes() for e in drawn(task)[:10]]
    last = task.split("test")[-1]
    assert last.uid == "test-00039"
    assert last.inputs.tobytes() == drawn(task)[-1].inputs.tobytes()
    assert [e.uid for e in task.split("test")[2:4]] == ["test-00002", "test-00003"]
    with pytest.raises(IndexError):
        task.split("test")[40]
    scenes = {e.inputs.tobytes() for name in SIZES for e in task.split(name)}
    assert len(scenes) == sum(SIZES.values())
    assert drawn(DigitScenes(seed=1, **SIZES))[0].inputs.tobytes() != drawn(task)[0].inputs.tobytes()


def test_the_fingerprint_sees_settings_and_drawing_at_little_cost(monkeypatch):
    task = DigitScenes(**SIZES)
    first = task.fingerprint
    assert DigitScenes(**SIZES).fingerprint == first
    assert len({first, *(DigitScenes(**SIZES | changed).fingerprint for changed in (
        {"seed": 1}, {"digits": 2}, {"strokes": 0}, {"test": 41}))}) == 5  # fmt: skip

    def brighter(canvas, chosen):
        seen, masks = draw_digits(canvas, chosen)
        seen[0, 0, 0] ^= 1
        return seen, masks

    with monkeypatch.context() as patch:
        patch.setattr(digit_scenes, "draw_digits", brighter)
        assert DigitScenes(**SIZES).fingerprint != first
    with monkeypatch.context() as patch:
        patch.setattr(digit_scenes, "pillow", "0")
        assert DigitScenes(**SIZES).fingerprint != first
    shapes, classes = digit_scenes._written("train")
    other = shapes.copy()
    other[-1, 0, 0] += 1 / 16
    written = digit_scenes._written
    monkeypatch.setattr(
        digit_scenes, "_written", lambda split: (other, classes) if split == "train" else written(split)
    )
    assert DigitScenes(**SIZES).fingerprint != first


def test_the_fingerprint_draws_a_few_scenes_of_many(monkeypatch):
    drawn = []
    monkeypatch.setattr(
        digit_scenes, "draw_digits", lambda canvas, chosen: drawn.append(1) or draw_digits(canvas, chosen)
    )
    assert len(DigitScenes().fingerprint) == 64
    assert 0 < len(drawn) <= 30


def test_is_a_task_that_knows_its_truth():
    task: Task = build("task/digit_scenes", "train=20", "test=5")
    assert isinstance(task, KnowsTruth)
    assert task.labels == tuple("0123456789")
    [example, *rest] = task.split("test")
    assert len(rest) == 4
    assert isinstance(example.inputs, Image.Image)
    assert example.inputs.size == (CANVAS, CANVAS) == example.mask.shape
    assert example.inputs.mode == "RGB"


def test_mistakes_name_the_setting():
    with pytest.raises(UserError, match="digits=3: allowed are 1, 2"):
        DigitScenes(digits=3)
    with pytest.raises(UserError, match="label=right: allowed are larger, left"):
        DigitScenes(label="right")
    with pytest.raises(UserError, match="did you mean validation"):
        DigitScenes().split("valid")
