"""Download of the official ERASER archives into the cache."""

import hashlib
import http.client
import json
import shutil
import tarfile
import urllib.error
import urllib.request
import zlib
from difflib import get_close_matches
from pathlib import Path

from tqdm import tqdm

from benchmark.cache import atomic_path, cache_directory
from benchmark.errors import UserError

DATASETS = ("movies", "boolq", "evidence_inference", "fever", "multirc", "cose", "esnli")
SPLIT_FILES = ("train.jsonl", "val.jsonl", "test.jsonl")
_TIMEOUT = 30.0  # seconds without a byte
_BLOCK = 1 << 16


def fetch(dataset: str, base_url: str) -> Path:
    """Directory of an official data set, downloaded from `<base_url>/<dataset>.tar.gz` on first use.

    The archive is unpacked without following links or paths out of its folder, and checked for the split files and
    documents. `download.json` in the directory records address, size and SHA-256 of the archive: the publishers give
    no digest to compare with, so it serves to tell whether two machines hold the same data.

    Raises:
        UserError: unknown data set, no network, or an archive that is damaged or holds no ERASER data set.
    """
    if dataset not in DATASETS:
        near = get_close_matches(dataset, DATASETS, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise UserError(
            f"task.dataset={dataset!r} is no ERASER data set{hint}; allowed are {', '.join(DATASETS)}, "
            "or set task.root to a directory"
        )
    destination = cache_directory() / "eraser" / dataset
    if destination.is_dir():
        return destination
    url = f"{base_url.rstrip('/')}/{dataset}.tar.gz"
    with atomic_path(destination) as temporary:
        archive = temporary.parent / "archive"
        record = {"url": url, "bytes": _download(url, archive), "sha256": _sha256(archive)}
        unpacked = temporary.parent / "unpacked"
        _unpack(url, archive, unpacked)
        folder = _data_folder(url, unpacked)
        (folder / "download.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        shutil.move(folder, temporary)
    return destination


def _download(url: str, file: Path) -> int:
    """Write what the address serves to a file and return its size."""
    way_out = "check the network, or unpack the archive yourself and set task.root to its directory"
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT) as response, file.open("wb") as sink:
            expected = int(response.headers.get("Content-Length") or 0)
            with tqdm(total=expected or None, unit="B", unit_scale=True, desc=url, disable=None) as bar:
                while block := response.read(_BLOCK):
                    sink.write(block)
                    bar.update(len(block))
    except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as error:
        raise UserError(f"task.root is not set and {url} cannot be fetched ({error}); {way_out}") from error
    size = file.stat().st_size
    if size < expected:
        raise UserError(f"{url} broke off after {size} of {expected} bytes; {way_out}")
    return size


def _sha256(file: Path) -> str:
    with file.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def _unpack(url: str, archive: Path, folder: Path) -> None:
    try:
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise UserError(
            f"{url} is no sound archive ({error}); fetch another copy and set task.root to its directory"
        ) from error


def _data_folder(url: str, unpacked: Path) -> Path:
    """The folder in the archive that holds the data set, at most two levels down."""
    for folder in (unpacked, *sorted(unpacked.glob("*/")), *sorted(unpacked.glob("*/*/"))):
        documents = (folder / "docs").is_dir() or (folder / "docs.jsonl").is_file()
        if documents and all((folder / file).is_file() for file in SPLIT_FILES):
            return folder
    raise UserError(
        f"{url} holds no folder with {', '.join(SPLIT_FILES)} and docs/ or docs.jsonl; set task.root instead"
    )
