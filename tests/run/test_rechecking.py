"""A drawn share of a comparison is explained and tested again: nothing stored is used, and what differs is named."""

from dataclasses import replace

import pytest

from benchmark.opened import open_comparison
from benchmark.run.rechecking import ROUNDING, drawn, recheck, recheck_kept, stored
from methods.controls import Random
from tests import tiny_task

pytestmark = pytest.mark.usefixtures("no_pictures")


@pytest.fixture(scope="module")
def finished(place, tmp_path_factory):
    """Cells of a finished comparison, and its tests; head pruning is calibrated on other examples."""
    out = tmp_path_factory.mktemp("recheck")
    words = (
        "methods=[raw_attention,random]",
        "evaluations=[rationale,aopc,head_pruning]",
        "analyses=[]",
        "batch_size=2",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("benchmark.report.write.curve_files", lambda *_: iter(()))
        tiny_task.compared(place, out, *words)
    opened = open_comparison(tiny_task.settings(place, out, *words))
    return opened.cells(), opened.evaluations


@pytest.mark.thorough
def test_every_row_of_every_batch_is_what_it_was(finished):
    cells, evaluations = finished
    pairs = drawn(cells, 1.0)
    found = list(recheck(cells, evaluations, pairs))
    assert [(one.method, one.batch) for one in found] == pairs
    assert all(one.rows > 0 for one in found)
    assert [one.differences for one in found] == [()] * len(pairs)
    assert max(one.largest for one in found) <= ROUNDING
    assert sum(one.rows for one in found if one.method == "random") == sum(
        len(part) for name in evaluations for part in rows_of(cells["random"], name)
    ), "no row is left out"


def rows_of(cell, name):
    from benchmark.results.store import read_cell

    return read_cell(cell.folder)[1].chunks(name)


def test_a_method_that_says_something_else_now_is_found(finished):
    cells, evaluations = finished
    changed = {"random": replace(cells["random"], compared=replace(cells["random"].method, seed=1))}
    assert isinstance(changed["random"].method, Random)
    (found,) = recheck(changed, evaluations, [("random", 0)])
    assert found.differences
    assert found.largest > ROUNDING
    assert any(line.startswith("rationale.") and " stored, " in line for line in found.differences)


def test_a_share_is_drawn_by_its_seed(finished):
    cells, _ = finished
    every = drawn(cells, 1.0)
    assert len(drawn(cells, 0.5)) == round(0.5 * len(every))
    assert len(drawn(cells, 0.0)) == 1
    assert drawn(cells, 0.5) == drawn(cells, 0.5)
    assert len({tuple(drawn(cells, 0.5, seed)) for seed in range(8)}) > 1
    assert {*drawn(cells, 0.5)} <= {*every}


def test_rows_that_were_kept_are_held_against_what_is_computed_now(finished):
    """Without run folders: the rows of some batches, with all their digits."""
    cells, evaluations = finished
    kept = stored(cells["random"], 1).assign(method="random", batch=1)
    elsewhere = {"random": replace(cells["random"], folder=cells["random"].folder.with_name("nowhere"))}
    (found,) = recheck_kept(elsewhere, evaluations, kept)
    assert (found.method, found.batch, found.rows, found.differences) == ("random", 1, len(kept), ())
    kept.loc[kept.index[3], "value"] += 1e-3
    (found,) = recheck_kept(elsewhere, evaluations, kept)
    assert len(found.differences) == 1
    assert kept.loc[kept.index[3], "uid"] in found.differences[0]
    kept.loc[kept.index[4], "metric"] = "of_another_version"
    (found,) = recheck_kept(elsewhere, evaluations, kept)
    assert len(found.differences) == 2, "a row that nothing computes any more differs"
