"""The folder of a comparison is found again by its hash, whatever it is called."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date

import pytest

from benchmark.results import comparison_folders
from benchmark.results.comparison_folders import COMMAND, ComparisonFolder


@pytest.fixture
def place(tmp_path):
    return ComparisonFolder(tmp_path / "comparisons", "mine", "sst2", "tiny-c99fb17447543bba", "1234abcd")


def on(day, monkeypatch):
    class Day(date):
        @classmethod
        def today(cls):
            return date.fromisoformat(day)

    monkeypatch.setattr(comparison_folders, "date", Day)


def test_a_folder_is_called_after_name_task_model_and_day(place, monkeypatch):
    on("2031-02-03", monkeypatch)
    assert place.find() is None
    assert not place.root.exists(), "looking makes nothing"
    folder = place.make("python -m benchmark limit=4")
    assert folder == place.root / "mine-sst2-tiny-2031-02-03-1234abcd"
    assert [*place.root.iterdir()] == [folder], "the lock is gone"
    assert (folder / COMMAND).read_text() == "python -m benchmark limit=4\n"


def test_an_equal_comparison_finds_it_on_another_day_and_leaves_its_command(place, monkeypatch):
    on("2031-02-03", monkeypatch)
    folder = place.make("first")
    on("2031-02-04", monkeypatch)
    assert place.make("second") == folder
    assert replace(place, model="moved/elsewhere").make() == folder
    assert (folder / COMMAND).read_text() == "first\n"
    others = [replace(place, hash="1234abce"), replace(place, name="other"), replace(place, name="sst2")]
    assert all(other.find() is None for other in others)


def test_a_folder_of_an_earlier_version_is_found(place):
    folder = place.root / "mine-1234abcd"
    folder.mkdir(parents=True)
    assert place.find() == place.make() == folder
    assert not (folder / COMMAND).exists()


@pytest.mark.parametrize("name", ["a/b c", "x" * 300, "ünï*[1]", ""])
def test_any_name_is_found_again(place, name):
    odd = replace(place, name=name, task=name or "t", model=name)
    folder = odd.make()
    assert folder.parent == place.root
    assert odd.find() == odd.make() == folder


def test_processes_that_make_it_at_once_share_it(place, monkeypatch):
    days = iter(f"2031-02-{day:02d}" for day in range(1, 9))

    class Day(date):
        @classmethod
        def today(cls):
            return date.fromisoformat(next(days))

    monkeypatch.setattr(comparison_folders, "date", Day)
    with ThreadPoolExecutor(4) as pool:
        made = {*pool.map(lambda _: place.make("command"), range(4))}
    assert len(made) == 1
    assert [path.name for path in place.root.iterdir()] == [next(iter(made)).name]
