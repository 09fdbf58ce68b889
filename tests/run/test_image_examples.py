"""A comparison on images: masks reach controls and tests, and what needs words says so."""

import pytest

from benchmark.comparison import run_comparison
from benchmark.results import store
from benchmark.settings.configuration import compose


@pytest.fixture
def compared(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTENTION_BENCHMARK_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    words = [
        "task=digit_scenes", "task.train=16", "task.validation=4", "task.test=6", "model=tiny_vit", "model.steps=1",
        "model.layers=1", "model.hidden=16", "methods=[oracle,inverted,frequency]", "evaluations=[rationale]",
        "tracking.mode=disabled", "limit=4",
    ]  # fmt: skip
    return run_comparison(compose("config", words)).cells


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
