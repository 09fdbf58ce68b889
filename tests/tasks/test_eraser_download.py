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
from urllib.error import URLError
from urllib.request import Request

import pytest

from benchmark.errors import UserError
from benchmark.settings.making import build
from tasks.eraser import Eraser
from tasks.eraser_download import DATASETS, _SameSafety
from tests.tasks.test_archive import beyond_path_max
from tests.tasks.test_archive import pack as pack_members
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


def test_an_archive_that_overwrites_a_file_elsewhere(served: tuple[Path, str], tmp_path: Path) -> None:
    folder, url = served
    cache = tmp_path / "cache" / "eraser"
    cache.mkdir(parents=True)
    (tmp_path / "victim").write_text("whole")
    # the folder that is unpacked lies four levels below: cache / eraser / .movies.XXXX / unpacked
    members = beyond_path_max("victim")
    members[-2][0].linkname += "/../../../.."
    pack_members(folder / "movies.tar.gz", members)
    with pytest.raises(UserError, match=r"is no sound archive .*neither a file nor a folder"):
        Eraser(base_url=url).split("test")
    assert (tmp_path / "victim").read_text() == "whole"
    assert leftovers(tmp_path) == []


def test_a_pinned_digest_is_compared_also_with_what_is_cached(served: tuple[Path, str], tmp_path: Path) -> None:
    folder, url = served
    archive = folder / "movies.tar.gz"
    pack(archive, write(tmp_path / "data"))
    right, wrong = hashlib.sha256(archive.read_bytes()).hexdigest(), "0" * 64
    with pytest.raises(UserError, match=f"has the SHA-256 {right}, but task.sha256.movies={wrong}"):
        Eraser(base_url=url, sha256={"movies": wrong}).split("test")
    assert leftovers(tmp_path) == []
    assert Eraser(base_url=url, sha256={"movies": right.upper()}).split("test")
    with pytest.raises(UserError, match=f"comes from an archive of SHA-256 {right}, but task.sha256.movies={wrong}"):
        Eraser(base_url=url, sha256={"movies": wrong}).split("test")
    assert Eraser(base_url=url, sha256={"movies": right, "boolq": None}).split("test")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"base_url": "http://example.org/zipped"}, r"task\.base_url=http://example\.org/zipped: allowed are https"),
        ({"base_url": "ftp://example.org", "sha256": {"movies": "0" * 64}}, r"task\.base_url=ftp://example\.org: allowed"),
        ({"base_url": "file:///etc"}, r"task\.base_url=file:///etc: allowed"),
        ({"sha256": {"movies": "abc"}}, r"task\.sha256\.movies=abc is no SHA-256; give 64 hexadecimal digits"),
        ({"sha256": {"movie": None}}, r"task\.sha256\.movie is no ERASER data set"),
    ],
)  # fmt: skip
def test_an_address_that_anybody_on_the_way_could_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict, message: str
) -> None:
    monkeypatch.setenv("ATTENTION_BENCHMARK_CACHE", str(tmp_path / "cache"))
    with pytest.raises(UserError, match=message):
        Eraser(**settings).split("test")
    assert leftovers(tmp_path) == []


def test_the_configuration_asks_for_https_and_has_a_place_for_every_digest() -> None:
    task = build("task/eraser")
    assert task.base_url.startswith("https://")
    assert set(task.sha256) == set(DATASETS)


def test_https_is_not_led_to_http() -> None:
    redirect, request = _SameSafety(), Request("https://example.org/a")
    for url in ("http://example.org/a", "file:///etc/passwd", "ftp://example.org/a"):
        with pytest.raises(URLError, match="not https"):
            redirect.redirect_request(request, None, 302, "", {}, url)
    assert redirect.redirect_request(request, None, 302, "", {}, "https://example.org/b") is not None


def test_a_download_has_an_end(served: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, url = served
    (folder / "movies.tar.gz").write_bytes(bytes(200_000))
    monkeypatch.setattr("tasks.eraser_download.MAX_DOWNLOAD", 100_000)
    with pytest.raises(UserError, match="holds more than 100000 bytes"):
        Eraser(base_url=url).split("test")
    assert leftovers(tmp_path) == []
