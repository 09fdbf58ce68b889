"""Unpack a `.tar.gz` of unknown origin: regular files and folders under their own folder, and not without end.

`tarfile.extractall(filter="data")` is not enough. It came with Python 3.11.4. Before 3.11.13, 3.12.11 and 3.13.4 it is blind
to links behind paths that are longer than the system allows, and overwrites files elsewhere (CVE-2025-4517). It knows no
limit of size. Here no link is ever made, every file is written by a plain `open`, and everything is counted.
"""

import gzip
import os
import tarfile
import zlib
from pathlib import Path
from typing import IO

MAX_MEMBERS = 200_000
"""Files and folders; a corpus with a file for each document has some thousands."""

MAX_FILE = 1 << 31
"""Bytes of one file: no corpus of texts comes near."""

MAX_TOTAL = 1 << 32
"""Bytes of everything unpacked, headers included: what a compression bomb can take of a disk."""

MAX_NAME = 512
"""Characters of a member's path: far below PATH_MAX, so that the system sees what is checked here."""

_MAX_PART = 255  # bytes of a file's own name, on every usual file system
_HEADERS = 1 << 16  # bytes between the content of two files: headers with long names are some kilobytes
_PADDING = 1 << 20  # bytes of zeros at the end: tar fills its last block
_BLOCK = 1 << 14

# what damaged or crafted headers and streams raise; any other OSError is one of the disk that is written to
_BROKEN = (
    tarfile.TarError, zlib.error, gzip.BadGzipFile, EOFError, ValueError, OverflowError, RecursionError,
    FileExistsError, IsADirectoryError, NotADirectoryError,
)  # fmt: skip


class DamagedArchive(Exception):  # noqa: N818 - said of the archive, not of the code
    """The archive is broken, too large, or holds something else than files and folders below its root."""


def unpack(archive: Path, folder: Path) -> None:
    """Write the files and folders of a gzip-compressed tar archive below `folder`, which is made.

    Modes, owners and dates of the archive are not taken over.

    Raises:
        DamagedArchive: see there; what was written until then is left to the caller, who works in a folder of his own.
    """
    folder.mkdir(parents=True)
    try:
        with gzip.open(archive) as plain:
            source = _Counted(plain)
            with tarfile.open(fileobj=source, mode="r|") as tar:
                for number, member in enumerate(tar, start=1):
                    if number > MAX_MEMBERS:
                        raise DamagedArchive(f"it has more than {MAX_MEMBERS} members")
                    source.allow(member.size)
                    _write(tar, member, folder)
                    source.allow(0)
            source.allow(_PADDING)
            while source.read(_BLOCK):  # to the end, where the checksum of the whole is
                pass
    except _BROKEN as error:
        raise DamagedArchive(str(error) or type(error).__name__) from error


class _Counted:
    """A stream that raises an error where more is read than a file's content and a few headers, or too much in all."""

    def __init__(self, plain: IO[bytes]) -> None:
        self._plain = plain
        self._left, self._total = _HEADERS, MAX_TOTAL

    def allow(self, size: int) -> None:
        """So many bytes of content may follow, and headers."""
        self._left = max(size, 0) + _HEADERS

    def read(self, size: int) -> bytes:
        """The next bytes."""
        content = self._plain.read(size)
        self._left -= len(content)
        self._total -= len(content)
        if self._left < 0:
            raise DamagedArchive(f"it has headers of more than {_HEADERS} bytes")
        if self._total < 0:
            raise DamagedArchive(f"it holds more than {MAX_TOTAL} bytes")
        return content


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    """Write one member; DamagedArchive for anything but a regular file or a folder with a name below the root."""
    path = folder.joinpath(*_parts(member.name))
    if member.isdir():
        path.mkdir(parents=True, exist_ok=True)
        return
    if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.issparse():
        raise DamagedArchive(f"'{member.name}' is neither a file nor a folder")
    if not 0 <= member.size <= MAX_FILE:
        raise DamagedArchive(f"'{member.name}' holds {member.size} bytes, more than {MAX_FILE}")
    content = tar.extractfile(member)
    assert content is not None  # of a regular file
    path.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    with path.open("xb") as sink:  # never over a file that is there
        while block := content.read(_BLOCK):
            written += sink.write(block)
    if written != member.size:
        raise DamagedArchive(f"'{member.name}' ends after {written} of {member.size} bytes")


def _parts(name: str) -> list[str]:
    """The folders and the file of a path below the root; DamagedArchive for any other path."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    long = len(name) > MAX_NAME or any(len(os.fsencode(part)) > _MAX_PART for part in parts)
    if long or name.startswith("/") or ".." in parts:
        raise DamagedArchive(f"'{name[:80]}' is no path below its root")
    return parts
