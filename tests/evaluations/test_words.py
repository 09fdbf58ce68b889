"""Every test and every metric says what it is, in the field's terms."""

import pytest

import benchmark
from benchmark.results.record import KINDS
from benchmark.settings.configuration import options


@pytest.mark.parametrize("name", options("evaluations"))
def test_every_metric_has_a_title_and_a_sentence(name):
    evaluation = benchmark.build(f"evaluations/{name}")
    assert evaluation.about.kind in KINDS
    assert evaluation.about.title
    for key, metric in evaluation.metrics.items():
        assert metric.title, key
        assert metric.meaning, key
        assert len(metric.short) <= (36 if metric.x is None else 60), key
        assert metric.short or not metric.headline or metric.x, key
        assert metric.sentence.count(".") >= 1
        assert metric.scale in ("numeric", "class", "nominal")
    titles = [(metric.title, metric.x is None) for metric in evaluation.metrics.values()]
    assert len(titles) == len(set(titles)), "two metrics of one test share a title"


def test_the_scopes_of_head_pruning_and_the_classes_of_perturbation_are_told_apart():
    for one, other in (("head_pruning", "head_pruning_layerwise"), ("perturbation", "perturbation_target")):
        titles = [
            {metric.title for metric in benchmark.build(f"evaluations/{name}").metrics.values() if metric.headline}
            for name in (one, other)
        ]
        assert titles[0].isdisjoint(titles[1])


def test_a_sentence_names_range_and_direction():
    sentence = benchmark.build("evaluations/perturbation").metrics["positive_auc_mean"].sentence
    assert sentence.startswith("Mean accuracy while growing fractions of the words or patches are removed")
    assert sentence.endswith("from 0 to 1, lower is better.")
