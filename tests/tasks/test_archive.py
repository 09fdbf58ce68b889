"""Archives of unknown origin: only files and folders below their root are taken, and not without end."""

import gzip
import io
import tarfile
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tasks import archive
from tasks.archive import DamagedArchive, unpack


def member(
    name: str, kind: bytes = tarfile.REGTYPE, content: bytes = b"", link: str = ""
) -> tuple[tarfile.TarInfo, bytes]:
    entry = tarfile.TarInfo(name)
    entry.type, entry.size, entry.linkname = kind, len(content), link
    return entry, content


def pack(path: Path, members: Sequence[tuple[tarfile.TarInfo, bytes]]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for entry, content in members:
            tar.addfile(entry, io.BytesIO(content))
    return path


def beyond_path_max(name: str) -> list[tuple[tarfile.TarInfo, bytes]]:
    """A file `name` beside the root, behind links whose resolved path is too long to be looked up (CVE-2025-4517)."""
    folder, letters, place = "d" * 247, "abcdefghijklmnop", ""
    members = []
    for letter in letters:
        members += [member(place + folder, tarfile.DIRTYPE), member(place + letter, tarfile.SYMTYPE, link=folder)]
        place += folder + "/"
    up = "/".join(letters) + "/" + "l" * 254
    members += [member(up, tarfile.SYMTYPE, link="../" * len(letters)), member("out", tarfile.SYMTYPE, link=up + "/..")]
    return [*members, member(f"out/{name}", content=b"evil")]


def test_files_and_folders_are_taken_with_their_content(tmp_path: Path) -> None:
    members = [member("./", tarfile.DIRTYPE), member("a/docs", tarfile.DIRTYPE), member("./a/b.txt", content=b"text")]
    members.append(member("long/" + "n" * 200 + "/é.txt", content=b"x" * 100_000))
    members[2][0].mode = 0o4777
    unpack(pack(tmp_path / "a.tar.gz", members), tmp_path / "to")
    assert (tmp_path / "to" / "a" / "docs").is_dir()
    assert (tmp_path / "to" / "a" / "b.txt").read_bytes() == b"text"
    assert (tmp_path / "to" / "a" / "b.txt").stat().st_mode & 0o6111 == 0, "modes are not taken over"
    assert (tmp_path / "to" / "long" / ("n" * 200) / "é.txt").stat().st_size == 100_000


HOSTILE = {
    "up": [member("../escaped", content=b"evil")],
    "up inside": [member("a/../../escaped", content=b"evil")],
    "absolute": [member("/tmp/escaped", content=b"evil")],
    "link": [member("a", tarfile.SYMTYPE, link=".."), member("a/escaped", content=b"evil")],
    "link alone": [member("a", tarfile.SYMTYPE, link="b")],
    "hard link": [member("a", tarfile.LNKTYPE, link="../victim")],
    "device": [member("a", tarfile.CHRTYPE)],
    "fifo": [member("a", tarfile.FIFOTYPE)],
    "path max": beyond_path_max("escaped"),
    "over itself": [member("a", content=b"1"), member("a", content=b"2")],
    "file as folder": [member("a", content=b"1"), member("a/b", content=b"2")],
    "no name": [member("", content=b"1")],
    "long name": [member("n" * 256, content=b"1")],
    "deep": [member("d/" * 300 + "f", content=b"1")],
    "nul": [member("a\0b/../../escaped", content=b"1"), member("..", content=b"1")],
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_is_no_file_below_the_root_is_refused(tmp_path: Path, case: str) -> None:
    (tmp_path / "victim").write_text("whole")
    packed = pack(tmp_path / "a.tar.gz", HOSTILE[case])
    with pytest.raises(DamagedArchive):
        unpack(packed, tmp_path / "to")
    assert not list(tmp_path.rglob("escaped"))
    assert not Path("/tmp/escaped").exists()
    assert (tmp_path / "victim").read_text() == "whole"
    assert not [path for path in tmp_path.rglob("*") if path.is_symlink()]


def test_a_file_behind_paths_that_are_too_long_to_look_up_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("whole")
    with pytest.raises(DamagedArchive, match="neither a file nor a folder"):
        unpack(pack(tmp_path / "a.tar.gz", beyond_path_max("victim")), tmp_path / "to")
    assert (tmp_path / "victim").read_text() == "whole"


def test_sizes_and_counts_are_capped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = pack(tmp_path / "bomb.tar.gz", [member(f"f{i}", content=bytes(60_000)) for i in range(10)])
    assert bomb.stat().st_size < 5_000
    for name, limit, message in (
        ("MAX_TOTAL", 300_000, "more than 300000 bytes"),
        ("MAX_FILE", 50_000, "holds 60000 bytes, more than 50000"),
        ("MAX_MEMBERS", 9, "more than 9 members"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(archive, name, limit)
            with pytest.raises(DamagedArchive, match=message):
                unpack(bomb, tmp_path / name)
        assert sum(path.stat().st_size for path in (tmp_path / name).rglob("*") if path.is_file()) <= 9 * 60_000
    unpack(bomb, tmp_path / "all")
    assert len(list((tmp_path / "all").iterdir())) == 10


def header(name: str, kind: bytes, size: int) -> bytes:
    """A header whose size may be a lie."""
    raw = bytearray(tarfile.TarInfo(name).tobuf(tarfile.GNU_FORMAT))
    raw[156:157] = kind
    raw[124:136] = size.to_bytes(12, "big", signed=True) if size < 0 else b"%011o\0" % size
    if size < 0:
        raw[124] = 0xFF
    raw[148:156] = b" " * 8
    raw[148:156] = b"%06o\0 " % sum(raw)
    return bytes(raw)


@pytest.mark.parametrize(
    "content",
    [
        header("pax", tarfile.XHDTYPE, 1 << 30) + bytes(1 << 24),
        header("long", tarfile.GNUTYPE_LONGNAME, 1 << 30) + bytes(1 << 24),
        header("folder", tarfile.DIRTYPE, 1 << 30) + bytes(1 << 24),
        header("file", tarfile.REGTYPE, 1 << 13) + bytes(512),
        header("negative", tarfile.REGTYPE, -512) + bytes(2048),
        header("negative", tarfile.XHDTYPE, -512) + bytes(2048),
        (header("pax", tarfile.XHDTYPE, 512) + b"11 path=abc\n".ljust(512, b"\0")) * 60,
        header("file", tarfile.REGTYPE, 0) + bytes(1 << 24),
    ],
    ids=["pax", "long name", "folder", "short", "negative", "negative pax", "pax on pax", "zeros at the end"],
)  # fmt: skip
def test_a_crafted_header_costs_neither_memory_nor_time(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(content))
    tracemalloc.start()
    with pytest.raises(DamagedArchive):
        unpack(tmp_path / "a.tar.gz", tmp_path / "to")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 22


def test_any_damage_is_an_answer_and_nothing_leaves_the_folder(tmp_path: Path) -> None:
    whole = pack(
        tmp_path / "a.tar.gz", [member("d", tarfile.DIRTYPE), *(member(f"d/{i}", content=b"t" * 700) for i in range(4))]
    )
    generator = np.random.default_rng(0)
    plain = gzip.decompress(whole.read_bytes())
    sound = 0
    for trial in range(150):
        damaged = bytearray(plain)
        place = generator.choice([0, 512 + 1536 * int(generator.integers(4))]) + int(generator.integers(512))
        damaged[place] ^= 1 << int(generator.integers(8))
        (tmp_path / "b.tar.gz").write_bytes(gzip.compress(bytes(damaged), 1))
        try:
            unpack(tmp_path / "b.tar.gz", tmp_path / f"to{trial}" / "in")
            sound += 1
        except DamagedArchive:
            pass
        assert {path.name for path in (tmp_path / f"to{trial}").iterdir()} <= {"in"}
    assert sound < 150
    flipped = bytearray(whole.read_bytes())
    flipped[-6] ^= 1  # the checksum of the content
    (tmp_path / "c.tar.gz").write_bytes(bytes(flipped))
    with pytest.raises(DamagedArchive, match="CRC"):
        unpack(tmp_path / "c.tar.gz", tmp_path / "checked")


def test_a_full_disk_is_not_blamed_on_the_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = pack(tmp_path / "a.tar.gz", [member("a", content=b"1")])

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", lambda *_, **__: None)
    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(OSError, match="No space left"):
        unpack(packed, tmp_path / "to")
