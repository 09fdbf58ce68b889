"""Download of the official ERASER archives into the cache."""

import hashlib
import http.client
import json
import re
import shutil
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from benchmark import progress
from benchmark.errors import UserError, near
from benchmark.results.cache import atomic_path, cache_directory
from tasks.archive import DamagedArchive, unpack

DATASETS = ("movies", "boolq", "evidence_inference", "fever", "multirc", "cose", "esnli")
SPLIT_FILES = ("train.jsonl", "val.jsonl", "test.jsonl")

MAX_DOWNLOAD = 1 << 30
"""Bytes of an archive: many times what annotated texts take, and what a disk can bear to lose."""

_TIMEOUT = 30.0  # seconds without a byte
_BLOCK = 1 << 16
_WAY_OUT = "check the network, or unpack the archive yourself and set task.root to its directory"
_LOCAL = ("localhost", "127.0.0.1", "::1")


def fetch(dataset: str, base_url: str, sha256: Mapping[str, str | None] | None = None) -> Path:
    """Directory of an official data set, downloaded from `<base_url>/<dataset>.tar.gz` on first use.

    Only regular files and folders are taken from the archive (`tasks.archive.unpack`), and it is checked for the split
    files and documents. `download.json` in the directory records address, size and SHA-256 of the archive.

    The publishers give no digest to compare with. Where `sha256` names one, the archive has to have it. Where it names none,
    the address has to be https: nothing else tells the data set from what somebody on the way puts in its place.

    Args:
        dataset: one of `DATASETS`.
        base_url: the folder of the archives, https (or http with a digest, or on this machine).
        sha256: hexadecimal digests of the archives by data set, None where one is not known.

    Raises:
        UserError: unknown data set, an address that is not safe, no network, an archive that is damaged, too large, of
            another digest or without an ERASER data set, or a cached data set of another digest.
    """
    if dataset not in DATASETS:
        raise UserError(
            f"task.dataset={dataset!r} is no ERASER data set (task.root takes the directory of another); "
            f"{near(dataset, DATASETS)}"
        )
    pinned = _pinned(dataset, sha256 or {})
    destination = cache_directory() / "eraser" / dataset
    if destination.is_dir():
        _check_cached(dataset, destination, pinned)
        return destination
    _check_address(dataset, base_url, pinned)
    url = f"{base_url.rstrip('/')}/{dataset}.tar.gz"
    with atomic_path(destination) as temporary:
        archive = temporary.parent / "archive"
        size = _download(url, archive, pinned)
        record = {"url": url, "bytes": size, "sha256": _digest(archive)}
        if pinned is not None and record["sha256"] != pinned:
            raise UserError(f"{url} has the SHA-256 {record['sha256']}, but task.sha256.{dataset}={pinned}; {_WAY_OUT}")
        unpacked = temporary.parent / "unpacked"
        try:
            unpack(archive, unpacked)
        except DamagedArchive as error:
            raise UserError(
                f"{url} is no sound archive ({error}); fetch another copy and set task.root to its directory"
            ) from error
        folder = _data_folder(url, unpacked)
        (folder / "download.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        shutil.move(folder, temporary)
    return destination


def _pinned(dataset: str, sha256: Mapping[str, str | None]) -> str | None:
    """The digest of this data set's archive in lower case, or None; UserError for what is no digest."""
    for name, digest in sha256.items():
        if name not in DATASETS:
            raise UserError(f"task.sha256.{name} is no ERASER data set; allowed are {', '.join(DATASETS)}")
        if digest is not None and not re.fullmatch(r"[0-9a-fA-F]{64}", str(digest)):
            raise UserError(f"task.sha256.{name}={digest} is no SHA-256; give 64 hexadecimal digits, or null")
    digest_of_dataset = sha256.get(dataset)
    return None if digest_of_dataset is None else digest_of_dataset.lower()


def _check_cached(dataset: str, folder: Path, pinned: str | None) -> None:
    """UserError where the cache holds another archive's content than the digest says."""
    if pinned is None:
        return
    try:
        cached = json.loads((folder / "download.json").read_text(encoding="utf-8"))["sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        cached = "unknown"
    if cached != pinned:
        raise UserError(
            f"the cached data set {folder} comes from an archive of SHA-256 {cached}, but "
            f"task.sha256.{dataset}={pinned}; move that folder away to download it again"
        )


def _check_address(dataset: str, base_url: str, pinned: str | None) -> None:
    """UserError for an address whose content anybody on the way could replace."""
    address = urlsplit(base_url)
    if address.scheme == "https" or (address.scheme == "http" and (pinned is not None or address.hostname in _LOCAL)):
        return
    raise UserError(
        f"task.base_url={base_url}: allowed are https://..., and http://... with the archive's digest "
        f"(task.sha256.{dataset}=64 hexadecimal digits); or unpack the archive yourself and set task.root"
    )


class _SameSafety(urllib.request.HTTPRedirectHandler):
    """Follows no redirection from https to something less."""

    def redirect_request(self, req: Any, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str) -> Any:
        schemes = urlsplit(req.full_url).scheme, urlsplit(newurl).scheme
        if schemes[1] not in ("http", "https") or schemes == ("https", "http"):
            raise urllib.error.URLError(f"it leads to {newurl}, which is not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _download(url: str, file: Path, pinned: str | None) -> int:
    """Write what the address serves to a file and return its size."""
    https = url.startswith("https:") and pinned is None
    hint = " (where the server has no https: task.base_url=http://... with task.sha256)" if https else ""
    try:
        with urllib.request.build_opener(_SameSafety).open(url, timeout=_TIMEOUT) as response, file.open("wb") as sink:
            expected = int(response.headers.get("Content-Length") or 0)
            with progress.step(f"downloading {url}", expected or None, unit="bytes") as advance:
                while block := response.read(_BLOCK):
                    if sink.tell() + len(block) > MAX_DOWNLOAD:
                        raise UserError(f"{url} holds more than {MAX_DOWNLOAD} bytes; {_WAY_OUT}")
                    sink.write(block)
                    advance(len(block))
    except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as error:
        raise UserError(f"task.root is not set and {url} cannot be fetched ({error}); {_WAY_OUT}{hint}") from error
    size = file.stat().st_size
    if size < expected:
        raise UserError(f"{url} broke off after {size} of {expected} bytes; {_WAY_OUT}")
    return size


def _digest(file: Path) -> str:
    with file.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def _data_folder(url: str, unpacked: Path) -> Path:
    """The folder in the archive that holds the data set, at most two levels down."""
    for folder in (unpacked, *sorted(unpacked.glob("*/")), *sorted(unpacked.glob("*/*/"))):
        documents = (folder / "docs").is_dir() or (folder / "docs.jsonl").is_file()
        if documents and all((folder / file).is_file() for file in SPLIT_FILES):
            return folder
    raise UserError(
        f"{url} holds no folder with {', '.join(SPLIT_FILES)} and docs/ or docs.jsonl; set task.root instead"
    )
