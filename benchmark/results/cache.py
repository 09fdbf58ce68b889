"""Where downloads and trained models are kept, and how files are put there so that nothing half-written is ever read."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_directory() -> Path:
    """`$ATTENTION_BENCHMARK_CACHE`, else `$XDG_CACHE_HOME/attention-explainer-benchmark`, else under `~/.cache`."""
    if explicit := os.environ.get("ATTENTION_BENCHMARK_CACHE"):
        return Path(explicit)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "attention-explainer-benchmark"


@contextmanager
def atomic_path(destination: Path, withheld: int = 0) -> Iterator[Path]:
    """Yield a path beside `destination` to write a file or folder to; it is moved into place when the block succeeds.

    After an exception, a kill or a power cut nothing half-written is found at `destination`: what was written reaches the
    disk before it gets its name. Its mode is that of any new file (the umask's), whatever a library chose. An existing
    file is replaced; an existing folder is kept (another process finished first) and the new one dropped.

    Args:
        destination: the file or folder.
        withheld: bits of the mode that nothing there gets, such as 0o022: nobody else may write.
    """
    destination.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{destination.name}.", dir=destination.parent))
    temporary = scratch / destination.name
    try:
        yield temporary
        if temporary.is_dir() and destination.is_dir():
            return
        _finish_files(scratch, temporary, withheld)
        os.replace(temporary, destination)
        _to_disk(destination.parent)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _finish_files(scratch: Path, written: Path, withheld: int) -> None:
    """Give everything that was written the mode of a new file or folder, and bring it to the disk."""
    probe = scratch / ".mode"  # the umask itself can only be read by changing it, for all threads
    probe.touch()
    mode = probe.stat().st_mode & 0o777 & ~withheld
    for folder, _, names in os.walk(written):
        for name in names:
            _finish_file(Path(folder, name), mode)
        os.chmod(folder, mode | (mode & 0o444) >> 2)
        _to_disk(Path(folder))
    if written.is_file():
        _finish_file(written, mode)


def _finish_file(path: Path, mode: int) -> None:
    if not path.is_symlink():
        path.chmod(mode)
        _to_disk(path)


def _to_disk(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
