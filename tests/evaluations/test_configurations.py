import dataclasses

import pytest

from benchmark.evaluations.head_pruning import Calibration
from benchmark.settings.configuration import compose
from benchmark.settings.making import build
from tests.conftest import REPOSITORY

NAMES = sorted(path.stem for path in (REPOSITORY / "conf" / "evaluations").glob("*.yaml"))
OURS = (
    "aopc",
    "attribution_graph",
    "class_specificity",
    "context_attribution",
    "decision_flips",
    "head_pruning",
    "head_pruning_layerwise",
    "kept_edges",
    "known_edges",
    "known_heads",
    "known_words",
    "localisation",
    "normalised_aopc",
    "perturbation",
    "pixel_perturbation",
    "pixel_perturbation_target",
    "perturbation_target",
    "pi_soft_aopc",
    "racu",
    "rationale",
    "receptive_field",
    "segmentation",
    "soft_aopc",
    "subset_faithfulness",
    "triggers",
    "triggers_one_pair",
    "triggers_script",
)


@pytest.mark.parametrize("name", OURS)
def test_every_option_builds_and_repeats_the_defaults_of_its_class(name):
    assert name in NAMES
    built = build(f"evaluations/{name}")
    fresh = type(built)()
    other = {
        "perturbation_target": {"target": "label"},
        "pixel_perturbation_target": {"target": "label"},
        "head_pruning_layerwise": {"scope": "layer"},
        "soft_aopc": {"retention": "published"},
        "triggers_one_pair": {"pairs": 1, "positions": (), "taus": [], "pair_counts": []},
        "triggers_script": {"construction": "script"},
    }.get(name, {})
    assert dataclasses.asdict(built) == dataclasses.asdict(dataclasses.replace(fresh, **other))
    assert isinstance(built.version, int)
    assert any(metric.headline for metric in built.metrics.values())


def test_a_list_of_them_merges():
    config = compose(None, ["+evaluations=[perturbation,aopc]", "evaluations.perturbation.operator=delete"])
    assert set(config.evaluations) == {"perturbation", "aopc"}
    assert config.evaluations.perturbation.operator == "delete"


def test_calibration_can_be_overridden():
    assert build("evaluations/head_pruning", "calibration=same").calibration == "same"
    assert build("evaluations/head_pruning", "calibration.limit=5").calibration == Calibration("validation", 5)
