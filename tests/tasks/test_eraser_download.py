"""Download of an archive, from a server on this machine."""

import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from benchmark.errors import UserError
from tasks.eraser import Eraser
from tests.tasks.test_eraser import write


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, str]]:
    """A folder and the address that serves it; the cache is empty."""
    monkeypatch.setenv("ATTENTION_BENCHMARK_CACHE", str(tmp_path / "cache"))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "served"
    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def pack(archive: Path, folder: Path, name: str = "movies") -> None:
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, arcname=name)


def leftovers(tmp_path: Path) -> list[str]:
    cache = tmp_path / "cache" / "eraser"
    return [path.name for path in cache.iterdir()] if cache.is_dir() else []


@pytest.mark.parametrize("single", [False, True])
def test_first_use_downloads_and_the_second_does_not(served: tuple[Path, str], tmp_path: Path, single: bool) -> None:
    folder, url = served
    archive = folder / "movies.tar.gz"
    pack(archive, write(tmp_path / "data", single=single))
    task = Eraser(dataset="movies", base_url=url)
    assert [example.uid for example in task.split("test")] == ["a", "b"]
    record = json.loads((task.directory / "download.json").read_text())
    assert record["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    assert record["bytes"] == archive.stat().st_size
    assert leftovers(tmp_path) == ["movies"]
    archive.unlink()
    assert Eraser(dataset="movies", base_url=url).fingerprint == task.fingerprint


def test_archive_that_is_not_there(served: tuple[Path, str], tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"task\.root is not set and .*boolq\.tar\.gz cannot be fetched .*404"):
        Eraser(dataset="boolq", base_url=served[1]).split("test")
    assert leftovers(tmp_path) == []


def test_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTENTION_BENCHMARK_CACHE", str(tmp_path / "cache"))
    with pytest.raises(UserError, match=r"task\.root is not set and .* cannot be fetched"):
        Eraser(base_url="http://127.0.0.1:1").split("test")
    assert leftovers(tmp_path) == []


def test_damaged_archive(served: tuple[Path, str], tmp_path: Path) -> None:
    folder, url = served
    pack(folder / "movies.tar.gz", write(tmp_path / "data"))
    whole = (folder / "movies.tar.gz").read_bytes()
    for damaged in (whole[: len(whole) // 2], b"<html>gone</html>"):
        (folder / "movies.tar.gz").write_bytes(damaged)
        with pytest.raises(UserError, match="is no sound archive"):
            Eraser(base_url=url).split("test")
    assert leftovers(tmp_path) == []


def test_archive_without_the_split_files(served: tuple[Path, str], tmp_path: Path) -> None:
    folder, url = served
    root = write(tmp_path / "data")
    (root / "val.jsonl").unlink()
    pack(folder / "movies.tar.gz", root)
    with pytest.raises(UserError, match="holds no folder with"):
        Eraser(base_url=url).split("test")
    assert leftovers(tmp_path) == []


def test_archive_that_climbs_out_of_its_folder(served: tuple[Path, str], tmp_path: Path) -> None:
    folder, url = served
    with tarfile.open(folder / "movies.tar.gz", "w:gz") as tar:
        entry = tarfile.TarInfo("../../escaped")
        entry.size = 4
        tar.addfile(entry, io.BytesIO(b"evil"))
    with pytest.raises(UserError, match="is no sound archive"):
        Eraser(base_url=url).split("test")
    assert not list(tmp_path.rglob("escaped"))


def test_unknown_data_set() -> None:
    with pytest.raises(UserError, match="did you mean multirc"):
        Eraser(dataset="multi_rc").split("test")
