"""Files are put in place whole, with the mode of any new file, after they have reached the disk."""

import os

import numpy as np
import pytest
from safetensors.numpy import save_file

from benchmark.results.cache import atomic_path
from benchmark.results.store import Ragged


@pytest.fixture(params=[0o022, 0o077, 0o002])
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path):
    return path.stat().st_mode & 0o777


def test_modes_follow_the_umask(tmp_path, umask):
    """safetensors makes its files 0600, and `mkdtemp` its folders 0700."""
    Ragged(("a",), {"x": np.zeros(1)}, {}).write(tmp_path / "a.safetensors")
    with atomic_path(tmp_path / "model") as temporary:
        (temporary / "deep").mkdir(parents=True, mode=0o700)
        save_file({"x": np.zeros(1)}, temporary / "deep" / "model.safetensors")
    with atomic_path(tmp_path / "page.html") as temporary:
        temporary.write_text("")
    for file in ("a.safetensors", "model/deep/model.safetensors", "page.html"):
        assert mode(tmp_path / file) == 0o666 & ~umask, file
    for folder in ("model", "model/deep"):
        assert mode(tmp_path / folder) == 0o777 & ~umask, folder
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.safetensors", "model", "page.html"]


@pytest.fixture
def done(monkeypatch):
    """What reaches the disk and what gets a name, in order."""
    told = []
    sync, replace = os.fsync, os.replace

    def fsync(file):
        told.append(("fsync", os.path.basename(os.readlink(f"/proc/self/fd/{file}"))))
        sync(file)

    def rename(source, destination):
        told.append(("rename", os.path.basename(destination)))
        replace(source, destination)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", rename)
    return told


def test_what_is_written_reaches_the_disk_before_it_gets_its_name(tmp_path, done):
    with atomic_path(tmp_path / "a") as temporary:
        temporary.write_text("a")
    assert done == [("fsync", "a"), ("rename", "a"), ("fsync", tmp_path.name)]


def test_a_folder_reaches_the_disk_with_all_that_is_in_it_before_it_gets_its_name(tmp_path, done):
    with atomic_path(tmp_path / "model") as temporary:
        (temporary / "deep").mkdir(parents=True)
        (temporary / "deep" / "b").write_text("b")
    synced = [("fsync", name) for name in ("model", "b", "deep")]
    assert done == [*synced, ("rename", "model"), ("fsync", tmp_path.name)]
