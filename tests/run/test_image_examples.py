"""A comparison on images: masks reach controls and tests, and what needs words says so."""

import json

import pytest

from benchmark.comparison import run_comparison
from benchmark.report.image_maps import Picture
from benchmark.results import store
from benchmark.run import views
from benchmark.settings.configuration import compose


def compare(tmp_path, monkeypatch, *chosen):
    """The run folders of a comparison on four images."""
    monkeypatch.setenv("ATTENTION_BENCHMARK_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    words = [
        "task=digit_scenes", "task.train=16", "task.validation=4", "task.test=6", "model=tiny_vit", "model.steps=1",
        "model.layers=1", "model.hidden=16", "tracking.mode=disabled", "limit=4", *chosen,
    ]  # fmt: skip
    return run_comparison(compose("config", words)).cells


@pytest.fixture
def compared(tmp_path, monkeypatch):
    return compare(tmp_path, monkeypatch, "methods=[oracle,inverted,frequency]", "evaluations=[rationale]")


def test_masks_reach_controls_and_tests_and_counting_words_is_refused(compared):
    oracle, inverted, frequency = (store.read_record(folder) for folder in compared)
    area = {
        name: next(f.value for f in record.evaluations["rationale"].figures if f.metric == "average_precision")
        for name, record in (("oracle", oracle), ("inverted", inverted))
    }
    assert area["oracle"] == 1
    assert area["inverted"] < 0.4
    assert frequency.dash == "the task has no words to count"
    assert oracle.task.units == 4 * 36


def test_a_run_folder_keeps_pictures_masks_and_the_second_class(compared):
    """Each method keeps the same picture; controls and what does not look at the class have one map."""
    kept = [json.loads((folder / "heatmap.json").read_text()) for folder in compared[:2]]
    pictures = [[example["image"]["picture"] for example in examples] for examples in kept]
    assert pictures[0] == pictures[1]
    assert len(set(pictures[0])) == 4
    for example in kept[0]:
        image = example["image"]
        picture = Picture.of(image, len(example["words"]))
        rows = picture.marked.reshape(6, 8, 6, 8).any(axis=(1, 3)).ravel()
        assert rows.tolist() == example["rationale"]
        assert image["second"] is None, "no test asked for other classes"


def test_images_that_are_kept_are_spread_over_all_and_the_second_class_is_kept_where_it_is_known(tmp_path, monkeypatch):
    monkeypatch.setattr(views, "HEATMAP_IMAGES", 2)
    (folder,) = compare(tmp_path, monkeypatch, "methods=[gradient_x_input]", "evaluations=[class_specificity]")
    first, last = json.loads((folder / "heatmap.json").read_text())
    uids = sorted(set(store.read_rows(folder)["uid"]))
    assert [first["uid"], last["uid"]] == [uids[0], uids[-1]]
    for example in (first, last):
        other = example["image"]["second"]
        assert other["target"] != example["target"] == example["predicted"]
        assert 0 < other["probability"] <= example["probability"]
        assert other["scores"] != example["scores"]
