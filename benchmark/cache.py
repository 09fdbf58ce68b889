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
def atomic_path(destination: Path) -> Iterator[Path]:
    """Yield a path beside `destination` to write a file or folder to; it is moved into place when the block succeeds.

    After an exception or a kill nothing is found at `destination`. An existing file is replaced; an existing folder
    is kept (another process finished first) and the new one dropped.
    """
    destination.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{destination.name}.", dir=destination.parent))
    temporary = scratch / destination.name
    try:
        yield temporary
        if temporary.is_dir() and destination.is_dir():
            return
        os.replace(temporary, destination)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
