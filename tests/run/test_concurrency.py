"""Several jobs with one `out`. `python -m tests.load` does the same under full load."""

import random
import shutil
from dataclasses import replace

import pytest
import torch

from benchmark.results import store
from benchmark.run.resumable import Resumable, batches_in
from tests.load.jobs import (
    Place,
    calls,
    counted,
    differences,
    errors,
    fresh,
    killed_at_random,
    wait_for,
)

FILES = ("leaderboard.csv", "leaderboard.md", "curves.csv", "comparison.json")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """YAMLs and a checkpoint; no pictures, in this process and in those that are forked from it."""
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("benchmark.report.write.curve_files", lambda *_: iter(()))
        place = Place(tmp_path_factory.mktemp("place")).prepare()
        with counted(place, 0.02):
            yield place


@pytest.fixture(scope="module")
def whole(place):
    """What one undisturbed job leaves, and the batches that it explained."""
    out = fresh(place.folder / "whole" / "out")
    calls(place)
    place.run(out)
    return out, calls(place)


@pytest.mark.thorough
def test_equal_jobs_compute_each_cell_once(place, whole):
    out = fresh(place.folder / "equal" / "out")
    statuses = wait_for([place.start(out) for _ in range(4)])
    assert statuses == [0] * 4, errors(out)
    assert calls(place) == whole[1], "no batch is explained twice"
    assert differences(out, whole[0], FILES) == []


@pytest.mark.slow
@pytest.mark.thorough
def test_jobs_that_are_killed_at_random_leave_what_an_undisturbed_one_leaves(place, whole):
    generator, hits = random.Random(1), 0
    for trial in range(2):
        out = fresh(place.folder / f"killed-{trial}" / "out")
        hits += killed_at_random(place, out, generator, 1.0, restarts=2)
        assert differences(out, whole[0], FILES) == []
    assert hits > 0, "no job was alive when it was to be killed"


@pytest.mark.thorough
@pytest.mark.parametrize("order", [("rationale", "perturbation"), ("perturbation", "rationale")])
def test_other_tests_at_once_do_not_lose_each_other_s_figures(place, whole, order):
    out = fresh(place.folder / "overlapping" / "out")
    statuses = wait_for([place.start(out, f"evaluations=[{name}]") for name in order])
    assert statuses == [0, 0], errors(out)
    for cell in store.find_cells(out):
        assert set(store.read_record(cell).evaluations) == set(order)
        assert set(store.read_rows(cell)["evaluation"]) == set(order)
    place.run(out)
    assert differences(out, whole[0], ()) == []


def stage(folder):
    return Resumable[list](
        folder=folder,
        suffix=".json",
        write=lambda value, path: store.write_json(path, value),
        read=store.read_json,
        merge=lambda parts: [item for part in parts for item in part],
        seconds=1e9,
    )


@pytest.mark.parametrize(
    ("parts", "computed"),
    [
        ([(0, 2), (1, 3), (2, 4)], [4, 5]),  # overlapping: as two jobs without a lock left them
        ([(0, 3), (0, 2), (2, 5), (3, 4)], [4, 5]),
        ([(0, 2), (3, 5)], [2, 5]),  # a gap
        ([(2, 4)], [0, 1, 4, 5]),  # as a plan leaves one
        ([(0, 9)], [0, 1, 2, 3, 4, 5]),
        ([(0, 9), (0, 1)], [1, 2, 3, 4, 5]),
    ],
)
def test_every_batch_is_read_or_computed_once(tmp_path, parts, computed):
    for begin, stop in parts:
        store.write_json(tmp_path / f"{begin:06d}-{stop:06d}.json", list(range(begin, stop)))
    done = []

    def compute(index):
        done.append(index)
        return [index]

    assert stage(tmp_path).run([1] * 6, compute, "test") == list(range(6))
    assert done == computed


def test_a_part_that_appears_meanwhile_changes_nothing(tmp_path, monkeypatch):
    """Listed twice, a part that another job wrote in between was neither read nor computed."""
    listed = stage(tmp_path)._stored

    def late(self, n_batches):
        found = listed(n_batches)
        store.write_json(tmp_path / "000000-000003.json", [0, 1, 2])
        return found

    monkeypatch.setattr(Resumable, "_stored", late)
    assert stage(tmp_path).run([1] * 6, lambda index: [index], "test") == list(range(6))


def test_batches_of_an_excerpt_are_parts_of_the_whole(tmp_path):
    """They stay when the excerpt is done, and are read where the whole is computed; an excerpt computes all of its own."""
    done = []

    def of_whole(number):
        done.append(number)
        return [number]

    def run_excerpt():
        excerpt = replace(stage(tmp_path), excerpt=(2, 4))
        found = excerpt.run([1, 1], lambda index: of_whole((2, 4)[index]), "test")
        excerpt.clear()
        return found

    assert run_excerpt() == run_excerpt() == [2, 4]
    assert done == [2, 4, 2, 4]
    assert batches_in(tmp_path) == {2, 4}
    assert stage(tmp_path).run([1] * 6, of_whole, "test") == list(range(6))
    assert done == [2, 4, 2, 4, 0, 1, 3, 5]


def test_the_probe_of_a_folder_is_nobody_else_s(tmp_path, monkeypatch):
    assert store.refusal(tmp_path / "out") is None
    (tmp_path / "out" / ".writable").mkdir()  # the one name that all jobs probed with
    assert store.refusal(tmp_path / "out") is None
    assert [path.name for path in (tmp_path / "out").iterdir()] == [".writable"]


def test_folders_that_vanish_are_passed_over(tmp_path, monkeypatch):
    for name in ("a", "b"):
        (tmp_path / name / "parts").mkdir(parents=True)
        (tmp_path / name / "record.json").write_text("{}")
    import os

    scan = os.scandir

    def vanishing(path):
        if str(path).endswith("/parts"):
            shutil.rmtree(path, ignore_errors=True)
        return scan(path)

    monkeypatch.setattr(os, "scandir", vanishing)
    assert store.find_cells(tmp_path) == [tmp_path / "a", tmp_path / "b"]
