from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from benchmark.report.cells import load_cells
from benchmark.report.gains import Gain, _gains_of_samples, gains_of
from benchmark.report.leaderboard import MetricColumn
from benchmark.report.samples import Sample
from benchmark.report.verdicts import against_random, calibration
from benchmark.results.rows import StoredRows
from benchmark.results.statistics import Interval
from benchmark.results.statistics.two_sources import Source
from tests.report.folders import Plan, replaced_rows, write_cells

LOWER = MetricColumn("perturbation", "positive_auc", False)
HIGHER = MetricColumn("rationale", "auprc", True)
RATIO = MetricColumn("rationale", "iou_f1", True)
UNKNOWN = MetricColumn("rationale", "micro_f1", True)
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


@pytest.mark.parametrize(
    ("low", "p", "verdict"), [(0.01, 0.2, "not above"), (-0.01, 0.01, "not above"), (0.01, 0.01, "above")]
)
def test_calibration_needs_the_interval_and_the_test(tmp_path, monkeypatch, low, p, verdict):
    found = Gain(Interval(0.1, low, 0.2, 60), p)
    monkeypatch.setattr("benchmark.report.verdicts.gains_of", lambda pairs, column: dict.fromkeys(pairs, found))
    sentence = calibration(load(tmp_path, *CONTROLS), LOWER)
    assert f"(oracle {verdict} random: " in sentence
    assert sentence.startswith("calibrated" if verdict == "above" else "**not calibrated**")


def test_missing_controls_are_named(tmp_path):
    assert "not assessed (no figure of inverted)" in calibration(load(tmp_path, *CONTROLS[:2]), LOWER)


@pytest.mark.parametrize("column", [LOWER, HIGHER])
def test_methods_against_random(tmp_path, column):
    plans = [*CONTROLS, Plan("good", 0.5), Plan("same", 0.0), Plan("bad", -0.5), Plan("flow", dash="no attention")]
    verdict = against_random(load(tmp_path, *plans), column)
    assert (verdict.above, verdict.undecided, verdict.below, verdict.missing) == (("good",), ("same",), ("bad",), ())
    assert verdict.sentence == "better than random: good; not distinguishable from random: same; worse than random: bad"


def test_holm_makes_the_verdict_stricter_with_more_methods(tmp_path):
    random, slight = Plan("random", 0.0), Plan("slight", 0.055)
    alone = against_random(load(tmp_path / "alone", random, slight), LOWER)
    others = [Plan(f"other{i}", 0.0) for i in range(12)]
    crowd = against_random(load(tmp_path / "crowd", random, slight, *others), LOWER)
    assert alone.above == ("slight",)
    assert "slight" in crowd.undecided


def drawn(folder, offsets):
    """Give the rows of a control several draws, whose mean they are."""
    rows = pd.read_parquet(folder / "rows.parquet")
    draws = [rows.assign(draw=k, value=rows["value"] + offset) for k, offset in enumerate(offsets)]
    replaced_rows(folder, pd.concat(draws))


def test_random_orders_that_differ_among_themselves_leave_a_small_difference_undecided(tmp_path):
    folders = write_cells(tmp_path, [Plan("random", 0.0), Plan("slight", 0.3), Plan("good", 1.9)])
    given = against_random(load_cells(folders), LOWER)
    assert given.above == ("good", "slight")
    drawn(folders[0], (-0.15, -0.075, 0.0, 0.075, 0.15))
    cells = load_cells(folders)
    verdict = against_random(cells, LOWER)
    assert (verdict.above, verdict.undecided) == (("good",), ("slight",))
    assert verdict.sentence.endswith("(random: mean of 5 draws)")
    random, slight = cells[2], cells[1]
    alike = gains_of({"slight": (slight, random)}, LOWER)["slight"]
    assert alike.gain.value == pytest.approx(0.06, abs=0.01)  # of the mean of the orders
    assert alike.gain.low < 0


def test_orders_that_agree_change_no_verdict(tmp_path):
    folders = write_cells(tmp_path, [Plan("random", 0.0), Plan("slight", 0.3)])
    drawn(folders[0], (-1e-4, 0.0, 0.0, 0.0, 1e-4))
    assert against_random(load_cells(folders), LOWER).above == ("slight",)


def test_several_random_methods_are_one_control_and_their_mean_is_meant(tmp_path):
    plans = [Plan("random", 0.0), Plan("random_1", 0.8), Plan("centre", 0.47), Plan("good", 1.0), Plan("bad", 0.1)]
    cells = load(tmp_path, *plans)
    verdict = against_random(cells, LOWER)
    assert (verdict.above, verdict.undecided, verdict.below) == (("good",), ("centre",), ("bad",))
    assert "(random: mean of 2 draws)" in verdict.sentence
    controls = load(
        tmp_path / "controls", Plan("oracle"), Plan("random", -0.8), Plan("random_1", 0.8), Plan("inverted")
    )
    assert calibration(controls, LOWER).startswith("calibrated")  # the first one alone is no better than inverted


