import pytest

from benchmark.report.cells import load_cells
from benchmark.report.leaderboard import Column
from benchmark.report.verdicts import against_random, calibration, compare, per_example
from tests.report.folders import Plan, write_cells

LOWER = Column("perturbation", "positive_auc", False)
HIGHER = Column("rationale", "auprc", True)
RATIO = Column("rationale", "micro_f1", True)
CONTROLS = [Plan("oracle"), Plan("random"), Plan("inverted")]


def load(tmp_path, *plans):
    return load_cells(write_cells(tmp_path, plans))


@pytest.mark.parametrize("column", [LOWER, HIGHER])
def test_a_test_is_calibrated_where_the_controls_are_in_order(tmp_path, column):
    sentence = calibration(load(tmp_path, *CONTROLS), column)
    assert sentence.startswith("calibrated (oracle above random: 0.")


def test_a_test_is_not_calibrated_where_random_is_as_good_as_the_oracle(tmp_path):
    cells = load(tmp_path, Plan("oracle", 0.0), Plan("random"), Plan("inverted"))
    assert calibration(cells, LOWER).startswith("**not calibrated** (oracle not above random")
    assert "random above inverted: 0." in calibration(cells, LOWER)


def test_missing_controls_are_named(tmp_path):
    assert "not assessed (no figure of inverted)" in calibration(load(tmp_path, *CONTROLS[:2]), LOWER)


@pytest.mark.parametrize("column", [LOWER, HIGHER])
def test_methods_against_random(tmp_path, column):
    plans = [*CONTROLS, Plan("good", 0.5), Plan("same", 0.0), Plan("bad", -0.5), Plan("flow", dash="no attention")]
    verdict = against_random(load(tmp_path, *plans), column)
    assert (verdict.above, verdict.undecided, verdict.below, verdict.unpaired) == (("good",), ("same",), ("bad",), ())
    assert verdict.sentence == "above random: good; not distinguishable from random: same; below random: bad"


def test_holm_makes_the_verdict_stricter_with_more_methods(tmp_path):
    random, slight = Plan("random", 0.0), Plan("slight", 0.055)
    alone = against_random(load(tmp_path / "alone", random, slight), LOWER)
    others = [Plan(f"other{i}", 0.0) for i in range(12)]
    crowd = against_random(load(tmp_path / "crowd", random, slight, *others), LOWER)
    assert alone.above == ("slight",)
    assert "slight" in crowd.undecided


def test_without_a_random_control_there_is_no_verdict(tmp_path):
    assert against_random(load(tmp_path, Plan("oracle"), Plan("rollout")), LOWER) is None


def test_pairing_makes_the_interval_narrower_than_the_figures_own(tmp_path):
    good, random = load(tmp_path, Plan("good", 0.3), Plan("random"))
    found = compare({"good": (good, random)}, LOWER)["good"]
    assert found.paired
    figures = [
        next(f for f in cell.evaluation("perturbation")["figures"] if f["metric"] == "positive_auc")
        for cell in (good, random)
    ]
    assert found.gain.value == pytest.approx(figures[1]["value"] - figures[0]["value"])
    assert found.gain.high - found.gain.low < min(f["high"] - f["low"] for f in figures)


def test_a_figure_that_is_no_mean_of_rows_is_compared_unpaired_and_said_so(tmp_path):
    cells = load(tmp_path, *CONTROLS, Plan("rollout"))
    assert per_example(cells[0], RATIO) is None
    verdict = against_random(cells, RATIO)
    assert verdict.undecided == verdict.unpaired == ("rollout",)
    assert "(unpaired: rollout)" in verdict.sentence
    assert "(unpaired)" in calibration(cells, RATIO)


def test_a_nan_figure_is_never_compared(tmp_path):
    cells = load(tmp_path, Plan("random"), Plan("broken", nan=("positive_auc",)))
    assert against_random(cells, LOWER) is None
