"""Locks between processes, so that jobs with one `out` take turns where they would write the same thing."""

import errno
import fcntl
import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType

logger = logging.getLogger(__name__)

_NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}
_REFUSED = {errno.EACCES, errno.EROFS}


class Lock:
    """A lock that one process holds at a time: `flock` on an empty file, which the kernel frees when the process ends.

    A killed process therefore leaves no lock behind, whatever the signal; its empty file does no harm and goes with the
    next release. The same object may be entered again by its holder. No package is needed, since the benchmark runs where
    `fcntl` is; a lock that is a mere file (a "soft" lock) would outlive a kill.

    On NFS (Linux 2.6.12 and newer) and on most cluster file systems `flock` holds between machines. Mounted with `nolock`
    or `local_lock=flock` it holds within one machine only. A file system without locks gets one warning.

    Args:
        path: the file; its folder is made.
        what: what is locked, for the line that says that it is waited for.
    """

    def __init__(self, path: Path, what: str) -> None:
        self.path, self.what = path, what
        self._file: int | None = None
        self._depth = 0

    def acquire(self, *, wait: bool) -> bool:
        """Take the lock; False where another process holds it and `wait` is false.

        Raises:
            OSError: the file cannot be made.
        """
        while self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = _opened(self.path)
            try:
                if not _locked(file, self.what, wait=wait):
                    return False
                if _same(file, self.path):
                    self._file, file = file, -1
            finally:
                if file >= 0:
                    os.close(file)
        self._depth += 1
        return True

    def release(self) -> None:
        """Give the lock back, once for every `acquire`; the file goes with it."""
        self._depth -= 1
        if self._depth == 0 and self._file is not None:
            if _same(self._file, self.path):  # those who wait for this file find that it is gone, and make a new one
                self.path.unlink(missing_ok=True)
            os.close(self._file)
            self._file = None

    def __enter__(self) -> "Lock":
        self.acquire(wait=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def lack_of_locks(folder: Path) -> str | None:
    """Why locks do not hold in a folder; None where they do, or where nothing can be written to it.

    A lock is taken twice: a second descriptor must not get it, or where descriptors of one process share it, as on NFS,
    another process must not.
    """
    try:
        number, name = tempfile.mkstemp(prefix=".lock-", dir=folder)
    except OSError:
        return None
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_held(name):
            return None
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)  # a lock of the process went with its other descriptor
        return None if _is_held_elsewhere(name) else "they are granted to two at once"
    except OSError as error:
        return error.strerror if error.errno in _NO_LOCKS else None
    finally:
        os.close(number)
        os.unlink(name)


def _is_held(name: str) -> bool:
    other = os.open(name, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(other)
    return False


_TAKES = """
import fcntl, sys
try: fcntl.flock(open(sys.argv[1], "r+"), fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError: sys.exit(9)
"""


def _is_held_elsewhere(name: str) -> bool:
    """Whether another process is refused the lock."""
    return subprocess.run([sys.executable, "-I", "-S", "-c", _TAKES, name], check=False).returncode == 9


def beside(path: Path, what: str) -> Lock:
    """The lock of a file or folder: a hidden file next to it, so that the folder itself may come and go."""
    return Lock(path.parent / f".{path.name}.lock", what)


def _opened(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno not in _REFUSED or not path.exists():
            raise
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # another user's


def _locked(file: int, what: str, *, wait: bool) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if wait:
            logger.info("%s: another process works on it; waiting", what)
            fcntl.flock(file, fcntl.LOCK_EX)
        return wait
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        logger.warning("%s: the file system has no locks (%s); run one process at a time", what, error.strerror)
    return True


def _same(file: int, path: Path) -> bool:
    """Whether the path still names the open file."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False