def test_the_order_of_a_methods_heads_has_an_error_where_its_calibration_examples_were_resampled(tmp_path):
    folders = write_cells(tmp_path, [Plan("random", 0.0), Plan("slight", 0.3)])
    rows = pd.read_parquet(folders[1] / "rows.parquet")
    again = [
        rows.assign(metric="resampled " + rows["metric"], draw=k, value=rows["value"] + offset)
        for k, offset in enumerate((-0.1, -0.05, 0.0, 0.05, 0.1), start=1)
    ]
    replaced_rows(folders[1], pd.concat([rows, *again]))
    assert against_random(load_cells(folders), LOWER).undecided == ("slight",)


def test_without_a_random_control_there_is_no_verdict(tmp_path):
    assert against_random(load(tmp_path, Plan("oracle"), Plan("rollout")), LOWER) is None


def test_pairing_makes_the_interval_narrower_than_the_figures_own(tmp_path):
    good, random = load(tmp_path, Plan("good", 0.3), Plan("random"))
    found = gains_of({"good": (good, random)}, LOWER)["good"]
    assert found.left_out == 0
    figures = [cell.evaluation("perturbation").scalar("positive_auc") for cell in (good, random)]
    assert found.gain.value == pytest.approx(figures[1].value - figures[0].value)
    assert found.gain.high - found.gain.low < min(f.high - f.low for f in figures)


def test_a_ratio_is_compared_by_swaps_of_the_two_methods(tmp_path):
    cells = load(tmp_path, *CONTROLS, Plan("rollout"), Plan("lrp"))
    found = gains_of({"lrp": (cells[0], cells[3])}, RATIO)["lrp"]
    figures = [cell.evaluation("rationale").scalar("iou_f1").value for cell in (cells[0], cells[3])]
    assert found.gain.value == pytest.approx(figures[0] - figures[1])
    assert found.gain.low < found.gain.value < found.gain.high
    assert calibration(cells, RATIO).startswith("calibrated (oracle above random: 0.")
    verdict = against_random(cells, RATIO)
    assert (verdict.undecided, verdict.below, verdict.missing) == (("rollout",), ("lrp",), ())


@pytest.mark.parametrize("lost", [range(5), range(60)])
def test_what_cannot_be_paired_is_never_compared_unpaired(tmp_path, lost):
    cells = load(tmp_path, *CONTROLS, Plan("rollout"), Plan("good", 0.5))
    place = next(number for number, cell in enumerate(cells) if cell.kind == "good")
    stored = cells[place].stored
    # a folder that lacks rows is refused when it is read; a table that is made of cells otherwise says so as well
    rows = stored.rows.frame()
    kept = rows[~rows["uid"].isin([f"test-{number}" for number in lost])]
    cells[place] = replace(cells[place], stored=replace(stored, rows=StoredRows.of(kept)))
    verdict = against_random(cells, LOWER)
    assert (verdict.undecided, verdict.missing) == (("rollout",), ("good",))
    assert "not compared, as rows are missing or do not give the figure: good" in verdict.sentence


def test_examples_that_only_one_has_are_left_out_and_said(tmp_path):
    cells = load(tmp_path, *CONTROLS, Plan("good", 0.5, without=(1, 5, 7)))
    found = gains_of({"good": (cells[0], cells[1])}, LOWER)["good"]
    assert (found.gain.n, found.left_out) == (57, 3)
    assert found.words.endswith("(without 3 examples that only one has)")


def test_a_statistic_that_is_not_known_is_not_guessed(tmp_path):
    cells = load(tmp_path, *CONTROLS, Plan("rollout"))
    assert against_random(cells, UNKNOWN).sentence == (
        "not compared, as rows are missing or do not give the figure: rollout"
    )
    assert "not assessed (not compared, as rows are missing" in calibration(cells, UNKNOWN)


def test_too_few_examples_give_no_verdict_but_say_how_many_would(tmp_path):
    plans = [Plan(p.method, p.skill, n=5) for p in (*CONTROLS, Plan("good", 1.5), Plan("better", 1.8))]
    cells = load(tmp_path, *plans)
    assert against_random(cells, LOWER).sentence == "no verdict: n = 5, and 2 methods need at least 7 examples"
    assert calibration(cells, LOWER) == (
        "calibration not assessed (no verdict: n = 5, and the controls need at least 6 examples)"
    )


def test_several_random_cells_are_one_control(tmp_path):
    """With a lucky and an unlucky random order neither decides."""
    lucky, unlucky = Plan("random", 0.4), Plan("random_1", -0.4)
    first = against_random(load(tmp_path / "one", lucky, Plan("rollout", 0.2)), LOWER)
    both = against_random(load(tmp_path / "two", lucky, unlucky, Plan("rollout", 0.2)), LOWER)
    assert (first.below, both.above) == (("rollout",), ("rollout",))


def test_a_nan_figure_is_never_compared(tmp_path):
    cells = load(tmp_path, Plan("random"), Plan("broken", nan=("positive_auc",)))
    assert against_random(cells, LOWER) is None


def test_what_draws_add_does_not_lead_beyond_what_is_possible():
    """Differences of shares near 1: with the error of few random orders an interval would end beyond 1."""
    values = np.array([[0.99, 0.02], [1.0, 0.0], [0.97, 0.01], [0.98, 0.03]])
    first, second = (
        Sample(pd.DataFrame(values[:, [side]], index=list("abcd")), beside=[Source(0.04, 2)]) for side in (0, 1)
    )
    found = _gains_of_samples({"good": (first, second)}, 1, (-1.0, 1.0))["good"]
    assert found.gain.high == 1.0
    assert found.gain.low < 0.5
